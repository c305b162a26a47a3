"""The timeline of one answer, simulated or measured, and the counts of its operations and tokens.

Both clocks record the same operations, so both make the same `Timeline`; it is drawn as a Gantt chart (``sim.gantt``)
and exported as a Perfetto/Chrome trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sim.answers.facts import Facts
from sim.operations import Choose, Generate, Operation, Outcome, Score, Step, Verify
from sim.roles import DRAFT, DRAFT_LIKELIHOOD, JUDGE, LIKELIHOOD, REWARD, TARGET

__all__ = ["CommitMark", "Counts", "Run", "Span", "Timeline", "acceptance", "perfetto"]


class Run(Protocol):
    """The finished run of an algorithm on one answer: a session of either clock."""

    operations: list[Operation]
    committed: list[Step]
    commit_times: list[float]
    started: float
    finished: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One operation on the timeline; times are seconds since the answer's start."""

    role: str
    """Role, e.g. ``"target"``, ``"draft"``, ``"judge"``."""
    kind: str
    """``"generate"``, ``"verify"``, ``"score"`` or ``"choose"``."""
    depth: int
    """Index in the answer of the step that is generated or judged."""
    branch: int
    """Index among the siblings of a draft tree."""
    start: float
    """Start, s."""
    end: float
    """End or cancellation, s; the answer's end if it ran on."""
    outcome: str
    """A value of `sim.operations.Outcome`."""
    tokens: int
    """Tokens generated, up to a cancellation; 0 for a verdict."""
    steps: int = 1
    """Steps of the answer that it generated: several where the rest of the answer was one request."""
    cancelled: bool = False
    """Whether it was cancelled while it ran."""
    lane: int = 0
    """Number of the parallel sequence of its role that it occupies, lowest free one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMark:
    """One step appended to the answer."""

    time: float
    """Time of the commit, s since the answer's start."""
    depth: int
    """Index of the step in the answer."""
    role: str
    """Role that wrote it."""
    tokens: int
    """Its length, tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of a run's operations (tokens where the name says so), committed and not committed."""

    steps: int = 0
    """Committed steps."""
    committed_tokens: int = 0
    """Tokens of the answer."""
    drafted: int = 0
    """Drafts started; equals accepted + rejected + discarded."""
    accepted: int = 0
    """Drafts that are part of the answer."""
    rejected: int = 0
    """Drafts that were judged and refused, or refused by a rule."""
    discarded: int = 0
    """Drafts whose prefix was refused, or that were not needed because the answer ended."""
    targets: int = 0
    """Target steps started; equals targets_committed + targets_reference + targets_discarded."""
    targets_committed: int = 0
    """Target steps that are part of the answer."""
    targets_reference: int = 0
    """Target steps that only served to verify a draft."""
    targets_discarded: int = 0
    """Target steps after a refused prefix, or past the end of the answer."""
    draft_tokens: int = 0
    """Tokens that the draft generated."""
    target_tokens: int = 0
    """Tokens that the target generated."""
    wasted_draft_tokens: int = 0
    """Tokens that the draft generated and that are not part of the answer."""
    wasted_target_tokens: int = 0
    """Tokens that the target generated and that are not part of the answer (references included)."""
    peak_targets: int = 0
    """Most target sequences in flight at one time."""
    graded_steps: int = 0
    """Committed steps that are known to be right or wrong."""
    false_accepts: int = 0
    """Committed steps of the draft that are wrong."""
    wrong_steps: int = 0
    """Committed steps that are wrong, from either model."""

    @classmethod
    def of(cls, run: Run) -> Counts:
        """Count a finished run."""
        tally, tokens = dict.fromkeys(_COUNTED, 0), dict.fromkeys(_COUNTED, 0)
        end = _end(run)
        starts, ends = [], []
        for op in run.operations:
            if not isinstance(op, Generate):
                continue
            role = op.role
            fate = role, op.outcome
            tally[fate] += 1 if op.result is None else op.result.depth - op.prefix.depth
            tokens[fate] += op.tokens
            finished = op.finished if op.finished >= 0.0 else end
            if role == TARGET and finished > op.started:
                starts.append(op.started)
                ends.append(finished)
        written = {role: sum(tokens[fate] for fate in _COUNTED if fate[0] == role) for role in (DRAFT, TARGET)}
        drafted = sum(tally[fate] for fate in _COUNTED if fate[0] == DRAFT)
        targets = sum(tally.values()) - drafted
        graded = [step for step in run.committed if step.payload.__class__ is Facts]
        wrong = [step.role for step in graded if not step.payload.right]
        return cls(
            graded_steps=len(graded),
            false_accepts=wrong.count(DRAFT),
            wrong_steps=len(wrong),
            steps=len(run.committed),
            committed_tokens=sum(step.n_tokens for step in run.committed),
            drafted=drafted,
            targets=targets,
            draft_tokens=written[DRAFT],
            target_tokens=written[TARGET],
            wasted_draft_tokens=written[DRAFT] - tokens[DRAFT, Outcome.ACCEPTED],
            wasted_target_tokens=written[TARGET] - tokens[TARGET, Outcome.COMMITTED],
            peak_targets=_peak(starts, ends),
            **{name: tally[fate] for fate, name in _COUNTED.items()},
        )


