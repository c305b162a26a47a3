"""Why two speedups do not multiply: what a step-level method and token-level speculation take from each other.

LR models the combined speedup as f x g (Theorem 3). The simulator's is smaller, and this module says by how much and
why. It simulates the combination on the real system, then takes away one cost after the other that token-level
speculation does not speed up, or that both pay for, until f x g is exact; each cost's part is what its removal does to
log(f g / h). The parts add up to the whole, and what is left unexplained is rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from calibrate.profile import Profile
from calibrate.system import System, system_of
from sim.engines import Cost
from sim.operations import DRAFT, TARGET
from sim.replicate import run_answer
from specplan.configuration import Configuration
from specplan.token_level import TokenModel, token_model, with_token_speculation
from theory.errors import ParameterError

__all__ = ["EFFECTS", "Overshoot", "overshoot"]

EFFECTS: Final[Mapping[str, str]] = {
    "batch": "sequences in flight share iterations, and each brings k2 rows",
    "context": "parallel sequences re-read their caches",
    "fixed": "requests, prefills and verdicts take as long as before",
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
        """By how much the product overshoots, f g / h - 1, [-]."""
        return self.f * self.g / self.h - 1.0


@dataclass(frozen=True, slots=True)
class _Idealised:
    """A cost with some of its effects taken away."""

    inner: Cost
    without: frozenset[str]
    speedup: float = 1.0

    @property
    def request_s(self) -> float:
        """Latency of a request outside the engine, s."""
        return 0.0 if "fixed" in self.without else self.inner.request_s / self.speedup

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of one decode iteration."""
        rows = 1 if "batch" in self.without else batch
        read = 0.0 if "context" in self.without else context / batch if "batch" in self.without else context
        return self.inner.iteration(rows, read) / self.speedup

    def prefill(self, n_tokens: int) -> float:
        """Seconds of a prefill."""
        return 0.0 if "fixed" in self.without else self.inner.prefill(n_tokens) / self.speedup


def overshoot(profile: Profile, configuration: Configuration, *, n_answers: int | None = None) -> Overshoot:
    """Simulate a step-level method with and without token-level speculation, and explain why f x g is too much.

    Parameters
    ----------
    profile : measured or published.
    configuration : a method of the step level with k2 > 1.
    n_answers : answers to simulate; default all recorded ones, or 20.

    Raises
    ------
    ParameterError : no step-level method, k2 = 1, or a profile that knows nothing of token-level speculation.
    """
    if not configuration.spec.drafts_steps or configuration.k2 == 1:
        raise ParameterError("configuration", configuration.name, "must be a step-level method with k2 > 1")
    model = token_model(profile, configuration.k2)
    if model is None:
        raise ParameterError("k2", configuration.k2, f"is unknown to profile {profile.name!r}")
    system = system_of(profile)
    n = n_answers or system.behaviour.n_answers or 20
    found = [_speedups(system, configuration, model, frozenset(), n)]
    parts: dict[str, float] = {}
    gone: set[str] = set()
    for effect in EFFECTS:
        gone.add(effect)
        found.append(_speedups(system, configuration, model, frozenset(gone), n))
        parts[effect] = _log_overshoot(found[-2]) - _log_overshoot(found[-1])
    parts["rest"] = _log_overshoot(found[-1])
    f, g, h = found[0]
    return Overshoot(f=f, g=g, h=h, parts=parts)


def _log_overshoot(speedups: tuple[float, float, float]) -> float:
    f, g, h = speedups
    return math.log(f * g / h)


def _speedups(
    system: System, configuration: Configuration, model: TokenModel, without: frozenset[str], n: int
) -> tuple[float, float, float]:
    plain, fast = (_without(system, one, without) for one in (None, model))
    step = configuration.algorithm()
    alone = Configuration(method="autoregressive").algorithm()
    base = _seconds(plain, alone, n, baseline=True)
    return (
        base / _seconds(plain, step, n, baseline=False),
        base / _seconds(fast, alone, n, baseline=True),
        base / _seconds(fast, step, n, baseline=False),
    )


def _without(system: System, model: TokenModel | None, without: frozenset[str]) -> System:
    """The system with or without token-level speculation, less the effects that are taken away."""
    target = system.placement[TARGET]
    fast = with_token_speculation(system, model)
    before, after = (_ideal(one.costs[target], without).iteration(1, 0.0) for one in (system, fast))
    also_draft = model is not None and not model.also_draft and "draft" in without
    sped_up = {system.placement[DRAFT]} - {target} if also_draft else set()
    gain = {name: before / after if name in sped_up else 1.0 for name in fast.costs}
    costs = {name: _ideal(cost, without, gain[name]) for name, cost in fast.costs.items()}
    devices = {name: name for name in fast.devices} if "device" in without else fast.devices
    seconds = dict.fromkeys(fast.seconds, 0.0) if "fixed" in without else fast.seconds
    return replace(fast, costs=costs, devices=devices, seconds=seconds)


def _ideal(cost: Cost, without: frozenset[str], speedup: float = 1.0) -> Cost:
    return _Idealised(cost, without, speedup)


def _seconds(system: System, make: Callable[..., object], n: int, *, baseline: bool) -> float:
    behaviour, engines = system.behaviour, system.engines()
    answer = behaviour.baseline_answer if baseline else behaviour.answer
    sessions = [run_answer(make, answer(i), engines) for i in range(n)]  # type: ignore[arg-type]  # a MakeAlgorithm
    return sum(float(session.finished or 0.0) - session.started for session in sessions)
