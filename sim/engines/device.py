"""A processor that engines share, and the neighbours that slow it: `sim.engines.batching` runs on it."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Device"]


class _Sharing(Protocol):
    """The part of an engine that a device uses; see `sim.engines.batching.BatchEngine`."""

    beside: float
    speed: float

    @property
    def busy(self) -> bool:
        """Whether it uses its processor now."""

    def settle(self) -> None:
        """Account for the progress made since the last change."""

    def plan(self) -> None:
        """Schedule what comes next."""


class Device:
    """A processor that one or more engines share equally while they are busy.

    Devices of one machine are neighbours: they have memory and caches in common, so an engine is slower while a
    neighbour works, by its own ``beside``.

    Attributes
    ----------
    n_busy : engines that use it now; counted only where ``concerned`` is not empty.
    concerned : devices whose speeds depend on ``n_busy``: this one if it is shared, and neighbours that it slows down.
    """

    def __init__(self) -> None:
        self.n_busy = 0
        self._engines: list[_Sharing] = []
        self._neighbours: list[Device] = []
        self.concerned: list[Device] = []

    def add(self, engine: _Sharing) -> None:
        """Add an engine that runs on this device."""
        self._engines.append(engine)
        self._find_concerned()

    def join(self, other: Device) -> None:
        """Make this device and another one neighbours."""
        self._neighbours.append(other)
        other._neighbours.append(self)
        self._find_concerned()

    def _find_concerned(self) -> None:
        for device in (self, *self._neighbours):
            own = [device] if len(device._engines) > 1 else []
            device.concerned = own + [
                other for other in device._neighbours if any(engine.beside != 1.0 for engine in other._engines)
            ]

    def rebalance(self, changed: _Sharing) -> None:
        """Update the speeds of all engines that depend on whether ``changed`` works; it has been settled before."""
        self.n_busy += 1 if changed.busy else -1
        for device in self.concerned:
            device._set_speeds(changed)

    def _set_speeds(self, changed: _Sharing) -> None:
        share = 1.0 / max(self.n_busy, 1)
        slowed = False
        for device in self._neighbours:
            slowed = slowed or device.n_busy > 0
        for engine in self._engines:
            speed = share / engine.beside if slowed else share
            if speed == engine.speed:
                continue
            if engine is changed:  # it schedules its next event after this call
                engine.speed = speed
            else:
                engine.settle()
                engine.speed = speed
                engine.plan()
