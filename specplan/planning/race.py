"""Which of several configurations is fastest, at as little simulation as settles it.

Where the recursion without shared iterations knows the configurations, it ranks them; the cost of sharing
iterations grows evenly with k1 and is simulated at the smallest and the largest. Others race on the same answers, twice
as many in each round; the slower half drops out until those that are left are equally fast.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.configuration import Configuration
from specplan.planning.predict import Predictor

CLOSE = 0.01
"""Speedups nearer than this share count as equal, and the configuration that keeps less in flight wins."""

_FIRST_ROUND = 5


def fastest(predictor: Predictor, candidates: Sequence[Configuration]) -> Configuration:
    """Return the smallest of the fastest configurations."""
    seconds = _by_recursion(predictor, candidates) or _raced(predictor, candidates)
    least = min(seconds.values())
    good = [name for name, took in seconds.items() if least >= took * (1.0 - CLOSE)]
    return min((c for c in candidates if c.name in good), key=lambda c: (c.most_sequences * c.k2, c.k1))


def _by_recursion(predictor: Predictor, candidates: Sequence[Configuration]) -> dict[str, float]:
    """Seconds by configuration; nothing where the recursion does not know one of them."""
    unshared = {c.name: predictor.unshared_seconds(c) for c in candidates}
    known = {name: float(seconds.sum()) for name, seconds in unshared.items() if seconds is not None}
    if len(known) < len(unshared):
        return {}
    ends = sorted(candidates, key=lambda c: c.k1)[:: max(len(candidates) - 1, 1)]
    shared = [predictor.sharing(end) for end in ends] if len(candidates) > 1 else [1.0]
    depths = [end.k1 for end in ends]
    return {c.name: known[c.name] * float(np.interp(c.k1, depths, shared)) for c in candidates}


def _raced(predictor: Predictor, candidates: Sequence[Configuration]) -> dict[str, float]:
    """Seconds of the configurations that are left when the race is decided, on the answers that it took."""
    n, running = min(_FIRST_ROUND, predictor.n_answers), list(candidates)
    while True:
        seconds = {c.name: float(predictor.simulated(c, n).seconds.sum()) for c in running}
        running.sort(key=lambda c: seconds[c.name])
        least = seconds[running[0].name]
        level = [c for c in running if least >= seconds[c.name] * (1.0 - CLOSE)]
        if len(level) == len(running) or n == predictor.n_answers:
            return {c.name: seconds[c.name] for c in running}
        running = running[: max(len(level), len(running) // 2)]
        n = min(2 * n, predictor.n_answers)
