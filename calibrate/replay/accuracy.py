"""Effect of verifiers on accuracy, from a profile whose task has ground truth: error rates and right answers.

A verifier accepts right drafts (true accepts) and wrong ones (false accepts). A wrong committed step makes the answer
wrong with some probability, and lowers the acceptance of later drafts: see `calibrate.replay.corruption`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from calibrate.record.answer_records import RecordedAnswer, StepRecord
from calibrate.replay.traces import trace_of
from sim.estimate import Estimate, proportion
from sim.roles import EMBEDDING, EXACT, GATE, JUDGE, OWN_THRESHOLDS
from sim.timeline import Counts

__all__ = ["Spoiling", "accepts", "expected_accuracy", "rates_text", "said", "share", "spoiling"]


def rates_text(answers: Sequence[RecordedAnswer]) -> list[str]:
    """Return a line per verifier with the shares of right and wrong drafts it accepts; none without ground truth.

    The judge is first; then every verifier with recorded scores and a threshold of its own, in the order of the
    catalogue. Shares are of first drafts known to be right or wrong, with Wilson's intervals.
    """
    steps = [step for answer in answers for step in answer.steps]
    scored = {role for step in steps for role in step.draft.scores}
    lines = []
    for role in (JUDGE, *(role for role in (GATE, EMBEDDING, EXACT) if role in scored)):
        verdicts = [(step.draft.correct, accepts(step, role)) for step in steps]
        right, wrong = (
            [taken for truth, taken in verdicts if truth is kind and taken is not None] for kind in (True, False)
        )
        if right or wrong:
            who = role if role == JUDGE else f"{role} at {OWN_THRESHOLDS[role]:g}"
            lines.append(f"{who:<16} right drafts {said(share(right))}; wrong drafts {said(share(wrong))}")
    return lines


def said(estimate: Estimate | None) -> str:
    """Return an estimate with its interval."""
    if estimate is None:
        return "not seen"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def accepts(step: StepRecord, role: str = JUDGE, threshold: float | None = None) -> bool | None:
    """Return whether a role accepts the first draft of a position; None if its score was not recorded.

    Parameters
    ----------
    threshold : least score at which a draft is accepted; default the role's own, and for the judge its verdicts.
    """
    if role == JUDGE and threshold is None:
        return step.verdict.accepted
    score = step.verdict.score if role == JUDGE else step.draft.scores.get(role)
    limit = OWN_THRESHOLDS.get(role) if threshold is None else threshold
    return None if score is None or limit is None else score >= limit


def share(events: Sequence[bool]) -> Estimate | None:
    """Return the share of events, with Wilson's interval; None without any."""
    return proportion(sum(events), len(events)) if events else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiling:
    """Probability that an answer is right, given whether its steps are."""

    right_if_clean: float
    """Share of right answers among those without a wrong step, in [0, 1]."""
    forgiven: float
    """Probability that an answer is right despite a wrong step, in [0, 1], independently for each wrong step, so that
    an answer with w wrong steps is right with the w-th power."""


def spoiling(answers: Sequence[RecordedAnswer]) -> Spoiling | None:
    """Estimate from recorded answers how wrong steps affect an answer; None where there is no ground truth.

    Without recorded answers of a kind, one without wrong steps counts as right and one with wrong steps as wrong.
    """
    clean: list[bool] = []
    spoilt: list[bool] = []
    n_wrong: list[int] = []
    for answer in answers:
        right = [step.committed_right for step in trace_of(answer).steps]
        if answer.answer_correct is None or any(one is None for one in right):
            return None
        (clean if all(right) else spoilt).append(answer.answer_correct)
        n_wrong += [] if all(right) else [right.count(False)]
    low, high = 0.0, 1.0
    for _ in range(60):  # bisection for the probability whose powers sum to the number of right ones with wrong steps
        middle = (low + high) / 2.0
        low, high = (middle, high) if sum(middle**w for w in n_wrong) < sum(spoilt) else (low, middle)
    return Spoiling(
        right_if_clean=sum(clean) / len(clean) if clean else 1.0,
        forgiven=high if spoilt else 0.0,
    )


def expected_accuracy(counts: Sequence[Counts], effect: Spoiling) -> Estimate:
    """Expected share of right answers of simulated runs, given which steps are right, with Wilson's interval."""
    n = len(counts)
    clean = sum(one.wrong_steps == 0 for one in counts) / n
    spoilt = sum(effect.forgiven**one.wrong_steps for one in counts if one.wrong_steps) / n
    value = clean * effect.right_if_clean + spoilt
    return replace(proportion(round(value * n), n), value=value, estimator="right answers, by the truth of their steps")
