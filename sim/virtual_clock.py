"""The virtual clock: drives algorithms in SimPy time, with durations from engines and outcomes from a behaviour."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from heapq import heappop
from typing import Any, Protocol

import simpy

from sim.engines.fixed import FixedEngine
from sim.engines.protocol import Engine, Moment
from sim.operations import (
    INSTANT,
    STANDS_IN,
    Algorithm,
    Cancel,
    Choose,
    Commit,
    Generate,
    Operation,
    Score,
    Selection,
    Step,
    Verdict,
    Verify,
    Wait,
)
from theory.errors import SpecplanError

__all__ = ["Answer", "DeadlockError", "Session", "VirtualClock", "with_stand_ins"]

_NEVER = 2**31 - 1
"""Collections of young objects until old ones are collected too."""


class DeadlockError(SpecplanError):
    """An algorithm waits although nothing that it started is running."""


class Answer(Protocol):
    """The outcomes of one answer: what each model would say. Asked at an operation's start, told at its end.

    The same question must get the same reply in every schedule (replies are indexed by depth, role and branch, never by
    time), so that two schedules can be compared on the same answer.
    """

    root: Step

    def generate(self, operation: Generate) -> Step:
        """Return the step that ``operation.role`` would write after ``operation.prefix``."""
        ...

    def verify(self, operation: Verify) -> Verdict:
        """Return the verdict on ``operation.candidate`` against ``operation.reference``."""
        ...

    def judge_tokens(self, operation: Verify) -> int:
        """Return the prompt tokens that the verifier reads for this verdict."""
        ...

    def score(self, operation: Score) -> float:
        """Return the score that ``operation.role`` gives to ``operation.candidate``."""
        ...

    def choose(self, operation: Choose) -> Selection:
        """Return which of ``operation.candidates`` is taken."""
        ...

    def score_tokens(self, operation: Score | Choose) -> int:
        """Return the prompt tokens that are new to whoever scores or chooses: the text before them is cached."""
        ...


class Session:
    """One algorithm at work on one answer.

    Attributes
    ----------
    operations : everything it started, in order, with times and outcomes (empty when recording is off).
    committed : the answer's steps, with their commit times in ``commit_times``.
    started, finished : seconds of virtual time.
    """

    __slots__ = (
        "_answer",
        "_clock",
        "_done",
        "_env",
        "_ready",
        "_record",
        "_send",
        "_submit",
        "_waiting",
        "commit_times",
        "committed",
        "finished",
        "on_finish",
        "operations",
        "started",
    )

    def __init__(self, clock: VirtualClock, algorithm: Algorithm, answer: Answer) -> None:
        self._clock = clock
        self._env = clock.env
        self._submit = clock.submit
        self._record = clock.record
        self._answer = answer
        self._send = algorithm.send
        self._done = self._on_done  # bound once: a simulation needs it millions of times
        self._ready: deque[Operation] = deque()
        self._waiting = False
        self.operations: list[Operation] = []
        self.committed: list[Step] = []
        self.commit_times: list[float] = []
        self.started = clock.env.now
        self.finished: float | None = None
        self.on_finish: Callable[[Session], None] | None = None

    def resume(self, message: Operation | None = None) -> None:
        """Run the algorithm up to its next wait that nothing satisfies yet; ``None`` starts it."""
        send = self._send
        try:
            while True:
                action = send(message)
                message = None
                kind = action.__class__
                if kind is Generate:
                    self._start_generate(action)  # type: ignore[arg-type]  # the class was just compared
                elif kind is Wait:
                    message = self._next_ready() if self._ready else None
                    if message is None:
                        self._waiting = True
                        return
                elif kind is Verify:
                    self._start_verify(action)  # type: ignore[arg-type]
                elif kind is Commit:
                    self.committed.append(action.step)  # type: ignore[union-attr]
                    self.commit_times.append(self._env._now)
                elif kind is Cancel:
                    self._cancel(action.operation)  # type: ignore[union-attr]
                elif kind is Score:
                    self._start_score(action)  # type: ignore[arg-type]
                elif kind is Choose:
                    self._start_choose(action)  # type: ignore[arg-type]
                else:
                    raise TypeError(f"an algorithm yielded {action!r}, which is no action")
        except StopIteration:
            self._end()

    def _end(self) -> None:
        self._ready.clear()
        del self._done  # a session that refers to itself would stay in memory for long
        self.finished = self._clock.env.now
        if self.on_finish is not None:
            self.on_finish(self)

    def _next_ready(self) -> Operation | None:
        ready = self._ready
        while ready:
            operation = ready.popleft()
            if not operation.cancelled:
                operation.result = operation.pending
                return operation
        return None

    def _start_generate(self, operation: Generate) -> None:
        operation.started = self._env._now  # the property behind it costs a call
        operation.pending = step = self._answer.generate(operation)
        operation.passes = step.passes
        if self._record:
            self.operations.append(operation)
        prefix, role = operation.prefix, operation.role
        # What the model wrote itself is in its cache, and so is what it has just read for a sibling.
        new = 0 if prefix.role == role or operation.branch else prefix.n_tokens
        self._submit[role](operation, step.n_tokens, new, prefix.context_tokens, self._done)

    def _start_verify(self, operation: Verify) -> None:
        operation.started = self._env._now
        operation.pending = self._answer.verify(operation)
        if self._record:
            self.operations.append(operation)
        n_prompt = self._answer.judge_tokens(operation)
        self._submit[operation.role](operation, 1, n_prompt, n_prompt, self._done)

    def _start_score(self, operation: Score) -> None:
        operation.pending = self._answer.score(operation)
        self._start_one_token(operation, operation.candidate)

    def _start_choose(self, operation: Choose) -> None:
        operation.pending = self._answer.choose(operation)
        self._start_one_token(operation, operation.candidates[0])

    def _start_one_token(self, operation: Score | Choose, candidate: Step) -> None:
        operation.started = self._env._now
        if self._record:
            self.operations.append(operation)
        n_new = self._answer.score_tokens(operation)
        context = candidate.context_tokens - candidate.n_tokens + n_new
        stranger = self._clock.engines[operation.role] is not self._clock.engines.get(candidate.role)
        if stranger and not candidate.depth and candidate.parent is not None and getattr(operation, "branch", 0) == 0:
            n_new += candidate.parent.n_tokens  # nobody has read the question yet; of several, the first one does
        self._submit[operation.role](operation, 1, n_new, context, self._done)

    def _cancel(self, operation: Operation) -> None:
        if operation.cancelled:
            return
        operation.cancelled = True
        if operation.finished < 0.0:  # else it has ended and waits to be delivered, which will not happen
            operation.finished = self._clock.env.now
            self._clock.engines[operation.role].cancel(operation)

    def _on_done(self, operation: Operation) -> None:
        operation.finished = self._env._now
        if self._waiting:
            self._waiting = False
            operation.result = operation.pending
            self.resume(operation)
        elif self.finished is None:  # else it was left running when the answer ended
            self._ready.append(operation)


def with_stand_ins(engines: Mapping[str, Engine]) -> dict[str, Engine]:
    """Return engines for all roles that can do without one of their own: instant ones, and those of stand-ins."""
    full = dict(engines)
    for role in INSTANT - full.keys():
        full[role] = FixedEngine(0.0)
    for role, other in STANDS_IN.items():
        if role not in full and other in full:
            full[role] = full[other]
    return full


class VirtualClock:
    """SimPy time with engines in it; sessions are launched on it and share the engines.

    Parameters
    ----------
    engines : the engine of each role; several roles may share one. Roles without one get that of their stand-in
        (`sim.operations.STANDS_IN`), and those of `sim.operations.INSTANT` take no time.
    record : whether sessions keep their operations (needed for timelines and counts).
    """

    def __init__(self, engines: Mapping[str, Engine], *, record: bool = True) -> None:
        self.env = simpy.Environment()
        self.engines = with_stand_ins(engines)
        self.record = record
        for engine in {id(engine): engine for engine in self.engines.values()}.values():
            engine.attach(self.env)
        self.submit = {role: engine.submit for role, engine in self.engines.items()}

    def launch(self, algorithm: Algorithm, answer: Answer, *, at: float | None = None) -> Session:
        """Start an algorithm on an answer, now or at a later moment ``at`` (seconds of virtual time)."""
        session = Session(self, algorithm, answer)
        if at is None or at <= self.env.now:
            session.resume()
        else:
            session.started = at
            timeout = simpy.Timeout(self.env, at - self.env.now)
            timeout.callbacks.append(lambda event: session.resume())
        return session

    def run(self, *sessions: Session) -> None:
        """Let time pass until the given sessions have ended (what they left running runs on afterwards).

        Raises
        ------
        DeadlockError : time ran out of events first.
        """
        with _nothing_old_is_garbage() if self.record else nullcontext():
            for session in sessions:
                self._run(session)

    def _run(self, session: Session) -> None:
        env = self.env
        queue: list[Any] = env._queue
        while session.finished is None:
            if not queue:
                raise DeadlockError("an algorithm waits although nothing that it started is running")
            if isinstance(queue[0][3], Moment):  # a step of the environment, without what a moment cannot be
                env._now, _, _, moment = heappop(queue)
                for callback in moment.callbacks:
                    callback(moment)
            else:
                env.step()


@contextmanager
def _nothing_old_is_garbage() -> Iterator[None]:
    """Look for garbage among young objects alone: a recording is none, and to look through it takes time."""
    new, young, old = gc.get_threshold()
    gc.set_threshold(new, young, _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(new, young, old)
