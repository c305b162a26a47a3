"""Which k is best at this load: committed tokens over seconds of a round, drawn as uncertain as both are.

What is recommended is the k with the largest mean logarithm of tokens per second over the draws; its interval are the
k that are best in 95 % of them. Where it may fall short of the best by more than `ENOUGH`, the next step is to run
another k: a server that drafts k tokens counts the acceptance of every smaller one too, so that the smallest k is
chosen which, once it was run, leaves no more than that to be missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sim.estimate import Estimate
from specplan.live.explaining.costs import Costs

__all__ = ["DRAWS", "ENOUGH", "Depth", "best_depth", "percentiles"]

DRAWS: Final = 4000
ENOUGH: Final = 0.03
"""Share of the best pace that may be missed, in 95 % of the draws, [-]."""
_CHEAP: Final = 0.05
"""Seconds of drafting a token over those of a plain pass, [-], that a good draft takes: an EAGLE head, or a model of a
twentieth of the target's size. What is dearer counts as slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """The best k and what it gains, on undisturbed rounds."""

    now: int
    best: Estimate
    gain: Estimate
    """Tokens per second of the best k over those of now, [-]."""
    gains: tuple[Estimate, ...]
    """The same of each k, from 0 on."""
    over_plain: Estimate
    """Tokens per second of now over those without speculation, [-]."""
    cheap: Estimate
    """What a draft as cheap as good ones are would gain over the best k, [-], >= 1."""
    draft_cost: Estimate
    """Seconds of drafting a token over those of a plain pass, [-]."""
    short: Estimate
    """Share of the best pace that ``best`` misses, [0, 1)."""
    step: int
    """The k to run next: ``best`` where that is sure enough, else one that tells which it is."""

    @property
    def sure(self) -> bool:
        """Whether no further measurement is needed."""
        return self.short.high <= ENOUGH


def best_depth(
    now: int, committed: NDArray[np.float64], costs: Costs, seed: int, *, known: int, farthest: int
) -> Depth:
    """Compare all k.

    Parameters
    ----------
    now : what runs.
    committed : tokens of a round by k, shape (n, most + 1).
    costs : seconds of a round by k, of the same shape.
    seed : of the draws, to be told.
    known : positions whose acceptance was counted, >= now.
    farthest : k that may be run next, at most.
    """
    pace = committed / costs.seconds
    means = np.log(pace).mean(axis=0)
    best = int(np.argmax(means))
    relative = pace / pace[:, [now]]
    every = np.argmax(pace, axis=1)
    low, high = (int(np.quantile(every, q, method="nearest")) for q in (0.025, 0.975))
    cheap = np.minimum(costs.drafting, _CHEAP * costs.plain)
    short = percentiles(1.0 - pace[:, best] / pace.max(axis=1), seed, one_sided=True)
    ks = np.arange(pace.shape[1])
    with_cheap = committed / np.maximum(costs.seconds - (costs.drafting - cheap)[:, None] * ks, 1e-12)
    ratio = np.maximum(with_cheap.max(axis=1) / pace[:, best], 1.0)
    return Depth(
        now=now,
        best=Estimate(
            value=float(best),
            stderr=float(every.std()),
            low=float(min(low, best)),
            high=float(max(high, best)),
            n=pace.shape[0],
            estimator="largest mean log pace; best in 95 % of the draws",
            unit="tokens",
            seed=seed,
        ),
        gain=percentiles(relative[:, best], seed),
        gains=tuple(percentiles(relative[:, k], seed) for k in range(pace.shape[1])),
        over_plain=percentiles(pace[:, now] / pace[:, 0], seed),
        cheap=percentiles(ratio, seed),
        draft_cost=percentiles(costs.drafting / costs.plain, seed),
        short=short,
        step=best if short.high <= ENOUGH else min(_telling(pace, best, now, known), farthest),
    )


def _telling(pace: NDArray[np.float64], best: int, now: int, known: int) -> int:
    """The k to run to know which is best: the smallest that leaves enough, if its acceptance is what is not known."""
    left = 1.0 - np.maximum.accumulate(pace, axis=1) / pace.max(axis=1, keepdims=True)
    deep = int(np.argmax(np.quantile(left, 0.95, axis=0) <= ENOUGH))
    if deep > known:
        return deep
    wins = np.bincount(np.argmax(pace, axis=1), minlength=pace.shape[1])  # else seconds are: any other k tells them
    wins[[0, now]] = 0
    return best if best not in (0, now) else int(np.argmax(wins)) or now + 1


def percentiles(values: NDArray[np.float64], seed: int, unit: str = "", *, one_sided: bool = False) -> Estimate:
    """The median of draws with their 95 % interval; one-sided: from the least to what 5 % exceed."""
    low, middle, high = (float(q) for q in np.quantile(values, (0.0, 0.5, 0.95) if one_sided else (0.025, 0.5, 0.975)))
    return Estimate(
        value=middle,
        stderr=float(values.std()),
        low=low,
        high=high,
        n=values.size,
        estimator="median of draws",
        unit=unit,
        seed=seed,
    )
