"""A run in real time: its session, and the loop that drives its algorithm while engines work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from calibrate.engines.protocol import Progress
from calibrate.engines.speculation import Speculation
from sim.operations import (
    Algorithm,
    Cancel,
    Choose,
    Commit,
    Generate,
    Operation,
    Score,
    Step,
    Verify,
    Wait,
    singly,
)
from theory.errors import CalibrationError

__all__ = ["Drive", "Perform", "Reply", "ReplyTask", "WallSession"]

Result_co = TypeVar("Result_co", covariant=True)
Record_co = TypeVar("Record_co", covariant=True)


class Reply(NamedTuple, Generic[Result_co, Record_co]):
    """Result of an operation, with the engine's record of it."""

    result: Result_co
    """The step, verdict, score or selection."""
    record: Record_co
    """The engine's record of the request; None without a request."""


class WallSession:
    """The run of an algorithm on one prompt.

    Attributes
    ----------
    operations : all operations that it started, in order, with times and outcomes; ``job`` holds the engine's record
        (a `Generation`, or a `Choice` where a model judged, else None).
    committed, commit_times : the answer's steps and the times of their commits.
    started, finished : 0.0 and the moment of the last action; all times are seconds since the start.
    epoch : the start on the machine's monotonic clock, to which engine records refer.
    speculation : token-level speculation of each role's requests; other roles use plain decoding.
    """

    __slots__ = ("commit_times", "committed", "epoch", "finished", "operations", "speculation", "started", "stream")

    def __init__(self, stream: str, speculation: Mapping[str, Speculation] | None = None) -> None:
        self.stream = stream
        self.speculation = dict(speculation or {})
        self.operations: list[Operation] = []
        self.committed: list[Step] = []
        self.commit_times: list[float] = []
        self.started = 0.0
        self.finished: float | None = None
        self.epoch = time.monotonic()

    @property
    def text(self) -> str:
        """The answer."""
        return "".join(step.payload.text for step in self.committed)

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.epoch

    def commit(self, step: Step) -> None:
        """Append a step to the answer, at the moment at which it was written where that is known."""
        written_s = step.payload.written_s
        self.committed.append(step)
        self.commit_times.append(self.now() if written_s is None else written_s - self.epoch)


Perform: TypeAlias = Callable[[Operation, WallSession, Progress], Coroutine[Any, Any, Reply[Any, Any]]]
ReplyTask: TypeAlias = "asyncio.Task[Reply[Any, Any]]"


class Drive:
    """A run in progress: the algorithm, and a task for each running operation.

    Parameters
    ----------
    perform : runs an operation of the session on its engine; it counts generated tokens as they arrive.
    """

    def __init__(self, perform: Perform, session: WallSession) -> None:
        self._perform = perform
        self._session = session
        self._running: set[ReplyTask] = set()
        self._aborting: set[ReplyTask] = set()
        self._ready: list[Operation] = []
        self._wake: asyncio.Future[None] | None = None
        self._error: CalibrationError | None = None
        self._loop = asyncio.get_running_loop()

    async def follow(self, algorithm: Algorithm) -> None:
        """Execute the actions that the algorithm yields until it ends."""
        session, actions = self._session, singly(algorithm)
        message: Operation | None = None
        try:
            while True:
                action = actions.send(message)
                message = None
                if isinstance(action, Wait):
                    message = await self._next()
                elif isinstance(action, Operation):
                    self._start(action)
                elif isinstance(action, Commit):
                    session.commit(action.step)
                elif isinstance(action, Cancel):
                    self._cancel(action.operation)
                else:
                    raise TypeError(f"an algorithm yielded {action!r}, which is no action")
        except StopIteration:
            session.finished = session.now()

    async def abort(self) -> None:
        """Abort all requests in flight and wait until the engines have ended them."""
        for task in self._running:
            task.cancel()
        await _over(self._running | self._aborting)

    async def leave(self) -> set[ReplyTask]:
        """Wait until aborted requests have left their engines; return the tasks that continue."""
        await _over(self._aborting)
        return set(self._running)

    def _start(self, operation: Operation) -> None:
        progress = Progress()
        work = self._perform(operation, self._session, progress)
        operation.started = self._session.now()
        self._session.operations.append(operation)
        task = operation.job = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(partial(self._on_done, operation, progress))

    def _cancel(self, operation: Operation) -> None:
        if operation.cancelled:
            return
        operation.cancelled = True
        if operation.finished < 0.0:  # else it has ended, but will not be delivered
            operation.finished = self._session.now()
            task: ReplyTask = operation.job
            operation.job = None
            self._running.discard(task)
            self._aborting.add(task)
            task.cancel()

    async def _next(self) -> Operation:
        """The next operation that has ended and was not cancelled."""
        while True:
            while self._ready:
                operation = self._ready.pop(0)
                if not operation.cancelled:
                    operation.result = operation.pending
                    return operation
            if self._error is not None:
                raise self._error
            if not self._running:
                raise CalibrationError("an algorithm waits although nothing that it started is running")
            self._wake = self._loop.create_future()
            await self._wake
            if len(self._ready) > 1:  # several engines answered in one turn of the event loop
                self._ready.sort(key=self._ended)

    def _on_done(self, operation: Operation, progress: Progress, task: ReplyTask) -> None:
        self._running.discard(task)
        self._aborting.discard(task)
        operation.n_generated = progress.n_generated
        if task.cancelled():
            return
        error = task.exception()
        if operation.cancelled:
            return  # its result is not used
        operation.finished = self._session.now()
        if error is not None:
            self._error = self._error or _named(operation, error)
        else:
            operation.pending, operation.job = task.result()
            self._ready.append(operation)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _ended(self, operation: Operation) -> float:
        """End time of an operation, s since the start: by its engine's record if there is one."""
        record = operation.job
        return operation.finished if record is None else record.times.end - self._session.epoch


async def _over(tasks: set[ReplyTask]) -> None:
    if tasks:
        await asyncio.wait(tasks)
        await asyncio.sleep(0)  # their callbacks, which record the number of tokens, run in the next turn


def _named(operation: Operation, error: BaseException) -> CalibrationError:
    if isinstance(operation, Verify | Score):
        word = "verdict" if isinstance(operation, Verify) else "score"
        what = f"{word} of {operation.role!r} on step {operation.candidate.depth}"
    elif isinstance(operation, Choose):
        what = f"choice of {operation.role!r} for step {operation.candidates[0].depth}"
    else:
        assert isinstance(operation, Generate)
        what = f"step {operation.prefix.depth + 1} of {operation.role!r}"
    text = str(error) or type(error).__name__
    named = CalibrationError(f"{what}: {text}")
    named.__cause__ = error
    return named
