"""The engine in its process: requests, aborts, likelihoods of given texts, and every way to die."""

import asyncio
import itertools
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from refusals import refuses

from calibrate.engines.protocol import Progress, Request, Sampling, TellsLikelihood
from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.engine import TorchConfig, TorchEngine
from calibrate.engines.torch.model import load_model
from calibrate.running.scorers import LikelihoodScorer
from calibrate.running.verifiers import StepText
from sim.operations import Step, prompt
from sim.roles import TARGET
from theory.errors import CalibrationError, ParameterError

PROMPT = " he has two apples.\n\n"
LONG = {"max_tokens": 450, "stop": (), "ignore_eos": True}


def test_it_says_what_it_is_and_is_pinned(engines):
    description = engines.target.describe()
    assert description["engine"] == "torch"
    assert description["device"] == "cpu"
    assert description["n_layers"] == 4
    assert description["cores"] == [0]
    assert description["n_threads"] == 1
    assert set(description["versions"]) == {"python", "torch", "transformers"}
    for thread in psutil.Process(engines.target.pid).threads():
        assert os.sched_getaffinity(thread.id) == {0}
    assert engines.target.pid != engines.draft.pid
    assert engines.target.tokenizer_id == engines.draft.tokenizer_id is not None


async def test_text_and_ids_ask_the_same_and_times_are_in_order_on_the_callers_clock(engines):
    before, options = time.monotonic(), {**LONG, "max_tokens": 20}
    by_text = await engines.target.generate(Request(prompt=PROMPT, **options))
    times, after = by_text.times, time.monotonic()
    assert before <= times.queued <= times.prefill_start <= times.first_token <= times.end <= after
    assert (by_text.n_generated, by_text.finish) == (20, "length")
    by_ids = await engines.target.generate(Request(prompt=engines.target.encode(PROMPT), **options))
    assert (by_text.text, by_text.token_ids) == (by_ids.text, by_ids.token_ids)
    assert by_text.n_prompt_tokens == len(engines.target.encode(PROMPT)) == by_ids.n_cached_tokens + 1 == 6


async def test_many_requests_at_once_get_what_they_get_alone(engines):
    requests = [
        Request(prompt=f"{PROMPT} {word}", max_tokens=30, sampling=Sampling(temperature=1.0), seed=seed)
        for seed, word in enumerate(("one", "two", "ten", "so", "now", "the") * 2)
    ]
    alone = [await engines.target.generate(request) for request in requests]
    together = await asyncio.gather(*map(engines.target.generate, requests))
    assert [g.token_ids for g in together] == [g.token_ids for g in alone]
    assert "stop" in {g.finish for g in alone}
    assert all(g.text.endswith("\n\n") for g in alone if g.finish == "stop")


async def test_choices_are_different_single_tokens(engines):
    choice = await engines.target.choose(PROMPT, (" Yes", " No", " add"))
    assert math.isclose(sum(choice.probabilities), 1.0)
    assert 0.0 < choice.mass <= 1.0
    assert choice.best == max(zip(choice.probabilities, choice.choices, strict=True))[1]
    assert choice.probability(" No") == choice.probabilities[1]
    for wrong in ((" Yes", " add add"), (), (" Yes", " Yes"), ("nonsense",)):
        with pytest.raises(ParameterError, match="choices"):
            await engines.target.choose(PROMPT, wrong)


async def test_cancelling_aborts_in_the_engine_and_tells_the_tokens_drawn(engines):
    await engines.target.stats(clear=True)
    progress = Progress()
    task = asyncio.create_task(engines.target.generate(Request(prompt=PROMPT, **LONG), progress))
    while not (await engines.target.stats()).iterations:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    first = await engines.target.stats()
    await asyncio.sleep(0.02)
    later = await engines.target.stats()
    assert 0 < progress.n_generated < LONG["max_tokens"]
    assert progress.n_generated == 1 + len(first.iterations)
    assert later.iterations == first.iterations  # the engine has stopped


