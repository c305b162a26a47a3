"""Up to which prompts speculation pays: what rounds cost and commit after longer ones, without simulation.

A plan is one for its own sizes. For other prompts the same option is compared with plain decoding on the same GPUs by
tokens of a round over its seconds, with as many answers as fit: costs grow with the context, and heads and block
drafters accept less after long prompts than after those that their priors rest on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from calibrate.replay.trials import PLAIN
from specplan.planning.loads.options import pays, room_of
from specplan.worlds.world import World
from theory.errors import ParameterError

if TYPE_CHECKING:
    from sim.configuration import Configuration
    from specplan.planning.loads.load_plan import NamesPlan
    from specplan.planning.loads.options import Option
    from specplan.worlds.request import Deployment

__all__ = ["ByPrompt", "by_prompt"]

LENGTHS: Final = tuple(2048 * 4**i for i in range(4))
"""Tokens of prompts that are looked at: 2k to 128k."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByPrompt:
    """Gains of one option over plain decoding on the same GPUs, by tokens of the prompt."""

    option: Option
    answers: int
    gains: dict[int, float]
    """Tokens of the prompt, rising, to the gain; none where the model reads no more, or no answer fits."""

    @property
    def off_beyond(self) -> int | None:
        """The longest prompt up to which it pays; None: it pays at all that were looked at, or at none."""
        kept = []
        for prompt, gain in self.gains.items():
            if not pays(gain):
                return kept[-1] if kept else None
            kept.append(prompt)
        return None


def by_prompt(plan: NamesPlan) -> list[ByPrompt]:
    """Return the gains of the best options at the first and at the last load that speculate on tokens alone."""
    found = [
        (load.concurrency, rows[0].option)
        for load, rows in plan.loads
        if load.concurrency is not None
        and rows[0].option.configuration.speculates
        and rows[0].option.configuration.spec.level == "token"
    ]
    ends = found[:1] + (found[-1:] if len(found) > 1 else [])
    return [ByPrompt(option=option, answers=n, gains=_gains(plan.deployment, option, n)) for n, option in ends]


def _gains(deployment: Deployment, option: Option, answers: int) -> dict[int, float]:
    """The gain by prompt."""
    per_copy, gains = -(-answers // option.arrangement.replicas), {}
    for prompt in LENGTHS:
        try:
            longer = replace(deployment, context=prompt + deployment.answer_tokens)
            world = World(longer)
            own, plain = (_rate(world, one, option, per_copy) for one in (option.configuration, PLAIN))
        except ParameterError:  # the model reads no more, or the models leave no room
            break
        if own is None or plain is None:
            break
        gains[prompt] = own / plain
    return gains


def _rate(world: World, configuration: Configuration, option: Option, answers: int) -> float | None:
    """Tokens per second of one copy with as many of the answers as fit; None where none does."""
    deployment = world.deployment
    context = deployment.prompt_tokens + deployment.answer_tokens / 2.0
    fit = min(room_of(deployment, configuration, option.arrangement).answers(context), answers)
    if fit < 1:
        return None
    seconds = world.round_cost(configuration, option.arrangement.split).iteration(fit, fit * context)
    return fit * world.tokens_per_pass(configuration) / seconds
