"""One answer: the plan's generator runs on the servers step by step; plain decoding replaces it if a helper fails.

The generators are those of the simulation, and `calibrate.running.session.Drive` runs them as in a validation.
Committed steps are final, so after any failure the answer continues from its last step. Plain decoding and token-level
methods are one request to the target's server, whose text goes to the client as it arrives.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeAlias

from calibrate.engines.http.waits import Waits
from calibrate.engines.http.wire import BrokenOffError
from calibrate.engines.protocol import Generation, Progress
from calibrate.engines.sampling import derive_seed
from calibrate.engines.speculation import Speculation
from calibrate.running.session import Drive, WallSession
from calibrate.running.step_marks import StepMarks
from calibrate.running.verifiers import StepText
from calibrate.running.wall_clock import WallClock
from sim.configuration import Configuration
from sim.operations import Algorithm, Commit, Generate, Operation, Step, singly, steps_after
from sim.operations import prompt as root_of
from sim.roles import TARGET
from specplan.live.gateway.control import Choice, Limits
from specplan.live.gateway.plans import PLAIN, SPECULATIVE
from specplan.live.gateway.ran import seconds_per_token
from specplan.live.gateway.requests import AnswerRequest
from specplan.live.gateway.servers import Bounded, HelperError, Servers, helper_error
from theory.errors import CalibrationError

__all__ = ["Answer", "Answering", "Observer", "Piece"]

_ATTEMPTS: Final = 3
_NEW_S: Final = 3.0
"""Attempts at the beginning of an answer when the target's server breaks the connection, within so many seconds."""

_AGAIN_S: Final = 0.25
_LONGEST_S: Final = 4.0
"""Seconds before the second further attempt; doubled with each one, up to the latter."""

Finish = Literal["stop", "length"]

Piece: TypeAlias = tuple[str, int]
"""A piece of an answer's text, and the answer's tokens up to its end."""

Pieces: TypeAlias = AsyncIterator[list[Piece]]
"""At each moment as many pieces as there are."""


class Observer(Protocol):
    """Receives the events of answers, and says how the gateway is."""

    def ran(self, configuration: Configuration, session: WallSession) -> None:
        """Handle a generator that ended or was stopped."""

    def timed(self, role: str, in_flight: int, seconds: float | None) -> None:
        """Handle a step's seconds per token, if known; so many requests of its role, itself included, began with it."""

    def ended(self, finish: str, seconds: float) -> None:
        """Handle an answer that ended, for this reason and after so long."""

    def count(self, name: str, *labels: str) -> None:
        """Count one more of a counter, which is named without ``specplan_``."""

    async def page(self) -> bytes:
        """Return the metrics page."""

    async def health(self) -> dict[str, Any]:
        """Return the state of the gateway, as plain data."""


