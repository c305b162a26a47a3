"""How fast options are with so many answers in flight: short simulations to choose by, long ones to report.

The answers are dealt out evenly to the copies of an arrangement; copies do not meet. A short simulation begins with
answers spread over their lives and counts what is committed in a window; it does not see the ends of answers, a long
one does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from sim.serving.answers import ServedLoad
from sim.serving.limits import ServingLimits
from sim.serving.run import arriving, closed_loop, resumed
from specplan.planning.loads.options import Option, room_of
from specplan.worlds.world import World

if TYPE_CHECKING:
    from sim.configuration import Configuration
    from sim.serving.arrivals import Arrivals
    from specplan.worlds.request import Deployment

__all__ = ["Simulator", "sequences_for", "shares_of"]


_TOKENS_EACH: Final = 400
"""Tokens that a short simulation of steps commits per answer in flight: about 10 steps of each."""
_TOKENS_LEAST: Final = 8_000
_WARMUP_SHARE: Final = 0.25
"""Share of them that does not count, [-]."""

_SLACK: Final = 256.0
"""Tokens beyond its context for which an engine has room where a single answer fits: a block, and the next tokens."""

_LEAST_ANSWERS: Final = 24
"""Answers that a short simulation of whole answers sees at least."""

_MOST_SEQUENCES: Final = 1024
"""Places of an engine at most: vLLM's default on large GPUs."""

_NO_MOVES: Final[Mapping[str, float]] = MappingProxyType({})


class Simulator:
    """Simulations of a deployment; what was simulated once is kept."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.world = World(deployment)
        self._moved: dict[tuple[tuple[str, float], ...], World] = {(): self.world}
        self._short: dict[tuple[object, ...], ServedLoad] = {}

    def speed(self, option: Option, answers: int, moved: Mapping[str, float] = _NO_MOVES) -> float:
        """Return the tokens per second of the whole deployment with so many answers in flight, by short simulations."""
        shares = shares_of(answers, option.arrangement.replicas)
        return sum(copies * self.short(option, n, moved).tokens_per_s for n, copies in shares.items() if n)

    def served(self, option: Option, answers: int, *, lives: float = 2.0) -> ServedLoad:
        """Return what one copy with so many answers in flight does while each place ends some ``lives``."""
        tokens = self.deployment.answer_tokens * answers
        return self._closed(option, answers, round((1.0 + lives) * tokens), round(tokens), _NO_MOVES, counts=True)

    def short(self, option: Option, answers: int, moved: Mapping[str, float] = _NO_MOVES) -> ServedLoad:
        """Return what one copy with so many answers in flight does, by a short simulation."""
        arrangement = option.arrangement
        place = arrangement.tp, arrangement.own_gpus, arrangement.drafting
        key = option.configuration, place, answers, tuple(sorted(moved.items()))
        if key not in self._short:
            if option.configuration.spec.drafts_steps:
                tokens = max(_TOKENS_EACH * answers, _TOKENS_LEAST)
                warmup = round(_WARMUP_SHARE * tokens)
            else:
                warmup = self.deployment.answer_tokens * answers
                tokens = warmup * (1 + math.ceil(_LEAST_ANSWERS / answers))  # whole lives: ends come in waves
            self._short[key] = self._closed(option, answers, tokens, warmup, moved)
        return self._short[key]

    def arriving(
        self, option: Option, moments_s: Sequence[float], *, warmup: int, sizes: Arrivals | None = None
    ) -> ServedLoad:
        """Return what one copy does with answers that arrive, each of its size where sizes are told."""
        limits = self.limits(option, _MOST_SEQUENCES)
        trial = self.world.trial(option.configuration, option.arrangement, limits, sizes)
        return arriving(trial, moments_s, warmup=warmup, counts=True)

    def limits(self, option: Option, answers: int) -> ServingLimits:
        """Return the bounds of the target's engine, which is started for so many answers."""
        room = room_of(self.deployment, option.configuration, option.arrangement)
        context = float(self.deployment.context)
        fit = min(one.answers(context) for one in room.rooms) * context
        rows = float(option.configuration.k2)
        places = sequences_for(option.configuration, answers)
        # `considered` made sure that one answer fits
        return ServingLimits(max_sequences=places, cache_tokens=max(fit, context + _SLACK), rows=rows)

    def world_at(self, moved: Mapping[str, float]) -> World:
        """Return the world with some beliefs moved."""
        key = tuple(sorted(moved.items()))
        if key not in self._moved:
            self._moved[key] = World(self.deployment, moved)
        return self._moved[key]

    def _closed(
        self,
        option: Option,
        answers: int,
        tokens: int,
        warmup: int,
        moved: Mapping[str, float],
        *,
        counts: bool = False,
    ) -> ServedLoad:
        world = self.world_at(moved)
        steps = option.configuration.spec.drafts_steps
        return closed_loop(
            world.trial(option.configuration, option.arrangement, self.limits(option, answers)),
            concurrency=answers,
            tokens=tokens,
            warmup_tokens=warmup,
            resume=resumed if steps else None,
            apart_s=0.0 if steps else self._life_s(world, option, answers) / answers,
            counts=counts,
        )

    def _life_s(self, world: World, option: Option, answers: int) -> float:
        """About how long an answer takes that is one request, s."""
        deployment, configuration = self.deployment, option.configuration
        cost = world.round_cost(configuration, option.arrangement.tp)
        context = deployment.prompt_tokens + deployment.answer_tokens / 2.0
        per_pass = world.tokens_per_pass(configuration)
        return deployment.answer_tokens / per_pass * cost.iteration(answers, answers * context)


def sequences_for(configuration: Configuration, answers: int) -> int:
    """Return the places that the target's engine needs for so many answers, as far as engines have them."""
    return min(answers * configuration.most_sequences, _MOST_SEQUENCES)


def shares_of(answers: int, copies: int) -> dict[int, int]:
    """Return how many answers a copy has in flight, to how many copies have so many.

    >>> shares_of(7, 2), shares_of(1, 4)
    ({3: 1, 4: 1}, {0: 3, 1: 1})
    """
    each, more = divmod(answers, copies)
    return {each: copies - more, each + 1: more} if more else {each: copies}
