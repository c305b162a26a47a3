"""Bounds on a false-accept rate that hold with a stated confidence, threshold by threshold.

Learn-then-test (Angelopoulos, Bates, Candès, Jordan, Lei 2021, arXiv:2110.01052): each threshold of a grid fixed in
advance is a hypothesis "its risk is above the level", tested by a p-value that is exact for the sampling;
fixed-sequence testing starts at the safest threshold and stops at the first that cannot be rejected. With the stated
confidence *all* certified thresholds are within the level at once, so any of them may be chosen.

``independent``
    every labelled decision is an independent draw; exact binomial. Decisions of the same answer are rarely independent:
    use it with one decision per answer, or for other texts.
``per-answer-mean``
    answers are independent, their decisions need not be; the mean loss of each answer in [0, 1] is bet against
    (Waudby-Smith and Ramdas 2024, arXiv:2010.09686). The risk is that of a decision of an answer drawn at random.

The risk ``accuracy-loss`` is per answer: with independent answers the share of answers with any false accept (which
bounds the loss), exact binomial over answers; with independent decisions `theory.cascade.accuracy_loss_bound`.

For ``wrong-given-accepted`` the safest thresholds accept too few decisions to be certified even without an error, and
where certification needs zero errors, a single error ends the walk. So there are two walks, each with half of the
failure probability: one starts where zero errors suffice, one where an observed risk of a quarter of the level
suffices; a walk that reaches the start of the other adds that half to its own (the fallback procedure of Wiens 2003).
The numbers of accepted decisions determine the starts. That is exact if P(wrong | score) does not increase with the
score, because a threshold that is reached early then has more of the worse scores than usual.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrate.thresholds.bounds import (
    betting_p_value,
    betting_units_needed,
    betting_upper,
    binomial_p_value,
    clopper_pearson,
    units_needed,
)
from theory.cascade import accuracy_loss_bound, tolerable_disagreement
from theory.checks import scalar_count, scalar_probability
from theory.errors import ParameterError

__all__ = [
    "RISKS",
    "SAMPLINGS",
    "Bound",
    "Decisions",
    "Risk",
    "Sampling",
    "Status",
    "TestedThreshold",
    "certify",
    "fixed_sequence",
    "start_shares",
]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

Risk = Literal["wrong-given-accepted", "accepted-and-wrong", "accuracy-loss"]
RISKS: Final[tuple[Risk, ...]] = get_args(Risk)
Sampling = Literal["independent", "per-answer-mean"]
SAMPLINGS: Final[tuple[Sampling, ...]] = get_args(Sampling)
_HOPED: Final = 0.25
"""Observed risk / level at which the second walk starts. Among 0, 1/4, 1/2 and their mixtures, 0 with 1/4 was closest
to the best for each size, from 100 to 3,000 labels of a logistic score tested at 5 %."""

Status = Literal["certified", "failed", "not tested", "too few"]


class Decisions:
    """Labelled decisions of a verifier.

    Parameters
    ----------
    scores : higher is safer, finite, shape (n,), n >= 1.
    wrong : whether accepting would be (or, for a gate, whether keeping is) an error, shape (n,).
    answers : answer of each decision, any labels, shape (n,); None: a different answer for each.

    Raises
    ------
    ParameterError : no decision, scores that are not finite, or unequal lengths.
    """

    def __init__(self, scores: ArrayLike, wrong: ArrayLike, answers: ArrayLike | None = None) -> None:
        x, bad = np.asarray(scores, dtype=np.float64), np.asarray(wrong, dtype=np.bool_)
        if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
            raise ParameterError("scores", f"array of shape {x.shape}", "must be a non-empty vector of finite numbers")
        labels = np.arange(x.size) if answers is None else np.asarray(answers)
        if bad.shape != x.shape or labels.shape != x.shape:
            shapes = f"{x.shape}, {bad.shape}, {labels.shape}"
            raise ParameterError("decisions", shapes, "must have one score, one label and one answer each")
        names, index = np.unique(labels, return_inverse=True)
        self.scores, self.wrong = x, bad
        self.answers: NDArray[np.int64] = index.astype(np.int64)
        self.n_answers = len(names)

    @property
    def n(self) -> int:
        """Number of decisions."""
        return int(self.scores.size)

    @property
    def largest_answer(self) -> int:
        """Most decisions of one answer."""
        return int(np.bincount(self.answers).max())


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A bound of the risk, with its confidence."""

    level: float
    """Largest risk allowed, in (0, 1)."""
    risk: Risk = "wrong-given-accepted"
    confidence: float = 0.95
    """Probability, over fresh draws of the labels, that every certified threshold is within the level, in (0, 1)."""
    sampling: Sampling = "independent"
    decisions_per_answer: int = 1
    """Most decisions of an answer, >= 1; used by ``accuracy-loss`` with independent decisions."""

    def __post_init__(self) -> None:
        for name in ("level", "confidence"):
            if not 0.0 < scalar_probability(name, getattr(self, name)) < 1.0:
                raise ParameterError(name, getattr(self, name), "must be in (0, 1)")
        if self.risk not in RISKS:
            raise ParameterError("risk", self.risk, f"must be one of {', '.join(RISKS)}")
        if self.sampling not in SAMPLINGS:
            raise ParameterError("sampling", self.sampling, f"must be one of {', '.join(SAMPLINGS)}")
        scalar_count("decisions_per_answer", self.decisions_per_answer)

    @property
    def union(self) -> bool:
        """Whether the level is met by the union bound over the decisions of an answer."""
        return self.risk == "accuracy-loss" and self.sampling == "independent"

    @property
    def unit_level(self) -> float:
        """The level per unit (decision or answer) that the test uses."""
        return float(tolerable_disagreement(self.level, self.decisions_per_answer)) if self.union else self.level

    @property
    def unit(self) -> str:
        """Name of the counted units."""
        return "decisions" if self.sampling == "independent" else "answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedThreshold:
    """Result of the test of a threshold."""

    threshold: float
    """Accept scores of at least this."""
    accepted: float
    """Share of the decisions that it accepts, in [0, 1]."""
    failures: int
    """Units that failed (false accepts, or answers with one); for per-answer means the answers with one."""
    trials: int
    """Units that count."""
    risk: float
    """Observed risk, in [0, 1]; NaN if nothing counts."""
    low: float
    high: float
    """Limits of the risk, each one-sided at the bound's confidence, not simultaneous over thresholds."""
    p_value: float
    """Upper bound of the probability of at most that many failures if the risk is at the level."""
    allowed: float
    """Largest p-value at which it would have been certified; 0 if no walk reached it."""
    status: Status
    """``certified``; ``failed``: ended a walk; ``not tested``: after the end; ``too few``: before the first start."""
    units_needed: int | None
    """Labelled units (decisions or answers) with which it would be certified at the observed risk with probability
    about 1/2; None if the observed risk is not below the level, so that no number of labels suffices."""