@dataclass(slots=True, eq=False)
class Answer:
    """An answer in progress."""

    request: AnswerRequest
    root: Step
    last: Step
    """The step that was committed last; the prompt at first."""
    began: float
    """Start, s on the monotonic clock."""
    finish: Finish = "length"
    seconds: float = 0.0
    methods: tuple[str, ...] = ()
    """Names of the configurations that generated it, in order."""
    n_prompt: int = 0
    """Tokens of the prompt; 0 if the server has not stated them yet."""
    n_seen: int = 0
    """Tokens that have been sent, those of a step under way included."""
    ids: tuple[int, ...] = ()
    """Tokens of the prompt and the answer so far; empty where they are unknown, and the text is sent in their place."""
    refused: bool = False
    """Whether a helper rejects its requests, e.g. for their key: it is decoded plainly, and not compared."""

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
    limits : longest times of an answer, of a helper's operation, and of the wait for a target that comes back.
    observer : receives the events of answers.
    counts_prompts : whether the observer needs the tokens of each prompt from the beginning.

    Attributes
    ----------
    running : requests in flight by role.
    """

    def __init__(
        self,
        servers: Servers,
        control: Choice,
        limits: Limits,
        *,
        observer: Observer,
        counts_prompts: bool,
    ) -> None:
        self.servers = servers
        self.control = control
        self.limits = limits
        self.observer = observer
        self._counts_prompts = counts_prompts
        self.running: Counter[str] = Counter()
        self._waits = Waits(limits.patience_s)

    @asynccontextmanager
    async def answer(self, request: AnswerRequest, prompt: str) -> AsyncIterator[tuple[Answer, Pieces]]:
        """Yield the answer and the pieces of its text, as many as there are; leaving early aborts all its requests.

        Raises
        ------
        CalibrationError : the target failed.
        """
        clock = self.servers.clock(request)
        if self._counts_prompts or request.continuous_usage or not request.has_limit:
            root = await clock.root(prompt)
        else:  # the answer's own request tells, which saves one
            root = root_of(0, StepText(text=prompt, token_ids=None, tokenizer_id=None))
        room = self.servers.context - root.n_tokens
        if not request.has_limit and 0 < room < request.max_tokens:
            request = replace(request, max_tokens=int(room))
            clock.limits = self.servers.limits(request)
        answer = Answer(request, root, root, time.monotonic(), n_prompt=root.n_tokens)
        by_itself = False
        try:
            async with aclosing(self._pieces(answer, clock)) as pieces:
                yield answer, pieces
            by_itself = answer.last.final
        finally:
            self.control.ends(answer, by_itself=by_itself)
        self.observer.ended(answer.finish, answer.seconds)

    async def prompt_tokens(self, answer: Answer) -> int:
        """Return the tokens of an answer's prompt, by its requests, else by one of its own; 0 if that fails."""
        with suppress(CalibrationError):
            answer.n_prompt = answer.n_prompt or await self.servers.target.count_tokens(answer.root.payload.text)
        return answer.n_prompt

    async def _pieces(self, answer: Answer, clock: WallClock) -> AsyncGenerator[list[Piece]]:
        pieces, loop = list[Piece](), asyncio.get_running_loop()
        there = loop.create_future()

        def send(piece: str) -> None:
            pieces.append((piece, answer.n_seen))
            wake()

        def wake(_: object = None) -> None:
            if not there.done():
                there.set_result(None)

        writing = asyncio.ensure_future(self._write(answer, clock, send))
        writing.add_done_callback(wake)
        try:
            while pieces or not writing.done():
                if pieces:
                    written, pieces = pieces, []
                    yield written
                else:
                    there = loop.create_future()
                    await there
            await writing
        finally:
            writing.cancel()
            await asyncio.wait((writing,))

    async def _write(self, answer: Answer, clock: WallClock, send: Callable[[str], None]) -> None:
        """Generate the answer to its end, switching configurations when `Control` does."""
        failures, since, reached = 0, answer.began, answer.last
        try:
            async with asyncio.timeout(self.limits.answer_seconds):
                while not answer.last.final:
                    configuration = PLAIN if answer.refused else self.control.wanted()
                    if not answer.methods or answer.methods[-1] != configuration.name:
                        answer.methods += (configuration.name,)
                    run = self._run if configuration.spec.drafts_steps else self._stream
                    try:
                        await run(answer, clock, configuration, send)
                    except CalibrationError as error:
                        cause = error.__cause__
                        if answer.last is not reached:
                            failures, since, reached = 0, time.monotonic(), answer.last
                        failures += 1
                        if isinstance(cause, HelperError):
                            answer.refused = answer.refused or cause.reason == "refused"
                            if cause.reason != "refused":
                                self.control.failed(cause.role)
                            self.observer.count("fallbacks", cause.role, cause.reason)
                        elif not self._may_return(answer, cause, failures, time.monotonic() - since):
                            raise
                        elif failures > 1:
                            await asyncio.sleep(min(_AGAIN_S * 2.0 ** (failures - 2), _LONGEST_S))
            answer.finish = "length" if answer.last.truncated else "stop"
        except TimeoutError:
            answer.finish = "length"
        finally:
            answer.seconds = time.monotonic() - answer.began

    def _may_return(self, answer: Answer, cause: BaseException | None, failures: int, gone_s: float) -> bool:
        """Whether the target gets another request; an answer that has begun waits for a server that is started anew."""
        if answer.n_tokens:
            return bool(getattr(cause, "transient", False)) and gone_s < self.limits.timeout_s
        return isinstance(cause, BrokenOffError) and failures < _ATTEMPTS and gone_s < _NEW_S

    async def _run(
        self, answer: Answer, clock: WallClock, configuration: Configuration, send: Callable[[str], None]
    ) -> None:
        """Run a generator from the last committed step until it ends, fails, or another configuration is wanted."""

        def commit(step: Step) -> None:
            answer.last, answer.ids = step, ()
            answer.n_seen = answer.n_tokens
            self.control.wrote(answer, step.n_tokens)
            send(step.payload.text)

        speculation: Mapping[str, Speculation] = self.servers.speculation(configuration)
        session = WallSession(answer.request.name, speculation)
        algorithm = _observed(
            configuration.algorithm()(answer.last), commit, lambda: self.control.wanted() == configuration
        )
        drive = Drive(Bounded(clock, self._waits, self.running, self.observer.timed).perform, session)
        self.control.starts(answer, configuration)
        following = asyncio.ensure_future(drive.follow(algorithm))
        try:
            while not following.done() and not self.control.over(configuration):
                await asyncio.wait((following,), timeout=self.control.look_s)
        finally:
            following.cancel()  # has no effect on a task that is done
            await asyncio.wait((following,))
            error = None if following.cancelled() else following.exception()
            algorithm.close()
            await drive.abort()  # also operations that a schedule leaves running at the end of an answer
            self.control.stops(answer)
            answer.n_prompt = answer.n_prompt or _prompt_tokens(session, answer)
            self.observer.ran(configuration, session)
        if error is not None:
            raise error

    def _leaves(self, answer: Answer, configuration: Configuration, progress: Progress, *, step_ends: bool) -> bool:
        """Whether an answer goes on by another configuration from here on.

        A server that tells no ids is left only where a step ends: the text up to there is read as the tokens that
        wrote it, which half a word may not be.
        """
        if answer.refused or not self.control.leaves(configuration, step_ends=step_ends):
            return False
        ids = progress.tokens()
        return ids is not None and bool(ids or step_ends) and answer.n_seen < answer.request.max_tokens

    async def _stream(
        self, answer: Answer, clock: WallClock, configuration: Configuration, send: Callable[[str], None]
    ) -> None:
        """Have the target write the rest in one request, until it ends or another method is wanted.

        It is left where `_leaves` says; a server that speculates at once when it has lost too much. The rest is
        requested by the ids of all tokens so far, where they are known.
        """
        session = WallSession(answer.request.name, self.servers.speculation(configuration))
        operation = Generate(TARGET, answer.last, whole=True)
        session.operations.append(operation)
        marks = StepMarks(answer.last, TARGET, clock.limits.separator)
        answer.n_seen = answer.n_tokens

        def on_text(text: str, n_tokens: int) -> None:
            answer.n_seen += n_tokens
            send(text)
            self.control.wrote(answer, n_tokens)
            if self._leaves(answer, configuration, progress, step_ends=marks.take(text, n_tokens)):
                raise asyncio.CancelledError  # here, before what has arrived with this piece is read

        def look() -> None:  # now, as the servers that others change to may take what this one needs to say more
            if self._leaves(answer, configuration, progress, step_ends=False):
                writing.cancel()

        self.running[TARGET] += 1
        busy = self.running[TARGET]
        if not answer.refused:
            self.control.starts(answer, configuration)
        speculation = session.speculation.get(TARGET)
        progress, seed, stop = Progress(on_text), _seed(answer), answer.request.stop
        writing = asyncio.ensure_future(
            clock.rest(operation, progress, seed=seed, speculation=speculation, stop=stop, ids=answer.ids)
        )
        look_s = None if speculation is None else self.control.look_s
        self.control.watching.add(look)
        try:
            while not writing.done() and not self.control.over(configuration):
                await asyncio.wait((writing,), timeout=look_s)
        finally:
            self.control.watching.discard(look)
            writing.cancel()
            await asyncio.wait((writing,))
            self.running[TARGET] -= 1
            self.control.stops(answer)
            error = None if writing.cancelled() else writing.exception()
            written = None if writing.cancelled() or error is not None else writing.result()
            if _ended(marks, written, complete=answer.n_seen >= answer.request.max_tokens):
                error = None
            for step in steps_after(answer.last, marks.last):
                session.commit(step)
            answer.last, answer.ids = marks.last, progress.tokens() or ()
            operation.n_generated, operation.job = marks.n_tokens, written
            answer.n_prompt = answer.n_prompt or _prompt_tokens(session, answer)
            operation.finished = session.finished = session.now()
            self.observer.ran(configuration, session)
        if error is not None:
            of_helper = speculation is not None and isinstance(error, CalibrationError)
            raise CalibrationError(str(error)) from (helper_error(error, SPECULATIVE) if of_helper else error)
        if written is not None:
            self.observer.timed(TARGET, busy, seconds_per_token(written))


