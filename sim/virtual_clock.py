"""The virtual clock: drives algorithms in SimPy time, with durations from engines and outcomes from a behaviour."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any, Protocol

import simpy
from simpy.events import NORMAL

from sim.engines.fixed import FixedEngine
from sim.engines.protocol import Engine, Moment
from sim.operations import (
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
from sim.roles import INSTANT, STANDS_IN
from theory.errors import ParameterError, SpecplanError

__all__ = ["Answer", "DeadlockError", "Session", "VirtualClock", "read_by", "with_stand_ins"]


class DeadlockError(SpecplanError):
    """An algorithm waits although no operation that it started is running."""


class Answer(Protocol):
    """The outcomes of one answer: steps, verdicts and scores. Read when an operation starts, delivered when it ends.

    The same operation must have the same outcome in every schedule (outcomes are indexed by depth, role and branch,
    never by time), so that two schedules can be compared on the same answer. An answer without recorded drafts inherits
    what it cannot say: it refuses (`ParameterError`), and nothing is read for it.
    """

    root: Step

    def generate(self, operation: Generate) -> Step:
        """Return the last step that ``operation.role`` would write in this request after ``operation.prefix``."""

    def verify(self, operation: Verify) -> Verdict:
        """Return the verdict on ``operation.candidate`` against ``operation.reference``."""
        raise ParameterError("verifier", operation.role, "has no recorded verdict")

    def judge_tokens(self, operation: Verify) -> int:
        """Return the prompt tokens that the verifier reads for this verdict."""
        return 0

    def score(self, operation: Score) -> float:
        """Return the score that ``operation.role`` gives to ``operation.candidate``."""
        raise ParameterError("scorer", operation.role, "has no recorded score")

    def choose(self, operation: Choose) -> Selection:
        """Return the selection among ``operation.candidates``."""
        raise ParameterError("chooser", operation.role, "has no recorded choice")

    def score_tokens(self, operation: Score | Choose) -> int:
        """Return the uncached prompt tokens of a request that scores or chooses: the text before them is cached."""
        return 0


class Session:
    """The run of an algorithm on one answer.

    Attributes
    ----------
    operations : all operations that it started, in order, with times and outcomes (empty when recording is off).
    committed : the answer's steps, with their commit times in ``commit_times``.
    started, finished : seconds of virtual time.
    """

    def __init__(self, clock: VirtualClock, algorithm: Algorithm, answer: Answer) -> None:
        self._clock = clock
        self._env = clock.env
        self._queue, self._numbers = clock.env._queue, clock.env._eid
        self._timed = clock.timed
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

    def resume(self, message: Operation | None = None, goes_on: bool = False) -> None:  # noqa: PLR0912, PLR0915
        """Run the algorithm up to its next wait without a finished operation; ``None`` starts it.

        This is the inner loop of all simulations: frequent cases are inlined, calls would take longer. With ``goes_on``
        the clock moves on with it, as long as the next event is an end of its own requests.
        """
        send: Callable[[Operation | None], Any] = self._send  # the classes of its results are compared below
        ready, timed = self._ready, self._timed
        queue: list[Any] = self._queue
        keep = self.operations.append if self._record else None
        env = self._env
        now = env._now  # the property behind it costs a call
        self._waiting = False
        if message is not None:
            message.finished = now
            message.result = message.pending
        try:
            while True:
                yielded = send(message)
                message = None
                waits = yielded.__class__ is list
                for action in yielded if waits else (yielded,):
                    kind = action.__class__
                    if kind is Generate:
                        action.pending = step = self._answer.generate(action)
                        n_tokens = step.context_tokens - action.prefix.context_tokens  # `Generate.tokens_of`, inlined
                    elif kind is Verify:
                        action.pending = self._answer.verify(action)
                        n_tokens = 1
                    elif kind is Commit:
                        self.committed.append(action.step)
                        self.commit_times.append(now)
                        continue
                    elif kind is Cancel:
                        self._cancel(action.operation)
                        continue
                    elif kind is Wait:
                        waits = True
                        continue
                    else:
                        self._start_one_token(action)
                        continue
                    action.started = now
                    if keep is not None:
                        keep(action)
                    rates = timed[action.role]
                    if rates is None:
                        self._submit(action)
                    elif (seconds := rates[0] + rates[1] * n_tokens) > 0.0:
                        action.job = self
                        heappush(queue, (now + seconds, NORMAL, next(self._numbers), action))
                    else:
                        action.finished = now
                        ready.append(action)
                if waits:
                    while ready:
                        message = ready.popleft()
                        if not message.cancelled:
                            message.result = message.pending
                            break
                    else:
                        while goes_on and queue:
                            message = queue[0][3]
                            if message.__class__ is not Generate and message.__class__ is not Verify:
                                goes_on = False
                            elif message.cancelled:
                                heappop(queue)
                            elif message.job is self:
                                env._now = message.finished = now = heappop(queue)[0]
                                message.job, message.result = None, message.pending
                                break
                            else:
                                goes_on = False
                        else:
                            self._waiting = True
                            return
        except StopIteration:
            self._end()

    def _end(self) -> None:
        self._ready.clear()
        del self._done  # breaks a reference cycle that would keep the session in memory
        self.finished = self._clock.env.now
        if self.on_finish is not None:
            self.on_finish(self)

    def _submit(self, operation: Generate | Verify) -> None:
        """Submit a request to its engine."""
        role = operation.role
        submit = self._clock.submit[role]
        if isinstance(operation, Verify):
            n_prompt = self._answer.judge_tokens(operation)
            submit(operation, 1, n_prompt, n_prompt, self._done)
            return
        prefix = operation.prefix
        # Text that the model wrote itself, or has just read for a sibling, is in its cache.
        new = 0 if prefix.role == role or operation.branch else prefix.n_tokens
        submit(operation, operation.tokens_of(operation.pending), new, prefix.context_tokens, self._done)

    def _start_one_token(self, operation: Score | Choose) -> None:
        if isinstance(operation, Score):
            operation.pending = self._answer.score(operation)
        elif isinstance(operation, Choose):
            operation.pending = self._answer.choose(operation)
        else:
            raise TypeError(f"an algorithm yielded {operation!r}, which is no action")
        operation.started = self._env._now
        if self._record:
            self.operations.append(operation)
        n_new, context = read_by(operation, self._answer, self._clock.engines)
        self._clock.submit[operation.role](operation, 1, n_new, context, self._done)

    def _cancel(self, operation: Operation) -> None:
        if operation.cancelled:
            return
        operation.cancelled = True
        if operation.finished >= 0.0:  # it has ended, but will not be delivered
            return
        now = operation.finished = self._env._now
        if operation.job is not self:
            operation.n_generated = 0
            self._clock.engines[operation.role].cancel(operation)
            return
        operation.job = None  # its end event stays in the queue and must not keep this session in memory
        n_tokens = operation.tokens_of(operation.pending) if isinstance(operation, Generate) else 1
        request_s, token_s = self._timed[operation.role]
        operation.n_generated = int(n_tokens * (now - operation.started) / (request_s + token_s * n_tokens))

    def forget(self) -> None:
        """Release operations and steps after the end; only the times of start and end remain."""
        self.operations.clear()
        self.committed.clear()
        self.commit_times.clear()
        del self._answer, self._send

    def on_end(self, operation: Operation) -> None:
        """Handle the end of a request whose time the clock computed."""
        operation.job = None  # breaks the reference cycle between operation and session
        self._on_done(operation)

    def _on_done(self, operation: Operation) -> None:
        if self._waiting:
            self.resume(operation)
            return
        operation.finished = self._env._now
        if self.finished is None:  # false if the answer ended while it ran
            self._ready.append(operation)


def read_by(operation: Score | Choose, answer: Answer, engines: Mapping[str, Engine]) -> tuple[int, int]:
    """Return the uncached tokens that a request reads which scores or chooses, and the context of its result."""
    candidate = operation.candidate if isinstance(operation, Score) else operation.candidates[0]
    n_new = answer.score_tokens(operation)
    context = candidate.context_tokens - candidate.n_tokens + n_new
    stranger = engines[operation.role] is not engines.get(candidate.role)
    if stranger and not candidate.depth and candidate.parent is not None and getattr(operation, "branch", 0) == 0:
        n_new += candidate.parent.n_tokens  # the question is not cached yet; the first of several requests reads it
    return n_new, context


def with_stand_ins(engines: Mapping[str, Engine]) -> dict[str, Engine]:
    """Return engines for all roles: those given, those of stand-ins, and instant ones for roles that take no time."""
    full = dict(engines)
    for role in INSTANT - full.keys():
        full[role] = FixedEngine(0.0)
    for role, other in STANDS_IN.items():
        if role not in full and other in full:
            full[role] = full[other]
    return full


class VirtualClock:
    """A SimPy environment with engines; sessions are launched on it and share the engines.

    Parameters
    ----------
    engines : the engine of each role; several roles may share one. Roles without one get that of their stand-in
        (`sim.roles.STANDS_IN`), and those of `sim.roles.INSTANT` take no time.
    record : whether sessions keep their operations (needed for timelines and counts).
    """

    def __init__(self, engines: Mapping[str, Engine], *, record: bool = True) -> None:
        self.env = simpy.Environment()
        self.engines = with_stand_ins(engines)
        self.record = record
        for engine in {id(engine): engine for engine in self.engines.values()}.values():
            engine.attach(self.env)
        self.submit = {role: engine.submit for role, engine in self.engines.items()}
        self.timed = {role: _rates(engine) for role, engine in self.engines.items()}

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
        """Process events until the given sessions have ended (requests that they left running go on afterwards).

        Raises
        ------
        DeadlockError : no event is left before that.
        """
        # Recorded operations are not garbage, and repeated garbage collections of them take time.
        pauses = self.record and gc.isenabled()
        if pauses:
            gc.disable()
        try:
            for session in sessions:
                self._run(session)
        finally:
            if pauses:
                gc.enable()

    def _run(self, session: Session) -> None:
        env = self.env
        queue: list[Any] = env._queue
        while session.finished is None:
            if not queue:
                raise DeadlockError("an algorithm waits although nothing that it started is running")
            event = queue[0][3]
            # One step of the environment, inlined, without the cases that these events never have.
            if event.__class__ is Generate or event.__class__ is Verify:
                env._now, _, _, event = heappop(queue)
                if not event.cancelled:
                    owner, event.job = event.job, None
                    if owner._waiting:
                        owner.resume(event, True)
                    else:
                        owner._on_done(event)
            elif isinstance(event, Moment):
                env._now = heappop(queue)[0]
                for callback in event.callbacks:
                    callback(event)
            else:
                env.step()


def _rates(engine: Engine) -> tuple[float, float] | None:
    """Seconds of each request and of each token, where an engine's times depend on nothing else; else None."""
    known = engine.by_tokens if type(engine) is FixedEngine else None
    return None if known is None else (known.request_s, known.token_s)
