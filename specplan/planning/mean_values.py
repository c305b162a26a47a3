"""Tokens per second of an engine under load from mean values: which options cannot be best, before any is simulated.

An answer has one prompt to read and so many passes; by renewal-reward their seconds give the tokens per second. What
chance does to batches is left out: simulations of 8B to 671B models at 1 to 64 answers at once are within 4 % of it, as
the tests check on small ones. Of a cache that may be full only a bound is known: as many answers run as fit on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.serving.limits import ServingCost, ServingLimits
    from specplan.worlds.sizes import Drawn
    from theory.adaptive.verification import Verified

__all__ = ["MEANS_OFF", "MeanRate", "mean_rate"]

MEANS_OFF: Final = 0.06
"""Share by which two mean rates must differ for simulations to have them in the same order, [-]."""
_ROOM: Final = 0.8
"""Share of the cache above which answers in flight may wait for room, or lose their places, [-]."""


@dataclass(frozen=True, slots=True)
class MeanRate:
    """Tokens per second by mean values."""

    tokens_per_s: float
    is_bound: bool = False
    """Whether a cache may be full, so that fewer may be written."""

    @classmethod
    def together(cls, copies: Sequence[tuple[Self, int]]) -> Self:
        """Return the rate of all copies: that of each, with how many are alike."""
        total = sum(n * one.tokens_per_s for one, n in copies)
        return cls(total, any(one.is_bound for one, _ in copies))


def mean_rate(cost: ServingCost, limits: ServingLimits, sizes: Drawn, passes: Verified, answers: int) -> MeanRate:
    """Return the rate of one engine.

    Parameters
    ----------
    answers : in flight, >= 1, each as one request.
    """
    tokens, context = sizes.mean, sizes.prompt_tokens + sizes.mean_written
    batch = min(answers, limits.most_sequences)
    is_bound = batch * (context + 1.0) > _ROOM * limits.cache_tokens
    if is_bound:
        batch = max(min(batch, int(limits.cache_tokens / context)), 1)
    beyond = sum(n * (n - 1) * share for n, share in enumerate(passes.pmf, 1)) / (2.0 * passes.tokens)  # its end
    iterations = (tokens - 1.0 + beyond) / passes.tokens
    prompt = sizes.prompt_tokens
    room = limits.room(batch)
    reading = max(prompt / room, 1.0)  # iterations in which an answer's prompt is read
    shared = max((iterations + reading) / batch, prompt / room)  # iterations per answer
    mixed = min(reading, shared)  # those of them that read
    decoding = batch - 1 if mixed < shared else round(iterations / shared)
    if limits.apart:
        shared, mixed, decoding = iterations / batch + reading, reading, 0
    with_prompt = cost.mixed(decoding, decoding * context, prompt / mixed, 0.0)
    seconds = mixed * with_prompt + (shared - mixed) * cost.iteration(batch, batch * context)  # of the engine, each
    waiting = cost.request_s if batch == answers else 0.0
    return MeanRate(batch * tokens / (batch * seconds + waiting), is_bound)
