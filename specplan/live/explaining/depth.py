"""Best k at this load: draws of committed tokens per round over draws of seconds per round.

The recommended k has the largest mean logarithm of tokens per second over the draws; its interval contains the k that
are best in 95 % of them. Where its throughput may fall short of the best by more than `ENOUGH`, another k should be run
next. A server that drafts k tokens also counts the acceptance of every smaller k, so the next k is the smallest whose
measurement leaves a shortfall of at most `ENOUGH`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sim.estimate import Estimate
from specplan.live.explaining.costs import Costs
from specplan.live.explaining.window import spanned

__all__ = ["ENOUGH", "Depth", "best_depth", "percentiles"]

ENOUGH: Final = 0.03
"""Accepted shortfall from the best throughput, as a share of it, in 95 % of the draws, [-]."""
_CHEAP: Final = 0.05
"""Seconds per drafted token over seconds of a plain pass, [-], of a fast draft: an EAGLE head, or a model of 1/20 of
the target's size. A more expensive draft counts as slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """The best k and its gain, on undisturbed rounds."""

    now: int
    best: Estimate
    gain: Estimate
    """Tokens per second at the best k over those at the current k, [-]."""
    gains: tuple[Estimate, ...]
    """Tokens per second at each k from 0 on, over those at the current k, [-]."""
    over_plain: Estimate
    """Tokens per second at the current k over those without speculation, [-]."""
    cheap: Estimate
    """Gain of a fast draft over the best k of this draft, [-], >= 1."""
    draft_cost: Estimate
    """Seconds per drafted token over seconds of a plain pass, [-]."""
    short: Estimate
    """Shortfall of ``best`` from the best throughput, as a share of it, [0, 1)."""
    step: int
    """The k to run next: ``best`` where that is sure enough, else the k whose measurement decides (0: plain)."""

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
    now : the current k.
    committed : tokens of a round by k, of the shape of ``costs.seconds``.
    seed : of the draws, reported with each estimate.
    known : positions whose acceptance was counted, >= now.
    farthest : largest k that may be run next.
    """
    speed = committed / costs.seconds
    best = int(np.argmax(np.log(speed).mean(axis=0)))
    gains = tuple(percentiles(speed[:, k] / speed[:, now], seed) for k in range(speed.shape[1]))
    every = np.argmax(speed, axis=1)
    low, high = (int(np.quantile(every, q, method="nearest")) for q in (0.025, 0.975))
    cheap = np.minimum(costs.drafting, _CHEAP * costs.plain)
    short = percentiles(1.0 - speed[:, best] / speed.max(axis=1), seed, one_sided=True)
    ks = np.arange(speed.shape[1])
    with_cheap = committed / np.maximum(costs.seconds - (costs.drafting - cheap)[:, None] * ks, 1e-12)
    ratio = np.maximum(with_cheap.max(axis=1) / speed[:, best], 1.0)
    next_k = 0 if costs.way == "window" else min(_telling(speed, best, now, known), farthest)
    return Depth(
        now=now,
        best=spanned(
            (float(min(low, best)), float(best), float(max(high, best))),
            float(every.std()),
            len(speed),
            "largest mean log throughput; best in 95 % of the draws",
            unit="tokens",
            seed=seed,
        ),
        gain=gains[best],
        gains=gains,
        over_plain=percentiles(speed[:, now] / speed[:, 0], seed),
        cheap=percentiles(ratio, seed),
        draft_cost=percentiles(costs.drafting / costs.plain, seed),
        short=short,
        step=best if short.high <= ENOUGH else next_k,
    )


def _telling(speed: NDArray[np.float64], best: int, now: int, known: int) -> int:
    """The next k to run: the smallest whose measurement leaves a shortfall of at most `ENOUGH`."""
    left = 1.0 - np.maximum.accumulate(speed, axis=1) / speed.max(axis=1, keepdims=True)
    deep = int(np.argmax(np.quantile(left, 0.95, axis=0) <= ENOUGH))
    if deep > known:
        return deep
    wins = np.bincount(np.argmax(speed, axis=1), minlength=speed.shape[1])
    wins[[0, now]] = 0  # acceptance is known, seconds are not: run another k
    return best if best not in (0, now) else int(np.argmax(wins)) or now + 1


def percentiles(values: NDArray[np.float64], seed: int, unit: str = "", *, one_sided: bool = False) -> Estimate:
    """Return the median of draws with their 95 % interval; one-sided: from the minimum to the 95th percentile."""
    ends = [float(q) for q in np.quantile(values, (0.0, 0.5, 0.95) if one_sided else (0.025, 0.5, 0.975))]
    return spanned(ends, float(values.std()), values.size, "median of draws", unit=unit, seed=seed)
