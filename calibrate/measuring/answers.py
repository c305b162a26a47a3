"""Measurement of an answer: both models' steps along one trajectory, and all verdicts and scores of them.

Further answers are generated concurrently and without timing, at a fraction of the cost of timed ones. Acceptance and
step lengths differ so much between questions that forty answers estimate an acceptance of 85 % to five points, and a
speedup no better. A batch takes little longer than one sequence, so that many more answers are generated in the time of
a few. The texts are the same as at concurrency 1. The judge's cache is not: about 4 % fewer tokens of its prompts count
as new.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Final

from calibrate.engines.protocol import Choice, Generation
from calibrate.record.answer_records import Generated, RecordedAnswer, StepRecord, VerdictRecord
from calibrate.record.journal import Journal
from calibrate.running.closed_loop import all_or_none
from calibrate.running.patience import Patience
from calibrate.running.problem import Problem, Truth
from calibrate.running.session import WallSession
from calibrate.running.wall_clock import WallClock
from sim.algorithms import autoregressive, draft_trajectory, lookahead_async, paired_trajectory
from sim.algorithms.checks import Check
from sim.operations import Choose, Generate, Operation, Score, Step, Verify
from sim.roles import DRAFT, EMBEDDING, EXACT, GATE, INSTANT, JUDGE, STANDS_IN, TARGET

__all__ = [
    "ON_SERVERS",
    "Inspection",
    "MeasuredAnswer",
    "kept_texts",
    "measure_answer",
    "measure_texts",
    "outside_seconds",
    "seconds_in_company",
    "undelayed_seconds",
]

_AT_ONCE: Final = 8
"""Concurrent answers."""
ON_SERVERS: Final = 32
"""Concurrent answers on servers, which queue what they cannot run at once."""
_RECENT: Final = 64
"""Number of operations before a request that are checked for overlap with it on the same engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """Verdicts and scores to record for the drafts of a position, so that the answers predict other methods too."""

    drafts: int = 1
    """Drafts per position, >= 0; the first one may be committed. 0: there is no draft model."""
    verifiers: tuple[str, ...] = (GATE, EXACT)
    """Verifiers that see every draft, in addition to the judge."""
    scorers: tuple[str, ...] = ()
    """Roles that score every draft."""
    chooser: bool = False
    """Whether the chooser selects one of the drafts of a position, in a single request."""
    beams: int = 0
    """Candidates per position and model of a further answer, for methods that choose among them; 0: no such answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredAnswer:
    """The record of an answer, and measurements that other parts of a profile hold."""

    record: RecordedAnswer
    token_ids: tuple[tuple[int, ...], tuple[int, ...]] | None
    """Token ids of prompt and target answer, if the engine reports them (for n-gram statistics)."""
    role_seconds: dict[str, list[float]]
    """Times of verdicts by roles without an engine, s."""


def outside_seconds(session: WallSession, clock: WallClock) -> dict[str, list[float]]:
    """Seconds that requests spent outside their engines, by role: round trip - engine time.

    Requests that began while their engine was busy with another one are excluded: they wait for that one too.
    """
    seconds: dict[str, list[float]] = {}
    for i, o in enumerate(session.operations):
        if isinstance(o.job, Generation | Choice) and not o.cancelled:
            earlier, engine = session.operations[max(i - _RECENT, 0) : i], clock.engine(o.role)
            if not any(one.finished > o.started and clock.engine(one.role) is engine for one in earlier):
                inside = o.job.times.end - o.job.times.prefill_start
                seconds.setdefault(o.role, []).append(max(o.finished - o.started - inside, 0.0))
    return seconds


async def measure_answer(
    clock: WallClock,
    problem: Problem,
    truth: Truth | None = None,
    inspection: Inspection | None = None,
    *,
    apart: bool = True,
) -> MeasuredAnswer:
    """Answer a problem twice: by plain decoding, and by lookahead reasoning with both models at each position.

    With scorers, the draft model generates an answer without the target, too.

    Parameters
    ----------
    apart : whether prefix caches are emptied before each answer; not possible during concurrent answers.

    Raises
    ------
    CalibrationError : an engine failed.
    """
    if apart:
        await clock.fresh()
    root = await clock.root(problem.prompt)
    baseline = await clock.run(autoregressive(root), stream=problem.name)
    times = pairwise([baseline.started, *baseline.commit_times])
    record = RecordedAnswer(
        problem=problem.name,
        prompt_tokens=root.n_tokens,
        steps=[],
        baseline=[  # one request: marks in its text, with the seconds between them
            _record(problem, truth, step, end - begin, baseline.committed[:depth])
            for depth, (step, (begin, end)) in enumerate(zip(baseline.committed, times, strict=True))
        ],
        baseline_correct=None if truth is None else truth.answer_is_correct(problem.prompt, baseline.text),
    )
    ids = _token_ids(clock, problem, baseline)
    inspection = inspection if inspection is not None else Inspection(verifiers=())
    if inspection.drafts == 0:
        return MeasuredAnswer(record=record, token_ids=ids, role_seconds={})
    procedure = paired_trajectory(
        root,
        drafts=inspection.drafts,
        verifiers=inspection.verifiers,
        scorers=inspection.scorers,
        chooser=inspection.chooser,
    )
    if apart:
        await clock.fresh()
    paired = await clock.run(procedure, stream=problem.name)
    if apart:
        await clock.fresh()
    by_both = {
        "steps": _step_records(paired, problem, truth),
        "answer_correct": None if truth is None else truth.answer_is_correct(problem.prompt, paired.text),
        "alone": await _draft_answer(clock, root, problem, truth, inspection.scorers) if inspection.scorers else [],
    }
    return MeasuredAnswer(record=record.model_copy(update=by_both), token_ids=ids, role_seconds=_role_seconds(paired))


async def seconds_in_company(clock: WallClock, problem: Problem, inspection: Inspection) -> list[float]:
    """Seconds of verdicts by embeddings while the target writes the next step; none if not inspected.

    In Lookahead Reasoning the two run concurrently. An encoder shares memory bandwidth with the target: in
    `measure_answer`, where the target is idle, it took 0.88 of the time (101 verdicts, standard error 0.04).
    """
    if EMBEDDING not in inspection.verifiers:
        return []
    await clock.fresh()
    root = await clock.root(problem.prompt)
    session = await clock.run(lookahead_async(root, k1=2, check=Check(verifier=EMBEDDING)), stream=problem.name)
    return undelayed_seconds(session.operations, EMBEDDING)


def undelayed_seconds(operations: Sequence[Operation], role: str) -> list[float]:
    """Seconds of a role's operations that shared their processor neither with each other nor with the draft's.

    Sharing is simulated, so the seconds must not include its effect, nor that of a cancelled operation, which may have
    continued to run.
    """
    own = [o for o in operations if o.role == role]
    there = [*own, *(o for o in operations if o.role == DRAFT)]
    return [
        o.finished - o.started
        for before, o in pairwise([None, *own])
        if o is not None
        and not (o.cancelled or (before is not None and before.cancelled))
        and o.finished >= 0.0
        and all(other is o or o.finished <= other.started or 0.0 <= other.finished <= o.started for other in there)
    ]  # an operation that has not ended is still running


async def _draft_answer(
    clock: WallClock, root: Step, problem: Problem, truth: Truth | None, scorers: Sequence[str]
) -> list[Generated]:
    """An answer of the draft without the target, with scores of its steps."""
    session = await clock.run(draft_trajectory(root, scorers=scorers), stream=problem.name)
    opinions, steps = _opinions(session), [o for o in session.operations if isinstance(o, Generate)]
    return [_written(problem, truth, o, session.committed[:depth], opinions) for depth, o in enumerate(steps)]


def _step_records(session: WallSession, problem: Problem, truth: Truth | None) -> list[StepRecord]:
    generated = [o for o in session.operations if isinstance(o, Generate)]
    first = {role: [o for o in generated if o.role == role and not o.branch] for role in (TARGET, DRAFT)}
    verifies = [o for o in session.operations if isinstance(o, Verify) and o.role == JUDGE and not o.branch]
    opinions = _opinions(session)
    records = []
    for depth, (target, draft, verify) in enumerate(zip(first[TARGET], first[DRAFT], verifies, strict=True)):
        before = session.committed[:depth]
        others = [o for o in generated if o.role == DRAFT and o.branch and o.prefix is draft.prefix]
        texts = draft.result.payload.text, target.result.payload.text
        records.append(
            StepRecord(
                draft=_written(problem, truth, draft, before, opinions),
                target=_written(problem, truth, target, before, {}),
                verdict=VerdictRecord(
                    accepted=verify.result.accepted,
                    score=verify.result.score,
                    seconds=verify.finished - verify.started,
                    prompt_tokens=verify.job.n_new_tokens if verify.job is not None else 0,
                    same_meaning=None if truth is None else truth.same_meaning(*texts),
                ),
                candidates=[_written(problem, truth, o, before, opinions) for o in others],
            )
        )
    return records


def _opinions(session: WallSession) -> dict[int, dict[str, Any]]:
    """Fields of `Generated` by the identity of the step: its scores, and the judge's verdict on a further draft.

    The judge's verdict on the first draft is none of them. A verdict without a score counts 1 if it accepted, else 0.
    """
    opinions: dict[int, dict[str, Any]] = defaultdict(lambda: {"scores": {}, "accepted": None})
    for o in session.operations:
        if isinstance(o, Score):
            opinions[id(o.candidate)]["scores"][o.role] = float(o.result)
        elif isinstance(o, Verify) and (o.role != JUDGE or o.branch):
            score = o.result.accepted if o.result.score is None else o.result.score
            opinions[id(o.candidate)]["scores"][o.role] = float(score)
            if o.role == JUDGE:
                opinions[id(o.candidate)]["accepted"] = o.result.accepted
        elif isinstance(o, Choose) and o.result.scores is not None:
            for candidate, score in zip(o.candidates, o.result.scores, strict=True):
                opinions[id(candidate)]["scores"][o.role] = score
    return opinions


def _role_seconds(session: WallSession) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {}
    for o in session.operations:
        if isinstance(o, Verify) and o.role != JUDGE and o.role not in INSTANT and o.role not in STANDS_IN:
            seconds.setdefault(o.role, []).append(o.finished - o.started)
    return seconds


def _written(
    problem: Problem, truth: Truth | None, operation: Operation, before: Sequence[Step], opinions: dict[int, Any]
) -> Generated:
    """The record of a generated step, with verdicts and scores other than the judge's decision on a first draft."""
    record = _record(problem, truth, operation.result, operation.finished - operation.started, before)
    return record.model_copy(update=opinions[id(operation.result)] if opinions else {})


