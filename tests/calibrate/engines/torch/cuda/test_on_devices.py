"""The engine computes the same on every device: a padded pass, captured on GPUs, and a plain one on a CPU agree."""

import asyncio
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import recorded_graphs
import torch
from torch_jobs import answered, batch_of, bundled_prompts, decoder_of, finish, job

from calibrate import pair
from calibrate.engines.protocol import Request, Sampling
from calibrate.engines.sampling import draw, uniform
from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.batch import ContinuousBatch
from calibrate.engines.torch.cuda.captured import CapturedPasses
from calibrate.engines.torch.cuda.devices import check_room, opened_device
from calibrate.engines.torch.engine import TorchConfig, TorchEngine
from calibrate.engines.torch.job import Job, Limits
from calibrate.engines.torch.model import load_model, load_tokenizer
from calibrate.engines.torch.token_methods.protocol import Rows
from calibrate.engines.torch.token_pass import forward_rows, read_tokens
from calibrate.pair.widening.pair import wide_pair, widen_pair
from calibrate.pair.widening.sizes import Sizes
from theory.errors import CalibrationError

CPU = torch.device("cpu")
LIMITS = Limits(max_batch=4, n_idle=3, max_context=400)
TOLERANCE = {"cpu": 1e-4, "cuda": 2e-3}
"""Of float32 logits as large as 30: kernels sum in another order, those of GPUs in blocks."""

METHODS = {
    "plain": None,
    "prompt-lookup": Speculation(method="ngram", k2=4),
    "lookahead": Speculation(method="lookahead", window=4, ngram=3, guesses=3),
    "jacobi": Speculation(method="jacobi", window=4),
    "random": Speculation(method="random", k2=3),
    "draft-model": Speculation(method="draft", k2=4, model=pair.draft_path()),
    "eagle": Speculation(method="eagle", k2=4, model=pair.head_path()),
}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    """A CPU, where padded passes are plain calls, and with the mark gpu a GPU, where they are captured."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU and a torch that is built for CUDA")
    return opened_device(request.param)


def folder_of(speculation: Speculation | None) -> Path:
    """The bundled draft, which drafts for itself where a model is to draft; for the head the target."""
    head = speculation is not None and speculation.method == "eagle"
    return pair.target_path() if head else pair.draft_path()


def engine(device: str, *, padded: bool, speculation: Speculation | None = None) -> ContinuousBatch:
    return batch_of(folder_of(speculation), LIMITS, speculation, device=device, padded=padded)


@cache
def plain_texts(folder: Path) -> list[list[int]]:
    """What a model says greedily, in unpadded passes on a CPU."""
    return finish(batch_of(folder, LIMITS, padded=False), *questions(6, 16, temperature=0.0))


def questions(n: int, max_tokens: int, speculation: Speculation | None = None, temperature: float = 0.6) -> list[Job]:
    sampling = Sampling(temperature=temperature, top_p=0.95)
    options = {"sampling": sampling, "speculation": speculation, "ignore_eos": False}
    return [job(ids, max_tokens, seed=seed, **options) for seed, ids in enumerate(bundled_prompts(n, 3))]


@pytest.mark.parametrize("role", ["target", "draft", "judge"])
def test_logits_are_those_of_transformers_on_a_cpu(role, device):
    """A prompt is read in two chunks and two tokens after it: passes of one sequence, long and short."""
    decoder = decoder_of(pair.model_path(role), device.type, padded=True)
    ids = load_tokenizer(pair.target_path()).encode(pair.problems(1, 1)[0].prompt * 2).ids
    cache = decoder.cache(LIMITS)
    cache.admit(ids)
    parts = [ids[:40], ids[40:-2], ids[-2:]]
    hidden = torch.cat([read_tokens(decoder, cache, 0, part) for part in parts])
    model = load_model(pair.model_path(role), dtype=torch.float32, device=CPU)
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0]
    assert (decoder.logits(hidden).cpu() - expected).abs().max() < TOLERANCE[device.type]


@pytest.mark.parametrize("temperature", [0.0, 0.6], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", METHODS)
def test_texts_are_those_of_unpadded_passes_on_a_cpu(method, temperature, device):
    """Six questions for four places: batches of every size, sequences of different lengths, prompts beside decoding.

    Greedy texts are those of plain decoding too, whatever drafts.
    """
    speculation = METHODS[method]
    results = []
    for where, padded in (("cpu", False), (device.type, True)):
        batch = engine(where, padded=padded, speculation=speculation)
        jobs = answered(batch, *questions(6, 16, speculation, temperature))
        results.append([(one.tokens, one.finish, one.passes) for one in jobs])
    assert results[0] == results[1]
    if not temperature:
        assert [tokens for tokens, *_ in results[0]] == plain_texts(folder_of(speculation))


CASES = [(1, 0, 1), (1, 0, 3), (1, 2, 5), (1, 1, 70), (2, 0, 1), (3, 0, 4), (4, 0, 1), (4, 0, 13)]


@pytest.mark.parametrize(("batch", "first_row", "tokens"), CASES)
def test_captured_passes_compute_what_passes_of_their_own_shape_compute(batch, first_row, tokens, device):
    """Sequences of different lengths; both passes write the same keys and values, and none in others' places."""
    decoder = decoder_of(pair.draft_path(), device.type, padded=True)
    cache = decoder.cache(LIMITS)
    random = np.random.default_rng(batch + tokens)
    for length in (30, 7, 91, 64):
        ids = random.integers(3, 374, length).tolist()
        row = cache.n_active
        cache.admit(ids)
        read_tokens(decoder, cache, row, ids)
    rows = [Rows(ids=random.integers(3, 374, tokens - (n % 2 if tokens > 1 else 0)).tolist()) for n in range(batch)]
    before = cache.kv.clone()
    padded = forward_rows(decoder, cache, first_row, rows)
    written = cache.kv.clone()
    cache.kv.copy_(before)
    passes, cache.passes = cache.passes, None
    plain = forward_rows(decoder, cache, first_row, rows)
    assert passes is not None
    assert passes.shape(first_row, batch, tokens, 91 + tokens) is not None
    assert padded.shape == plain.shape
    assert (padded - plain).abs().max() < 1e-3 * plain.abs().max()
    kept = cache.max_context - 1  # the last slot takes what pads a pass
    assert (written[:, :, :, :kept] - cache.kv[:, :, :, :kept]).abs().max() < 1e-3 * cache.kv.abs().max()


