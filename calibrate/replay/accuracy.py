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
from sim.operations import EMBEDDING, EXACT, GATE, JUDGE, OWN_THRESHOLDS
from sim.timeline import Counts

__all__ = ["Rates", "Spoiling", "accepts", "all_rates", "expected_accuracy", "rates", "rates_text", "spoiling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Error rates of a verifier or scorer at a threshold."""

    role: str
    threshold: float | None
    """Least score at which a draft is accepted; None: the judge's recorded verdicts."""

    true_accept: Estimate | None
    """Share of the right drafts that it accepts; None without right drafts."""

    false_accept: Estimate | None
    """Share of the wrong drafts that it accepts; None without wrong drafts."""


def rates(answers: Sequence[RecordedAnswer], role: str = JUDGE, threshold: float | None = None) -> Rates:
    """Error rates of a role on recorded first drafts known to be right or wrong, with Wilson's intervals.

    Parameters
    ----------
    answers : recorded answers.
    role : a verifier or scorer that saw the drafts; others have no rates.
    threshold : least score at which a draft is accepted; default the role's own, and for the judge its verdicts.
    """
    right: list[bool] = []
    wrong: list[bool] = []
    for step in (step for answer in answers for step in answer.steps):
        accepted = accepts(step, role, threshold)
        if step.draft.correct is not None and accepted is not None:
            (right if step.draft.correct else wrong).append(accepted)
    return Rates(role=role, threshold=threshold, true_accept=_share(right), false_accept=_share(wrong))


def all_rates(answers: Sequence[RecordedAnswer]) -> list[Rates]:
    """Error rates of every verifier with recorded scores and a threshold of its own, the judge first.

    Scorers (grades, rewards) have no threshold of their own: use `rates` with a threshold.
    """
    scored = {role for answer in answers for step in answer.steps for role in step.draft.scores}
    roles = [role for role in (GATE, EMBEDDING, EXACT) if role in scored]
    every = [rates(answers), *(replace(rates(answers, role), threshold=OWN_THRESHOLDS[role]) for role in roles)]
    return [one for one in every if one.true_accept is not None or one.false_accept is not None]


def rates_text(answers: Sequence[RecordedAnswer]) -> list[str]:
    """Return a line per verifier with the shares of right and wrong drafts it accepts; none without ground truth."""
    lines = []
    for one in all_rates(answers):
        who = one.role if one.threshold is None else f"{one.role} at {one.threshold:g}"
        lines.append(f"{who:<16} right drafts {_said(one.true_accept)}; wrong drafts {_said(one.false_accept)}")
    return lines


def _said(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not seen"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def accepts(step: StepRecord, role: str = JUDGE, threshold: float | None = None) -> bool | None:
    """Return whether a role accepts the first draft of a position; None if its score was not recorded.

    Parameters
    ----------
    step : a recorded position.
    role, threshold : as in `rates`.
    """
    if role == JUDGE and threshold is None:
        return step.verdict.accepted
    score = step.verdict.score if role == JUDGE else step.draft.scores.get(role)
    limit = OWN_THRESHOLDS.get(role) if threshold is None else threshold
    return None if score is None or limit is None else score >= limit


def _share(events: Sequence[bool]) -> Estimate | None:
    return proportion(sum(events), len(events)) if events else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiling:
    """Probability that an answer is right, given whether its steps are."""

    right_if_clean: float
    """Share of right answers among those without a wrong step, in [0, 1]."""

    right_if_spoilt: float
    """Share of right answers among those with a wrong step, in [0, 1]."""

    n: int
    """Answers that the shares are estimated from."""

    forgiven: float | None = None
    """Probability that an answer is right despite a wrong step, in [0, 1], independently for each wrong step, so that
    an answer with w wrong steps is right with the w-th power; None: every such answer has ``right_if_spoilt``."""


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
    return Spoiling(
        right_if_clean=sum(clean) / len(clean) if clean else 1.0,
        right_if_spoilt=sum(spoilt) / len(spoilt) if spoilt else 0.0,
        n=len(clean) + len(spoilt),
        forgiven=_forgiven(n_wrong, sum(spoilt)),
    )


def _forgiven(n_wrong: Sequence[int], n_right: int) -> float | None:
    """The probability whose powers sum to the number of right answers with wrong steps; None without such answers."""
    if not n_wrong:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):  # bisection: the sum increases with the probability
        middle = (low + high) / 2.0
        low, high = (middle, high) if sum(middle**w for w in n_wrong) < n_right else (low, middle)
    return high


def expected_accuracy(counts: Sequence[Counts], effect: Spoiling) -> Estimate:
    """Expected share of right answers of simulated runs, given which steps are right, with Wilson's interval."""
    n = len(counts)
    clean = sum(one.wrong_steps == 0 for one in counts) / n
    if effect.forgiven is None:
        spoilt = (1.0 - clean) * effect.right_if_spoilt
    else:
        spoilt = sum(effect.forgiven**one.wrong_steps for one in counts if one.wrong_steps) / n
    value = clean * effect.right_if_clean + spoilt
    return replace(proportion(round(value * n), n), value=value, estimator="right answers, by the truth of their steps")
