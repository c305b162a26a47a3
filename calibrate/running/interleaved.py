"""Runs of configurations on real engines, interleaved with plain decoding, on problems not used for calibration."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean
from typing import Final

from pydantic import TypeAdapter

from calibrate.engines.speculation import Speculation
from calibrate.record.engine_records import InUse
from calibrate.record.journal import Journal
from calibrate.running.problem import Problem, Truth
from calibrate.running.session import WallSession
from calibrate.running.wall_clock import WallClock
from sim.algorithms import autoregressive
from sim.answers.traces import AnswerTrace, StepTrace
from sim.estimate import Estimate, mean, proportion, ratio_of_totals
from sim.operations import Generate, MakeAlgorithm, Outcome, Verify
from sim.roles import DRAFT, JUDGE, TARGET
from sim.timeline import Counts, acceptance
from theory.errors import ParameterError

__all__ = ["BASELINE", "Measured", "RealConfiguration", "RealRun", "measured", "run_interleaved", "trace_of_session"]

BASELINE = "autoregressive"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealConfiguration:
    """A configuration to run on real engines."""

    make: MakeAlgorithm
    """Builds the generator of a prompt."""
    speculation: Mapping[str, Speculation] = field(default_factory=dict)
    """Token-level speculation of each role's requests; other roles use plain decoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealRun:
    """One answer generated on real engines."""

    problem: str
    seconds: float
    counts: Counts
    correct: bool | None
    false_accepts: int | None = None
    """Wrong committed steps of the draft; None without ground truth."""
    steps: tuple[int, ...] = ()
    """Tokens of each committed step."""
    met: AnswerTrace | None = None
    """Lengths and verdicts along the answer; None where the run does not have all of them."""
    work: Mapping[str, InUse] = field(default_factory=dict)
    """Work of each engine; empty where it was not recorded."""


_RUN: Final = TypeAdapter(RealRun)


@dataclass(slots=True)
class Runs:
    """All runs so far, by configuration, in the order of the problems."""

    by_name: dict[str, list[RealRun]] = field(default_factory=dict)
    sessions: dict[str, WallSession] = field(default_factory=dict)
    """The first session of each configuration, for its timeline; none where all its runs are from a journal."""
    again: list[list[RealRun]] = field(default_factory=list)
    """Further answers of plain decoding, by problem: they reduce its variance, which is part of every speedup."""

    @property
    def n_plain(self) -> int:
        """Answers of plain decoding to each problem."""
        return 1 + (len(self.again[0]) if self.again else 0)

    @property
    def plain(self) -> list[list[RealRun]]:
        """All answers of plain decoding, by problem."""
        further = self.again or [[] for _ in self.by_name[BASELINE]]
        return [[first, *rest] for first, rest in zip(self.by_name[BASELINE], further, strict=True)]

    @property
    def plain_seconds(self) -> list[float]:
        """Mean seconds of plain decoding, by problem."""
        return [fmean(run.seconds for run in answers) for answers in self.plain]

    @property
    def work(self) -> dict[str, list[Mapping[str, InUse]]]:
        """Work of each engine in each run, by configuration."""
        work = {name: [run.work for run in own] for name, own in self.by_name.items()}
        for run in chain.from_iterable(self.again):
            work[BASELINE].append(run.work)
        return work


async def run_interleaved(
    clock: WallClock,
    problems: Sequence[Problem],
    methods: Mapping[str, RealConfiguration],
    *,
    n_plain: int = 1,
    truth: Truth | None = None,
    seed: int = 0,
    work: Callable[[], Awaitable[Mapping[str, InUse]]] | None = None,
    journal: Journal | None = None,
    progress: Callable[[str], None] = lambda part: None,
) -> Runs:
    """Answer every problem with plain decoding and with every method, in random order for each problem.

    With interleaving, slow drifts of the machine affect all configurations alike. Prefix caches are emptied between
    runs, on engines that support it. The first problem is answered once more before, as a warm-up that is not counted.

    Parameters
    ----------
    problems : at least two.
    n_plain : answers of plain decoding per problem, each with other seeds; >= 1.
    work : returns the work of each engine since its last call; called after every run.
    progress : called once per answer, ``len(problems) * (len(methods) + n_plain)`` times.

    Raises
    ------
    CalibrationError : an engine failed, or the journal cannot be written.
    """
    if len(problems) < 2:
        raise ParameterError("problems", len(problems), "must be at least 2, for an interval")
    if n_plain < 1:
        raise ParameterError("n_plain", n_plain, "must be an integer >= 1")
    configurations = {BASELINE: RealConfiguration(make=autoregressive), **methods}
    runs = Runs(by_name={name: [] for name in configurations})
    turns = [(name, 0) for name in configurations] + [(BASELINE, turn) for turn in range(1, n_plain)]
    rng = random.Random(seed)
    for name, configuration in configurations.items():
        keys = (_key(name, n, turn) for n in range(len(problems)) for own, turn in turns if own == name)
        if journal is None or any(key not in journal for key in keys):
            await _answer(clock, problems[0], configuration)
    if work is not None:
        await work()
    for number, problem in enumerate(problems):
        order = list(turns)
        rng.shuffle(order)
        runs.again.append([])
        for name, turn in order:
            key = _key(name, number, turn)
            if journal is not None and key in journal:
                run = _RUN.validate_python(journal[key])
            else:
                session = await _answer(clock, problem, configurations[name], turn)
                runs.sessions.setdefault(name, session)
                run = _run(problem, session, truth, dict(await work()) if work is not None else {})
                if journal is not None:
                    journal.add(key, _RUN.dump_python(run, mode="json", exclude_defaults=True))
            (runs.again[-1] if turn else runs.by_name[name]).append(run)
            progress(f"{problem.name}: {name}")
    return runs


