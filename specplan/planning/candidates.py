"""Which configurations a plan considers: those within the budget of which the profile knows enough."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Final

from calibrate.replay.trials import Trials
from sim.catalogue import KnobValue, Method, method
from sim.configuration import Configuration
from sim.operations import TARGET

__all__ = ["GRID", "Candidates", "candidates", "knobs_in_words"]

GRID: Final[Mapping[str, tuple[int | float, ...]]] = MappingProxyType(
    {"width": (2, 4), "keep": (1, 2), "threshold": (0.7, 0.9), "tau": (0.8, 0.95)}
)
"""Values to try of the knobs that trade accuracy for time; the others stay at their defaults. Of a width of 1 nothing
would be chosen."""


@dataclass(slots=True)
class Candidates:
    """What a plan considers, and what it cannot."""

    known: list[Configuration] = field(default_factory=list)
    unknown: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a method to what the profile lacks to predict it."""


def candidates(
    trials: Trials, names: tuple[str, ...], *, rules: str, budget: int, k1_max: int, k2_max: int | None
) -> Candidates:
    """Return the configurations of some methods within the budget; below each k1 the token-level ones that pay.

    The budget holds for the most sequences that the schedule can have in flight, not for the mean: with steps of
    varying length the window does fill up, however cheap the draft.

    Parameters
    ----------
    trials : of the profile.
    names : of methods.
    rules : schedule of Lookahead Reasoning.
    budget : target positions in flight at most, sequences times tokens per pass.
    k1_max, k2_max : largest values to consider; k2_max None for what the profile has data for.
    """
    found = Candidates()
    below = [_Below(trials, name, k2_max) for name in names if method(name).level == "token"]
    for token in below:
        found.known += _alone(trials, token, budget, found)
    for name in names:
        for configuration in _above(method(name), rules, k1_max):
            lacking = trials.missing(configuration)
            if lacking:
                found.unknown.setdefault(name, lacking)
            elif configuration.most_sequences <= budget:
                found.known.append(configuration)
                found.known += _hybrids(configuration, below, budget)
    return found


def _alone(trials: Trials, token: _Below, budget: int, found: Candidates) -> Iterator[Configuration]:
    """A token-level method at its cheapest token, whatever that costs."""
    knobs = token.best(1, budget, whatever=True)
    if knobs is not None:
        yield Configuration(method=token.name, knobs=knobs)
    elif not token.is_known:
        found.unknown[token.name] = trials.missing(Configuration(method=token.name))


def _hybrids(above: Configuration, below: list[_Below], budget: int) -> Iterator[Configuration]:
    """A step-level configuration with each token-level method that makes its tokens cheaper."""
    for token in below if above.spec.level == "step" else ():
        knobs = token.best(above.most_sequences, budget)
        if knobs is not None:
            yield above.with_token(token.name, knobs)


def _above(spec: Method, rules: str, k1_max: int) -> Iterator[Configuration]:
    """A step-level method with every k1, a method that chooses among candidates with a small grid of its knobs."""
    if spec.level == "step":
        most = int(min(k1_max, spec.knob("k1").high or k1_max)) if spec.has("k1") else 0
        for k1 in range(2, most + 1) if most else (None,):
            yield Configuration(method=spec.name, k1=k1, rules=rules)
    elif spec.level == "beam":
        names = [name for name in GRID if spec.has(name)]
        for values in product(*(GRID[name] for name in names)):
            yield Configuration(method=spec.name, knobs=dict(zip(names, values, strict=True)))


def knobs_in_words(configuration: Configuration) -> str:
    """The knobs that the plan has chosen, e.g. ``width 4, tau 0.8``."""
    return ", ".join(f"{name} {value:g}" for name, value in configuration.knobs.items() if name in GRID)


class _Below:
    """A token-level method with all settings that a profile knows and a request allows."""

    def __init__(self, trials: Trials, name: str, k2_max: int | None) -> None:
        self.name = name
        self._level = trials.token_level
        self._system = trials.system
        known = self._level.choices(name)
        self.is_known = bool(known)
        self._choices = [knobs for knobs in known if method(name).most_per_pass(**knobs) <= (k2_max or math.inf)]

    def best(self, batch: int, budget: int, *, whatever: bool = False) -> dict[str, KnobValue | None] | None:
        """Return the settings with the cheapest token at a batch, within the budget.

        None if none is cheaper than plain decoding's, unless the best is wanted ``whatever`` it costs.
        """
        plain = self._system.costs[self._system.placement[TARGET]]
        best, cheapest = None, math.inf if whatever else plain.iteration(batch, 0.0)
        for knobs in self._choices:
            model = self._level.find(self.name, knobs, self._system)
            if model is None or model.most_rows * batch > budget:
                continue
            seconds = model.seconds_per_token(plain, batch)
            if seconds < cheapest * (1.0 - 1e-9):
                best, cheapest = knobs, seconds
        return best
