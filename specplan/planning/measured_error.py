"""The simulator's own error on measured profiles: what validations left over that chance does not explain.

``python -m workshop.fit_model_error`` takes predicted and measured speedups from validations and renews
``model_error.json``, from which `measured_error` reads. Of a kind of methods,

    log(measured / predicted) = model error + sampling of the prediction + sampling of the measurement,

where the last two are known from the intervals: the variance of the first is what makes the standardised squares sum to
the number of rows (Paule and Mandel 1982), nothing if they sum to less. Rows of one validation share profile and
questions, so that they say less than as many independent ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

from sim.configuration import Configuration
from specplan.planning.model_error import ModelError
from theory.checks import nonnegative, positive

__all__ = ["KINDS", "LEAST_ROWS", "Validated", "fit_kinds", "kind_of", "left_over", "measured_error", "validated"]

KINDS: Final = ("token", "step", "hybrid", "beam")
"""Kinds of methods: levels of the catalogue, and a token-level method below another one."""
LEAST_ROWS: Final = 6
"""With fewer, a kind has the error of all kinds together."""
_NORMAL: Final = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """A row of a validation: a prediction's interval without a model error, and the measurement's."""

    source: str
    name: str
    predicted: float
    """Speedup, [-], as the next ones."""
    predicted_half: float
    """Half-width of its 95 % interval by the errors of sampling and profile, on the logarithm."""
    measured: float
    measured_half: float
    """Half-width of its 95 % interval, as a share of it."""
    expected_half: float | None = None
    """What that was expected to be before the measurement; None where it was not said."""

    def __post_init__(self) -> None:
        for name in ("predicted", "measured"):
            positive(name, getattr(self, name))
        for name in ("predicted_half", "measured_half", "expected_half"):
            if getattr(self, name) is not None:
                nonnegative(name, getattr(self, name))

    def plain(self) -> dict[str, Any]:
        """As plain data, rounded to what the tables show."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in known.items()}

    @property
    def kind(self) -> str:
        """Kind of its method (`KINDS`)."""
        return kind_of(Configuration.parse(self.name))

    @property
    def residual(self) -> float:
        """log(measured / predicted)."""
        return math.log(self.measured / self.predicted)

    def inside(self, model: ModelError | None) -> bool:
        """Whether it was measured inside the interval for it, with a model error."""
        chance = self.measured_half if self.expected_half is None else self.expected_half
        halves = self.predicted_half, chance, 0.0 if model is None else model.half_width
        return abs(self.residual) <= math.hypot(*halves)

    @property
    def variance(self) -> float:
        """What chance adds to the residual."""
        return (self.predicted_half**2 + self.measured_half**2) / _NORMAL**2


def kind_of(configuration: Configuration) -> str:
    """Return the kind of a configuration's method, one of `KINDS`, or ``baseline``."""
    return "hybrid" if configuration.is_hybrid else configuration.spec.level


def left_over(residuals: Sequence[float], variances: Sequence[float]) -> float:
    """Standard deviation of what the variances do not explain, around zero.

    References
    ----------
    Paule, Mandel 1982, Consensus values and weighting factors, with the mean known to be zero.

    >>> round(left_over([0.05, -0.05], [0.0009, 0.0009]), 6)
    0.04
    """

    def excess(variance: float) -> float:
        return sum(r * r / (v + variance) for r, v in zip(residuals, variances, strict=True)) - len(residuals)

    low, high = 0.0, max((r * r for r in residuals), default=0.0)
    if high == 0.0 or (all(v > 0.0 for v in variances) and excess(0.0) <= 0.0):
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if excess(middle) > 0.0:
            low = middle
        else:
            high = middle
    return math.sqrt(high)


def fit_kinds(rows: Sequence[Validated]) -> dict[str, ModelError]:
    """Return the error of each kind; of all rows together for kinds with fewer than `LEAST_ROWS`.

    >>> fit_kinds([])
    {}
    """
    if len(rows) < LEAST_ROWS:
        return {}
    errors = {}
    for kind in KINDS:
        own = [row for row in rows if row.kind == kind]
        enough = len(own) >= LEAST_ROWS
        errors[kind] = _fitted(own if enough else rows, f"of {kind} methods" if enough else "of all methods")
    return errors


def _fitted(rows: Sequence[Validated], which: str) -> ModelError:
    spread = left_over([row.residual for row in rows], [row.variance for row in rows])
    error = ModelError(gain=1.0, spread=spread, n=len(rows))
    sources = len({row.source for row in rows})
    on = f"on {len(rows)} rows {which} of {sources} validation{'s' if sources > 1 else ''}"
    size = f"±{100 * error.half_width:.0f} %" if spread else "none seen beyond chance"
    return replace(error, note=f"model error {size}, {on}")


@cache
def validated() -> tuple[Validated, ...]:
    """The committed rows."""
    text = (files("specplan.planning") / "model_error.json").read_text(encoding="utf-8")
    return tuple(Validated(**record) for record in json.loads(text)["rows"])


@cache
def _kinds() -> dict[str, ModelError]:
    return fit_kinds(validated())


def measured_error(configuration: Configuration) -> ModelError:
    """Return the error of predictions from measured profiles; of no rows where it was not measured."""
    unknown = ModelError(gain=1.0, spread=0.0, n=0)
    return _kinds().get(kind_of(configuration), unknown) if configuration.speculates else unknown
