"""What verifiers do to accuracy, from a profile whose task has ground truth: error rates, corruption, right answers.

A verifier lets right drafts stand (true accepts) and wrong ones (false accepts). A wrong step that stands spoils the
answer with some probability, and lowers the acceptance of what follows: the *corruption*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from calibrate.profile import AnswerRecord, StepRecord
from calibrate.traces import trace_of
from sim.estimate import Estimate, proportion
from sim.operations import JUDGE, OWN_THRESHOLDS
from sim.timeline import Counts

__all__ = ["Rates", "Spoiling", "corruption", "expected_accuracy", "rates", "spoiling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How a verifier or scorer treats right and wrong drafts at a threshold."""

    role: str
    threshold: float | None
    """Least score at which a draft stands; None: the judge's recorded verdicts."""

    true_accept: Estimate | None
    """Share of the right drafts that it lets stand; None without any."""

    false_accept: Estimate | None
    """Share of the wrong drafts that it lets stand; None without any."""


def rates(answers: Sequence[AnswerRecord], role: str = JUDGE, threshold: float | None = None) -> Rates:
    """Error rates of a role on the recorded first drafts of known truth, with Wilson's intervals.

    Parameters
    ----------
    answers : recorded answers.
    role : a verifier or scorer that saw the drafts; others have no rates.
    threshold : least score at which a draft stands; default the role's own, and for the judge what it said.
    """
    right: list[bool] = []
    wrong: list[bool] = []
    for step in (step for answer in answers for step in answer.steps):
        accepted = _accepts(step, role, threshold)
        if step.draft.correct is not None and accepted is not None:
            (right if step.draft.correct else wrong).append(accepted)
    return Rates(role=role, threshold=threshold, true_accept=_share(right), false_accept=_share(wrong))


def _accepts(step: StepRecord, role: str, threshold: float | None) -> bool | None:
    if role == JUDGE and threshold is None:
        return step.verdict.accepted
    score = step.verdict.score if role == JUDGE else step.draft.scores.get(role)
    limit = OWN_THRESHOLDS.get(role) if threshold is None else threshold
    return None if score is None or limit is None else score >= limit


def _share(events: Sequence[bool]) -> Estimate | None:
    return proportion(sum(events), len(events)) if events else None


def corruption(answers: Sequence[AnswerRecord]) -> Estimate | None:
    r"""Share of the judge's acceptance that is lost once a wrong step stands, ``1 - a_after / a_before``, at least 0.

    The standard error is the delta method's on the two shares. None unless both were seen, with an acceptance before.
    """
    before: list[bool] = []
    after: list[bool] = []
    for answer in answers:
        for corrupted, step in zip(trace_of(answer).corrupted(), answer.steps, strict=True):
            (after if corrupted else before).append(step.verdict.accepted)
    if not after or not any(before):
        return None
    a, b = proportion(sum(after), len(after)), proportion(sum(before), len(before))
    ratio = a.value / b.value
    # A share of 0 or 1 has no spread of its own to show; half its interval is what is not known about it.
    stderr = math.hypot(a.half_width / 1.96, ratio * b.half_width / 1.96) / b.value
    return Estimate(
        value=max(1.0 - ratio, 0.0),
        stderr=stderr,
        low=max(1.0 - ratio - 1.96 * stderr, 0.0),
        high=min(max(1.0 - ratio + 1.96 * stderr, 0.0), 1.0),
        n=len(after),
        estimator="1 - acceptance after a wrong step / before any",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiling:
    """How the steps of an answer decide about the answer."""

    right_if_clean: float
    """Share of right answers among those without a wrong step, in [0, 1]."""

    right_if_spoilt: float
    """Share of right answers among those with a wrong step, in [0, 1]."""

    n: int
    """Answers behind it."""


def spoiling(answers: Sequence[AnswerRecord]) -> Spoiling | None:
    """Read off the recorded answers what a wrong step does to an answer; None where there is no ground truth.

    Without an answer of a kind, a clean one counts as right and a spoilt one as wrong.
    """
    clean: list[bool] = []
    spoilt: list[bool] = []
    for answer in answers:
        right = [step.committed_right for step in trace_of(answer).steps]
        if answer.answer_correct is None or any(one is None for one in right):
            return None
        (clean if all(right) else spoilt).append(answer.answer_correct)
    return Spoiling(
        right_if_clean=sum(clean) / len(clean) if clean else 1.0,
        right_if_spoilt=sum(spoilt) / len(spoilt) if spoilt else 0.0,
        n=len(clean) + len(spoilt),
    )


def expected_accuracy(counts: Sequence[Counts], found: Spoiling) -> Estimate:
    """Expected share of right answers of simulated runs whose every step has known truth, with Wilson's interval."""
    n = len(counts)
    clean = sum(one.wrong_steps == 0 for one in counts) / n
    value = clean * found.right_if_clean + (1.0 - clean) * found.right_if_spoilt
    return replace(proportion(round(value * n), n), value=value, estimator="right answers, by the truth of their steps")