def test_nothing_is_captured_for_a_new_length_or_batch(device):
    batch = engine(device.type, padded=True)
    passes = batch.cache.passes
    assert passes is not None
    passes.warm()
    known = len(passes.known)
    assert known == len(set(passes.grid()))
    answered(batch, *questions(7, 200))
    assert len(passes.known) == known
    assert {iteration.batch for iteration in batch.work.iterations} == {1, 2, 3, 4}


def test_timings_are_those_of_work_that_is_done(device):
    """Passes take time one after the other, and no more than all of it; nothing is left to be waited for."""
    batch = engine(device.type, padded=True)
    answered(batch, *questions(2, 10))
    batch.work.statistics(clear=True)
    began = time.monotonic()
    answered(batch, *questions(4, 60))
    passed = time.monotonic() - began
    if device.type == "cuda":
        before = time.monotonic()
        torch.cuda.synchronize()
        assert time.monotonic() - before < 1e-3
    seconds = [work.seconds for work in (*batch.work.iterations, *batch.work.prefills)]
    assert min(seconds) > 0.0
    assert 0.5 * passed < sum(seconds) <= passed


VOCABULARIES = [374, 5000, 151936]


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_draws_are_those_of_a_full_sort_on_a_cpu(vocabulary, device):
    """Rows with and without limits, greedy ones, a flat one whose set has more tokens than are looked at, and ties."""
    from calibrate.engines.sampling import _probabilities, invert, nucleus

    random = torch.Generator().manual_seed(vocabulary)
    logits = 4.0 * torch.randn(8, vocabulary, generator=random)
    logits[1] *= 0.01
    logits[2] = logits[2].round()
    tops = [0.95, 0.9, 0.95, 1.0, 0.5, 0.99, 0.95, 0.3]
    samplings = [Sampling(temperature=0.7, top_p=top) for top in tops]
    uniforms = [uniform(5, n) for n in range(8)]
    probabilities, limits = _probabilities(logits, samplings)
    expected = invert(nucleus(probabilities, limits), uniforms)
    assert draw(logits.to(device), samplings, uniforms) == expected
    samplings[4] = Sampling()
    expected[4] = int(logits[4].argmax())
    assert draw(logits.to(device), samplings, uniforms) == expected


