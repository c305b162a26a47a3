"""The engine in its process: requests, aborts, and every way to die."""

import asyncio
import itertools
import math
import os
import shutil
import signal
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
from refusals import refuses

from calibrate.engines.protocol import Progress, Request, Sampling
from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.engine import TorchConfig, TorchEngine
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
    assert before <= times.queued <= times.prefill_start <= times.prefill_end <= times.first_token <= times.end <= after
    assert (by_text.n_generated, by_text.n_iterations, by_text.finish) == (20, 19, "length")
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
        assert generation.n_iterations == len(generation.passes) <= 59
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


async def test_a_start_that_takes_too_long_is_given_up(engines, model_folders):
    with pytest.raises(CalibrationError, match=r"'slow' was not ready after 0.01 s"):
        await TorchEngine.start(TorchConfig(name="slow", model=model_folders["draft"], start_timeout_s=0.01))


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
