"""An interval for the next measurement: what a speedup measured on n fresh questions is expected to be.

The prediction's own errors (sampling of the profile, profile, model) say where the true speedup lies. The measurement
has a sampling error besides, by which questions and how long their answers come out. How large it will be the simulated
answers say: the standard error of their ratio of totals to plain decoding of the same answers, for n of them. All are
added in squares on the logarithm.
"""

from __future__ import annotations

import math

from sim.estimate import Estimate, student_quantile
from specplan.planning.predict import Prediction
from theory.errors import ParameterError

__all__ = ["next_measurement"]


def next_measurement(prediction: Prediction, n: int) -> Estimate:
    """Return the predicted speedup with a 95 % interval for its measurement on ``n`` fresh questions.

    Parameters
    ----------
    prediction : its ``errors`` are 95 % half-widths on the logarithm.
    n : questions, >= 2; one measurement of a few is less sure by Student's quantile, too.

    Raises
    ------
    ParameterError : ``n`` below 2.
    """
    if n < 2:
        raise ParameterError("n", n, "must be an integer >= 2")
    value = prediction.speedup.value
    chance = student_quantile(0.95, n - 1) * prediction.answer_spread / math.sqrt(n)
    half = math.hypot(chance, *prediction.errors.values())
    return Estimate(
        value=value,
        stderr=value * half / student_quantile(0.95, n - 1),
        low=value * math.exp(-half),
        high=value * math.exp(half),
        n=n,
        estimator="prediction; interval: " + ", ".join(sorted([*prediction.errors, "measurement"])),
        seed=prediction.speedup.seed,
    )
