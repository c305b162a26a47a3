"""The request for a plan, and the configurations it considers: those within the budget that the profile knows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Final

from calibrate.record.profile import Profile
from calibrate.replay.trials import Trials
from sim.catalogue import KnobValue, Method, method
from sim.configuration import METHOD_NAMES, Configuration
from sim.roles import TARGET
from specplan.worlds.drafters.naming import PROPOSED
from theory.checks import scalar_count, scalar_probability
from theory.errors import ParameterError

__all__ = ["GRID", "Candidates", "Request", "knobs_in_words"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to plan for."""

    max_parallel: int = 32
    """M: positions per target pass at most, an answer's sequences in flight times tokens per sequence, >= 1."""
    methods: tuple[str, ...] = PROPOSED
    """Methods to consider, as far as the profile knows what they need; plain decoding is always among them."""
    k1_max: int = 8
    k2_max: int | None = None
    """Largest k2 to consider, >= 1; default what the profile has data for."""
    rules: str | None = None
    """Schedule of Lookahead Reasoning; default ``released-code`` for published profiles (it is what was published),
    ``paper`` for measured ones (it is what `specplan validate` runs)."""
    n_answers: int | None = None
    """Answers to simulate per configuration; default all recorded ones, or 40."""
    max_accuracy_loss: float = 0.05
    """Share of right answers that a method may cost, in [0, 1]; where accuracy is not known, nothing is ruled out."""

    def __post_init__(self) -> None:
        scalar_probability("max_accuracy_loss", self.max_accuracy_loss)
        for name in ("max_parallel", "k1_max", "k2_max"):
            if getattr(self, name) is not None:
                scalar_count(name, getattr(self, name), maximum=4096)
        for name in self.methods:
            if name not in METHOD_NAMES:
                raise ParameterError("methods", name, f"must be among {', '.join(METHOD_NAMES)}")

    def rules_for(self, profile: Profile) -> str:
        """The schedule to simulate."""
        return self.rules or ("released-code" if profile.published is not None else "paper")

    def candidates(self, trials: Trials) -> Candidates:
        """Return the configurations of the methods within the budget; below each k1 the token-level ones that pay.

        The budget holds for the most sequences that the schedule can have in flight, not for the mean: with steps of
        varying length the window does fill up, however cheap the draft.
        """
        result, budget = Candidates(), self.max_parallel
        below = [_Below(trials, name, self.k2_max) for name in self.methods if method(name).level == "token"]
        for token in below:
            knobs = token.best(1, budget, whatever=True)  # be it slower than plain decoding
            if knobs is not None:
                result.known.append(Configuration(method=token.name, knobs=knobs))
            elif not token.is_known:
                result.unknown[token.name] = trials.missing(Configuration(method=token.name))
        for name in self.methods:
            for configuration in _above(method(name), self.rules_for(trials.profile), self.k1_max):
                lacking = trials.missing(configuration)
                if lacking:
                    result.unknown.setdefault(name, lacking)
                elif configuration.most_sequences <= budget:
                    result.known.append(configuration)
                    for token in below if configuration.spec.level == "step" else ():
                        knobs = token.best(configuration.most_sequences, budget)
                        if knobs is not None:  # it makes tokens cheaper
                            result.known.append(configuration.with_token(token.name, knobs))
        return result


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