def fixed_sequence(p_values: ArrayLike, delta: float, starts: ArrayLike | None = None) -> tuple[BoolArray, FloatArray]:
    """Hypotheses that fixed-sequence testing rejects, the safest first along the last axis.

    Parameters
    ----------
    p_values : shape (..., n).
    delta : family-wise error rate, in (0, 1).
    starts : share of ``delta`` with which a walk starts at each hypothesis, with a sum of at most 1, shape (..., n); a
        walk that reaches a start adds its share. Default all of it at the first.

    Returns
    -------
    True where rejected (certified), and the largest p-value at which it would have been (0 if no walk reached it), each
    of shape (..., n).

    >>> fixed_sequence([0.01, 0.02, 0.3, 0.01], 0.05)[0].tolist()
    [True, True, False, False]
    """
    p = np.asarray(p_values, dtype=np.float64)
    shares = np.zeros(p.shape) if starts is None else np.broadcast_to(np.asarray(starts, dtype=np.float64), p.shape)
    if starts is None:
        shares[..., 0] = 1.0
    certified, allowed = np.zeros(p.shape, dtype=np.bool_), np.zeros(p.shape)
    carried = np.zeros(p.shape[:-1])
    for i in range(p.shape[-1]):
        allowed[..., i] = delta * (carried + shares[..., i])
        certified[..., i] = (allowed[..., i] > 0.0) & (p[..., i] <= allowed[..., i])
        carried = np.where(certified[..., i], carried + shares[..., i], 0.0)
    return certified, allowed


def start_shares(trials: ArrayLike, level: float, delta: float, perfect: ArrayLike | None = None) -> FloatArray:
    """Starts of the two walks for P(wrong | accepted): half of ``delta`` at each start, shape (..., n).

    Parameters
    ----------
    trials : accepted units at each threshold, the safest first along the last axis, shape (..., n).
    level, delta : as in `Bound`.
    perfect : p-values of that many units without an error; default the binomial ones.
    """
    m = np.asarray(trials, dtype=np.float64)
    shares = np.zeros(m.shape)
    without = binomial_p_value(0.0, m, level) if perfect is None else np.asarray(perfect, dtype=np.float64)
    for p_values in (without, binomial_p_value(_HOPED * level * m, m, level)):
        enough = np.asarray(p_values <= delta / 2.0)
        first = enough & (np.cumsum(enough, axis=-1) == 1)
        shares += 0.5 * first
    return shares


