"""Replication: simulate answers until the speedup is known to the requested precision.

Each answer is simulated from its first token to its last commit, under the method and under the target alone; nothing
is cut at a fixed time or number of steps, which would favour whatever happens to be finished. The speedup is the ratio
of the totals. Since answers are indexed, configurations that are simulated on the same behaviour meet the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim.algorithms import autoregressive
from sim.algorithms.candidates import is_among_candidates
from sim.answers.drawn import Behaviour
from sim.control import Control
from sim.engines.batching import Engine
from sim.estimate import Estimate, batch_sums, mean, proportion, ratio_of_totals, with_control
from sim.operations import Algorithm, Step
from sim.timeline import Counts
from sim.virtual_clock import Answer, Session, VirtualClock
from theory.errors import ParameterError

__all__ = [
    "AnswerRecord",
    "MakeAlgorithm",
    "Simulation",
    "all_right",
    "answers_for",
    "compare",
    "false_accepts",
    "run_answer",
    "simulate",
]

MakeAlgorithm = Callable[[Step], Algorithm]

_PILOT = 100  # answers before the first look at the precision: fewer make sequential stopping optimistic
_PERCENTILES = (50, 90, 99)
_STREAM_BATCHES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """One answer, simulated under the method and under the target alone."""

    index: int
    """Which answer of the behaviour."""

    baseline_s: float
    """Seconds of the target alone."""

    method_s: float
    """Seconds of the method."""

    counts: Counts
    """What the method did."""

    control: float = 0.0
    """Value of the control variate (mean zero), s; 0 without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What a configuration does to a workload, one answer at a time."""

    speedup: Estimate
    """Seconds of the target alone over seconds of the method, ratio of totals."""

    baseline_s: Estimate
    """Seconds of an answer by the target alone."""

    answer_s: Estimate
    """Seconds of an answer by the method."""

    step_s: Estimate
    """Seconds per committed step of the method, ratio of totals."""

    token_s: Estimate
    """Seconds per committed token of the method, ratio of totals."""

    wasted_target: Estimate
    """Share of the target's generated tokens that do not stand in the answer, in [0, 1], ratio of totals."""

    wasted_draft: Estimate
    """Share of the draft's generated tokens that do not stand in the answer, in [0, 1]; 0 if it generates none."""

    accepted: Estimate
    """Share of the committed steps that the draft wrote, in [0, 1], ratio of totals."""

    verifier_calls: Estimate
    """Verifications per answer."""

    peak_targets: int
    """Most target sequences in flight at one time, over all answers."""

    latency_s: tuple[tuple[int, float], ...]
    """(percentile, seconds of an answer by the method)."""

    n: int
    """Answers simulated."""

    seed: int | None
    """Seed of the behaviour."""

    false_accepts: Estimate | None = None
    """Wrong draft steps accepted per answer; ``None`` where the truth is not known."""

    all_right: Estimate | None = None
    """Share of answers without a wrong step, with Wilson's interval; ``None`` where the truth is not known."""

    records: tuple[AnswerRecord, ...] = field(repr=False, default=())
    """What was simulated, answer by answer, for paired comparisons."""


def compare(first: Simulation, second: Simulation, *, confidence: float = 0.95) -> Estimate:
    """How many times as fast the first configuration is as the second, on the answers that both have met.

    Paired by answer (common random numbers), which cancels what makes an answer long for both.

    Raises
    ------
    ParameterError : no answer in common.
    """
    theirs = {record.index: record.method_s for record in second.records}
    pairs = [(theirs[record.index], record.method_s) for record in first.records if record.index in theirs]
    if not pairs:
        raise ParameterError("second", f"{second.n} answers", "must have answers in common with the first")
    slow, fast = zip(*pairs, strict=True)
    return ratio_of_totals(slow, fast, confidence=confidence, estimator="paired ratio of totals", seed=first.seed)


