"""Hypothetical systems: without some of their costs, to attribute the speedup to them, or with engines moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from calibrate.replay.system import System
from calibrate.replay.token_level import TokenModel
from sim.engines.protocol import Cost
from sim.operations import DRAFT, STANDS_IN, TARGET
from theory.errors import ParameterError

__all__ = ["OWN", "Effect", "idealised", "placed"]

OWN: Final = "own"
"""Place that means a processor of the engine's own."""

Effect: TypeAlias = Literal["batch", "context", "cut", "verdict", "first", "draft", "device"]
"""Costs that keep the speedups of steps and tokens from multiplying (`specplan.planning.overshoot.EFFECTS`)."""


@dataclass(frozen=True, slots=True)
class _Idealised:
    """A cost model without some of its effects."""

    inner: Cost
    without: frozenset[Effect]
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


def idealised(fast: System, plain: System, model: TokenModel | None, without: frozenset[Effect]) -> System:
    """Return a system without some of its costs.

    Parameters
    ----------
    fast, plain : the system with token-level speculation and without.
    model : model of the token-level method; None if there is none, and the two systems are the same.
    without : effects to remove; ``cut`` is removed by `calibrate.replay.token_level.with_token_speculation`.
    """
    target = plain.placement[TARGET]
    before, after = (_Idealised(system.costs[target], without).iteration(1, 0.0) for system in (plain, fast))
    also_draft = model is not None and model.decoding is not None and "draft" in without
    sped_up = {plain.placement[DRAFT]} - {target} if also_draft else set()
    gain = {name: before / after if name in sped_up else 1.0 for name in fast.costs}
    costs = {name: _Idealised(cost, without, gain[name]) for name, cost in fast.costs.items()}
    devices = {name: name for name in fast.devices} if "device" in without else fast.devices
    return replace(_without_verdicts(fast) if "verdict" in without else fast, costs=costs, devices=devices)


def _without_verdicts(system: System) -> System:
    """The system with verifiers and scorers that take no time."""
    return replace(system, seconds=dict.fromkeys((*STANDS_IN, *system.seconds), 0.0), shared={})


def placed(system: System, places: Mapping[str, str]) -> System:
    """Return a system with engines moved to other processors.

    Engines of one processor share it equally while they work. The measured slowdown by another engine is dropped for
    engines that share their processor with others than in the measurement.

    Parameters
    ----------
    system : system of a profile with timings.
    places : role -> role to whose processor its engine is moved, or `OWN`.

    Raises
    ------
    ParameterError : an unknown role, or a role whose engine has other roles too.
    """
    if not places:
        return system
    devices = dict(system.devices)
    for role, place in places.items():
        for one in (role, *(() if place == OWN else (place,))):
            if one not in system.placement:
                raise ParameterError(
                    "place", one, f"must be one of {', '.join(system.placement)}; at the right also {OWN}"
                )
        engine = system.placement[role]
        others = [other for other, home in system.placement.items() if home == engine and other != role]
        if others:
            raise ParameterError("place", role, f"runs on the engine of the {others[0]}: it cannot be moved without it")
        devices[engine] = f"{engine}, own" if place == OWN else devices[system.placement[place]]
    moved = frozenset(name for name in devices if _mates(name, devices) != _mates(name, system.devices))
    return replace(system, devices=devices, moved=moved)


def _mates(name: str, devices: Mapping[str, str]) -> set[str]:
    """The engines on the processor of ``name``, including itself."""
    return {other for other, device in devices.items() if device == devices[name]}
