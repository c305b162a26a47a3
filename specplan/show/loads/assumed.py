"""The acceptance that a plan rests on: its value, its range and where it is from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from specplan.worlds.beliefs import Beliefs
from specplan.worlds.drafters.naming import drafter_name
from specplan.worlds.priors import step_prior

if TYPE_CHECKING:
    from sim.configuration import Configuration
    from specplan.planning.loads.load_plan import NamesPlan
    from specplan.worlds.request import Deployment

__all__ = ["Assumed", "assumed", "assumed_by_plan"]

_ENDS: Final = (-1.96, 1.96)
"""Standard normal scores of a 95 % interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What is assumed of one drafter."""

    drafter: str
    """As engines call the method; ``steps`` for drafted steps."""
    k: int | None
    """Tokens drafted per round; None for steps."""
    value: float
    """Tokens per round, accepted ones and one more, in [1, k + 1]; for steps the share that is accepted."""
    low: float
    high: float
    """95 % of what was published lies between; both are ``value`` where the user gave it."""
    source: str

    @property
    def text(self) -> str:
        """Return it for a reader."""
        between = "" if self.low == self.high else f" [{self.low:.2f}, {self.high:.2f}]"
        if self.k is None:
            return f"{100.0 * self.value:.0f} % of the drafted steps are accepted{between} ({self.source})"
        per_round = f"{self.value:.2f}{between} tokens per round at k = {self.k}, the target's own included"
        return f"{self.drafter} makes {per_round} ({self.source})"

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        convention = "share of drafted steps accepted" if self.k is None else "tokens per round, accepted + 1"
        return {**asdict(self), "convention": convention}


def assumed(deployment: Deployment, configuration: Configuration) -> list[Assumed]:
    """Return what is assumed of acceptance for a configuration; empty for plain decoding."""
    beliefs = Beliefs(deployment)
    return [*_of_tokens(beliefs, deployment, configuration), *_of_steps(beliefs, deployment, configuration)]


def assumed_by_plan(plan: NamesPlan) -> list[Assumed]:
    """Return what the best speculative row of each load rests on, each drafter once, at its first load."""
    by_drafter: dict[str, Assumed] = {}
    for _, rows in plan.loads:
        best = next((row for row in rows if row.option.configuration.speculates), None)
        for one in () if best is None else assumed(plan.deployment, best.option.configuration):
            by_drafter.setdefault(one.drafter, one)
    return list(by_drafter.values())


def _of_tokens(beliefs: Beliefs, deployment: Deployment, configuration: Configuration) -> Iterator[Assumed]:
    token, k2 = configuration.token, configuration.k2
    if token is None or k2 < 2:
        return
    value = beliefs.tokens_per_pass(token, k2)
    ends = [[beliefs.tokens_per_pass(token, k2, *scores) for scores in ((z, 0.0), (0.0, z))] for z in _ENDS]
    below, above = (math.hypot(*(one - value for one in both)) for both in ends)  # errors of both beliefs, in squares
    low, high = max(value - below, 1.0), min(value + above, float(k2))
    drafter, source = drafter_name(deployment, token), beliefs.source(token)
    yield Assumed(drafter=drafter, k=k2 - 1, value=value, low=low, high=high, source=source)


def _of_steps(beliefs: Beliefs, deployment: Deployment, configuration: Configuration) -> Iterator[Assumed]:
    if not configuration.spec.drafts_steps:
        return
    known = deployment.alpha1 is not None
    low, high = (beliefs.alpha1(z) for z in _ENDS)
    source = "given with --alpha1" if known else f"prior: {step_prior(deployment.task).source}"
    yield Assumed(drafter="steps", k=None, value=beliefs.alpha1(), low=low, high=high, source=source)