def _key(name: str, number: int, turn: int) -> str:
    return f"{number} {name}" + (f" again {turn}" if turn else "")


async def _answer(clock: WallClock, problem: Problem, configuration: RealConfiguration, turn: int = 0) -> WallSession:
    """Run one answer, and wait for requests that it left running; every turn has its own seeds."""
    await clock.fresh(configuration.speculation)
    algorithm = configuration.make(await clock.root(problem.prompt))
    stream = f"{problem.name} again {turn}" if turn else problem.name
    session = await clock.run(algorithm, stream=stream, speculation=configuration.speculation)
    await clock.drain()
    return session


def _run(problem: Problem, session: WallSession, truth: Truth | None, work: Mapping[str, InUse]) -> RealRun:
    assert session.finished is not None
    texts = [step.payload.text for step in session.committed]
    by_draft = [depth for depth, step in enumerate(session.committed) if step.role == DRAFT]
    graded = () if truth is None else (truth.step_is_correct(problem.prompt, texts[:i], texts[i]) for i in by_draft)
    return RealRun(
        problem=problem.name,
        seconds=session.finished,
        counts=Counts.of(session),
        correct=None if truth is None else truth.answer_is_correct(problem.prompt, session.text),
        false_accepts=None if truth is None else sum(not right for right in graded),
        steps=tuple(step.n_tokens for step in session.committed),
        met=trace_of_session(session),
        work=work,
    )


def trace_of_session(session: WallSession) -> AnswerTrace | None:
    """Return the trace of a run of plain decoding (also with token-level speculation), Lookahead Reasoning or ConfSpec.

    None if a position lacks a step or verdict. An answer that was one request has its lengths only, as ``baseline``.

    At a position without a draft (the last one of a cycle of LR sync), the trace has the target's own step as a refused
    draft, which the schedule of the run never requests.
    """
    if not session.committed:
        return None
    root = session.committed[0].parent
    assert root is not None  # only the prompt has no parent
    if isinstance(first := session.operations[0], Generate) and first.whole:
        lengths = tuple(step.n_tokens for step in session.committed)
        return AnswerTrace(prompt_tokens=root.n_tokens, steps=(), baseline=lengths, problem=session.stream)
    prefix, steps = root, list[StepTrace]()
    for committed in session.committed:
        here = {
            o.role: o
            for o in session.operations
            if isinstance(o, Generate) and o.prefix is prefix and o.branch == 0 and o.outcome is not Outcome.DISCARDED
        }
        if TARGET not in here:
            return None
        target, draft = here[TARGET].result, here.get(DRAFT, here[TARGET]).result
        if target is None or draft is None:
            return None
        if committed is not draft and committed is not target:  # one of several candidates
            return None
        verdicts = [
            o
            for o in session.operations
            if isinstance(o, Verify) and o.candidate is draft and o.job is not None and o.result is not None
        ]
        scores = {o.role: o.result.score for o in verdicts if o.result.score is not None}
        steps.append(
            StepTrace(
                draft_tokens=draft.n_tokens,
                target_tokens=target.n_tokens,
                accepted=committed is not target,
                draft_final=draft.final,
                target_final=target.final,
                draft_truncated=draft.truncated,
                target_truncated=target.truncated,
                judge_tokens=verdicts[0].job.n_new_tokens if verdicts else 0,
                judge_score=scores.get(JUDGE),
                scores={role: score for role, score in scores.items() if role != JUDGE},
            )
        )
        prefix = committed
    return AnswerTrace(prompt_tokens=root.n_tokens, steps=tuple(steps), problem=session.stream)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Summary of the real runs of a configuration."""

    speedup: Estimate
    """Seconds of plain decoding / seconds of the configuration, ratio of totals over the same problems."""
    seconds_per_answer: float
    acceptance: float
    """Share of judged drafts that were accepted, in [0, 1]; NaN if none was judged."""
    accuracy: Estimate | None
    """Share of right answers, with Wilson's interval; None without ground truth."""
    n: int
    false_accepts: Estimate | None = None
    """Wrong committed draft steps per answer; None without ground truth."""


def measured(runs: Runs, name: str) -> Measured:
    """Summarise the runs of a configuration relative to those of plain decoding."""
    own, plain = runs.by_name[name], runs.plain_seconds
    seconds = plain if name == BASELINE else [run.seconds for run in own]
    graded = [run.correct for run in own if run.correct is not None]
    return Measured(
        speedup=ratio_of_totals(plain, seconds, estimator="ratio of totals, measured"),
        seconds_per_answer=sum(seconds) / len(seconds),
        acceptance=acceptance(run.counts for run in own),
        accuracy=proportion(sum(graded), len(graded)) if graded else None,
        n=len(own),
        false_accepts=mean(wrong) if (wrong := [r.false_accepts for r in own if r.false_accepts is not None]) else None,
    )