async def test_cancelling_before_or_after_does_no_harm(engines):
    early = asyncio.create_task(engines.target.generate(Request(prompt=PROMPT, **LONG)))
    early.cancel()
    done = asyncio.create_task(engines.target.generate(Request(prompt=PROMPT, max_tokens=1)))
    await asyncio.wait([early, done])
    done.cancel()
    assert (early.cancelled(), (await done).n_generated) == (True, 1)


async def test_statistics_tell_batch_context_and_when_the_engine_worked(engines):
    request = {**LONG, "max_tokens": 12}
    ids = [engines.target.encode(word * 7) for word in (" one", " two", " ten")]
    for _ in range(5):  # on a busy machine requests may reach the engine one by one, and share no iteration then
        await engines.target.stats(clear=True)
        begin = time.monotonic()
        await asyncio.gather(*(engines.target.generate(Request(prompt=prompt, **request)) for prompt in ids))
        statistics, empty = await engines.target.stats(clear=True), await engines.target.stats()
        if any(it.batch == 3 for it in statistics.iterations):
            break
    assert sorted(p.tokens + p.cached for p in statistics.prefills) == [7, 7, 7]
    assert sum(it.batch for it in statistics.iterations) == 3 * 11
    spans = statistics.busy_spans()
    assert begin <= spans[0][0] < spans[-1][1] <= time.monotonic()
    assert all(first[1] < second[0] for first, second in itertools.pairwise(spans))
    done = sum(one.seconds for one in (*statistics.iterations, *statistics.prefills))
    assert sum(to - since for since, to in spans) == pytest.approx(done, rel=1e-6)
    full = [it.context for it in statistics.iterations if it.batch == 3]
    assert full == list(range(full[0], full[0] + 3 * len(full), 3))
    assert empty.iterations == empty.prefills == ()


async def test_an_engine_forgets_what_it_has_read(engines):
    request = Request(prompt=PROMPT, **{**LONG, "max_tokens": 20})
    found = [await engines.target.generate(request) for _ in range(2)]
    await engines.target.forget()
    first, again, later = [*found, await engines.target.generate(request)]
    assert again.n_cached_tokens == again.n_prompt_tokens - 1
    assert later.n_cached_tokens == 0
    assert first.text == again.text == later.text


async def test_requests_choose_how_they_are_speculated(engines, model_folders):
    """All methods side by side in one engine: one text, fewer passes, and an account of them."""
    await engines.target.stats(clear=True)
    request = {"prompt": PROMPT, **LONG, "max_tokens": 60}
    plain = await engines.target.generate(Request(**request))
    methods = [
        Speculation(method="draft", k2=4, model=model_folders["draft"]),
        Speculation(method="ngram", k2=4),
        Speculation(method="lookahead", k2=4, window=4, ngram=4, guesses=4),
        Speculation(method="jacobi", k2=4, window=3),
    ]
    fast = await asyncio.gather(*(engines.target.generate(Request(**request, speculation=one)) for one in methods))
    statistics = await engines.target.stats(clear=True)
    assert plain.passes == ()
    for generation in fast:
        assert generation.token_ids == plain.token_ids
        assert len(generation.passes) <= 59
        assert all(accepted <= drafted <= 3 for drafted, accepted in generation.passes)
        assert sum(accepted + 1 for _, accepted in generation.passes) >= 59
    assert len(statistics.iterations) == 59
    assert sum(p.tokens for p in statistics.passes) == len(methods) * 59


def test_what_is_wrong_with_a_folder_is_told_before_any_process_starts(engines, model_folders, tmp_path, monkeypatch):
    other = tmp_path / "other"
    shutil.copytree(model_folders["draft"], other)
    tokenizer = other / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace(" Yes", " Sure"))
    config = TorchConfig(
        name="x", model=model_folders["target"], speculations=(Speculation(method="draft", model=other),)
    )
    monkeypatch.setattr("subprocess.Popen", None)
    with pytest.raises(CalibrationError, match="other cannot draft for this target: its tokenizer is another one"):
        engines.run(TorchEngine.start(config))
    with pytest.raises(CalibrationError, match="no such folder"):
        engines.run(TorchEngine.start(TorchConfig(name="lost", model=tmp_path / "gone")))


