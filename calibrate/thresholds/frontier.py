"""Choice of a threshold with a guarantee from scored and labelled decisions, and of the gate of a confidence cascade.

The statistics are in `calibrate.thresholds.risk`, the decisions in `calibrate.thresholds.labelled_decisions`. Among the
certified thresholds the one with the largest predicted speedup is chosen, for a cascade the cheapest.

A cascade is an equivalent problem. Its gate, a draft model whose reply is "same meaning" with probability p, accepts if
p >= gamma, rejects if p <= 1 - gamma and escalates to the judge between the two. It *keeps* a decision if its
confidence max(p, 1 - p) is at least gamma, and errs if it keeps a decision that the judge would have made differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import ArrayLike

from calibrate.thresholds.labelled_decisions import default_grid
from calibrate.thresholds.risk import Bound, Decisions, TestedThreshold, certify
from sim.estimate import Estimate
from theory.cascade import break_even_escalation, expected_verification_cost

__all__ = ["Cascade", "Frontier", "Point", "cascade", "frontier"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A threshold on the frontier: its risk and its predicted speedup."""

    row: TestedThreshold
    speedup: Estimate
    """Predicted speedup over plain decoding; for a cascade see `Cascade`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    chosen: int | None
    """Index of the best certified threshold; None if none is certified."""
    bound: Bound
    verdict: str
    """Recommendation, in a sentence."""
    advice: str
    """Effect of more labels, in a sentence."""
    labels_needed: int | None
    """Labelled units in all to certify the next threshold at its observed risk; None if no number suffices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier(_Choice):
    """All thresholds, and the chosen one, which has the largest speedup."""

    points: tuple[Point, ...]
    """The safest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade(_Choice):
    """The gate of a cascade: every gamma with its risk and cost, and the cheapest that is certified."""

    rows: tuple[TestedThreshold, ...]
    """The largest gamma first; ``accepted`` is the coverage, the share of decisions that the gate keeps."""
    costs: tuple[float, ...]
    """Expected cost of verifying one step at each gamma, in the unit of the two costs."""
    judge_cost: float
    """Cost of verification by the judge, without a gate."""
    break_even: float
    """Escalation below which the cascade costs less than the judge without a gate, [-]."""


def frontier(
    decisions: Decisions, thresholds: ArrayLike, bound: Bound, speedup: Callable[[float], Estimate]
) -> Frontier:
    """Test every threshold of a grid fixed beforehand, predict its speedup, and choose the fastest of the certified.

    Among equal speedups the safest is chosen.

    Parameters
    ----------
    speedup : threshold -> predicted speedup.
    """
    rows = certify(decisions, thresholds, bound)
    points = tuple(Point(row=row, speedup=speedup(row.threshold)) for row in rows)
    passed = [i for i, row in enumerate(rows) if row.status == "certified"]
    chosen = max(passed, key=lambda i: (points[i].speedup.value, -i)) if passed else None
    verdict = _verdict(None if chosen is None else points[chosen], bound)
    return Frontier(points=points, chosen=chosen, bound=bound, verdict=verdict, **_more_labels(rows, bound))


_RISK_WORDS: Final = {
    "wrong-given-accepted": "P(wrong | accepted)",
    "accepted-and-wrong": "P(accepted and wrong)",
    "accuracy-loss": "loss of accuracy per answer",
}


def _verdict(best: Point | None, bound: Bound) -> str:
    sure = f"{_RISK_WORDS[bound.risk]} <= {bound.level:g} with {100 * bound.confidence:g} % confidence"
    if best is None:
        return f"No threshold is certified for {sure}: accept nothing (plain decoding)."
    if not best.row.accepted > 0.0:
        return f"Only accepting nothing is certified for {sure}: no speedup."
    loses = ", slower than plain decoding" if best.speedup.value < 1.0 else ""
    return (
        f"Accept scores >= {best.row.threshold:.6g}: {sure}, predicted speedup "
        f"{best.speedup.value:.2f} [{best.speedup.low:.2f}, {best.speedup.high:.2f}]{loses}."
    )


def _more_labels(rows: Sequence[TestedThreshold], bound: Bound) -> dict[str, Any]:
    """Advice, and labels for the threshold that they certify next: where the last walk ended, or one can start."""
    deepest = max((i for i, row in enumerate(rows) if row.status == "certified"), default=-1)
    failed = [row for i, row in enumerate(rows) if row.status == "failed" and i > deepest]
    waiting = [row for row in rows if row.status == "too few" and row.units_needed is not None]
    row = failed[0] if failed else min(waiting, key=lambda one: one.units_needed or 0, default=None)
    observed = [one.risk for one in rows if one.trials]
    if row is not None and row.units_needed is not None:
        advice = (
            f"At its observed risk of {row.risk:.3g}, threshold {row.threshold:.6g} would pass with about "
            f"{row.units_needed:,} labelled {bound.unit} of this kind in all."
        )
    elif row is not None:
        advice = (
            f"No number of labels would certify threshold {row.threshold:.6g}: its observed risk {row.risk:.3g} is "
            "not below the level."
        )
    elif rows[-1].status == "certified":
        advice = "Every threshold is certified: more labels change nothing."
    elif not observed:
        advice = "No threshold accepts anything: nothing can be certified."
    else:
        advice = (
            f"No number of labels would certify a threshold: the lowest observed risk, {min(observed):.3g}, is not "
            "below the level."
        )
    return {"advice": advice, "labels_needed": None if row is None else row.units_needed}


def cascade(
    decisions: Decisions, bound: Bound, *, gate_cost: float, judge_cost: float, grid: ArrayLike | None = None
) -> Cascade:
    """Choose gamma, the confidence from which a gate's decision is kept, for the least expected cost within a bound.

    Parameters
    ----------
    decisions : confidence ``max(p, 1 - p)``, and whether the judge decides otherwise; see `read_decisions`.
    bound : on the disagreement with the judge: ``accepted-and-wrong`` bounds that of the whole cascade,
        ``wrong-given-accepted`` that of the decisions kept.
    gate_cost, judge_cost : cost of one verification, > 0, one unit.
    grid : values of gamma in [0.5, 1], fixed beforehand.

    References
    ----------
    ConfSpec (Liu, Cao, He 2025), section 4.4 for the cost; claim CS-P1 of the ledger for the disagreement.
    """
    rows = certify(decisions, default_grid("confidence") if grid is None else grid, bound)
    costs = tuple(float(expected_verification_cost(1.0 - row.accepted, gate_cost, judge_cost)) for row in rows)
    passed = [i for i, row in enumerate(rows) if row.status == "certified"]
    chosen = min(passed, key=lambda i: (costs[i], i)) if passed else None
    sure = f"disagreement with the judge within {bound.level:g} with {100 * bound.confidence:g} % confidence"
    if chosen is None:
        verdict = f"No gamma is certified ({sure}): leave every decision to the judge."
    elif costs[chosen] >= judge_cost:
        against = f"({judge_cost:.4g} per step against {costs[chosen]:.4g})"
        verdict = f"The judge without a gate is cheaper than any certified cascade {against}."
    else:
        verdict = (
            f"gamma = {rows[chosen].threshold:.6g}: keeps {100 * rows[chosen].accepted:.0f} % of the decisions, costs "
            f"{costs[chosen]:.4g} per step against {judge_cost:.4g} for the judge without a gate; {sure}."
        )
    return Cascade(
        rows=rows,
        costs=costs,
        chosen=chosen,
        judge_cost=judge_cost,
        break_even=float(break_even_escalation(gate_cost, judge_cost)),
        bound=bound,
        verdict=verdict,
        **_more_labels(rows, bound),
    )
