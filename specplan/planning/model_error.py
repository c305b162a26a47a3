"""How well the simulator predicts the published table, and what that says about a prediction for one of its rows.

``python -m workshop.published_table --write`` predicts every row of Lookahead Reasoning's Table 1 from its acceptance
column and renews ``table1.json``, from which `model_error` reads. For a row, the error is measured on the *other* rows:
its own published speedup never enters its prediction.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final

__all__ = ["PUBLISHED_RULES", "ModelError", "Row", "compared", "fit_error", "model_error", "rows"]

PUBLISHED_RULES: Final = "released-code"


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
        from sim.estimate import student_quantile

        return student_quantile(0.95, self.n - 1) * self.spread * math.sqrt(1.0 + 1.0 / self.n)

    def corrected(self, simulated: float) -> float:
        """The speedup to expect where ``simulated`` was simulated."""
        return math.exp(self.gain * math.log(simulated))


@cache
def rows() -> tuple[Row, ...]:
    """The committed comparison."""
    text = (files("specplan.planning") / "table1.json").read_text(encoding="utf-8")
    return tuple(Row(**record) for record in json.loads(text)["rows"])


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
