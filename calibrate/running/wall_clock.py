"""The wall clock: drives the algorithms of `sim` on real engines, in real time, with asyncio.

An algorithm's operations become requests; a cancelled operation is aborted in its engine. Completions are delivered in
the order in which they ended, cancelled ones never. The session that a run leaves behind has the form that
`sim.virtual_clock` leaves, so both clocks give the same timeline.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar

from calibrate.engines.protocol import (
    GREEDY,
    Backend,
    Choice,
    Forgetful,
    Generation,
    Progress,
    Prompt,
    Request,
    Sampling,
)
from calibrate.engines.sampling import uniform
from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.likelihood import Likelihood
from calibrate.running.scorers import Chooser, Scorer
from calibrate.running.seeds import derive_seed
from calibrate.running.verifiers import ExactMatch, RandomAcceptance, StepText, Verifier
from sim.operations import (
    EXACT,
    GATE,
    JUDGE,
    RANDOM,
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
    prompt,
)
from theory.errors import CalibrationError, ParameterError

__all__ = ["StepLimits", "WallClock", "WallSession"]

_Outcome: TypeAlias = (
    tuple[Step, Generation]
    | tuple[Verdict, Choice | None]
    | tuple[float, Choice | Likelihood | None]
    | tuple[Selection, Choice]
)
_Work: TypeAlias = Coroutine[Any, Any, _Outcome]
_Task: TypeAlias = "asyncio.Task[_Outcome]"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits:
    """Where a step and an answer end, so that nothing runs for ever."""

    separator: str = "\n\n"
    """A step ends with it (it belongs to the step)."""

    max_step_tokens: int = 100
    """A step is cut after this many tokens, and marked as truncated."""

    max_steps: int = 64
    """The step that makes the answer this long is its last."""

    max_answer_tokens: int = 4096
    """So is the step with which the answer has this many tokens."""

    def __post_init__(self) -> None:
        if not self.separator:
            raise ParameterError("separator", self.separator, "must not be empty")
        for name in ("max_step_tokens", "max_steps", "max_answer_tokens"):
            if getattr(self, name) < 1:
                raise ParameterError(name, getattr(self, name), "must be an integer >= 1")


class WallSession:
    """One algorithm's run on one prompt.

    Attributes
    ----------
    operations : everything it started, in order, with times and outcomes; ``job`` holds the engine's record of it (a
        `Generation`, or a `Choice` where a model judged, else None).
    committed, commit_times : the answer's steps and when they were committed.
    started, finished : 0.0 and the moment of the last action; all times are seconds since the start.
    epoch : the start on the machine's monotonic clock, to which engine records refer.
    speculation : token-level speculation of each role's requests; a role that is not there decodes plainly.
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


