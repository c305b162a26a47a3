"""Measurement of candidates for test-time scaling methods: several steps of both models at each position.

The answer consists of the target's candidates with the highest reward (`sim.algorithms.beams.surveyed_beams`). Times of
single candidates are not used: they follow from the engines' timings by batch. Recorded are the times of groups of
requests, for the latency between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calibrate.engines.protocol import MeasuredEngine
from calibrate.measuring.engine_work import work_done
from calibrate.record.answer_records import BeamStepRecord, CandidatesRecord
from calibrate.record.engine_records import InUse, RequestSums
from calibrate.running.problem import Problem, Truth
from calibrate.running.session import WallSession
from calibrate.running.wall_clock import WallClock
from sim.algorithms.beams import surveyed_beams
from sim.operations import Generate, Operation, Score, Step
from sim.roles import DRAFT, STANDS_IN, TARGET

__all__ = ["measure_beams"]

_DIGITS: Final = 6
"""Decimals of a recorded score; the noise of a reward is larger."""


async def measure_beams(
    clock: WallClock, problem: Problem, truth: Truth | None, engines: Mapping[str, MeasuredEngine], *, width: int
) -> tuple[list[BeamStepRecord], dict[str, InUse]]:
    """Answer a problem with candidates of both models at each position.

    Parameters
    ----------
    clock : wall clock with real engines; its scorers must include rewards and likelihoods.
    width : candidates per position and model, >= 1; 0: no answer.

    Returns
    -------
    The positions, and the work of each engine, with request latencies of groups: seconds of the groups - of passes.

    Raises
    ------
    CalibrationError : an engine failed, or does not report likelihoods.
    """
    if not width:
        return [], {}
    await work_done(engines)  # clears the work before
    await clock.fresh()
    root = await clock.root(problem.prompt)
    session = await clock.run(surveyed_beams(root, width=width), stream=problem.name)
    spans, groups = _spans(session), {}
    for name, work in (await work_done(engines)).items():
        n, seconds = spans.get(name, (0, 0.0))
        groups[name] = work.model_copy(update={"request": RequestSums(n, max(seconds - work.seconds, 0.0))})
    return _records(session, problem, truth), groups


def _spans(session: WallSession) -> dict[str, tuple[int, float]]:
    """Groups of requests to each engine, and the sum of their durations, s."""
    groups: dict[tuple[str, int, str, bool], list[Operation]] = {}
    for o in session.operations:
        step = o.result if isinstance(o, Generate) else o.candidate  # type: ignore[attr-defined]  # else it is a score
        home = STANDS_IN.get(o.role, o.role)
        groups.setdefault((home, step.depth, step.role, isinstance(o, Generate)), []).append(o)
    spans: dict[str, tuple[int, float]] = {}
    for (home, *_), members in groups.items():
        n, seconds = spans.get(home, (0, 0.0))
        spans[home] = n + 1, seconds + max(o.finished for o in members) - min(o.started for o in members)
    return spans


def _records(session: WallSession, problem: Problem, truth: Truth | None) -> list[BeamStepRecord]:
    scores: dict[int, dict[str, float]] = {}
    written: dict[tuple[int, str], list[Step]] = {}
    for o in session.operations:
        if isinstance(o, Score):
            scores.setdefault(id(o.candidate), {})[o.role] = round(float(o.result), _DIGITS)
        elif isinstance(o, Generate):
            written.setdefault((o.prefix.depth + 1, o.role), []).append(o.result)
    records = []
    for depth in range(len(session.committed)):
        before = [step.payload.text for step in session.committed[:depth]]
        both = {}
        for role in (TARGET, DRAFT):
            steps = written[depth, role]
            texts = [step.payload.text for step in steps]
            both[role] = CandidatesRecord(
                tokens=[step.n_tokens for step in steps],
                truncated=[i for i, step in enumerate(steps) if step.truncated],
                correct=[truth.step_is_correct(problem.prompt, before, text) for text in texts] if truth else None,
                scores={by: [scores[id(step)][by] for step in steps] for by in scores[id(steps[0])]},
            )
        records.append(BeamStepRecord(targets=both[TARGET], drafts=both[DRAFT]))
    return records
