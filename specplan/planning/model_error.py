"""The simulator's own error: on a published table, and what chance does not explain of validations of profiles.

``python -m workshop.published_table --write`` predicts every row of Lookahead Reasoning's Table 1 from its acceptance
column and renews ``table1.json``, from which `model_error` reads. For a row, the error is measured on the *other* rows:
its own published speedup never enters its prediction.

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
from sim.estimate import student_quantile
from theory.checks import nonnegative, positive

__all__ = [
    "KINDS",
    "LEAST_ROWS",
    "PUBLISHED_RULES",
    "ModelError",
    "Row",
    "Validated",
    "compared",
    "fit_error",
    "fit_kinds",
    "kind_of",
    "left_over",
    "measured_error",
    "model_error",
    "rows",
    "validated",
]

PUBLISHED_RULES: Final = "released-code"
KINDS: Final = ("token", "step", "hybrid", "beam")
"""Kinds of methods: levels of the catalogue, and a token-level method below another one."""
LEAST_ROWS: Final = 6
"""With fewer, a kind has the error of all kinds together."""
_NORMAL: Final = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cell pair of the table: simulated and published."""

    name: str
    rules: str
    closed_form: float
    step_simulated: float
    """Speedup of LR without token-level speculation, simulated, [-]."""
    step_published: float
    token_published: float
    """Speedup of token-level speculation without LR, published, [-]; the simulation of both levels is fitted to it."""
    combined_simulated: float
    """Speedup of both levels, simulated, [-]."""
    combined_published: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelError:
    """log(published) = gain log(simulated) + error, on the rows other than the one in question.

    A line through the origin: where nothing is speculated there is nothing to correct.
    """

    gain: float
    """Slope, [-]; below 1 where the simulator promises too much."""
    spread: float
    """Standard deviation of the error of one row, [-]."""
    n: int

    note: str = "the model's own error is not measured (no rows of its method), and not in the interval"

    @property
    def half_width(self) -> float:
        """Half-width of a 95 % prediction interval for the logarithm of one more row, [-]; 0 without rows."""
        if self.n < 2:
            return 0.0
        return student_quantile(0.95, self.n - 1) * self.spread * math.sqrt(1.0 + 1.0 / self.n)

    def corrected(self, simulated: float) -> float:
        """The speedup to expect where ``simulated`` was simulated."""
        return math.exp(self.gain * math.log(simulated))


@cache
def rows() -> tuple[Row, ...]:
    """The committed comparison."""
    return tuple(Row(**record) for record in _committed("table1.json"))


def _committed(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((files("specplan.planning") / name).read_text(encoding="utf-8"))["rows"]
    return rows


def model_error(name: str, *, combined: bool, rules: str) -> ModelError:
    """Error of the simulator on the rows of the table other than ``name``.

    Parameters
    ----------
    combined : whether the error is that of both levels together, or of LR without token-level speculation.
    """
    others = [row for row in rows() if row.rules == rules and row.name != name]
    pairs = [compared(row, combined) for row in others]
    error = fit_error([math.log(simulated) for simulated, _ in pairs], [math.log(published) for _, published in pairs])
    what = "combined speedup" if combined else "LR speedup"
    note = (
        f"{what} scaled to log(published) = {error.gain:.2f} log(simulated), as on the {error.n} other rows of the "
        f"table; model error ±{100 * error.half_width:.0f} % measured on them"
    )
    return replace(error, note=note)


def fit_error(simulated: list[float], published: list[float]) -> ModelError:
    """Least squares through the origin, on logarithms.

    >>> fit_error([0.1, 0.2, 0.3], [0.05, 0.1, 0.15]).gain
    0.5
    """
    n = len(simulated)
    gain = sum(x * y for x, y in zip(simulated, published, strict=True)) / sum(x * x for x in simulated)
    squares = sum((y - gain * x) ** 2 for x, y in zip(simulated, published, strict=True))
    return ModelError(gain=round(gain, 12), spread=math.sqrt(squares / (n - 1)), n=n)


def compared(row: Row, combined: bool) -> tuple[float, float]:
    """Simulated and published speedup of a row."""
    return (row.combined_simulated, row.combined_published) if combined else (row.step_simulated, row.step_published)


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
    return tuple(Validated(**record) for record in _committed("model_error.json"))


@cache
def _kinds() -> dict[str, ModelError]:
    return fit_kinds(validated())


def measured_error(configuration: Configuration) -> ModelError:
    """Return the error of predictions from measured profiles; of no rows where it was not measured."""
    unknown = ModelError(gain=1.0, spread=0.0, n=0)
    return _kinds().get(kind_of(configuration), unknown) if configuration.speculates else unknown
