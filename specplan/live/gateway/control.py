"""Admits answers, and chooses the configuration that runs: by measurements, or by nothing but the plan."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from sim.configuration import Configuration
from specplan.live.comparing.measured import Measured, load_class
from specplan.live.gateway.plans import PLAIN, SPECULATIVE, ServingPlan, helpers_of
from specplan.live.gateway.requests import Refusal

__all__ = ["Choice", "Control", "Limits", "too_many"]

_HOLD_S: Final = 2.0
"""Seconds that a smaller load must last before the configuration follows it; a larger load takes effect at once."""

_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 60.0
"""Seconds without speculation after a failure of a helper; doubled with each further failure, up to the second."""

_LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the gateway."""

    in_flight: int = 64
    """Most answers in flight."""
    answer_tokens: int = 16_384
    answer_seconds: float = 600.0
    """Longest time of an answer, s; it ends there as if it had reached its token limit."""
    body_bytes: int = 4 * 2**20
    client_seconds: float = 60.0
    """Longest time in which a client sends a head, sends a body, or reads more of its answer, s."""
    patience_s: float = 10.0
    """Longest time of one operation of a draft, judge or scorer, s."""
    timeout_s: float = 120.0
    """Longest silence of the target's server, s."""
    grace_s: float = 600.0
    """Longest time that answers may take to end after a signal to stop, s."""


class Choice(ABC):
    """The choice of the configuration that runs, as answers and the application see it.

    Attributes
    ----------
    watching : called when the wanted configuration changes.
    """

    def __init__(self) -> None:
        self.watching: set[Callable[[], object]] = set()
        self._latest = PLAIN

    @abstractmethod
    async def place(self) -> Callable[[], None]:
        """Count an answer as in flight; return what ends that.

        Raises
        ------
        Refusal : the most answers are already in flight.
        """

    @abstractmethod
    def wanted(self) -> Configuration:
        """Return the configuration that generates answers from now on."""

    def leaves(self, configuration: Configuration, *, step_ends: bool) -> bool:
        """Return whether a text that the target writes in one request goes on by another configuration.

        One that works on steps begins where a step ends, others anywhere.
        """
        wanted = self.wanted() if step_ends else self._latest
        return wanted != configuration and (step_ends or not wanted.spec.drafts_steps)

    @abstractmethod
    def over(self, configuration: Configuration) -> bool:
        """Return whether an answer must leave a configuration at once, within a step: it has lost too much."""

    @property
    @abstractmethod
    def look_s(self) -> float:
        """Seconds after which to call `over` again."""

    @abstractmethod
    def starts(self, answer: Hashable, configuration: Configuration) -> None:
        """Handle an answer that runs a configuration from now on."""

    @abstractmethod
    def wrote(self, answer: Hashable, n_tokens: int) -> None:
        """Handle tokens of an answer."""

    @abstractmethod
    def stops(self, answer: Hashable) -> None:
        """Handle an answer that leaves its configuration."""

    @abstractmethod
    def ends(self, answer: Hashable, *, by_itself: bool) -> None:
        """Handle an answer that has left; ``by_itself``: its text is complete."""

    @abstractmethod
    def failed(self, role: str) -> None:
        """Switch speculation off for a while: a helper failed."""


