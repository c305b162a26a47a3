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

from calibrate.record.profile import Profile
from calibrate.replay.system import System, system_of
from sim.engines.batching import Cost
from sim.operations import DRAFT, STANDS_IN, TARGET
from sim.replicate import run_answer
from specplan.configuration import Configuration
from specplan.planning.token_level import TokenLevel, TokenModel, with_token_speculation
from theory.errors import ParameterError

__all__ = ["EFFECTS", "Overshoot", "overshoot"]

EFFECTS: Final[Mapping[str, str]] = {
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


@dataclass(frozen=True, slots=True)
class _Idealised:
    """A cost with some of its effects taken away."""

    inner: Cost
    without: frozenset[str]
    speedup: float = 1.0

    @property
    def request_s(self) -> float:
        """Latency of a request outside the engine, s."""
        return 0.0 if "first" in self.without else self.inner.request_s / self.speedup

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of one decode iteration."""
        rows = 1 if "batch" in self.without else batch
        read = 0.0 if "context" in self.without else context / batch if "batch" in self.without else context
        return self.inner.iteration(rows, read) / self.speedup

    def prefill(self, n_tokens: int) -> float:
        """Seconds of a prefill."""
        return 0.0 if "first" in self.without else self.inner.prefill(n_tokens) / self.speedup


def overshoot(profile: Profile, configuration: Configuration, *, n_answers: int | None = None) -> Overshoot:
    """Simulate a step-level method with and without token-level speculation, and explain why f x g is too much.

    Parameters
    ----------
    profile : measured or published.
    configuration : a method of the step level with a token-level method below it.
    n_answers : answers to simulate; default all recorded ones, or 20.

    Raises
    ------
    ParameterError : no step-level method, k2 = 1, or a profile that knows nothing of that token-level method.
    """
    if not configuration.is_hybrid:
        raise ParameterError("configuration", configuration.name, "must be a step-level method with k2 > 1")
    system = system_of(profile)
    model = TokenLevel(profile).model(configuration, system)
    assert model is not None
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
    fast = with_token_speculation(system, model, played="cut" not in without)
    before, after = (_Idealised(one.costs[target], without).iteration(1, 0.0) for one in (system, fast))
    also_draft = model is not None and model.decoding is not None and "draft" in without
    sped_up = {system.placement[DRAFT]} - {target} if also_draft else set()
    gain = {name: before / after if name in sped_up else 1.0 for name in fast.costs}
    costs = {name: _Idealised(cost, without, gain[name]) for name, cost in fast.costs.items()}
    devices = {name: name for name in fast.devices} if "device" in without else fast.devices
    return replace(_without_verdicts(fast) if "verdict" in without else fast, costs=costs, devices=devices)


def _without_verdicts(system: System) -> System:
    """The system with verifiers and scorers that take no time."""
    return replace(system, seconds=dict.fromkeys((*STANDS_IN, *system.seconds), 0.0), shared={})


def _seconds(system: System, make: Callable[..., object], n: int, *, baseline: bool) -> float:
    engines = system.engines()
    answer = system.baseline_answer if baseline else system.answer
    sessions = [run_answer(make, answer(i), engines) for i in range(n)]  # type: ignore[arg-type]  # a MakeAlgorithm
    return sum(float(session.finished or 0.0) - session.started for session in sessions)