@dataclass(frozen=True, slots=True, eq=False)
class _Evidence:
    """Counts of a threshold, as evidence for its test; with per-answer means the losses too."""

    failures: int
    trials: int
    losses: FloatArray | None = None

    def p_value(self, level: float) -> float:
        if self.losses is not None:
            return betting_p_value(self.losses, level)
        return float(binomial_p_value(self.failures, self.trials, level))

    def perfect(self) -> _Evidence:
        """As many units without an error."""
        return _Evidence(0, self.trials, None if self.losses is None else np.zeros_like(self.losses))

    def interval(self, confidence: float) -> tuple[float, float, float]:
        """Observed risk and its limits."""
        if self.trials == 0:
            return math.nan, 0.0, 1.0
        if self.losses is not None:
            low = 1.0 - betting_upper(1.0 - self.losses, confidence)
            return float(self.losses.mean()), low, betting_upper(self.losses, confidence)
        return self.failures / self.trials, *clopper_pearson(self.failures, self.trials, confidence)

    def units_needed(self, level: float, delta: float) -> int | None:
        if self.losses is None:
            return units_needed(self.failures, self.trials, level, delta)
        return betting_units_needed(self.losses, level, delta)


def certify(decisions: Decisions, thresholds: ArrayLike, bound: Bound) -> tuple[TestedThreshold, ...]:
    """Test the thresholds of a grid; return a row for each, the highest (safest) first.

    Parameters
    ----------
    decisions : labelled decisions, drawn from the same distribution as future ones.
    thresholds : the grid, fixed without knowledge of the labels (and scores), shape (n,), n >= 1.

    Raises
    ------
    ParameterError : an empty grid, or values that are not finite.
    """
    grid = np.unique(np.asarray(thresholds, dtype=np.float64))[::-1]
    if grid.size == 0 or not np.isfinite(grid).all():
        raise ParameterError("thresholds", f"{grid.size} values", "must be at least one finite threshold")
    evidence = [_evidence(decisions, float(t), bound) for t in grid]
    level, delta, of_accepted = bound.unit_level, 1.0 - bound.confidence, bound.risk == "wrong-given-accepted"
    perfect = [item.perfect().p_value(level) for item in evidence]
    starts = start_shares([item.trials for item in evidence], level, delta, perfect) if of_accepted else None
    p_values = [item.p_value(level) for item in evidence]
    certified, allowed = fixed_sequence(p_values, delta, starts)
    begun = np.cumsum(allowed) > 0.0
    everything = decisions.n if bound.sampling == "independent" else decisions.n_answers
    rows = []
    for i, (threshold, item) in enumerate(zip(grid.tolist(), evidence, strict=True)):
        status: Status = "failed" if allowed[i] > 0.0 else "not tested" if begun[i] else "too few"
        risk, low, high = item.interval(bound.confidence)
        if bound.union:
            risk, low, high = (float(accuracy_loss_bound(x, bound.decisions_per_answer)) for x in (risk, low, high))
        own_delta = float(allowed[i]) or (delta / 2.0 if of_accepted else delta)  # a walk has half of delta
        needed = item.units_needed(level, own_delta)
        row = TestedThreshold(
            threshold=threshold,
            accepted=float((decisions.scores >= threshold).mean()),
            failures=item.failures,
            trials=item.trials,
            risk=risk,
            low=low,
            high=high,
            p_value=p_values[i],
            allowed=float(allowed[i]),
            status="certified" if certified[i] else status,
            # only a share of the labelled units counts
            units_needed=None if needed is None else math.ceil(needed * everything / item.trials),
        )
        rows.append(row)
    return tuple(rows)


def _evidence(decisions: Decisions, threshold: float, bound: Bound) -> _Evidence:
    accepted = decisions.scores >= threshold
    bad = accepted & decisions.wrong
    counted = accepted if bound.risk == "wrong-given-accepted" else np.ones_like(accepted)
    if bound.sampling == "independent":
        return _Evidence(int(bad.sum()), int(counted.sum()))
    answers = decisions.answers
    false_accepts = np.bincount(answers, weights=bad, minlength=decisions.n_answers)
    if bound.risk == "accuracy-loss":
        return _Evidence(int((false_accepts > 0).sum()), decisions.n_answers)
    sizes = np.bincount(answers, weights=counted, minlength=decisions.n_answers)
    losses = false_accepts[sizes > 0] / sizes[sizes > 0]
    return _Evidence(int((losses > 0).sum()), int(losses.size), losses)