class WallClock:
    """Real engines for each role, and the rules by which text becomes steps.

    Parameters
    ----------
    roles : the backend of each role; several roles may share one. A role without one asks that of its stand-in
        (`sim.operations.STANDS_IN`), the judge excepted.
    verifier : decides on drafts as the role ``judge``; it may use the backend of that role. The role ``gate`` is the
        same verifier, asking the draft model.
    verifiers : by role, where a method asks others than these, exact match and chance.
    scorers : by role, for methods that score steps.
    chooser : for methods that have a model choose among steps.
    sampling : how tokens are drawn, for all roles or for each.
    limits : where steps and answers end.
    seed : of the run. A request's seed is a hash of this, the stream, the role, the depth and the branch, so that two
        schedules draw the same step after the same prefix.
    """

    def __init__(
        self,
        roles: Mapping[str, Backend],
        verifier: Verifier,
        *,
        verifiers: Mapping[str, Verifier] | None = None,
        scorers: Mapping[str, Scorer] | None = None,
        chooser: Chooser | None = None,
        sampling: Sampling | Mapping[str, Sampling] = GREEDY,
        limits: StepLimits | None = None,
        seed: int = 0,
    ) -> None:
        self.roles: Final = dict(roles)
        self.verifiers: Final[dict[str, Verifier]] = {
            JUDGE: verifier,
            GATE: verifier,
            EXACT: ExactMatch(),
            RANDOM: RandomAcceptance(probability=0.5),
            **(verifiers or {}),
        }
        self.scorers: Final = dict(scorers or {})
        self.chooser = chooser
        self.limits = limits if limits is not None else StepLimits()
        self.seed = seed
        if isinstance(sampling, Sampling):
            self.sampling = dict.fromkeys(self.roles, sampling)
        else:
            self.sampling = {role: sampling.get(role, GREEDY) for role in self.roles}
        self._left_running: set[_Task] = set()

    async def root(self, text: str) -> Step:
        """The prompt as the root of a tree of steps.

        Raises
        ------
        ParameterError : the text is empty.
        """
        if not text:
            raise ParameterError("prompt", text, "must not be empty")
        for backend in self.roles.values():
            ids = backend.encode(text)
            if ids is not None:
                return prompt(len(ids), StepText(text=text, token_ids=ids, tokenizer_id=backend.tokenizer_id))
        n_tokens = await next(iter(self.roles.values())).count_tokens(text)
        return prompt(n_tokens, StepText(text=text, token_ids=None, tokenizer_id=None))

    async def run(
        self, algorithm: Algorithm, *, stream: str = "", speculation: Mapping[str, Speculation] | None = None
    ) -> WallSession:
        """Run an algorithm to its end; ``stream`` names the problem, and with it the seeds.

        ``speculation`` says by role how the tokens of its steps are speculated; other roles decode plainly.

        What the algorithm leaves running at its end goes on in the background; see `drain`. If the run fails or is
        cancelled, everything in flight is aborted first.

        Raises
        ------
        CalibrationError : an engine failed; the message names the operation.
        """
        session = WallSession(stream, speculation)
        drive = _Drive(self, session)
        try:
            await drive.follow(algorithm)
        except BaseException:
            await drive.abort()
            raise
        finally:
            algorithm.close()
        self._left_running |= await drive.leave()
        return session

    async def drain(self) -> None:
        """Wait for what earlier runs left running (a schedule may leave requests in flight at an answer's end)."""
        while self._left_running:
            await asyncio.wait(self._left_running)
            self._left_running = {task for task in self._left_running if not task.done()}

    async def fresh(self) -> None:
        """Drain, and let the engines that can forget earlier texts: no run is to find its prompts read by another."""
        await self.drain()
        for engine in {id(engine): engine for engine in self.roles.values()}.values():
            if isinstance(engine, Forgetful):
                await engine.forget()

    async def close(self) -> None:
        """Abort what earlier runs left running. The backends stay open: they belong to the caller."""
        for task in self._left_running:
            task.cancel()
        await self.drain()

    def backend(self, role: str) -> Backend:
        """The backend of a role.

        Raises
        ------
        CalibrationError : there is none.
        """
        try:
            return self.roles[role]
        except KeyError:
            raise CalibrationError(f"no backend for the role {role!r}; there are: {', '.join(self.roles)}") from None

    async def generate(
        self, operation: Generate, stream: str, progress: Progress, speculation: Speculation | None = None
    ) -> tuple[Step, Generation]:
        """One step after a prefix, from a real engine."""
        role, prefix, limits = operation.role, operation.prefix, self.limits
        backend = self.backend(role)
        depth = prefix.depth + 1
        text, room = _prompt_after(prefix, backend.tokenizer_id, limits.max_answer_tokens)
        generation = await backend.generate(
            Request(
                prompt=text,
                max_tokens=min(limits.max_step_tokens, room),
                stop=(limits.separator,),
                sampling=self.sampling[role],
                seed=derive_seed(self.seed, stream, role, depth, operation.branch),
                speculation=speculation,
            ),
            progress,
        )
        return self._step(prefix, role, generation, room, backend.tokenizer_id), generation

    async def verify(self, operation: Verify, stream: str) -> tuple[Verdict, Choice | None]:
        """The verifier's word on a draft, and the reply behind it.

        Raises
        ------
        CalibrationError : nobody has the operation's role.
        """
        role, depth, branch = operation.role, operation.candidate.depth, operation.branch
        judgement = await _known(self.verifiers, role, "verifier").verify(
            operation.candidate,
            operation.reference,
            judge=self.roles.get(role) if role == JUDGE else self.engine(role),
            seed=derive_seed(self.seed, stream, role, depth, branch),
        )
        verdict, threshold = judgement.verdict, operation.threshold
        if threshold is not None and verdict.score is not None:
            verdict = Verdict(verdict.score >= threshold, verdict.score)
        return verdict, judgement.choice

    async def score(self, operation: Score, stream: str = "") -> tuple[float, Choice | Likelihood | None]:
        """The score of a step, and the reply behind it; a lot from the seed alone where chance scores.

        Raises
        ------
        CalibrationError : nobody has the operation's role.
        """
        role, step = operation.role, operation.candidate
        if role == RANDOM:
            return uniform(derive_seed(self.seed, stream, role, step.depth, operation.branch), 0), None
        scorer = _known(self.scorers, role, "scorer")
        return await scorer.score(operation.candidate, engine=self._engine_for(operation.role))

    async def choose(self, operation: Choose) -> tuple[Selection, Choice]:
        """Which of several steps a model takes, and its reply.

        Raises
        ------
        CalibrationError : there is no chooser.
        """
        if self.chooser is None:
            raise CalibrationError("no chooser: these models have no prompt for a choice among steps")
        return await self.chooser.choose(operation.candidates, engine=self._engine_for(operation.role))

    def engine(self, role: str) -> Backend | None:
        """Return the backend of a role, or of who stands in for it; None for roles that need none."""
        return self.roles.get(role) or self.roles.get(STANDS_IN.get(role, ""))

    def _engine_for(self, role: str) -> Backend:
        return self.engine(role) or self.backend(role)

    def _step(self, prefix: Step, role: str, generation: Generation, room: int, tokenizer_id: str | None) -> Step:
        limits = self.limits
        length = generation.finish == "length"
        out_of_context = length and generation.n_generated < min(limits.max_step_tokens, room)
        last = out_of_context or prefix.depth + 2 >= limits.max_steps or generation.n_generated >= room
        return Step(
            prefix,
            role,
            generation.n_generated,
            final=last or generation.finish == "eos",
            truncated=length,
            payload=StepText(text=generation.text, token_ids=generation.token_ids, tokenizer_id=tokenizer_id),
        )