class Control(Choice):
    """Counts answers in flight, and chooses the configuration.

    Parameters
    ----------
    plan : configuration at each load.
    most : most answers in flight.
    clock : returns seconds on a monotonic clock.
    measured : decides from what answers took; None: the plan's best configuration runs at each load, whatever it takes.

    Attributes
    ----------
    in_flight : answers in flight.
    n_switches : number of times that the wanted configuration changed, but for failures.
    """

    def __init__(
        self,
        plan: ServingPlan,
        most: int,
        clock: Callable[[], float] = time.monotonic,
        measured: Measured | None = None,
    ) -> None:
        super().__init__()
        self.measured = measured
        self._plan = plan
        self._most = most
        self._clock = clock
        self.in_flight = 0
        self.n_switches = 0
        self._wanted: Configuration | None = None
        self._at = 1
        self._less_since: float | None = None
        self._off_until = -math.inf
        self._failed: set[str] = set()
        """Roles that failed at the latest pause."""
        self._pause_s = _PAUSE_S

    def admits(self) -> bool:
        """Count one more answer as in flight; return False if the most already are."""
        if self.in_flight >= self._most:
            return False
        self.in_flight += 1
        return True

    def left(self) -> None:
        """Count one answer less as in flight."""
        self.in_flight -= 1

    async def place(self) -> Callable[[], None]:
        """See `Choice.place`."""
        if not self.admits():
            raise too_many(self._most)
        return self.left

    def wanted(self) -> Configuration:
        """Return the configuration that generates answers from now on."""
        now = self._clock()
        load = self._held(now)
        if self.measured is not None:
            wanted = self.measured.wanted(load, now, without=self._lacks(self._plan.candidate(load_class(load))))
        else:
            wanted = self._plan.at(load)
        changed, self._wanted = self._wanted not in (None, wanted), wanted
        self._latest = PLAIN if self.measured is None and self._lacks(wanted) else wanted
        self.n_switches += changed
        for call in tuple(self.watching) if changed else ():
            call()
        return self._latest

    def over(self, configuration: Configuration) -> bool:
        """Return whether an answer must leave a configuration at once, within a step: it has lost too much."""
        now = self._clock()
        return self.measured is not None and self.measured.over(configuration, self._held(now), now)

    @property
    def look_s(self) -> float:
        """Seconds after which to call `over` again."""
        return _LOOK_S if self.measured is None else self.measured.look_s

    def starts(self, answer: Hashable, configuration: Configuration) -> None:
        """Handle an answer that runs a configuration from now on."""
        if self.measured is not None:
            self.measured.starts(answer, configuration, self._clock())

    def wrote(self, answer: Hashable, n_tokens: int) -> None:
        """Handle tokens of an answer."""
        if self.measured is not None:
            self.measured.wrote(answer, n_tokens, self._clock())

    def stops(self, answer: Hashable) -> None:
        """Handle an answer that leaves its configuration."""
        if self.measured is not None:
            self.measured.stops(answer, self._clock())

    def ends(self, answer: Hashable, *, by_itself: bool) -> None:
        """Handle an answer that has left; ``by_itself``: its text is complete."""
        if self.measured is not None:
            self.measured.ends(answer, self._clock(), by_itself=by_itself)

    def failed(self, role: str) -> None:
        """Switch speculation off for a while: a helper failed."""
        now = self._clock()
        if now < self._off_until:
            self._failed.add(role)
            return  # other answers in flight met the same failure
        self._failed = {role}
        recent = now < self._off_until + self._pause_s
        self._pause_s = min(2.0 * self._pause_s, _LONGEST_PAUSE_S) if recent else _PAUSE_S
        self._off_until = now + self._pause_s

    @property
    def paused(self) -> bool:
        """Whether speculation is off because a helper failed."""
        return self._clock() < self._off_until

    def _lacks(self, configuration: Configuration) -> bool:
        """Whether a helper of a configuration gets no requests now."""
        if not self.paused:
            return False
        without_token_level = SPECULATIVE in self._failed and configuration.token is not None
        return without_token_level or bool(self._failed - {SPECULATIVE} and helpers_of(configuration))

    def _held(self, now: float) -> int:
        """The load that counts: a smaller one of another kind only after `_HOLD_S`."""
        load = max(self.in_flight, 1)
        if load >= self._at or self._kind(load) == self._kind(self._at):
            self._less_since, self._at = None, load
            return load
        self._less_since = now if self._less_since is None else self._less_since
        if now - self._less_since >= _HOLD_S:
            self._less_since, self._at = None, load
        return self._at

    def _kind(self, load: int) -> Hashable:
        """What is decided for loads of the same kind alike."""
        return self._plan.at(load) if self.measured is None else load_class(load)


def too_many(most: int) -> Refusal:
    """Return the refusal of an answer beyond the most in flight."""
    rule = f"{most} answers are in flight, the most that are accepted (--max-in-flight): try again"
    return Refusal(rule, status=429, kind="rate_limit_error", code="too_many_requests", wait_s=1)
