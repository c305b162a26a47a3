"""A worker's side of its channel: stands in for `Control`, the counters and the pages, which the hub has."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import count
from typing import Any

from starlette.applications import Starlette

from calibrate.running.session import WallSession
from sim.configuration import Configuration
from specplan.live.gateway.answering import Answering
from specplan.live.gateway.app import application
from specplan.live.gateway.control import Choice, Limits, too_many
from specplan.live.gateway.plans import PLAIN, ServingPlan
from specplan.live.gateway.ran import Summary
from specplan.live.gateway.servers import Servers
from specplan.live.gateway.workers.channel import Channel

__all__ = ["Remote"]


class Remote(Choice):
    """The choice of the configuration as the hub makes it; receives the events of answers and counts for it.

    Parameters
    ----------
    channel : to the hub, whose events go to `take`.
    plan : the hub's plan.
    limits : limits of requests; the most answers in flight are those of all workers.
    measures : whether the hub decides by what answers took.
    profiled : whether it has a profile.
    """

    def __init__(self, channel: Channel, plan: ServingPlan, limits: Limits, *, measures: bool, profiled: bool) -> None:
        super().__init__()
        self._send, self._limits, self._measures, self._profiled = channel.send, limits, measures, profiled
        self._running: Mapping[str, int] = Counter()
        """Requests in flight here, by role."""
        self._configurations = (PLAIN, *plan.configurations)
        self._summary = Summary(plan, profiled=profiled)
        self._over: list[Configuration] = []
        self._look_s = 1.0
        self._new = count()
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._compared: dict[Hashable, int] = {}
        """Answer -> its number, of those that the hub compares."""

    def application(self, servers: Servers) -> Starlette:
        """Return an application that answers on these servers."""
        answering = Answering(servers, self, self._limits, observer=self, counts_prompts=self._profiled)
        self._running = answering.running
        return application(answering)

    def take(self, events: Sequence[Sequence[Any]]) -> None:
        """Handle events of the hub."""
        for name, *arguments in events:
            (self.state if name == "state" else self.reply)(*arguments)

    def state(self, wanted: int, over: Sequence[int], look_s: float) -> None:
        """Handle what the hub says is wanted, by numbers of configurations; see `Hub`."""
        before, self._latest = self._latest, self._configurations[wanted]
        self._over, self._look_s = [self._configurations[k] for k in over], look_s
        for call in tuple(self.watching) if self._latest != before else ():
            call()

    def reply(self, number: int, value: Any) -> None:
        """Handle the hub's answer to a question."""
        future = self._replies.pop(number)
        if not future.cancelled():
            future.set_result(value)
        elif value is True:  # a place that nobody waits for any more
            self._send("left", number)

    async def place(self) -> Callable[[], None]:
        """See `Choice.place`; all workers' answers count."""
        number = next(self._new)
        if not await self._asked("place", number):
            raise too_many(self._limits.in_flight)
        return lambda: self._send("left", number)

    def wanted(self) -> Configuration:
        """Return what the hub wanted last, and have it decide again."""
        self._send("wanted", at_once=False)
        return self._latest

    def over(self, configuration: Configuration) -> bool:
        """See `Choice.over`."""
        return configuration in self._over

    @property
    def look_s(self) -> float:
        """Seconds after which to call `over` again."""
        return self._look_s

    def starts(self, answer: Hashable, configuration: Configuration) -> None:
        """See `Choice.starts`."""
        if self._measures:
            number = self._compared.setdefault(answer, next(self._new))
            self._tell("starts", number, self._configurations.index(configuration), time.monotonic())

    def wrote(self, answer: Hashable, n_tokens: int) -> None:
        """See `Choice.wrote`."""
        number = self._compared.get(answer)
        if number is not None:
            self._tell("wrote", number, n_tokens, time.monotonic())

    def stops(self, answer: Hashable) -> None:
        """See `Choice.stops`."""
        number = self._compared.get(answer)
        if number is not None:
            self._tell("stops", number, time.monotonic())

    def ends(self, answer: Hashable, *, by_itself: bool) -> None:
        """See `Choice.ends`."""
        number = self._compared.pop(answer, None)
        if number is not None:
            self._tell("ends", number, by_itself, time.monotonic())

    def failed(self, role: str) -> None:
        """See `Choice.failed`; until the hub says what is wanted, it is plain decoding."""
        self._latest = PLAIN
        self._send("failed", role)

    def ran(self, configuration: Configuration, session: WallSession) -> None:
        """Send what a generator did."""
        self._tell("ran", self._summary.of(configuration, session), self._running)

    def timed(self, role: str, in_flight: int, seconds: float | None) -> None:
        """Send the seconds per token of a step, where a profile predicts them."""
        if self._profiled and seconds is not None:
            self._tell("timed", role, in_flight, seconds, self._running)

    def ended(self, finish: str, seconds: float) -> None:
        """Count an answer."""
        self._tell("ended", finish, seconds)

    def count(self, name: str, *labels: str) -> None:
        """Count one more of a counter."""
        self._tell("count", name, *labels)

    async def page(self) -> bytes:
        """Return the metrics page of the gateway."""
        return str(await self._asked("page", next(self._new))).encode()

    async def health(self) -> dict[str, Any]:
        """Return the state of the gateway."""
        return dict(await self._asked("health", next(self._new)))

    def _asked(self, question: str, number: int) -> asyncio.Future[Any]:
        future = self._replies[number] = asyncio.get_running_loop().create_future()
        self._send(question, number)
        return future

    def _tell(self, *event: Any) -> None:
        """Send an event that may wait for others."""
        self._send(*event, at_once=False)