class _Drive:
    """One run in progress: the algorithm on one side, one task for each running operation on the other."""

    def __init__(self, clock: WallClock, session: WallSession) -> None:
        self._clock = clock
        self._session = session
        self._running: set[_Task] = set()
        self._aborting: set[_Task] = set()
        self._ready: list[Operation] = []
        self._wake: asyncio.Future[None] | None = None
        self._error: CalibrationError | None = None
        self._loop = asyncio.get_running_loop()

    async def follow(self, algorithm: Algorithm) -> None:
        """Give the algorithm what it asks for until it ends."""
        clock, session = self._clock, self._session
        message: Operation | None = None
        try:
            while True:
                action = algorithm.send(message)
                message = None
                if isinstance(action, Wait):
                    message = await self._next()
                elif isinstance(action, Generate):
                    progress = Progress()
                    speculation = session.speculation.get(action.role)
                    self._start(action, clock.generate(action, session.stream, progress, speculation), progress)
                elif isinstance(action, Verify):
                    self._start(action, clock.verify(action, session.stream))
                elif isinstance(action, Score):
                    self._start(action, clock.score(action, session.stream))
                elif isinstance(action, Choose):
                    self._start(action, clock.choose(action))
                elif isinstance(action, Commit):
                    session.committed.append(action.step)
                    session.commit_times.append(session.now())
                elif isinstance(action, Cancel):
                    self._cancel(action.operation)
                else:
                    raise TypeError(f"an algorithm yielded {action!r}, which is no action")
        except StopIteration:
            session.finished = session.now()

    async def abort(self) -> None:
        """Abort everything in flight and wait until the engines have."""
        for task in self._running:
            task.cancel()
        await _over(self._running | self._aborting)

    async def leave(self) -> set[_Task]:
        """Wait until aborted requests have left their engines; return what runs on."""
        await _over(self._aborting)
        return set(self._running)

    def _start(self, operation: Operation, work: _Work, progress: Progress | None = None) -> None:
        operation.started = self._session.now()
        self._session.operations.append(operation)
        task = operation.job = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(partial(self._on_done, operation, progress))

    def _cancel(self, operation: Operation) -> None:
        if operation.cancelled:
            return
        operation.cancelled = True
        if operation.finished < 0.0:  # else it has ended and waits to be delivered, which will not happen
            operation.finished = self._session.now()
            task: _Task = operation.job
            operation.job = None
            self._running.discard(task)
            self._aborting.add(task)
            task.cancel()

    async def _next(self) -> Operation:
        """The next operation that ended and was not cancelled meanwhile."""
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

    def _on_done(self, operation: Operation, progress: Progress | None, task: _Task) -> None:
        self._running.discard(task)
        self._aborting.discard(task)
        if progress is not None:
            operation.n_generated = progress.n_generated
        if task.cancelled():
            return
        error = task.exception()
        if operation.cancelled:
            return  # whatever it came to, nobody wants it
        operation.finished = self._session.now()
        if error is not None:
            self._error = self._error or _named(operation, error)
        else:
            operation.pending, operation.job = task.result()
            self._ready.append(operation)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _ended(self, operation: Operation) -> float:
        """When it ended: by its engine's clock where there is one, s since the start."""
        record = operation.job
        return operation.finished if record is None else record.times.end - self._session.epoch


T = TypeVar("T")


def _known(table: Mapping[str, T], role: str, what: str) -> T:
    try:
        return table[role]
    except KeyError:
        there = ", ".join(table) or "none"
        raise CalibrationError(f"no {what} for the role {role!r}; there are: {there}") from None


async def _over(tasks: set[_Task]) -> None:
    if tasks:
        await asyncio.wait(tasks)
        await asyncio.sleep(0)  # their callbacks, which note the tokens drawn, run in the next turn


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


def _prompt_after(prefix: Step, tokenizer_id: str | None, max_tokens: int) -> tuple[Prompt, int]:
    """The text up to the end of ``prefix``, as ids where they mean the same to the engine, and the tokens left."""
    parts: list[StepText] = []
    step: Step | None = prefix
    n_prompt = 0
    while step is not None:
        parts.append(step.payload)
        n_prompt = step.n_tokens
        step = step.parent
    parts.reverse()
    room = max_tokens - (prefix.context_tokens - n_prompt)
    if tokenizer_id is not None and all(part.tokenizer_id == tokenizer_id for part in parts):
        return tuple(chain.from_iterable(part.token_ids or () for part in parts)), room
    return "".join(part.text for part in parts), room