def simulate(
    make_algorithm: MakeAlgorithm,
    behaviour: Behaviour,
    engines: Mapping[str, Engine],
    *,
    n: int | None = None,
    precision: float | None = None,
    max_answers: int = 20_000,
    confidence: float = 0.95,
    control: Control | None = None,
    jobs: int = 1,
    baseline: MakeAlgorithm = autoregressive,
    baseline_engines: Mapping[str, Engine] | None = None,
) -> Simulation:
    """Simulate answers one by one under a method and under the target alone.

    Parameters
    ----------
    make_algorithm : builds the method's generator for a prompt, e.g. ``partial(lookahead_async, k1=4)``.
    behaviour : the stream of answers; it carries the seed.
    engines : the engine of each role; of a measured system those that suit the method
        (``System.suited(method).engines()``), which differ for methods that choose among candidates.
    n : answers to simulate, >= 1. Default: all recorded ones of a replay; 200 of an endless behaviour.
    precision : instead of ``n``, go on until the speedup's confidence interval is at most this wide on either side,
        relative to its value, in (0, 1).
    max_answers : never simulate more than this.
    confidence : coverage of the intervals, in (0, 1).
    control : closed form used as a control variate; reduces the error of the speedup, not its mean.
    jobs : processes, through ``joblib.Parallel``.
    baseline, baseline_engines : what the speedup is relative to; the target alone on the same engines.

    Raises
    ------
    ParameterError : a count or precision outside its domain, or both ``n`` and ``precision``.
    """
    _check(n, precision, max_answers)
    if n is None and precision is None:
        n = behaviour.n_answers or 200
    limit = min(max_answers, behaviour.n_answers or max_answers) if precision is not None else n
    assert limit is not None
    baseline_engines = engines if baseline_engines is None else baseline_engines

    def sample(indices: Sequence[int]) -> list[AnswerRecord]:
        return _sample(make_algorithm, behaviour, engines, baseline, baseline_engines, control, indices, jobs)

    records = sample(range(min(limit, _PILOT) if precision is not None else limit))
    while precision is not None and len(records) < limit:
        width = _speedup(records, confidence, behaviour.seed, control).relative_half_width
        if width <= precision:
            break
        needed = math.ceil(len(records) * 1.1 * (width / precision) ** 2) if math.isfinite(width) else limit
        more = min(max(needed, len(records) + _PILOT), 4 * len(records), limit)
        records += sample(range(len(records), more))
    if len(records) == 1:
        return _stream(make_algorithm, behaviour, engines, baseline, baseline_engines, confidence)
    return _summary(records, _speedup(records, confidence, behaviour.seed, control), confidence, behaviour.seed)


def answers_for(make_algorithm: MakeAlgorithm, behaviour: Behaviour) -> Callable[[int], Answer]:
    """Return what gives an algorithm its answers by index: among candidates, or along the course of speculation."""
    return behaviour.beam_answer if is_among_candidates(make_algorithm) else behaviour.answer


def run_answer(make_algorithm: MakeAlgorithm, answer: Answer, engines: Mapping[str, Engine]) -> Session:
    """Run one algorithm on one answer, alone on the engines, and return the finished session."""
    clock = VirtualClock(engines)
    session = clock.launch(make_algorithm(answer.root), answer)
    clock.run(session)
    return session