_COUNTED = {
    (DRAFT, Outcome.ACCEPTED): "accepted",
    (DRAFT, Outcome.REJECTED): "rejected",
    (DRAFT, Outcome.DISCARDED): "discarded",
    (TARGET, Outcome.COMMITTED): "targets_committed",
    (TARGET, Outcome.REFERENCE): "targets_reference",
    (TARGET, Outcome.DISCARDED): "targets_discarded",
}


def acceptance(counts: Iterable[Counts]) -> float:
    """Return the share of judged drafts that were accepted over several runs, in [0, 1]; NaN if none was judged."""
    accepted = rejected = 0
    for one in counts:
        accepted += one.accepted
        rejected += one.rejected
    return accepted / (accepted + rejected) if accepted + rejected else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All operations and commits of a run, in order of start; times are seconds since the answer's start."""

    label: str
    """Label, e.g. ``"simulated"``."""
    duration: float
    """Seconds from the start to the last commit."""
    spans: tuple[Span, ...]
    """The operations, in order of start."""
    commits: tuple[CommitMark, ...]
    """The steps of the answer, in order."""

    @classmethod
    def of(cls, run: Run, label: str = "simulated") -> Timeline:
        """Build from a finished session of either clock."""
        zero, end = run.started, _end(run)
        raw = sorted(run.operations, key=lambda op: op.started)
        spans = [_span(op, zero, end) for op in raw]
        commits = tuple(
            CommitMark(time=time - zero, depth=step.depth, role=step.role, tokens=step.n_tokens)
            for step, time in zip(run.committed, run.commit_times, strict=True)
        )
        return cls(label=label, duration=end - zero, spans=_in_lanes(spans), commits=commits)

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles with at least one operation, target, draft and judge first."""
        there = dict.fromkeys(span.role for span in self.spans)
        known = [role for role in (TARGET, DRAFT, JUDGE) if role in there]
        return (*known, *(role for role in there if role not in known))

    def n_lanes(self, role: str) -> int:
        """Most sequences of ``role`` in parallel."""
        return 1 + max((span.lane for span in self.spans if span.role == role), default=-1)

    def lane_name(self, role: str, lane: int) -> str:
        """What a lane holds: the role, which candidate where each has a lane of its own, else a number."""
        who = _ASKED.get(role, role)
        if self.n_lanes(role) <= 1:
            return who
        own = all(span.branch == span.lane for span in self.spans if span.role == role)
        return f"{who}, candidate {lane + 1}" if own else f"{who} {lane + 1}"


_ASKED = {LIKELIHOOD: "likelihood by target", DRAFT_LIKELIHOOD: "likelihood by draft", REWARD: "reward model"}
"""Model that does the work, for roles whose name does not say it."""


def perfetto(*timelines: Timeline) -> dict[str, Any]:
    """Return one trace of timelines, each a process, for ui.perfetto.dev or chrome://tracing; for ``json.dumps``."""
    events: list[dict[str, Any]] = []
    for pid, timeline in enumerate(timelines, 1):
        tids: dict[tuple[str, int], int] = {}
        for role in timeline.roles:
            for lane in range(timeline.n_lanes(role)):
                tids[role, lane] = len(tids) + 2
        events.append(_meta("process_name", pid, 0, timeline.label))
        events.append(_meta("thread_name", pid, 1, "committed"))
        for (role, lane), tid in tids.items():
            events.append(_meta("thread_name", pid, tid, timeline.lane_name(role, lane)))
        for tid in (1, *tids.values()):
            events.append({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}})
        events.extend(_event(span, pid, tids[span.role, span.lane]) for span in timeline.spans)
        for commit in timeline.commits:
            args = {"role": commit.role, "tokens": commit.tokens}
            where = {"ph": "i", "s": "t", "pid": pid, "tid": 1, "ts": commit.time * 1e6}
            events.append({**where, "name": f"commit {commit.depth}", "args": args})
    return {"displayTimeUnit": "ms", "traceEvents": events}


