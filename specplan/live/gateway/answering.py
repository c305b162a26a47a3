"""One answer: the plan's generator on the servers, step by step, and plain decoding where a helper fails.

The generators are those that are simulated and validated, and `calibrate.running.session.Drive` drives them, as it does
in a validation. What is committed is final, so that whatever goes wrong, the answer goes on from its last step.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from calibrate.engines.http.wire import BrokenOffError, RefusedError
from calibrate.engines.protocol import Generation, Progress
from calibrate.engines.speculation import Speculation
from calibrate.running.session import Drive, Reply, WallSession
from calibrate.running.wall_clock import WallClock
from sim.configuration import Configuration
from sim.operations import TARGET, Algorithm, Commit, Generate, Operation, Step, singly
from specplan.live.gateway.asked import Asked
from specplan.live.gateway.control import Control
from specplan.live.gateway.plans import PLAIN
from specplan.live.gateway.servers import Servers
from theory.errors import CalibrationError

__all__ = ["Answer", "Answering", "HelperError", "Observer"]

_ATTEMPTS: Final = 3
"""Times that a step of the target is asked for, where its server breaks off."""

Finish = Literal["stop", "length"]


class HelperError(CalibrationError):
    """A draft, judge or scorer failed or took too long.

    Parameters
    ----------
    role : whose work it was.
    reason : ``failed``, ``late``, or ``refused``: this answer's requests only, such as for its key or its length.
    """

    def __init__(self, message: str, *, role: str, reason: Literal["failed", "late", "refused"]) -> None:
        super().__init__(message)
        self.role = role
        self.reason = reason


class Observer(Protocol):
    """Is told what happens."""

    def ran(self, configuration: Configuration, session: WallSession, in_flight: int) -> None:
        """A generator ended, or was left: what it did, and how many answers were in flight when it began."""

    def timed(self, role: str, in_flight: int, generation: Generation) -> None:
        """A step was written, with so many of its role's requests in flight when it began, itself included."""

    def fell_back(self, error: HelperError) -> None:
        """An answer goes on with plain decoding."""

    def ended(self, answer: Answer) -> None:
        """An answer has come to its end."""


@dataclass(slots=True)
class Answer:
    """An answer in progress."""

    asked: Asked
    root: Step
    last: Step
    """The step that was committed last; the prompt before there is one."""
    began: float
    """s on the monotonic clock."""
    in_flight: int
    """Answers in flight when it began, itself included."""
    finish: Finish = "length"
    seconds: float = 0.0
    methods: tuple[str, ...] = ()
    """Names of the configurations that wrote it, in turn."""

    @property
    def n_tokens(self) -> int:
        """Tokens of the answer so far."""
        return self.last.context_tokens - self.root.n_tokens


