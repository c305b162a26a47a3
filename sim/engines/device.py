"""A processor that engines share, and the neighbours that slow it: `sim.engines.batching` runs on it."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Device"]


class _Sharing(Protocol):
    """What a device needs to know of an engine, and to do with it; see `sim.engines.batching.BatchEngine`."""

    beside: float
    speed: float

    @property
    def busy(self) -> bool:
        """Whether it uses its processor now."""
        ...

    def settle(self) -> None:
        """Account for the progress made since the last change."""
        ...

    def plan(self) -> None:
        """Schedule what comes next."""
        ...


class Device:
    """A processor that one or more engines share equally while they are busy.

    Devices of one machine are neighbours: they have memory and caches in common, so an engine is slower while a
    neighbour works, by its own ``beside``.

    Attributes
    ----------
    n_busy : engines that use it now; told only where it matters to somebody.
    concerned : devices whose speeds differ with that: this one if it is shared, and neighbours that it slows down.
    """

    def __init__(self) -> None:
        self.n_busy = 0
        self._engines: list[_Sharing] = []
        self._neighbours: list[Device] = []
        self.concerned: list[Device] = []

    def add(self, engine: _Sharing) -> None:
        """Let ``engine`` run here."""
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
        """Set the speeds of all whom it concerns that ``changed``, settled, has started or stopped working."""
        self.n_busy += 1 if changed.busy else -1
        for device in self.concerned:
            device._set_speeds(changed)

    def _set_speeds(self, changed: _Sharing) -> None:
        share = 1.0 / max(self.n_busy, 1)
        beside = False
        for device in self._neighbours:
            beside = beside or device.n_busy > 0
        for engine in self._engines:
            speed = share / engine.beside if beside else share
            if speed == engine.speed:
                continue
            if engine is changed:  # it plans after this
                engine.speed = speed
            else:
                engine.settle()
                engine.speed = speed
                engine.plan()
