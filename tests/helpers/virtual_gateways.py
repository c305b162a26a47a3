"""The gateway's control in virtual time: closed loops of clients on a planted engine that decodes and speculates.

All answers share the engine's passes, speculating ones make them longer for all, and so their company matters as it
does on a real server. Nothing waits and no request is sent: a thousand answers take a second or two.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.configuration import Configuration
from specplan.live.comparing.measured import Measured
from specplan.live.gateway.control import Control
from specplan.live.gateway.plans import PLAIN, ServingPlan

SPECULATING = Configuration.parse("lr-sync k1=2")
"""Commits whole steps."""
STREAMED = Configuration.parse("eagle k2=4")
"""Writes the tokens of each pass."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What a pass of the engine takes and gives."""

    pass_s: float = 0.02
    sequence_s: float = 0.001
    """A pass of b answers takes ``pass_s + b * sequence_s``."""
    drafts_s: float = 0.0
    """More, for each answer that speculates."""
    tokens: float = 1.5
    """Mean tokens that a pass gives an answer that speculates; half of the passes give one."""
    switch_s: float = 0.03
    """Time that an answer writes nothing after a change of its configuration."""
    cold_s: float = 0.0
    """More, until an answer has written by the changed one for the first time."""
    first_s: float = 0.05
    """The same at its start."""

    def seconds(self, plain: int, speculating: int) -> float:
        """Seconds of a pass."""
        return self.pass_s + self.sequence_s * (plain + speculating) + self.drafts_s * speculating

    def gain(self, n: int) -> float:
        """Tokens per second if all of ``n`` answers speculate, over none, between switches and starts."""
        return self.tokens * self.seconds(n, 0) / self.seconds(0, n)


@dataclass(eq=False)
class _Client:
    left: int = 0
    step: int = 0
    """Tokens until the step ends."""
    held: int = 0
    """Tokens of the step that are not committed."""
    idle_until: float = 0.0
    configuration: Configuration = PLAIN
    answer: object = field(default_factory=object)


