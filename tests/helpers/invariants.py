"""Laws that every run obeys, whatever the algorithm, the clock and the engines; checked after each run.

====== =========================================================================================================
INV-1  Conservation: every operation's outcome is known in the end; drafted = accepted + rejected + discarded.
INV-2  Time never goes back: operations start in order, end after they start, commits are in order, all in the run.
INV-3  Commits are in order: depth by depth, each the child of the one before, exactly one per depth, the last final.
INV-4  Causality: nothing starts before the texts it needs exist; nothing is committed before it is written.
INV-5  Nothing unjudged stands: a committed draft was accepted before; a committed target step has no accepted rival.
INV-6  No work is done twice: one request per prefix, role and branch; one verdict per candidate and reference.
INV-7  Accounting: accepted drafts and committed target steps are exactly the steps of the answer.
INV-8  Target sequences in flight never exceed what the window allows.
INV-9  Work conservation: a batch engine is never idle while it holds a request.
INV-10 Appeal: an escalated verdict is followed by another verifier's on the same two steps, asked after it was known.
====== =========================================================================================================
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from sim.engines.batching import BatchEngine
from sim.operations import Choose, Generate, Operation, Outcome, Score, Step, Verify, steps_after
from sim.roles import DRAFT, TARGET
from sim.timeline import Counts, Run, Timeline

_SLACK = 1e-9  # relative; times are sums of floats

_ALLOWED = {DRAFT: {"accepted", "rejected", "discarded"}, TARGET: {"committed", "reference", "discarded"}}
_VERDICTS = {"accepted", "rejected", "discarded"}
_GATED = {*_VERDICTS, "escalated"}


class InvariantError(AssertionError):
    """A run broke a law: its id, and how."""

    @property
    def law(self) -> str:
        """The id."""
        return str(self.args[0])


def check(run: Run, *, max_targets: int | None = None) -> None:
    """Check INV-1 to INV-8 and INV-10 on a finished session of either clock that recorded its operations.

    Parameters
    ----------
    run : the session.
    max_targets : most target sequences that the algorithm may have in flight; ``None`` to leave out INV-8.

    Raises
    ------
    InvariantError : a law is broken.
    """
    if run.finished is None:
        raise InvariantError("INV-1", "the run has not ended")
    _conservation(run.operations)
    _clock(run)
    _order(run.committed)
    writers = _writers(run.operations)
    _causality(run, writers)
    _judged(run)
    _once(run.operations)
    _accounting(run)
    _appeals(run.operations)
    if max_targets is not None and (peak := Counts.of(run).peak_targets) > max_targets:
        raise InvariantError("INV-8", f"{peak} target sequences in flight, {max_targets} allowed")


def _conservation(operations: Iterable[Operation]) -> None:
    for op in operations:
        generated = isinstance(op, Generate)
        allowed = _ALLOWED.get(op.role, _VERDICTS) if generated else _GATED if isinstance(op, Verify) else _VERDICTS
        if op.outcome.value not in allowed:
            raise InvariantError("INV-1", f"a {op.role} operation ended as {op.outcome.value!r}, not {sorted(allowed)}")


def _clock(run: Run) -> None:
    assert run.finished is not None
    for before, after in pairwise(run.operations):
        if after.started < before.started:
            raise InvariantError("INV-2", f"an operation starts at {after.started}, before {before.started}")
    for op in run.operations:
        if op.started < run.started or op.started > run.finished:
            raise InvariantError("INV-2", f"{op.started} is outside the run [{run.started}, {run.finished}]")
        if op.finished >= 0.0 and op.finished < op.started:
            raise InvariantError("INV-2", f"an operation ends at {op.finished}, before its start {op.started}")
    times = [run.started, *run.commit_times, run.finished]
    if any(b < a for a, b in pairwise(times)):
        raise InvariantError("INV-2", f"commit times go back: {times}")


def _order(committed: Sequence[Step]) -> None:
    for depth, step in enumerate(committed):
        if step.depth != depth:
            raise InvariantError("INV-3", f"commit {depth} has depth {step.depth}")
        if depth and step.parent is not committed[depth - 1]:
            raise InvariantError("INV-3", f"commit {depth} does not follow the step before it")
        if step.final != (depth == len(committed) - 1):
            raise InvariantError("INV-3", f"commit {depth} of {len(committed)} has final={step.final}")


def _writers(operations: Iterable[Operation]) -> dict[int, Operation]:
    writers = {}
    for op in operations:
        step = op.result if op.result is not None else getattr(op, "pending", None)  # unset if it was cut short
        if isinstance(step, Step) and not op.cancelled and op.finished >= 0.0:
            for written in steps_after(op.prefix, step):  # type: ignore[attr-defined]  # only a `Generate` has steps
                writers[id(written)] = op
    return writers


def _causality(run: Run, writers: dict[int, Operation]) -> None:
    def written(step: Step, by: float, what: str) -> None:
        if step.depth < 0:
            return
        writer = writers.get(id(step))
        if writer is None:
            raise InvariantError("INV-4", f"{what} at {by} needs {step}, which nobody has written")
        before_its_end = step is not (writer.result or writer.pending)  # a mark in an answer asked for as a whole
        if (earliest := writer.started if before_its_end else writer.finished) > by:
            raise InvariantError("INV-4", f"{what} at {by} needs {step}, written after {earliest}")

    for op in run.operations:
        for step in _needed(op):
            written(step, op.started, f"a {op.role} operation")
    for step, time in zip(run.committed, run.commit_times, strict=True):
        written(step, time, "a commit")


def _needed(op: Operation) -> tuple[Step, ...]:
    """Steps that an operation reads."""
    if isinstance(op, Generate):
        return (op.prefix,)
    if isinstance(op, Verify):
        return (op.candidate, op.reference)
    if isinstance(op, Choose):
        return op.candidates
    return (op.candidate,) if isinstance(op, Score) else ()


def _approved(op: Operation) -> Step | None:
    """The step that an operation let stand."""
    if op.outcome is not Outcome.ACCEPTED or op.result is None:
        return None
    if isinstance(op, Verify):
        return op.candidate if op.result.accepted else None
    if isinstance(op, Choose):
        return None if op.result.index is None else op.candidates[op.result.index]
    return op.candidate if isinstance(op, Score) else None


def _appeals(operations: Sequence[Operation]) -> None:
    verdicts: dict[tuple[int, int], list[Verify]] = defaultdict(list)
    for op in operations:
        if isinstance(op, Verify):
            verdicts[id(op.candidate), id(op.reference)].append(op)
    for op in (one for alike in verdicts.values() for one in alike if one.outcome is Outcome.ESCALATED):
        alike = verdicts[id(op.candidate), id(op.reference)]
        if not any(other.role != op.role and other.started >= op.finished >= op.started for other in alike):
            raise InvariantError("INV-10", f"the verdict of {op.role} on {op.candidate} was escalated to nobody")


def _judged(run: Run) -> None:
    verdicts = {id(step): op for op in run.operations if (step := _approved(op)) is not None}
    accepted = {id(op.prefix) for op in run.operations if isinstance(op, Generate) and op.outcome is Outcome.ACCEPTED}
    for step, time in zip(run.committed, run.commit_times, strict=True):
        if step.role == DRAFT:
            verdict = verdicts.get(id(step))
            if verdict is None or verdict.finished > time:
                raise InvariantError("INV-5", f"{step} is committed at {time} without a verdict for it before")
        elif id(step.parent) in accepted:
            raise InvariantError("INV-5", f"{step} is committed although a draft was accepted there")


def _once(operations: Iterable[Operation]) -> None:
    seen: set[tuple[object, ...]] = set()
    for op in operations:
        if isinstance(op, Generate):
            key: tuple[object, ...] = (id(op.prefix), op.role, op.branch)
        elif isinstance(op, Verify):
            key = (id(op.candidate), id(op.reference), op.role)
        elif isinstance(op, Choose):
            key = (*map(id, op.candidates), op.role)
        else:
            assert isinstance(op, Score)
            key = (id(op.candidate), op.role, op.branch, "score")
        if key in seen:
            raise InvariantError("INV-6", f"the same {op.role} operation was started twice")
        seen.add(key)


def _accounting(run: Run) -> None:
    for role, outcome in ((DRAFT, Outcome.ACCEPTED), (TARGET, Outcome.COMMITTED)):
        kept = sum(
            op.result.depth - op.prefix.depth
            for op in run.operations
            if isinstance(op, Generate) and op.role == role and op.outcome is outcome
        )
        standing = sum(step.role == role for step in run.committed)
        if kept != standing:
            raise InvariantError("INV-7", f"{kept} {role} steps are {outcome.value}, {standing} stand in the answer")


def check_timeline(run: Run) -> None:
    """Check that a run's timeline has its operations and commits, and in each lane one operation at a time."""
    timeline = Timeline.of(run)
    zero, free = run.started, dict[tuple[str, int], float]()
    operations = [(op.role, op.outcome.value, op.started - zero) for op in run.operations]
    assert [(span.role, span.outcome, span.start) for span in timeline.spans] == operations
    for span in timeline.spans:
        assert free.get((span.role, span.lane), 0.0) <= span.start <= span.end, span
        free[span.role, span.lane] = span.end
    commits = [(step.depth, step.role, time - zero) for step, time in zip(run.committed, run.commit_times, strict=True)]
    assert [(commit.depth, commit.role, commit.time) for commit in timeline.commits] == commits
    kept = [span for span in timeline.spans if span.kind == "generate" and span.outcome in {"accepted", "committed"}]
    assert sorted(span.depth + i for span in kept for i in range(span.steps)) == [depth for depth, _, _ in commits]


def check_engine(engine: BatchEngine, operations: Iterable[Operation], now: float) -> None:
    """Check INV-9: the engine was busy at least as long as it held a request.

    It may be busy a little longer: an iteration or prefill that has begun runs to its end after a cancellation.

    Parameters
    ----------
    engine : after the run, accounts settled.
    operations : all that were submitted to it since it was attached.
    now : the present, s; where operations that still run are cut.

    Raises
    ------
    InvariantError : it stood idle with work waiting.
    """
    held = []
    for op in operations:
        arrived, left = op.started + engine.cost.request_s, op.finished if op.finished >= 0.0 else now
        if left > arrived:
            held.append((arrived, left))
    needed = covered(held)
    if engine.busy_s < needed - _SLACK * max(now, 1.0):
        raise InvariantError("INV-9", f"busy for {engine.busy_s} s, but it held requests for {needed} s")


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals."""
    total, reach = 0.0, float("-inf")
    for start, end in sorted(intervals):
        if end > reach:
            total += end - max(start, reach)
            reach = end
    return total
