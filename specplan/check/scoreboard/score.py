"""Measured rows with their predictions, and errors, coverage and regret, in all and by what the rows have in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Choice", "Outcome", "Refused", "Regret", "Score", "by_label", "errors_of", "regrets", "score"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A row as one of several options."""

    goal: str
    """What is chosen and for what, in words."""
    alike: tuple[str, ...]
    """What the options share."""
    option: str
    measured: float
    """Worth of the option as measured, larger is better."""
    predicted: float
    """Worth of the option as predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A row that was predicted."""

    where: str
    """File and line."""
    quantity: str
    """What was measured: ``time per iteration``, ``time per output token``, ``time to first token`` or ``speedup``."""
    unit: str
    model: str
    labels: Mapping[str, str]
    """By which errors are grouped: gpu, precision, engine, concurrency, k and so on."""
    measured: float
    predicted: float
    interval: tuple[float, float]
    """The 95 % interval of the measured value."""
    doubt: str | None = None
    """The rule by which the row is not to be trusted, decided without the prediction; None: trusted."""
    wide: str | None = None
    """Why operators are known not to explain the row, so that it has a wide interval; None: they do."""
    choices: tuple[Choice, ...] = ()
    """The choices in which this row is one of the options."""

    @property
    def counts(self) -> bool:
        """Whether the row is scored with the others: trusted, and modelled."""
        return self.doubt is None and self.wide is None

    @property
    def error(self) -> float:
        """Relative error, predicted against measured."""
        return self.predicted / self.measured - 1.0

    @property
    def covered(self) -> bool:
        """Whether the interval holds the measured value."""
        low, high = self.interval
        return low <= self.measured <= high


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A row that is not predicted."""

    where: str
    model: str
    reason: str


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


def errors_of(relative: Sequence[float]) -> dict[str, Any]:
    """Return n, and mean, median, 90th percentile and signed mean of relative errors, as `Score` names them."""
    errors = np.array(relative)
    absolute = np.abs(errors)
    return {
        "n": len(errors),
        "mean": float(absolute.mean()),
        "median": float(np.median(absolute)),
        "p90": float(np.quantile(absolute, 0.9)),
        "signed": float(errors.mean()),
    }


def score(outcomes: Sequence[Outcome]) -> Score:
    """Score at least one outcome."""
    return Score(
        **errors_of([one.error for one in outcomes]),
        coverage=float(np.mean([one.covered for one in outcomes])),
        half_width=float(np.median([np.log(one.interval[1] / one.interval[0]) / 2.0 for one in outcomes])),
    )


def by_label(outcomes: Iterable[Outcome], label: str) -> dict[str, Score]:
    """Score the rows of each value of a label apart, values in order; ``model`` is a label too."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        if (value := one.model if label == "model" else one.labels.get(label)) is not None:
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
            measured = {name: float(np.mean([one.measured for one in rows])) for name, rows in options.items()}
            predicted = {name: float(np.mean([one.predicted for one in rows])) for name, rows in options.items()}
            best, chosen = (max(worth, key=worth.__getitem__) for worth in (measured, predicted))
            loss = measured[best] / measured[chosen] - 1.0
            by_goal[goal].append(Regret(alike=alike, options=len(options), chosen=chosen, best=best, loss=loss))
    return dict(by_goal)


def _in_order(value: str) -> tuple[float, str]:
    """Numbers by size, before words."""
    head = value.partition(" ")[0]
    try:
        return float(head), value
    except ValueError:
        return float("inf"), value