async def test_a_refused_request_names_the_reason_and_the_engine_lives(engines):
    with pytest.raises(CalibrationError, match=r"'target' refused: the prompt has 600 tokens, the context is 512"):
        await engines.target.generate(Request(prompt=(7,) * 600, max_tokens=1))
    with pytest.raises(CalibrationError, match="outside the vocabulary"):
        await engines.target.generate(Request(prompt=(10**6,), max_tokens=1))
    assert (await engines.target.generate(Request(prompt=(7,), max_tokens=1))).n_generated == 1


async def test_a_killed_engine_is_reported_at_once_and_for_ever(engines, model_folders):
    """While it starts, with requests in flight: which process it is does not matter to them."""
    engine = TorchEngine(TorchConfig(name="doomed", model=model_folders["draft"]))
    running = [asyncio.create_task(engine._launch())]
    while engine._writer is None:
        await asyncio.sleep(0.001)
    request = Request(prompt=(5, 1), max_tokens=900, stop=(), ignore_eos=True)
    running += [asyncio.create_task(engine.generate(request)) for _ in range(3)]
    await asyncio.sleep(0.05)
    os.kill(engine.pid, signal.SIGKILL)
    killed = time.monotonic()
    results = await asyncio.gather(*running, return_exceptions=True)
    seconds = time.monotonic() - killed
    with pytest.raises(CalibrationError, match="SIGKILL"):
        await engine.generate(request)
    with pytest.raises(CalibrationError, match="SIGKILL"):
        await engine.stats()
    await engine.close()
    assert all(isinstance(result, CalibrationError) for result in results)
    assert all("'doomed'" in str(result) and "killed by SIGKILL" in str(result) for result in results)
    assert seconds < 30.0  # by its death, not by somebody's patience


async def test_closing_twice_ends_the_process_once(model_folders, engines):
    """Also while it is still loading; requests in flight fail."""
    engine = TorchEngine(TorchConfig(name="brief", model=model_folders["draft"]))
    launch = asyncio.create_task(engine._launch())
    await asyncio.sleep(0.05)
    await asyncio.gather(engine.close(), engine.close())
    with pytest.raises(CalibrationError, match="'brief' is closed"):
        await launch
    await engine.close()
    assert engine.popen.returncode is not None
    assert not psutil.pid_exists(engine.pid)


async def test_what_breaks_in_the_worker_is_told_in_one_line(tmp_path, engines):
    engine = TorchEngine(TorchConfig(name="lost", model=tmp_path / "gone"))
    with pytest.raises(CalibrationError, match=r"'lost' failed: model folder .*gone: no such folder") as error:
        await engine._launch()
    await engine.close()
    assert "\n" not in str(error.value)


async def test_a_worker_that_dies_of_its_own_tells_its_last_words(engines, model_folders, monkeypatch):
    engine = TorchEngine(TorchConfig(name="odd", model=model_folders["draft"]))
    monkeypatch.setattr("sys.executable", "/bin/ls")  # a process that complains and exits
    with pytest.raises(CalibrationError, match=r"'odd' \(pid \d+\) exited with code \d+: .+"):
        await engine._launch()
    await engine.close()


async def test_a_start_that_takes_too_long_is_given_up(engines, model_folders, monkeypatch):
    monkeypatch.setattr("calibrate.engines.torch.engine._START_S", 0.01)
    with pytest.raises(CalibrationError, match=r"'slow' was not ready after 0.01 s"):
        await TorchEngine.start(TorchConfig(name="slow", model=model_folders["draft"]))


STEP = " now ten more.\n\n"