def _record(problem: Problem, truth: Truth | None, step: Step, seconds: float, before: Sequence[Step]) -> Generated:
    correct = None
    if truth is not None:
        previous = [earlier.payload.text for earlier in before]
        correct = truth.step_is_correct(problem.prompt, previous, step.payload.text)
    return Generated(tokens=step.n_tokens, seconds=seconds, final=step.final, truncated=step.truncated, correct=correct)


def _token_ids(
    clock: WallClock, problem: Problem, session: WallSession
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Prompt and answer as the target's token ids; None if the engine does not report them."""
    answer = [step.payload.token_ids for step in session.committed]
    prompt = clock.backend(TARGET).encode(problem.prompt)
    if prompt is None or any(part is None for part in answer):
        return None
    return tuple(prompt), tuple(token for part in answer for token in part)


async def measure_texts(
    clock: WallClock,
    problems: Sequence[Problem],
    journal: Journal,
    *,
    truth: Truth | None,
    inspection: Inspection,
    patiently: Patience,
    progress: Callable[[str], None],
    within_s: float,
    on_servers: bool,
) -> None:
    """Answer questions concurrently into a journal; questions that it holds are not answered again.

    Raises
    ------
    CalibrationError : an engine failed, or the journal cannot be written.
    """
    await clock.fresh()
    inspected = replace(inspection, drafts=min(inspection.drafts, 1))
    waiting, until = iter(problems), time.monotonic() + within_s

    async def client() -> None:
        for problem in waiting:
            if _key(problem) not in journal and time.monotonic() < until:
                answer = await patiently(partial(measure_answer, clock, problem, truth, inspected, apart=False))
                journal.add(_key(problem), {"record": answer.record.model_dump(mode="json"), "ids": answer.token_ids})
            progress(problem.name)

    at_once = ON_SERVERS if on_servers else _AT_ONCE
    await all_or_none([client() for _ in range(min(at_once, len(problems)))])


def kept_texts(journal: Journal, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """Return the finished answers: ``record`` and ``ids``, in the order of the questions."""
    return [journal[_key(problem)] for problem in problems if _key(problem) in journal]


def _key(problem: Problem) -> str:
    return f"text:{problem.key}"
