"""Token-level methods and sweeps measured on real engines: every pass is in the record."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from replies import generated, times

from calibrate.engines.protocol import Generation, Request, Sampling
from calibrate.engines.speculation import Decoding, Speculation
from calibrate.engines.work import EngineStatistics, Pass, Prefill
from calibrate.measuring.engine_timings import MeasureOptions, measure_engine, measure_joining_prefills
from calibrate.measuring.token_methods import TOKEN_SETTINGS, measure_token_answer
from calibrate.models.local import TorchModels
from calibrate.record.token_records import TokenRecord
from calibrate.running.problem import Problem
from calibrate.running.verifiers import ExactMatch
from calibrate.running.wall_clock import StepLimits, WallClock
from theory.errors import ParameterError

PROBLEMS = [Problem(name=str(i), prompt=f" he has {word} apples.\n\n") for i, word in enumerate(("two", "ten"))]
SETTINGS = [
    Decoding(method="prompt-lookup", knobs={"k2": 4, "max_ngram": 2}),
    Decoding(method="draft-model", knobs={"k2": 3}),
]


@pytest.fixture
def models(model_folders):
    return TorchModels(target=str(model_folders["target"]), draft=str(model_folders["draft"]))


@pytest.fixture
def clock(engines):
    return WallClock(
        {"target": engines.target, "draft": engines.draft},
        ExactMatch(),
        sampling=Sampling(temperature=0.7),
        limits=StepLimits(max_step_tokens=15, max_steps=4),
    )


def test_every_pass_is_recorded(engines, models, clock):
    async def answers(one):
        speculation = models.speculation(one.method, one.knobs)
        return [await measure_token_answer(clock, problem, speculation) for problem in PROBLEMS]

    records = [TokenRecord.counted(one.method, one.knobs, engines.run(answers(one))) for one in SETTINGS]
    assert [(r.method, r.settings) for r in records] == [(s.method, s.knobs) for s in SETTINGS]
    for record in records:
        assert [answer.problem for answer in record.answers] == ["0", "1"]
        for answer in record.answers:
            passes = [one for request in answer.requests for one in request.passes]
            assert sum(n for _, _, n, _, _, _ in answer.decode) == len(passes)
            assert all(1 <= rows <= record.k2 for _, rows, _, _, _, _ in answer.decode)
            assert all(0.0 < drafting < seconds for *_, seconds, drafting in answer.decode)
            assert answer.prefill[0] == answer.request[0] == len(answer.requests)
            for request in answer.requests:
                promised = 1 + sum(accepted + 1 for _, accepted in request.passes)
                assert request.tokens <= promised < request.tokens + record.k2
        assert record.passes > 10
        assert record.drafted_at[0] == record.drafts > 0


def test_what_a_set_of_models_can_do(models, model_folders):
    drafting = models.speculation("draft-model", {"k2": 3, "max_ngram": None, "k1": 7})
    assert drafting == Speculation(method="draft", k2=3, model=model_folders["draft"])
    headed = replace(models, eagle="head")
    assert headed.speculation("eagle", {"k2": 4}) == Speculation(method="eagle", k2=4, model=Path("head"))
    assert headed.token_settings() == TOKEN_SETTINGS
    without = replace(models, token_draft="none")
    assert {s.method for s in TOKEN_SETTINGS} - {s.method for s in without.token_settings()} == {"draft-model", "eagle"}
    with pytest.raises(ParameterError, match="method='eagle' needs the folder of an EAGLE head of the target"):
        models.speculation("eagle", {"k2": 2})
    with pytest.raises(ParameterError, match="method='draft-model' needs a draft with the target's tokenizer"):
        without.speculation("draft-model", {"k2": 2})
    with pytest.raises(ParameterError, match="method='lr-async' must be one of"):
        models.speculation("lr-async", {"k2": 2})
    assert TorchModels.from_settings(without.settings()) == without


def test_the_sweep_times_passes_over_drafts(engines):
    """Passes over k2 tokens and fewer at every batch size; none where they are not asked for.

    A random token is right now and then, and then a number of tokens is left out; on a busy machine requests may reach
    the engine one by one, and are no batch then: other prompts until all are seen.
    """
    options = {"batches": (1, 3), "contexts": (8,), "iterations": 4, "prefills": (4,), "repeats": 1, "rounds": 1}
    samples = []
    wanted = {(batch, tokens) for batch in (1, 3) for tokens in range(1, 7)}
    for seed in range(20):
        samples += engines.run(measure_engine(engines.draft, "cpu", MeasureOptions(**options, k2=6, seed=seed))).decode
        if {(sample.batch, sample.tokens) for sample in samples} >= wanted:
            break
    assert {(sample.batch, sample.tokens) for sample in samples if sample.batch in (1, 3)} == wanted
    assert all(sample.context >= 8 * sample.batch for sample in samples)
    plain = engines.run(measure_engine(engines.draft, "cpu", MeasureOptions(**options, k2=1)))
    assert {sample.tokens for sample in plain.decode} == {1}


# What the sweep asks of an engine: the work of answers, and nothing that a cache could help with.

DRAWN = Sampling(temperature=0.6, top_p=0.95)
TIMINGS = MeasureOptions(batches=(1, 3), contexts=(8,), iterations=4, prefills=(4,), repeats=1, rounds=1)


class Asked:
    """An engine that takes down what it is asked."""

    name = "asked"

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def describe(self) -> dict[str, Any]:
        return {"vocab_size": 1000, "speculates_per_request": True}

    async def generate(self, request: Request) -> Generation:
        self.requests.append(request)
        at = times(0.2, queued=0.0, start=0.0, first=0.1)
        return generated(request.max_tokens, at, finish="length", n_prompt=len(request.prompt))

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        return EngineStatistics(iterations=(Pass.plain(1, 8, 0.1, 1.0),), prefills=(Prefill(8, 0, 0.1, 0.5),))


async def test_only_iterations_of_the_whole_batch_count() -> None:
    """While it forms and ends fewer sequences decode, and the engine is busy with those that come and go."""

    class Forming(Asked):
        async def stats(self, *, clear: bool = False) -> EngineStatistics:
            told = await super().stats(clear=clear)
            return replace(told, iterations=tuple(Pass.plain(batch, 8, 0.1, 1.0) for batch in (1, 2, 3)))

    engine: Any = Forming()
    found = await measure_engine(engine, "cpu", TIMINGS)
    assert [sample.batch for sample in found.decode] == [1, 3]
    assert await measure_joining_prefills(engine, TIMINGS) == [], "of an engine that reads prompts apart"


async def test_the_sweep_draws_tokens_as_answers_do_and_its_batches_are_uneven() -> None:
    """Tokens of answers are drawn, which takes a small model a third of an iteration; prompts of equal length need no
    mask, which those of answers do. Latencies are of requests that end at once: how they are drawn does not matter."""
    engine: Any = Asked()
    await measure_engine(engine, "cpu", TIMINGS, sampling=DRAWN)
    swept = [request for request in engine.requests if request.max_tokens != 2]
    assert all(request.sampling == DRAWN for request in swept)
    lengths = [len(request.prompt) for request in swept if request.max_tokens == TIMINGS.iterations + 1]
    assert lengths == [8, 8, 11, 14]
    assert len({request.prompt[:2] for request in engine.requests}) == len(engine.requests)