WIDE = Sizes(
    name="wide", hidden=256, intermediate=512, layers=8, heads=8, kv_heads=2, head_dim=64, vocab=999, tied=False
)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_widened_model_says_what_the_bundled_one_says(dtype, device, tmp_path):
    """In float32 the same texts, in half precision mostly the same likeliest tokens; padding is never drawn."""
    (_, draft, *_) = wide_pair({"target": replace(WIDE, layers=32), "draft": WIDE, "judge": WIDE})
    widen_pair([draft], tmp_path / "pair", dtype=dtype)
    small = decoder_of(pair.draft_path(), padded=False)
    wide = decoder_of(tmp_path / "pair" / "draft", device.type, padded=True, dtype=dtype)
    (one,) = answered(ContinuousBatch(small, None, frozenset([0]), LIMITS), *questions(1, 60))
    if dtype == "float32":
        (same,) = answered(ContinuousBatch(wide, None, frozenset([0]), LIMITS), *questions(1, 60))
        assert same.tokens == one.tokens
    ids = [*one.prompt, *one.tokens]
    logits = []
    for decoder in (small, wide):
        cache = decoder.cache(LIMITS)
        cache.admit(ids)
        logits.append(decoder.logits(read_tokens(decoder, cache, 0, ids)).cpu())
    likeliest = [found.argmax(-1) for found in logits]
    assert (likeliest[0] == likeliest[1]).float().mean() > (0.99 if dtype == "float32" else 0.9)
    assert logits[1][:, 374:].max() < -100.0


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True)  # CPU: test_engine
def test_an_engine_in_its_process_answers_and_names_its_device(device):
    async def ask() -> tuple[str, str]:
        config = TorchConfig(name="draft", model=pair.draft_path(), device=device.type, max_batch=2, n_idle=1)
        one = await TorchEngine.start(config)
        try:
            answer = await one.generate(Request(prompt=pair.problems(1, 2)[0].prompt, max_tokens=12))
            return answer.text, one.describe()["device"]
        finally:
            await one.close()

    text, name = asyncio.run(ask())
    assert text.startswith("In ")
    assert name == torch.cuda.get_device_name(0)


def test_a_cache_that_does_not_fit_is_refused_with_what_would(device):
    sizes = {"per_token": 2**20, "n_sequences": 32, "n_tokens": 2**22}
    if device.type == "cpu":
        check_room(device, 0, **sizes)  # the system gives pages as they are written
        return
    with pytest.raises(CalibrationError, match=r"GB are needed .* are free; 32 sequences of \d+ tokens would fit"):
        check_room(device, 0, **sizes)


def test_graphs_are_what_runs_on_a_gpu(device, monkeypatch):
    """A replay starts no kernel from Python: the forward pass is called while shapes are captured, and never again."""
    calls = []
    plain = CapturedPasses._capture
    monkeypatch.setattr(CapturedPasses, "_capture", lambda self, shape: calls.append(shape) or plain(self, shape))
    decoder = decoder_of(pair.draft_path(), device.type, padded=True)
    batch = ContinuousBatch(decoder, None, frozenset([0]), LIMITS)
    assert (len(calls) > 0) == (device.type == "cuda")
    calls.clear()
    forward, count_of = decoder.forward, []
    monkeypatch.setattr(decoder, "forward", lambda *a, **k: count_of.append(1) or forward(*a, **k))
    answered(batch, *questions(2, 20))
    n_passes = len(batch.work.iterations) + len(batch.work.prefills)
    assert len(count_of) == (0 if device.type == "cuda" else n_passes)


@pytest.mark.parametrize("method", ["plain", "draft-model", "eagle"])
def test_texts_of_replayed_graphs_are_those_of_plain_passes(method, monkeypatch):
    """On a CPU, where graphs are recorded: what a pass takes from Python is fixed when it is captured."""
    graphs, speculation = recorded_graphs.install(monkeypatch), METHODS[method]
    build, results = CapturedPasses.__init__, []
    for captured in (False, True):
        monkeypatch.setattr(
            CapturedPasses, "__init__", lambda *a, c=captured, **options: build(*a, **{**options, "captured": c})
        )
        batch = engine("cpu", padded=True, speculation=speculation)
        jobs = answered(batch, *questions(5, 16, speculation))
        results.append([(one.tokens, one.passes) for one in jobs])
    assert results[0] == results[1]
    passes = len(batch.work.iterations) + len(batch.work.passes) + len(batch.work.prefills)
    assert graphs.n_replays >= passes