def _sample(
    make_algorithm: MakeAlgorithm,
    behaviour: Behaviour,
    engines: Mapping[str, Engine],
    baseline: MakeAlgorithm,
    baseline_engines: Mapping[str, Engine],
    control: Control | None,
    indices: Sequence[int],
    jobs: int,
) -> list[AnswerRecord]:
    def chunk(part: Sequence[int]) -> list[AnswerRecord]:
        return [_record(make_algorithm, behaviour, engines, baseline, baseline_engines, control, i) for i in part]

    if jobs == 1 or len(indices) < 2:
        return chunk(indices)
    from joblib import Parallel, delayed

    n_chunks = min(4 * abs(jobs), len(indices))
    size = -(-len(indices) // n_chunks)
    parts = [list(indices[i : i + size]) for i in range(0, len(indices), size)]
    return [record for part in Parallel(n_jobs=jobs)(delayed(chunk)(part) for part in parts) for record in part]


def _record(
    make_algorithm: MakeAlgorithm,
    behaviour: Behaviour,
    engines: Mapping[str, Engine],
    baseline: MakeAlgorithm,
    baseline_engines: Mapping[str, Engine],
    control: Control | None,
    index: int,
) -> AnswerRecord:
    answer = answers_for(make_algorithm, behaviour)(index)
    method = run_answer(make_algorithm, answer, engines)
    alone = run_answer(baseline, behaviour.baseline_answer(index), baseline_engines)
    assert method.finished is not None
    assert alone.finished is not None
    return AnswerRecord(
        index=index,
        baseline_s=alone.finished - alone.started,
        method_s=method.finished - method.started,
        counts=Counts.of(method),
        control=0.0 if control is None else control.deviation(answer),
    )


def _speedup(records: Sequence[AnswerRecord], confidence: float, seed: int | None, control: Control | None) -> Estimate:
    base = np.array([r.baseline_s for r in records])
    time = np.array([r.method_s for r in records])
    if control is None:
        return ratio_of_totals(base, time, confidence=confidence, seed=seed)
    return with_control(base, time, np.array([r.control for r in records]), confidence=confidence, seed=seed)


def _summary(records: Sequence[AnswerRecord], speedup: Estimate, confidence: float, seed: int | None) -> Simulation:
    time = np.array([r.method_s for r in records])
    counts = [r.counts for r in records]

    def column(name: str) -> NDArray[np.float64]:
        return np.array([getattr(c, name) for c in counts], dtype=np.float64)

    def share(part: NDArray[np.float64], whole: NDArray[np.float64], unit: str = "") -> Estimate:
        if not whole.any():
            return mean(np.zeros(len(records)), confidence=confidence, unit=unit, seed=seed)
        return ratio_of_totals(part, whole, confidence=confidence, unit=unit, seed=seed)

    steps, targets, drafts = column("steps"), column("target_tokens"), column("draft_tokens")
    return Simulation(
        speedup=speedup,
        baseline_s=mean([r.baseline_s for r in records], confidence=confidence, unit="s", seed=seed),
        answer_s=mean(time, confidence=confidence, unit="s", seed=seed),
        step_s=share(time, steps, "s"),
        token_s=share(time, column("committed_tokens"), "s"),
        wasted_target=share(column("wasted_target_tokens"), targets),
        wasted_draft=share(column("wasted_draft_tokens"), drafts),
        accepted=share(column("accepted"), steps),
        verifier_calls=mean(column("verifier_calls"), confidence=confidence, seed=seed),
        peak_targets=max(c.peak_targets for c in counts),
        false_accepts=false_accepts(counts, confidence=confidence, seed=seed),
        all_right=all_right(counts, confidence=confidence, seed=seed),
        latency_s=tuple((p, float(np.percentile(time, p))) for p in _PERCENTILES),
        n=len(records),
        seed=seed,
        records=tuple(records),
    )


def false_accepts(counts: Sequence[Counts], *, confidence: float = 0.95, seed: int | None = None) -> Estimate | None:
    """Wrong draft steps accepted per answer; ``None`` unless the truth of every committed step is known."""
    if not _graded(counts):
        return None
    return mean([c.false_accepts for c in counts], confidence=confidence, seed=seed)


def all_right(counts: Sequence[Counts], *, confidence: float = 0.95, seed: int | None = None) -> Estimate | None:
    """Share of answers without a wrong step; ``None`` unless the truth of every committed step is known."""
    if not _graded(counts):
        return None
    return proportion(sum(c.wrong_steps == 0 for c in counts), len(counts), confidence=confidence, seed=seed)


def _graded(counts: Sequence[Counts]) -> bool:
    return bool(counts) and all(c.graded_steps == c.steps > 0 for c in counts)


def _stream(
    make_algorithm: MakeAlgorithm,
    behaviour: Behaviour,
    engines: Mapping[str, Engine],
    baseline: MakeAlgorithm,
    baseline_engines: Mapping[str, Engine],
    confidence: float,
) -> Simulation:
    """One answer only: its steps are correlated, so the error comes from batches of consecutive steps."""
    method = run_answer(make_algorithm, answers_for(make_algorithm, behaviour)(0), engines)
    alone = run_answer(baseline, behaviour.baseline_answer(0), baseline_engines)
    assert method.finished is not None
    assert alone.finished is not None
    record = AnswerRecord(
        index=0,
        baseline_s=alone.finished - alone.started,
        method_s=method.finished - method.started,
        counts=Counts.of(method),
    )
    n_batches = min(_STREAM_BATCHES, len(method.committed), len(alone.committed))
    batches = [
        batch_sums(np.diff(session.commit_times, prepend=session.started), n_batches) for session in (alone, method)
    ]
    name = f"ratio of totals, {n_batches} batch means of one answer"
    speedup = ratio_of_totals(*batches, confidence=confidence, estimator=name, seed=behaviour.seed)
    return _summary([record], speedup, confidence, behaviour.seed)


def _check(n: int | None, precision: float | None, max_answers: int) -> None:
    if n is not None and precision is not None:
        raise ParameterError("precision", precision, "must not be given together with n")
    for name, value in (("n", n), ("max_answers", max_answers)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ParameterError(name, value, "must be an integer >= 1")
    if precision is not None and not 0.0 < precision < 1.0:
        raise ParameterError("precision", precision, "must be in (0, 1)")
