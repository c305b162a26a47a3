"""Hypothetical systems: with engines moved to other processors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from calibrate.replay.system import System
from theory.errors import ParameterError

__all__ = ["OWN", "placed"]

OWN: Final = "own"
"""Place that means a processor of the engine's own."""


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
