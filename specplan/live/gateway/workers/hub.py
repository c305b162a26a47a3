"""Decides for several workers: `Control` and the counters of one gateway, fed by what all of them see.

A method is decided by the load and by blocks of work of all answers in flight, which no worker sees all of. So a worker
sends what happens to its answers, with moments on the machine's monotonic clock, and gets the configuration that is
wanted. It takes effect where it does in one process, for the answer whose step ended a block one step later.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from calibrate.record.answer_records import RecordedAnswer
from specplan.live.gateway.plans import PLAIN, ServingPlan
from specplan.live.gateway.ran import Ran
from specplan.live.gateway.serving import Shared
from specplan.live.gateway.workers.channel import Channel

__all__ = ["LOOKS", "Hub", "Link"]

LOOKS: Final = 2.0
"""Looks for what is lost, here and again in the worker, in the time between two looks of one process."""


class Link:
    """A worker as the hub sees it.

    Parameters
    ----------
    hub : the hub.
    sock : this end of its channel.
    others : called with further events, by their names.

    Attributes
    ----------
    places : numbers of its answers in flight.
    running : its requests in flight by role.
    n_lost : answers that were in flight when its channel was closed.
    closed : whether it was.
    """

    def __init__(self, hub: Hub, sock: socket.socket, others: Mapping[str, Callable[..., None]] | None = None) -> None:
        self.places: set[int] = set()
        self.answers: dict[int, int | None] = {}
        """Number of an answer that is compared -> what it runs, by its number; None: nothing at the moment."""
        self.running: Mapping[str, int] = {}
        self.others = dict(others or {})
        self.n_lost = 0
        self.closed = asyncio.Event()
        self.channel = Channel(sock, partial(hub.take, self), partial(hub.leave, self))


class Hub:
    """The one place in which is decided.

    Parameters
    ----------
    shared : the choice of the configuration, the counters, and the watch for drift.
    plan : its configurations.
    """

    def __init__(self, shared: Shared, plan: ServingPlan) -> None:
        self.shared = shared
        self.links: list[Link] = []
        self._control = shared.control
        self._measured: Any = shared.control.measured
        self._configurations = (PLAIN, *plan.configurations)
        self._runs = Counter[int]()
        """Answers that run each configuration, by its number."""
        self._state: tuple[int, list[int], float] | None = None
        """What the workers know: the wanted configuration, those that lost too much, and seconds between two looks."""
        self._looking: asyncio.TimerHandle | None = None
        self._asked = False

    def connect(self, sock: socket.socket, others: Mapping[str, Callable[..., None]] | None = None) -> Link:
        """Return a worker at the other end of a channel, which knows from now on what is wanted."""
        link = Link(self, sock, others)
        self.links.append(link)
        self._decide()
        link.channel.send("state", *(self._state or ()))
        return link

    def take(self, link: Link, events: list[Sequence[Any]]) -> None:
        """Handle events of a worker."""
        for name, *arguments in events:
            if name in link.others:
                link.others[name](*arguments)
            else:
                getattr(self, f"_on_{name}")(link, *arguments)
        if self._asked:
            self._decide()

    def leave(self, link: Link) -> None:
        """Handle the end of a worker, and of all its answers."""
        self.links.remove(link)
        link.n_lost = len(link.places)
        for number in tuple(link.answers):
            self._on_ends(link, number, False, time.monotonic())
        while link.places:
            self._on_left(link, link.places.pop())
        link.closed.set()
        self._decide()

    def _decide(self) -> None:
        """Have `Control` say what is wanted now, and the workers know it."""
        self._asked, control = False, self._control
        wanted = control.wanted()
        others = [k for k, n in self._runs.items() if n and self._configurations[k] != wanted]
        over = [k for k in others if control.over(self._configurations[k])]
        state = self._configurations.index(wanted), over, float(f"{control.look_s:.1g}") / LOOKS
        if state != self._state:
            self._state = state
            for link in self.links:
                link.channel.send("state", *state)

    def _look(self) -> None:
        """Decide anew if too much is lost, as long as anything is speculated."""
        self._looking = None
        running = [self._configurations[k] for k, n in self._runs.items() if n and k]
        if any(map(self._control.over, running)):
            self._decide()
        if running:
            self._looking = asyncio.get_running_loop().call_later(self._control.look_s / LOOKS, self._look)

    def _runs_now(self, link: Link, number: int, k: int | None) -> None:
        before, link.answers[number] = link.answers.get(number), k
        if before is not None:
            self._runs[before] -= 1
        if k is not None:
            self._runs[k] += 1

    # Events of workers; those with a moment are for `Measured`, and come only where it decides.

    def _on_place(self, link: Link, number: int, again: bool = False) -> None:
        """Give an answer a place, if there is one.

        One that another worker has left before is free, though this one may be heard first: it is looked again when
        all have been heard.
        """
        granted = not link.closed.is_set() and self._control.admits()
        if not granted and not again:
            asyncio.get_running_loop().call_soon(self._on_place, link, number, True)
            return
        if granted:
            link.places.add(number)
            self._decide()
        link.channel.send("reply", number, granted)

    def _on_left(self, link: Link, number: int) -> None:
        link.places.discard(number)
        self._control.left()

    def _on_wanted(self, link: Link) -> None:
        self._asked = True

    def _on_starts(self, link: Link, number: int, k: int, moment: float) -> None:
        self._runs_now(link, number, k)
        self._measured.starts((link, number), self._configurations[k], moment)
        if k and self._looking is None:
            self._look()

    def _on_wrote(self, link: Link, number: int, n_tokens: int, moment: float) -> None:
        self._measured.wrote((link, number), n_tokens, moment)

    def _on_stops(self, link: Link, number: int, moment: float) -> None:
        self._runs_now(link, number, None)
        self._measured.stops((link, number), moment)

    def _on_ends(self, link: Link, number: int, by_itself: bool, moment: float) -> None:
        self._runs_now(link, number, None)
        del link.answers[number]
        self._measured.ends((link, number), moment, by_itself=by_itself)

    def _on_failed(self, link: Link, role: str) -> None:
        self._control.failed(role)
        self._state, self._asked = None, True  # the worker decodes plainly until it is sent what is wanted

    def _on_ran(self, link: Link, ran: Sequence[Any], running: Mapping[str, int]) -> None:
        counts, verdicts, seen, answer, n_left_out = ran
        link.running = running
        known = None if answer is None else RecordedAnswer.model_validate(answer)
        self.shared.take(Ran(counts, verdicts, seen, known, n_left_out))

    def _on_timed(self, link: Link, role: str, in_flight: int, seconds: float, running: Mapping[str, int]) -> None:
        link.running = running
        elsewhere = sum(other.running.get(role, 0) for other in self.links if other is not link)
        self.shared.timed(role, in_flight + elsewhere, seconds)

    def _on_ended(self, link: Link, finish: str, seconds: float) -> None:
        self.shared.ended(finish, seconds)

    def _on_count(self, link: Link, name: str, *labels: str) -> None:
        self.shared.count(name, *labels)

    def _on_page(self, link: Link, number: int) -> None:
        link.channel.send("reply", number, self.shared.metrics.page().decode())
        self._asked = True  # after it another configuration may be wanted

    def _on_health(self, link: Link, number: int) -> None:
        link.channel.send("reply", number, self.shared.state() | {"workers": len(self.links)})
        self._asked = True
