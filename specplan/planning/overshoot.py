"""Why two speedups do not multiply: what a step-level method and token-level speculation take from each other.

LR models the combined speedup as f x g (Theorem 3). The simulator's is smaller, and this module says by how much and
why. It simulates the combination on the real system, then takes away one cost after the other that token-level
speculation does not speed up, or that both pay for, until f x g is exact; each cost's part is what its removal does to
log(f g / h). The parts add up to the whole, and what is left unexplained is rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from calibrate.replay.idealised import Effect
from calibrate.replay.trials import Trials
from sim.configuration import Configuration
from sim.trial import trial_seconds
from theory.errors import ParameterError

__all__ = ["EFFECTS", "Overshoot", "overshoot"]

EFFECTS: Final[Mapping[Effect, str]] = {
    "batch": "sequences in flight share passes, and each brings rows of its own",
    "context": "parallel sequences re-read their caches",
    "cut": "short steps: the last pass of every step is cut at its end",
    "verdict": "verdicts take as long as before",
    "first": "first tokens of steps take as long as before: requests and prefills",
    "draft": "the draft is not sped up with the target, so that c1 rises and drafts come late",
    "device": "engines that share a processor slow each other down",
}
"""What keeps f and g from multiplying, in the order in which it is taken away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overshoot:
    """How far f x g is above the combined speedup, and where it goes."""

    f: float
    """Speedup of the step-level method alone."""

    g: float
    """Speedup of token-level speculation alone."""

    h: float
    """Speedup of both together."""

    parts: dict[str, float]
    """Effect to its part of log(f g / h), [-]; they sum to it, ``rest`` being what the other effects leave."""

    @property
    def total(self) -> float:
        """By how much the product overshoots, f g / h - 1, [-]; negative where both together do better."""
        return self.f * self.g / self.h - 1.0

    @property
    def text(self) -> str:
        """One line: by how much, and the effects that make most of it."""
        word = "overshoots" if self.total >= 0.0 else "falls short of"
        said = f"f x g = {self.f:.2f} x {self.g:.2f} {word} the simulated {self.h:.2f} by {100 * abs(self.total):.1f} %"
        large = [name for name in EFFECTS if abs(self.parts[name]) >= 0.005]
        large.sort(key=lambda name: -abs(self.parts[name]))
        if not large:
            return said
        return said + ": " + "; ".join(f"{100 * self.parts[name]:+.1f} % {EFFECTS[name]}" for name in large)


def overshoot(trials: Trials, configuration: Configuration, *, n_answers: int, n_explained: int) -> Overshoot:
    """Simulate a step-level method with and without token-level speculation, and explain why f x g is too much.

    Parameters
    ----------
    trials : of the profile.
    configuration : a method of the step level with a token-level method below it.
    n_answers : answers to simulate for the three speedups.
    n_explained : answers to simulate for the parts, each of which needs the three speedups again; what they miss of the
        overshoot over all answers is left to the rest.

    Raises
    ------
    ParameterError : no step-level method, k2 = 1, or a profile that knows nothing of that token-level method.
    """
    if not configuration.is_hybrid:
        raise ParameterError("configuration", configuration.name, "must be a step-level method with k2 > 1")
    f, g, h = speedups = _speedups(trials, configuration, frozenset(), n_answers)
    left = [_log_overshoot(_speedups(trials, configuration, frozenset(), n_explained))]
    gone: set[Effect] = set()
    for effect in EFFECTS:
        gone.add(effect)
        left.append(_log_overshoot(_speedups(trials, configuration, frozenset(gone), n_explained)))
    parts: dict[str, float] = {
        effect: before - after for effect, (before, after) in zip(EFFECTS, pairwise(left), strict=True)
    }
    parts["rest"] = _log_overshoot(speedups) - sum(parts.values())
    return Overshoot(f=f, g=g, h=h, parts=parts)


def _log_overshoot(speedups: tuple[float, float, float]) -> float:
    f, g, h = speedups
    return math.log(f * g / h)


def _speedups(
    trials: Trials, configuration: Configuration, without: frozenset[Effect], n: int
) -> tuple[float, float, float]:
    """f, g and h, less some costs."""
    step, token = configuration.levels
    plain, *others = (
        trial_seconds(trial, range(n)).sum()
        for trial in (
            trials.plain(without=without),
            *(trials.trial(one, without=without) for one in (step, token, configuration)),
        )
    )
    f, g, h = (float(plain / seconds) for seconds in others)
    return f, g, h
