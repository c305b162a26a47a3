"""What a generator did, in numbers: what is counted, compared with predictions and recorded of it."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from calibrate.engines.protocol import Generation
from calibrate.record.answer_records import RecordedAnswer
from calibrate.running.session import WallSession
from sim.configuration import Configuration
from sim.operations import Generate, Outcome, Score, Verify
from sim.roles import DRAFT
from specplan.live.drift.replan import recorded
from specplan.live.gateway.plans import ServingPlan

__all__ = ["Ran", "Summary", "seconds_per_token"]

_DECIDED = (Outcome.ACCEPTED, Outcome.REJECTED)


class Ran(NamedTuple):
    """A generator that ended or was stopped."""

    counts: dict[str, dict[str, int]]
    """Counter, without ``specplan_`` -> label -> number."""
    verdicts: list[tuple[str, float]]
    """Role and seconds of each verdict, score or choice."""
    seen: list[tuple[str, int, bool | None]]
    """What is compared with predictions, in order: role, tokens, and whether a draft was accepted; None: of a step
    whose length counts."""
    answer: RecordedAnswer | None
    """The answer for a new profile, if the generator wrote all of it."""
    n_left_out: int
    """Positions of such an answer that a profile cannot have."""


class Summary:
    """Summarises generators.

    Parameters
    ----------
    plan : its first configuration that drafts steps is compared with predictions.
    profiled : whether a profile predicts lengths of steps, and answers are recorded for a new one.
    """

    def __init__(self, plan: ServingPlan, *, profiled: bool) -> None:
        self._profiled = profiled
        self._decider = next((one.decider for one in plan.configurations if one.spec.drafts_steps), None)

    def of(self, configuration: Configuration, session: WallSession) -> Ran:
        """Return what a generator did."""
        counts, verdicts = _counted(session)
        compared = configuration.spec.drafts_steps and configuration.decider == self._decider
        seen = self._seen(configuration, session) if compared else []
        answer, n_left_out = recorded(session) if self._profiled else (None, 0)
        return Ran(counts, verdicts, seen, answer, n_left_out)

    def _seen(self, configuration: Configuration, session: WallSession) -> list[tuple[str, int, bool | None]]:
        seen: list[tuple[str, int, bool | None]] = []
        for one in session.operations:
            if isinstance(one, Generate):
                if self._profiled and one.result is not None and one.outcome is not Outcome.DISCARDED:
                    seen.append((one.role, one.result.n_tokens, None))
            elif one.role == configuration.decider[0] and one.outcome in _DECIDED:
                tokens = one.candidate.n_tokens if isinstance(one, (Verify, Score)) else 0
                seen.append((DRAFT, tokens, one.outcome is Outcome.ACCEPTED))
        return seen


def _counted(session: WallSession) -> tuple[dict[str, dict[str, int]], list[tuple[str, float]]]:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    verdicts = []
    for operation in session.operations:
        if isinstance(operation, Generate):
            if operation.role == DRAFT:
                unjudged = "late" if operation.result is None else "in_vain"
                counts["draft_steps"][str(operation.outcome) if operation.outcome in _DECIDED else unjudged] += 1
            counts["generated_tokens"][operation.role] += operation.tokens
        elif operation.result is not None:
            verdicts.append((operation.role, operation.finished - operation.started))
    for step in session.committed:
        counts["committed_steps"][step.role] += 1
        counts["committed_tokens"][step.role] += step.n_tokens
    return counts, verdicts


def seconds_per_token(generation: Generation) -> float | None:
    """Return the seconds between two tokens of a step; None where it is one token, or came at once."""
    times, n = generation.times, generation.n_generated - 1
    return (times.end - times.first_token) / n if n >= 1 and times.end > times.first_token else None
