"""Real runs beside predictions: what is finished is kept, and nothing is run or counted twice."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from calibrate.engines.protocol import Sampling
from calibrate.engines.speculation import Speculation
from calibrate.record.engine_records import InUse
from calibrate.record.journal import Journal
from calibrate.running.interleaved import BASELINE, RealConfiguration, Runs, measured, run_interleaved
from calibrate.running.problem import Problem, Truth
from sim.algorithms import autoregressive, lookahead_async
from sim.roles import DRAFT, TARGET
from theory.errors import ParameterError

METHODS = {"lr": RealConfiguration(make=partial(lookahead_async, k1=2))}
SETTINGS = {"of": "a test"}
PROBLEMS = [Problem(name=word, prompt=f" he has {word} apples.\n\n") for word in ("two", "ten")]
TRUTH = Truth(
    step_is_correct=lambda question, before, step: len(step) % 2 == 0,
    same_meaning=lambda one, other: one == other,
    answer_is_correct=lambda question, answer: len(answer) % 2 == 0,
)


class BrokenOffError(Exception):
    """What stops a validation here."""


def breaking_after(n: int, seen: list[str]) -> Callable[[str], None]:
    def progress(part: str) -> None:
        seen.append(part)
        if len(seen) == n:
            raise BrokenOffError

    return progress


def carry_out(engines: Any, journal: Journal, progress: Callable[[str], None], n_plain: int = 2) -> Runs:
    """Two questions, each plain twice and by LR; engines report as work how often they were asked."""
    asked = 0

    async def work() -> dict[str, InUse]:
        nonlocal asked
        asked += 1
        return {"target": InUse(decode=[(1, asked, 10, 0.5)], prefill=(0, 0, 0.0))}

    clock = engines.clock()
    found: Runs = engines.run(
        run_interleaved(
            *(clock, PROBLEMS, METHODS), n_plain=n_plain, truth=TRUTH, work=work, journal=journal, progress=progress
        )
    )
    return found


def test_a_validation_that_is_broken_off_goes_on(engines: Any, tmp_path: Path) -> None:
    """Nothing is run or counted twice, and a journal keeps the answers of plain decoding apart, whose mean counts."""
    path, first, again = tmp_path / "result.json.part", list[str](), list[str]()
    with Journal(path, SETTINGS) as journal, pytest.raises(BrokenOffError):
        carry_out(engines, journal, breaking_after(5, first))
    with Journal(path, SETTINGS) as journal:
        kept = {key: journal[key] for key in journal.keys()}  # noqa: SIM118 - a journal is no mapping
        runs = carry_out(engines, journal, breaking_after(99, again))
        assert {key: journal[key] for key in kept} == kept
        assert (len(kept), len(journal), len(again)) == (5, 6, 6)
    assert again[:5] == first
    (last,) = runs.sessions  # of the only run that was left
    assert again[5].endswith(last)
    plain, lr = runs.by_name[BASELINE], runs.by_name["lr"]
    for own in (plain, lr):
        assert [run.problem for run in own] == [problem.name for problem in PROBLEMS]
        assert all(run.seconds > 0.0 and run.correct is not None and run.counts.steps for run in own)
    for one, other, more, mean in zip(lr, plain, runs.again, runs.plain_seconds, strict=True):
        assert one.met is not None
        assert other.met is not None
        assert other.steps == other.met.baseline
        assert one.steps == tuple(s.draft_tokens if s.accepted else s.target_tokens for s in one.met.steps)
        assert sum(other.steps) == other.counts.committed_tokens
        assert [run.problem for run in more] == [other.problem]
        assert mean == pytest.approx((other.seconds + more[0].seconds) / 2, rel=1e-12)
    assert (runs.n_plain, len(runs.work[BASELINE]), len(runs.work["lr"])) == (2, 4, 2)
    found = measured(runs, "lr")
    assert found.speedup.value == pytest.approx(sum(runs.plain_seconds) / sum(run.seconds for run in lr), rel=1e-12)
    assert measured(runs, BASELINE).speedup.value == 1.0
    with Journal(path, SETTINGS) as journal:  # all is there: nothing is run, and the figures are the same
        whole = carry_out(engines, journal, again.append)
        with pytest.raises(ParameterError, match="n_plain"):
            carry_out(engines, journal, again.append, n_plain=0)
    assert measured(whole, "lr") == found
    assert (whole.work, whole.by_name, whole.again, whole.sessions) == (runs.work, runs.by_name, runs.again, {})


async def test_each_configuration_runs_with_its_own_speculation(engines: Any) -> None:
    """That of each role; and with the seeds of the question: drawn texts are the same however they are speculated."""
    clock, lookup = engines.clock(sampling=Sampling(temperature=0.8)), Speculation(method="ngram", k2=4)
    speculations = {"looked up": {TARGET: lookup}, "another's": {DRAFT: lookup}, "bare": {}}
    methods = {
        name: RealConfiguration(make=autoregressive, speculation=speculation)
        for name, speculation in speculations.items()
    }
    runs = await run_interleaved(clock, PROBLEMS, methods)
    passes = {name: any(one.job.passes for one in run.operations) for name, run in runs.sessions.items()}
    assert passes == {BASELINE: False, "looked up": True, "another's": False, "bare": False}
    again = await clock.run(autoregressive(await clock.root(PROBLEMS[0].prompt)), stream=PROBLEMS[0].name)
    assert {run.text for run in runs.sessions.values()} == {again.text}