def _seed(answer: Answer) -> int:
    """Seed of the request for the rest of an answer, whose draws must not repeat those of the beginning."""
    seed, depth = answer.request.seed, answer.last.depth
    return seed if depth < 0 else derive_seed(seed, answer.request.name, TARGET, depth, 0)


def _ended(marks: StepMarks, written: Generation | None, *, complete: bool) -> bool:
    """End the last step of a request; return whether the answer has ended, ``complete``: by its limit of tokens."""
    if written is not None:
        marks.end(written)
    elif complete:  # all is there, but the server's word that it is
        marks.end_here(truncated=True)
    elif marks.n_seen:
        marks.end_here(final=False)  # the beginning of a step
    return complete or written is not None


def _prompt_tokens(session: WallSession, answer: Answer) -> int:
    """Tokens of the prompt by a request of the target that continued it; 0 where none has stated them."""
    of_prompt = [one for one in session.operations if isinstance(one, Generate) and one.prefix is answer.root]
    stated = (one.job.n_prompt_tokens for one in of_prompt if one.role == TARGET and isinstance(one.job, Generation))
    return next(stated, len(answer.ids) - answer.n_tokens if of_prompt and answer.ids else 0)


def _observed(algorithm: Algorithm, commit: Callable[[Step], None], wanted: Callable[[], bool]) -> Algorithm:
    """The same algorithm, which reports every commit, and ends after a row of commits when ``wanted`` is false."""
    message: Operation | None = None
    actions, leaves = singly(algorithm), False
    try:
        while True:
            action = actions.send(message)
            if leaves and not isinstance(action, Commit):
                return
            message = yield action
            if isinstance(action, Commit):
                commit(action.step)
                leaves = not wanted()
    except StopIteration:
        return
    finally:
        actions.close()
