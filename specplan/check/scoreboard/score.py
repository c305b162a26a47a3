"""Errors, coverage and regret of predictions, in all and apart by what the rows have in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specplan.check.scoreboard.outcomes import Choice, Outcome

__all__ = ["Regret", "Score", "by_label", "regrets", "score"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How far predictions are from measured values."""

    n: int
    mean: float
    """Mean absolute relative error."""
    median: float
    """Median of it."""
    p90: float
    """90th percentile of it."""
    signed: float
    """Mean relative error: above 0 where predictions are too large."""
    coverage: float
    """Share of measured values within the 95 % interval."""
    half_width: float
    """Median half-width of the 95 % intervals, as a logarithm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """What choosing by prediction loses against the best measured configuration."""

    alike: tuple[str, ...]
    """What the options share."""
    options: int
    chosen: str
    best: str
    loss: float
    """Measured worth of the best over that of the chosen one, less 1; 0: the best was chosen."""


def score(outcomes: Sequence[Outcome]) -> Score:
    """Score at least one outcome."""
    errors = np.array([one.error for one in outcomes])
    absolute = np.abs(errors)
    return Score(
        n=len(outcomes),
        mean=float(absolute.mean()),
        median=float(np.median(absolute)),
        p90=float(np.quantile(absolute, 0.9)),
        signed=float(errors.mean()),
        coverage=float(np.mean([one.covered for one in outcomes])),
        half_width=float(np.median([np.log(one.interval[1] / one.interval[0]) / 2.0 for one in outcomes])),
    )


def by_label(outcomes: Iterable[Outcome], label: str) -> dict[str, Score]:
    """Score the rows of each value of a label apart, values in order; ``model`` is a label too."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        value = one.model if label == "model" else one.labels.get(label)
        if value is not None:
            groups[value].append(one)
    return {value: score(groups[value]) for value in sorted(groups, key=_in_order)}


def regrets(outcomes: Iterable[Outcome]) -> dict[str, list[Regret]]:
    """Return, for each goal, the regret of each choice among at least two options.

    Of an option measured more than once the mean counts, measured and predicted.
    """
    groups: dict[tuple[str, tuple[str, ...]], dict[str, list[Choice]]] = defaultdict(lambda: defaultdict(list))
    for one in outcomes:
        for choice in one.choices:
            groups[choice.goal, choice.alike][choice.option].append(choice)
    by_goal: dict[str, list[Regret]] = defaultdict(list)
    for (goal, alike), options in groups.items():
        if len(options) > 1:
            by_goal[goal].append(_regret(alike, options))
    return dict(by_goal)


def _regret(alike: tuple[str, ...], options: Mapping[str, Sequence[Choice]]) -> Regret:
    measured = {name: float(np.mean([one.measured for one in rows])) for name, rows in options.items()}
    predicted = {name: float(np.mean([one.predicted for one in rows])) for name, rows in options.items()}
    best = max(measured, key=lambda name: measured[name])
    chosen = max(predicted, key=lambda name: predicted[name])
    loss = measured[best] / measured[chosen] - 1.0
    return Regret(alike=alike, options=len(options), chosen=chosen, best=best, loss=loss)


def _in_order(value: str) -> tuple[float, str]:
    """Numbers by size, before words."""
    head = value.partition(" ")[0]
    try:
        return float(head), value
    except ValueError:
        return float("inf"), value