# Perfetto colours a slice by its name without digits, Chrome by ``cname``: both show the outcome.
_CHROME_COLOURS = {
    "accepted": "good",
    "committed": "thread_state_running",
    "reference": "thread_state_runnable",
    "rejected": "terrible",
    "discarded": "grey",
    "escalated": "yellow",
    "pending": "white",
}


def _event(span: Span, pid: int, tid: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": f"{span.kind} {span.outcome} {span.depth}",
        "cat": span.role,
        "cname": _CHROME_COLOURS[span.outcome],
        "pid": pid,
        "tid": tid,
        "ts": span.start * 1e6,
        "dur": (span.end - span.start) * 1e6,
        "args": {"depth": span.depth, "branch": span.branch, "tokens": span.tokens, "cancelled": span.cancelled},
    }


def _meta(name: str, pid: int, tid: int, value: str) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": {"name": value}}


def _end(run: Run) -> float:
    if run.finished is not None:
        return run.finished
    return max((op.finished for op in run.operations), default=run.started)


def _span(op: Operation, zero: float, end: float) -> Span:
    steps = 1
    if isinstance(op, Generate):
        kind, depth, branch, tokens = "generate", op.prefix.depth + 1, op.branch, op.tokens
        steps = 1 if op.result is None else op.result.depth - op.prefix.depth
    elif isinstance(op, Choose):
        kind, depth, branch, tokens = "choose", op.candidates[0].depth, 0, 0
    else:
        assert isinstance(op, Verify | Score)
        kind = "verify" if isinstance(op, Verify) else "score"
        depth, branch, tokens = op.candidate.depth, op.branch, 0
    return Span(
        role=op.role,
        kind=kind,
        depth=depth,
        branch=branch,
        start=op.started - zero,
        end=(op.finished if op.finished >= 0.0 else max(end, op.started)) - zero,
        outcome=op.outcome.value,
        tokens=tokens,
        steps=steps,
        cancelled=op.cancelled,
    )


def _in_lanes(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Give each span the lowest lane of its role that is free when it starts."""
    free_from: dict[str, list[float]] = {}
    placed = []
    for span in spans:
        lanes = free_from.setdefault(span.role, [])
        lane = next((i for i, end in enumerate(lanes) if end <= span.start), len(lanes))
        if lane == len(lanes):
            lanes.append(0.0)
        lanes[lane] = span.end
        placed.append(replace(span, lane=lane))
    return tuple(placed)


def _peak(starts: list[float], ends: list[float]) -> int:
    """Most non-empty intervals open at one time; an interval that ends when another starts does not overlap with it."""
    ends = sorted(ends)
    peak = n_over = 0
    for n_begun, start in enumerate(sorted(starts), 1):
        while ends[n_over] <= start:
            n_over += 1
        peak = max(peak, n_begun - n_over)
    return peak
