"""The engine without its process: what it generates is checked against transformers, token for token."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused
from torch_jobs import advanced, finish, job, random_model, random_prompts

from calibrate.engines.speculation import Speculation
from calibrate.engines.torch import batch as torch_batch
from calibrate.engines.torch import kv_cache, token_pass
from calibrate.engines.torch.batch import ContinuousBatch
from calibrate.engines.torch.decoder import Decoder
from calibrate.engines.torch.job import Limits
from calibrate.engines.torch.model import load_tokenizer
from calibrate.engines.torch.token_methods import protocol as token_method
from calibrate.engines.torch.token_pass import read_tokens
from theory.errors import CalibrationError

VOCABULARY = 50
LIMITS = Limits(max_batch=8, n_idle=8, max_context=256)
DRAFT = Speculation(method="draft", k2=4, model=Path("small"))


def small_model(architecture, **extra):
    sizes = {"vocab_size": VOCABULARY, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = random_model(5, architecture, initializer_range=0.5, **sizes, **extra)
    with torch.no_grad():  # fresh norms and biases are ones and zeros, which would hide a mix-up
        for name, weight in model.named_parameters():
            if "norm" in name or "bias" in name:
                weight.add_(torch.randn_like(weight) * 0.3)
    return model


@pytest.fixture(scope="module")
def reference():
    return small_model("Qwen3")


@pytest.fixture(scope="module")
def engine_with(reference):
    """Call with ids that end the text: a new engine of the same model."""
    decoder = Decoder(copy.deepcopy(reference), LIMITS.max_context)
    return lambda eos=(), tokenizer=None: ContinuousBatch(decoder, tokenizer, frozenset(eos), LIMITS)


@pytest.fixture
def engine(engine_with):
    return engine_with()


def prompts(n, seed=0):
    return random_prompts(n, VOCABULARY, seed)


def greedy(model, prompt, n):
    ids = torch.tensor([prompt])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=n, do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    return out[0, len(prompt) :].tolist()


@pytest.mark.parametrize("architecture", ["Qwen3", "Qwen2", "Llama"])
def test_logits_are_those_of_transformers(architecture):
    """Prefill of several tokens, then single ones, in rows of different lengths: the same numbers to rounding."""
    model = small_model(architecture, **({"attention_bias": True, "mlp_bias": True} if architecture == "Llama" else {}))
    engine = ContinuousBatch(Decoder(copy.deepcopy(model), 256), None, frozenset(), LIMITS)
    sequences = [torch.randint(VOCABULARY, (n,)).tolist() for n in (9, 30, 17)]
    with torch.inference_mode():
        for row, tokens in enumerate(sequences):
            engine.cache.admit(tokens[:-3])
            read_tokens(engine.decoder, engine.cache, row, tokens[: len(tokens) - 3])
        for back in (3, 2, 1):
            lengths = torch.tensor([len(tokens) - back for tokens in sequences])
            columns = int(lengths.max()) + 1
            mask = torch.zeros(3, 1, 1, columns)
            mask.masked_fill_(torch.arange(columns) > lengths[:, None, None, None], -torch.inf)
            new = torch.tensor([[tokens[-back]] for tokens in sequences])
            hidden = engine.decoder.forward(new, lengths[:, None], engine.cache, 0, columns, mask)
            for row, token in enumerate(new[:, 0].tolist()):
                engine.cache.append(row, [token])
            for row, tokens in enumerate(sequences):
                expected = model(torch.tensor([tokens])).logits[0, -back]
                got = engine.decoder.logits(hidden)[row, 0]
                # float32 with 3 layers of sums over at most 48 terms; measured worst 4e-6 of the largest logit
                assert float((got - expected).abs().max()) < 5e-5 * float(expected.abs().max())


@pytest.mark.parametrize("architecture", ["Qwen3", "Llama"])
def test_bfloat16_is_as_close_to_float32_as_transformers_is(architecture):
    reference = small_model(architecture)
    tokens = torch.randint(VOCABULARY, (1, 60))
    half = copy.deepcopy(reference).bfloat16()
    engine = ContinuousBatch(Decoder(copy.deepcopy(half), 256), None, frozenset(), LIMITS)
    with torch.inference_mode():
        exact = reference(tokens).logits[0]
        theirs = half(tokens).logits[0].float()
        engine.cache.admit(tokens[0].tolist())
        ours = engine.decoder.logits(read_tokens(engine.decoder, engine.cache, 0, tokens[0].tolist()))
    # the same rounding errors in another order: the root mean squares over 60 x 50 logits agree within a factor 1.5
    assert float((ours - exact).square().mean()) < 1.5**2 * float((theirs - exact).square().mean())
    assert float((ours - exact).abs().max()) > 0.0


def test_greedy_tokens_are_those_of_transformers_as_requests_join_and_leave(engine, reference):
    given = prompts(12)
    lengths = np.random.default_rng(2).integers(1, 30, 12).tolist()
    asked = list(zip(given, lengths, strict=True))
    expected = [greedy(reference, prompt, n) for prompt, n in asked]
    joining = [advanced(engine, 3, job(prompt, n))[0] for prompt, n in asked]
    at_once = finish(engine, *(job(prompt, n) for prompt, n in asked))
    assert [one.tokens for one in joining] == at_once == expected
    assert max(it.batch for it in engine.work.iterations) == LIMITS.max_batch


def test_a_prompt_that_continues_a_running_sequence_shares_its_cache(engine, engine_with):
    prompt = prompts(1, seed=5)[0]
    (first,) = advanced(engine, 8, job(prompt))
    longer = [*prompt, *first.tokens[:4], 9, 9]
    second = job(longer, 10)
    finish(engine, second)
    assert second.n_cached == len(prompt) + 4
    assert [first.tokens, second.tokens] == finish(engine_with(), job(prompt), job(longer, 10))


@pytest.mark.parametrize(("module", "name", "value"), [(token_pass, "CHUNK", 64), (kv_cache, "_INITIAL_BYTES", 0)])
def test_prompts_in_chunks_and_a_cache_that_grows_give_the_same_tokens(
    engine_with, engine, monkeypatch, module, name, value
):
    given = [np.random.default_rng(6).integers(1, VOCABULARY, 200).tolist(), *prompts(3, seed=7)]
    expected = finish(engine, *(job(prompt, 50) for prompt in given))
    monkeypatch.setattr(module, name, value)
    small = engine_with()
    before = small.cache.capacity
    assert finish(small, *(job(prompt, 50) for prompt in given)) == expected
    if module is kv_cache:
        assert small.cache.capacity > before == 64


@pytest.mark.parametrize(
    ("prompt", "options", "words"),
    [
        ([], {}, "empty"),
        ([1] * 256, {}, "256 tokens"),
        ([VOCABULARY], {}, "outside the vocabulary"),
        ([-1], {}, "outside the vocabulary"),
        ([1], {"stop": ("x",)}, "tokenizer"),
        ([1], {"speculation": DRAFT}, "by .draft. from .* was not loaded when the engine started"),
    ],
)
def test_impossible_requests_are_refused(engine, prompt, options, words):
    with pytest.raises(ValueError, match=words):
        engine.submit(job(prompt, **options))
    assert not engine.busy


def test_a_question_is_answered_by_its_prefill(engine, reference):
    prompt = prompts(1, seed=13)[0]
    one = job(prompt, choices=(4, 9))
    finish(engine, one)
    expected = reference(torch.tensor([prompt])).logits[0, -1].detach().double().log_softmax(-1)
    assert one.logprobs == pytest.approx([float(expected[4]), float(expected[9])], abs=1e-4)
    assert not engine.work.iterations
    assert len(engine.work.prefills) == 1


test_models_that_it_cannot_run_are_refused = refused(
    lambda options: Decoder(small_model("Qwen3", **options), 256),
    ({"hidden_act": "gelu"}, "hidden_act"),
    ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "rope_type"),
    ({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 1}, "sliding_window"),
    error=CalibrationError,
)

STOPS = [
    ([" add", " add", "\n\n", " add"], ("\n\n",), "stop", " add add\n\n", 3),
    ([" add", ".\n\n then", " add"], ("\n\n",), "stop", " add.\n\n", 2),
    ([" add", "<eos>", " add"], ("\n\n",), "eos", " add", 2),
    ([" add", ".", " add"], ("\n\n",), "length", " add. add", 3),
    ([" add", ".", " add"], (". add", "d."), "stop", " add.", 2),
]


@pytest.mark.parametrize(("script", "stop", "why", "text", "n"), STOPS)
def test_stop_strings(engine_with, model_folders, monkeypatch, script, stop, why, text, n):
    """The tokens under test are chosen, not drawn; a text that is cut inside a token is encoded again."""
    tokenizer = load_tokenizer(model_folders["target"])
    drawn = [tokenizer.token_to_id(token) for token in script]
    for module in (torch_batch, token_method):
        monkeypatch.setattr(module, "draw", lambda *_: [drawn.pop(0)])
    one = job([5, 6], len(script), stop=stop, ignore_eos=False)
    finish(engine_with([0], tokenizer), one)
    assert (one.finish, one.text, one.n_generated) == (why, text, n)
    assert one.tokens == tokenizer.encode(text).ids