class Answering:
    """Answers requests, many at once in one event loop.

    Parameters
    ----------
    servers : the engines.
    control : says which configuration runs.
    patience_s : a draft, judge or scorer may take so long for one operation, s; then it counts as having failed.
    most_seconds : an answer may take, s; it ends there as if its tokens were used up.
    observer : is told what happens.
    """

    def __init__(
        self, servers: Servers, control: Control, *, patience_s: float, most_seconds: float, observer: Observer
    ) -> None:
        self.servers = servers
        self.control = control
        self._patience_s = patience_s
        self._most_seconds = most_seconds
        self._observer = observer
        self._running: Counter[str] = Counter()

    @asynccontextmanager
    async def answer(self, asked: Asked, prompt: str) -> AsyncIterator[tuple[Answer, AsyncIterator[Step]]]:
        """Yield the answer and its steps as they are committed; leaving early aborts every request of it.

        Raises
        ------
        CalibrationError : the target failed.
        """
        clock = self.servers.clock(asked)
        root = await clock.root(prompt)
        answer = Answer(asked, root, root, time.monotonic(), self.control.in_flight)
        async with aclosing(self._steps(answer, clock)) as steps:
            yield answer, steps
        self._observer.ended(answer)

    async def _steps(self, answer: Answer, clock: WallClock) -> AsyncGenerator[Step]:
        committed: asyncio.Queue[Step | None] = asyncio.Queue()
        writing = asyncio.ensure_future(self._write(answer, clock, committed.put_nowait))
        writing.add_done_callback(lambda _: committed.put_nowait(None))
        try:
            while (step := await committed.get()) is not None:
                yield step
            await writing
        finally:
            writing.cancel()
            await asyncio.wait((writing,))

    async def _write(self, answer: Answer, clock: WallClock, commit: Callable[[Step], None]) -> None:
        """Have the answer written to its end, by one configuration after the other where they change."""

        def committed(step: Step) -> None:
            answer.last = step
            commit(step)

        failures, refused = 0, False
        try:
            async with asyncio.timeout(self._most_seconds):
                while not answer.last.final:
                    before = answer.last
                    configuration = PLAIN if refused else self.control.wanted()
                    if not answer.methods or answer.methods[-1] != configuration.name:
                        answer.methods += (configuration.name,)
                    try:
                        await self._run(answer, clock, configuration, committed)
                    except CalibrationError as error:
                        cause = error.__cause__
                        failures = failures + 1 if answer.last is before else 1
                        if isinstance(cause, HelperError):
                            refused = refused or cause.reason == "refused"
                            if cause.reason != "refused":
                                self.control.failed(cause.role)
                            self._observer.fell_back(cause)
                        elif failures >= _ATTEMPTS or not isinstance(cause, BrokenOffError):
                            raise
            answer.finish = "length" if answer.last.truncated else "stop"
        except TimeoutError:
            answer.finish = "length"
        finally:
            answer.seconds = time.monotonic() - answer.began

    async def _run(
        self, answer: Answer, clock: WallClock, configuration: Configuration, commit: Callable[[Step], None]
    ) -> None:
        """One generator from the last committed step on, until it ends, fails, or another one is wanted."""
        speculation: Mapping[str, Speculation] = self.servers.speculation(configuration)
        session, in_flight = WallSession(answer.asked.name, speculation), self.control.in_flight
        algorithm = _told(
            configuration.algorithm()(answer.last), commit, lambda: self.control.wanted() == configuration
        )
        drive = Drive(_Bounded(clock, self._patience_s, self._running, self._observer).perform, session)
        try:
            await drive.follow(algorithm)
        finally:
            algorithm.close()
            await drive.abort()  # also what a schedule leaves running at an answer's end: nobody wants it here
            self._observer.ran(configuration, session, in_flight)


@dataclass(frozen=True, slots=True)
class _Bounded:
    """Has operations done by a wall clock, those of helpers within a time."""

    clock: WallClock
    patience_s: float
    running: Counter[str]
    """Requests of each role in flight, of all answers."""
    observer: Observer

    async def perform(self, operation: Operation, session: WallSession, progress: Progress) -> Reply[Any, Any]:
        """As `WallClock.perform`.

        Raises
        ------
        HelperError : whoever helps the target failed, or took too long.
        """
        role = operation.role
        self.running[role] += 1
        in_flight = self.running[role]
        try:
            if role == TARGET and isinstance(operation, Generate):
                reply = await self.clock.perform(operation, session, progress)
            else:
                reply = await self._helped(operation, session, progress)
        finally:
            self.running[role] -= 1
        if isinstance(operation, Generate):
            self.observer.timed(role, in_flight, reply.record)
        return reply

    async def _helped(self, operation: Operation, session: WallSession, progress: Progress) -> Reply[Any, Any]:
        try:
            async with asyncio.timeout(self.patience_s):
                return await self.clock.perform(operation, session, progress)
        except TimeoutError as error:
            text = f"no answer within {self.patience_s:g} s (--patience)" if not str(error) else str(error)
            raise HelperError(text, role=operation.role, reason="late") from error
        except CalibrationError as error:
            own = isinstance(error, RefusedError) and not error.transient
            raise HelperError(str(error), role=operation.role, reason="refused" if own else "failed") from error


def _told(algorithm: Algorithm, commit: Callable[[Step], None], wanted: Callable[[], bool]) -> Algorithm:
    """The same algorithm, which tells of every commit, and ends at one when it is no longer wanted."""
    message: Operation | None = None
    actions = singly(algorithm)
    try:
        while True:
            action = actions.send(message)
            message = yield action
            if isinstance(action, Commit):
                commit(action.step)
                if not wanted():
                    return
    except StopIteration:
        return
    finally:
        actions.close()