class LateControl(Control):
    """Says what it decided before the present pass."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._known = PLAIN

    def next_pass(self, running: Sequence[Configuration]) -> None:
        """Decide anew if what runs lost too much, and say from now on what is decided by now."""
        if any(super(LateControl, self).over(one) for one in running):
            super().wanted()
        self._known = self._latest

    def wanted(self) -> Configuration:
        super().wanted()
        return self._known

    def leaves(self, configuration: Configuration, *, step_ends: bool) -> bool:
        wanted = self.wanted() if step_ends else self._known
        return wanted != configuration and (step_ends or not wanted.spec.drafts_steps)

    def over(self, configuration: Configuration) -> bool:
        return configuration != self._known and super().over(configuration)


class ClosedLoop:
    """So many clients, each of which asks again at once.

    Parameters
    ----------
    n : clients.
    engine : the engine at a moment, s.
    seed : of lengths and accepted tokens.
    policy : None: decided by measurements; else the configuration that always runs.
    tokens, step : mean tokens of an answer and of a step.
    candidate : what speculates.
    late : whether what is decided in a pass is known after it, as workers know it.

    Attributes
    ----------
    said, said_at : what the gateway logged, and how many answers had ended by then.
    wrote : moments and tokens written by then.
    n_ended : answers that ended.
    """

    def __init__(
        self,
        n: int,
        engine: Callable[[float], Engine],
        *,
        seed: int = 0,
        policy: Configuration | None = None,
        tokens: int = 240,
        step: int = 24,
        candidate: Configuration = SPECULATING,
        late: bool = False,
    ) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self.said_at: list[int] = []
        self.moments, self.wrote = [0.0], [0]
        self.n_ended = 0
        self._engine, self._rng, self._accepts = engine, random.Random(seed), random.Random(-1 - seed)
        self._tokens, self._step = tokens, step
        self._warm = {PLAIN}
        plan = ServingPlan(by_load=((1, policy or candidate),))
        measured = Measured(plan.candidate, PLAIN, tell=self._says)
        self.control = (LateControl if late else Control)(plan, n, lambda: self.now, None if policy else measured)
        self._clients = [_Client() for _ in range(n)]
        self.control.in_flight = n
        for client in self._clients:
            self._begin(client)

    def run(self, n_answers: int) -> ClosedLoop:
        """Go on until so many answers have ended."""
        while self.n_ended < n_answers:
            self._pass()
        return self

    def shrink(self, n: int) -> None:
        """Have all clients but the first ``n`` leave."""
        for client in self._clients[n:]:
            self.control.stops(client.answer)
            self.control.ends(client.answer, by_itself=False)
        del self._clients[n:]
        self.control.in_flight = n

    def speed(self, begin: float = 0.0, end: float | None = None) -> float:
        """Tokens per second between two moments."""
        end = self.now if end is None else end
        first, last = (self.wrote[bisect_right(self.moments, moment) - 1] for moment in (begin, end))
        return (last - first) / (end - begin)

    def worst(self, plain: Callable[[float], float], n_answers: int = 200) -> float:
        """The least speed over any ``n_answers`` mean answers in a row, over that of plain decoding at their begin."""
        window, found = n_answers * self._tokens, float("inf")
        for i in range(0, len(self.wrote), 5):
            j = bisect_right(self.wrote, self.wrote[i] + window)
            if j < len(self.wrote):
                seconds = self.moments[j] - self.moments[i]
                found = min(found, (self.wrote[j] - self.wrote[i]) / seconds / plain(self.moments[i]))
        return found

    def _says(self, line: str) -> None:
        self.said.append(line)
        self.said_at.append(self.n_ended)

    def _begin(self, client: _Client) -> None:
        client.left = max(round(self._tokens * self._rng.choice((0.4, 0.8, 1.2, 1.6))), 1)
        client.answer = object()
        client.step, client.held = self._length(client), 0
        client.idle_until = self.now + self._engine(self.now).first_s
        client.configuration = self.control.wanted()
        self.control.starts(client.answer, client.configuration)

    def _length(self, client: _Client) -> int:
        return min(max(round(self._step * self._rng.choice((0.25, 0.5, 1.0, 2.25))), 1), client.left)

    def _pass(self) -> None:
        if isinstance(self.control, LateControl):
            self.control.next_pass([client.configuration for client in self._clients])
        engine = self._engine(self.now)
        busy = [client for client in self._clients if client.idle_until <= self.now]
        if not busy:
            self.now = min(client.idle_until for client in self._clients)
            return
        n = sum(client.configuration != PLAIN for client in busy)
        self.now += engine.seconds(len(busy) - n, n)
        total = self.wrote[-1]
        for client in busy:
            total += self._advance(client, engine)
        self.moments.append(self.now)
        self.wrote.append(total)

    def _advance(self, client: _Client, engine: Engine) -> int:
        """Give a client the tokens of a pass; return those that it commits."""
        plainly, by_steps = client.configuration == PLAIN, client.configuration.spec.drafts_steps
        client.held = min(client.held + (1 if plainly else self._accepted(engine)), client.step)
        over = not plainly and self.control.over(client.configuration)
        if by_steps and client.held < client.step:
            if over:
                client.held = 0
                self._change(client)
            return 0
        n, client.held = client.held, 0
        self._warm.add(client.configuration)
        client.step -= n
        client.left -= n
        self.control.wrote(client.answer, n)
        if not client.step:
            self._next_step(client)
        elif over or self.control.leaves(client.configuration, step_ends=False):
            self._change(client)
        return n

    def _accepted(self, engine: Engine) -> int:
        """Tokens of a pass: one, or as many more as have the planted mean."""
        return 1 if self._accepts.random() < 0.5 else int(2.0 * engine.tokens - 1.0 + self._accepts.random())

    def _next_step(self, client: _Client) -> None:
        if not client.left:
            self.control.stops(client.answer)
            self.control.ends(client.answer, by_itself=True)
            self.n_ended += 1
            self._begin(client)
            return
        client.step = self._length(client)
        if self.control.wanted() != client.configuration:
            self._change(client)

    def _change(self, client: _Client) -> None:
        self.control.stops(client.answer)
        client.configuration = self.control.wanted()
        engine = self._engine(self.now)
        cold_s = 0.0 if client.configuration in self._warm else engine.cold_s
        client.idle_until = self.now + engine.switch_s + cold_s
        self.control.starts(client.answer, client.configuration)
