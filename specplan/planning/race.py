"""Which of several configurations is fastest, at as little simulation as settles it.

Where the recursion without shared iterations knows the configurations, it tells how they compare; what sharing costs
on top grows evenly with k1 and is simulated at its two ends. Others race on the same answers, a few more in each round,
and what is slower than the best by more than chance explains is left behind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.configuration import Configuration
from sim.estimate import student_quantile
from specplan.planning.predict import Predictor

__all__ = ["CLOSE", "fastest"]

CLOSE = 0.01
"""Speedups nearer than this share count as equal, and the configuration that keeps less in flight wins."""

_FIRST_ROUND = 6
_SURE = 0.998
"""Confidence with which a configuration must be slower to be left behind."""


def fastest(predictor: Predictor, candidates: Sequence[Configuration]) -> Configuration:
    """Return the smallest of the fastest configurations.

    Parameters
    ----------
    predictor : of the profile.
    candidates : configurations of one kind, at least one.
    """
    seconds = _by_recursion(predictor, candidates) or _raced(predictor, candidates)
    least = min(seconds.values())
    good = [name for name, took in seconds.items() if least >= took * (1.0 - CLOSE)]
    return min((c for c in candidates if c.name in good), key=lambda c: (c.most_sequences * c.k2, c.k1))


def _by_recursion(predictor: Predictor, candidates: Sequence[Configuration]) -> dict[str, float]:
    """Seconds by configuration; nothing where the recursion does not know one of them."""
    alone = {c.name: predictor.unshared_seconds(c) for c in candidates}
    known = {name: float(seconds.sum()) for name, seconds in alone.items() if seconds is not None}
    if len(known) < len(alone):
        return {}
    ends = sorted(candidates, key=lambda c: c.k1)[:: max(len(candidates) - 1, 1)]
    shared = [predictor.sharing(end) for end in ends] if len(candidates) > 1 else [1.0]
    depths = [end.k1 for end in ends]
    return {c.name: known[c.name] * float(np.interp(c.k1, depths, shared)) for c in candidates}


def _raced(predictor: Predictor, candidates: Sequence[Configuration]) -> dict[str, float]:
    """Seconds of the configurations that nothing speaks against, on the answers that it took to tell."""
    n, running = min(_FIRST_ROUND, predictor.n_answers), list(candidates)
    while True:
        seconds = {c.name: predictor.simulated(c, n).seconds for c in running}
        best = min(seconds.values(), key=lambda took: float(took.sum()))
        running = [c for c in running if not _slower(seconds[c.name], best)]
        if len(running) == 1 or n == predictor.n_answers:
            return {c.name: float(seconds[c.name].sum()) for c in running}
        n = min(2 * n, predictor.n_answers)


def _slower(seconds: NDArray[np.float64], best: NDArray[np.float64]) -> bool:
    """Whether one is slower than the other by more than chance explains; both of the same answers."""
    lost = seconds - best
    margin = student_quantile(_SURE, lost.size - 1) * float(lost.std(ddof=1)) / np.sqrt(lost.size)
    return bool(lost.mean() > margin)
