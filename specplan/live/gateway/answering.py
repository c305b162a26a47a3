"""One answer: the plan's generator runs on the servers step by step; plain decoding replaces it if a helper fails.

The generators are those of the simulation, and `calibrate.running.session.Drive` runs them as in a validation.
Committed steps are final, so after any failure the answer continues from its last step.
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
from specplan.live.gateway.control import Control
from specplan.live.gateway.plans import PLAIN
from specplan.live.gateway.requests import AnswerRequest
from specplan.live.gateway.servers import Servers
from theory.errors import CalibrationError

__all__ = ["Answer", "Answering", "HelperError", "Observer"]

_ATTEMPTS: Final = 3
"""Attempts at a step of the target when its server breaks the connection."""

Finish = Literal["stop", "length"]


class HelperError(CalibrationError):
    """A draft, judge or scorer failed or took too long.

    Parameters
    ----------
    role : the helper's role.
    reason : ``failed``; ``late``; or ``refused``: its server rejects this answer's requests, e.g. for their key.
    """

    def __init__(self, message: str, *, role: str, reason: Literal["failed", "late", "refused"]) -> None:
        super().__init__(message)
        self.role = role
        self.reason = reason


class Observer(Protocol):
    """Receives the events of answers."""

    def ran(self, configuration: Configuration, session: WallSession, in_flight: int) -> None:
        """Handle a generator that ended or was stopped; ``in_flight`` answers were in flight when it began."""

    def timed(self, role: str, in_flight: int, generation: Generation) -> None:
        """Handle a generated step; ``in_flight`` requests of its role, itself included, were in flight at its start."""

    def fell_back(self, error: HelperError) -> None:
        """Handle an answer that continues with plain decoding."""

    def ended(self, answer: Answer) -> None:
        """Handle the end of an answer."""


@dataclass(slots=True)
class Answer:
    """An answer in progress."""

    request: AnswerRequest
    root: Step
    last: Step
    """The step that was committed last; the prompt at first."""
    began: float
    """Start, s on the monotonic clock."""
    in_flight: int
    """Answers in flight when it began, itself included."""
    finish: Finish = "length"
    seconds: float = 0.0
    methods: tuple[str, ...] = ()
    """Names of the configurations that generated it, in order."""

    @property
    def n_tokens(self) -> int:
        """Tokens of the answer so far."""
        return self.last.context_tokens - self.root.n_tokens


class Answering:
    """Answers requests concurrently in one event loop.

    Parameters
    ----------
    servers : the engines.
    control : decides which configuration runs.
    patience_s : longest time of one operation of a draft, judge or scorer, s; a longer one counts as failed.
    most_seconds : longest time of an answer, s; it ends there as if it had reached its token limit.
    observer : receives the events of answers.
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
    async def answer(self, request: AnswerRequest, prompt: str) -> AsyncIterator[tuple[Answer, AsyncIterator[Step]]]:
        """Yield the answer and its steps as they are committed; leaving early aborts all its requests.

        Raises
        ------
        CalibrationError : the target failed.
        """
        clock = self.servers.clock(request)
        root = await clock.root(prompt)
        answer = Answer(request, root, root, time.monotonic(), self.control.in_flight)
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
        """Generate the answer to its end, switching configurations when `Control` does."""

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
        """Run a generator from the last committed step until it ends, fails, or another configuration is wanted."""
        speculation: Mapping[str, Speculation] = self.servers.speculation(configuration)
        session, in_flight = WallSession(answer.request.name, speculation), self.control.in_flight
        algorithm = _observed(
            configuration.algorithm()(answer.last), commit, lambda: self.control.wanted() == configuration
        )
        drive = Drive(_Bounded(clock, self._patience_s, self._running, self._observer).perform, session)
        try:
            await drive.follow(algorithm)
        finally:
            algorithm.close()
            await drive.abort()  # also operations that a schedule leaves running at the end of an answer
            self._observer.ran(configuration, session, in_flight)


@dataclass(frozen=True, slots=True)
class _Bounded:
    """Performs operations on a wall clock, those of helpers with a time limit."""

    clock: WallClock
    patience_s: float
    running: Counter[str]
    """Requests in flight by role, over all answers."""
    observer: Observer

    async def perform(self, operation: Operation, session: WallSession, progress: Progress) -> Reply[Any, Any]:
        """Perform an operation, as `WallClock.perform` does.

        Raises
        ------
        HelperError : a helper failed or took too long.
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


def _observed(algorithm: Algorithm, commit: Callable[[Step], None], wanted: Callable[[], bool]) -> Algorithm:
    """The same algorithm, which reports every commit, and ends at a commit when ``wanted`` is false."""
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