async def test_a_text_is_as_likely_as_transformers_says(engines):
    """Logits of one token and of several at once differ by rounding: float32 leaves 1e-4 nats a step."""
    engine = engines.draft
    assert isinstance(engine, TellsLikelihood)
    await engine.forget()
    ids = engine.encode(PROMPT)
    asked = Request(prompt=ids, max_tokens=40, sampling=Sampling(temperature=1.0), seed=5, stop=(), ignore_eos=True)
    written = await engine.generate(asked)
    whole, n = (*ids, *written.token_ids), len(written.token_ids)
    model = load_model(engine.config.model, dtype=torch.float32, device=torch.device("cpu"))
    with torch.no_grad():
        scores = model(torch.tensor([whole])).logits[0].double().log_softmax(-1)
    every = [float(scores[i, token]) for i, token in enumerate(whole[1:])]
    cold = await engine.likelihood(whole, n)
    assert cold.logprobs == pytest.approx(every[-n:], abs=1e-4)
    assert cold.total == pytest.approx(sum(every[-n:]), abs=1e-3)
    assert cold.n_cached_tokens == len(ids) - 1  # the token before the first one is read again
    everything = await engine.likelihood(whole, len(whole) - 1)
    assert everything.logprobs == pytest.approx(every, abs=1e-4)
    hot = await engine.likelihood(whole, n, temperature=1e6)
    assert hot.logprobs == pytest.approx([-math.log(engine.describe()["vocab_size"])] * n, abs=1e-3)
    after = await engine.generate(asked)
    assert after.token_ids == written.token_ids  # the cache is as it was


async def test_the_scorer_scores_the_step_alone_and_names_what_it_cannot_do(engines):
    engine = engines.draft
    ids, own = engine.encode(PROMPT), engine.encode(STEP)
    root = prompt(len(ids), StepText(text=PROMPT, token_ids=ids, tokenizer_id=engine.tokenizer_id))
    scorer = LikelihoodScorer(temperature=0.6)

    def step(token_ids, text=STEP):
        owner = None if token_ids is None else engine.tokenizer_id
        return Step(root, TARGET, 1, payload=StepText(text=text, token_ids=token_ids, tokenizer_id=owner))

    by_ids, reply = await scorer.score(step(own), engine=engine)
    by_text, _ = await scorer.score(step(None), engine=engine)
    assert len(reply.logprobs) == len(own)
    assert by_ids == pytest.approx(by_text, abs=1e-4)
    assert by_ids < 0.0
    assert await scorer.score(step((), ""), engine=engine) == (0.0, None)
    with pytest.raises(ParameterError, match="n_scored=0 must be"):
        await engine.likelihood(ids, 0)
    with pytest.raises(ParameterError, match="temperature=0"):
        await engine.likelihood(ids, 1, temperature=0.0)
    with pytest.raises(CalibrationError, match="server computes no likelihood"):
        await scorer.score(step(own), engine=SimpleNamespace(name="server", tokenizer_id=None))


@pytest.mark.slow
def test_sigterm_ends_a_calibration_whose_engines_are_stuck(tmp_path: Path) -> None:
    """Stopped, a worker is as one whose pass never ends: its request is given up after two seconds."""
    arguments = [sys.executable, "-m", "specplan", "calibrate", "torch", "-o", str(tmp_path / "p.json")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        workers = _busy_workers(psutil.Process(process.pid))
        for worker in workers:
            worker.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60.0)
        assert time.monotonic() - began < 10.0
    assert process.returncode == 130
    assert "interrupted" in err
    assert not any(worker.is_running() for worker in workers)


def _busy_workers(parent: psutil.Process) -> list[psutil.Process]:
    """The engines of a calibration, as soon as all three have loaded torch, and one is at work."""
    for _ in range(600):
        workers = [one for one in parent.children() if "calibrate.engines.torch.worker" in " ".join(one.cmdline())]
        before = sum(sum(one.cpu_times()[:2]) for one in workers)
        time.sleep(0.2)
        spent = sum(sum(one.cpu_times()[:2]) for one in workers) - before
        if len(workers) == 3 and spent > 0.02 and all(one.memory_info().rss > 1 << 28 for one in workers):
            return workers
    pytest.fail("the engines did not start")


test_bad_configurations_are_named = refuses(
    partial(TorchConfig, name="x", model=Path("x")),
    ({"dtype": "int8"}, "dtype"),
    ({"device": "tpu"}, "device"),
    ({"cores": ()}, "cores"),
    ({"cores": (9999,)}, "cores"),
    ({"max_batch": 0}, "max_batch"),
    ({"n_idle": 0}, "n_idle"),
    ({"max_context": 1}, "max_context"),
)
