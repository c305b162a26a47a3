"""Chooses the configuration that runs now, from the plan, the answers in flight and the state of the helpers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from sim.configuration import Configuration
from specplan.live.gateway.plans import PLAIN, ServingPlan, helpers_of
from specplan.live.gateway.refusals import too_busy

__all__ = ["Control"]

_HOLD_S: Final = 2.0
"""Seconds that a smaller load must last before the configuration follows it; a larger load takes effect at once."""

_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 60.0
"""Seconds without speculation after a failure of a helper; doubled with each further failure, up to the second."""


class Control:
    """Counts answers in flight, and chooses the configuration.

    Parameters
    ----------
    plan : best configuration at each load.
    most : most answers in flight.
    clock : returns seconds on a monotonic clock.

    Attributes
    ----------
    in_flight : answers in flight.
    n_switches : number of times that the configuration changed with the load.
    """

    def __init__(self, plan: ServingPlan, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._most = most
        self._clock = clock
        self.in_flight = 0
        self.n_switches = 0
        self._by_load = plan.at(1)
        self._at = 1
        self._less_since: float | None = None
        self._off_until = -math.inf
        self._pause_s = _PAUSE_S

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count an answer while it is in flight.

        Raises
        ------
        Refusal : the most answers are already in flight.
        """
        if self.in_flight >= self._most:
            raise too_busy(self._most)
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    def wanted(self) -> Configuration:
        """Return the configuration that generates answers from now on."""
        planned = self._by_in_flight()
        if self._clock() < self._off_until and helpers_of(planned):
            return PLAIN
        return planned

    def failed(self, role: str) -> None:
        """Switch speculation off for a while: a helper failed."""
        now = self._clock()
        if now < self._off_until:
            return  # other answers in flight met the same failure
        recent = now < self._off_until + self._pause_s
        self._pause_s = min(2.0 * self._pause_s, _LONGEST_PAUSE_S) if recent else _PAUSE_S
        self._off_until = now + self._pause_s

    @property
    def paused(self) -> bool:
        """Whether speculation is off because a helper failed."""
        return self._clock() < self._off_until

    def _by_in_flight(self) -> Configuration:
        """The plan's configuration at the load; it follows a smaller load only after `_HOLD_S`."""
        load = max(self.in_flight, 1)
        if load >= self._at:
            self._less_since = None
            self._switch(load)
        elif self._plan.at(load) == self._by_load:
            self._less_since, self._at = None, load
        else:
            now = self._clock()
            self._less_since = now if self._less_since is None else self._less_since
            if now - self._less_since >= _HOLD_S:
                self._less_since = None
                self._switch(load)
        return self._by_load

    def _switch(self, load: int) -> None:
        self._at = load
        best = self._plan.at(load)
        if best != self._by_load:
            self._by_load = best
            self.n_switches += 1
