"""How many tokens to draft at each batch size, by the pass model and what is expected of acceptance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from calibrate.token_acceptance.schedule import Schedule
from sim.configuration import Configuration
from specplan.worlds.world import World

if TYPE_CHECKING:
    from specplan.worlds.request import Deployment

__all__ = ["best_schedule"]

_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_MOST_K2: Final = 8
_LAST: Final = 1024


def best_schedule(deployment: Deployment, configuration: Configuration, tp: int) -> Schedule | None:
    """Return the drafted tokens that commit most tokens per second, by batch size; None where none are drafted.

    Parameters
    ----------
    deployment : models, GPUs, sizes.
    configuration : whose token level it is.
    tp : GPUs that share the target.
    """
    if configuration.token is None:
        return None
    world = World(deployment)
    context = deployment.prompt_tokens + deployment.answer_tokens / 2.0
    plain = world.cost(deployment.target, tp)
    rounds = {k2: Configuration(method=configuration.token, k2=k2) for k2 in range(2, _MOST_K2 + 1)}
    best = {}
    for size in _SIZES:
        pace = {0: 1.0 / plain.iteration(size, size * context)}
        for k2, one in rounds.items():
            pace[k2 - 1] = world.tokens_per_pass(one) / world.round_cost(one, tp).iteration(size, size * context)
        best[size] = max(pace, key=lambda k: (pace[k], -k))
    return Schedule.of(best, _LAST)
