"""The wall clock: drives the algorithms of `sim` on real engines, in real time, with asyncio.

An algorithm's operations become requests; a cancelled operation is aborted in its engine. Completions are delivered in
the order in which they ended, cancelled ones never. The session of a run has the same form as that of
`sim.virtual_clock`, so both clocks give the same timeline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeVar

from calibrate.engines.protocol import (
    GREEDY,
    Backend,
    Choice,
    Forgetful,
    Generation,
    Likelihood,
    Preparing,
    Progress,
    Prompt,
    Request,
    Sampling,
)
from calibrate.engines.sampling import derive_seed, uniform
from calibrate.engines.speculation import Speculation
from calibrate.running.scorers import Chooser, Scorer
from calibrate.running.session import Drive, Reply, ReplyTask, WallSession
from calibrate.running.step_marks import StepMarks
from calibrate.running.verifiers import ExactMatch, RandomAcceptance, StepText, Verifier
from sim.operations import (
    Algorithm,
    Choose,
    Generate,
    Operation,
    Score,
    Selection,
    Step,
    Verdict,
    Verify,
    prompt,
    steps_after,
)
from sim.roles import EXACT, GATE, JUDGE, RANDOM, STANDS_IN
from theory.errors import CalibrationError, ParameterError

__all__ = ["StepLimits", "WallClock"]

_KEPT_TEXTS: Final = 16
"""Latest prefixes whose text is kept, so that what follows them is added to it."""

_UNSEEN: Final = 8
"""Tokens that a server may add to a prompt (its beginning, the bounds of texts), beyond those that were counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits:
    """Limits of steps and answers, so that every run ends."""

    separator: str = "\n\n"
    """String at which a step ends (included in the step)."""
    max_step_tokens: int = 100
    """A step that is a request is cut after this many tokens, and marked as truncated."""
    max_steps: int = 64
    """Most steps of an answer with a request for each step; the last of them ends it."""
    max_answer_tokens: int = 4096
    """The step with which the answer has this many tokens ends it."""


class WallClock:
    """Real engines for each role, and the rules by which text becomes steps.

    Parameters
    ----------
    roles : the backend of each role; several roles may share one. A role without a backend uses that of its stand-in
        (`sim.roles.STANDS_IN`), except the judge.
    verifier : verifier of the role ``judge``; it may use the backend of that role. The role ``gate`` is the same
        verifier with the draft model.
    verifiers : verifiers of further roles; exact match and chance are built in.
    seed : seed of the run. A request's seed is a hash of it, the stream, the role, the depth and the branch, so that
        two schedules draw the same step after the same prefix.

    Attributes
    ----------
    template : makes the text that models continue from a question; None: they continue the question itself.
    """

    def __init__(
        self,
        roles: Mapping[str, Backend],
        verifier: Verifier,
        *,
        verifiers: Mapping[str, Verifier] | None = None,
        scorers: Mapping[str, Scorer] | None = None,
        chooser: Chooser | None = None,
        sampling: Sampling = GREEDY,
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
        self.sampling = sampling
        self.template: Callable[[str], Awaitable[str]] | None = None
        self._left_running: set[ReplyTask] = set()
        self._texts: dict[Step, tuple[Step, str]] = {}

    async def root(self, text: str) -> Step:
        """The prompt as the root of a tree of steps.

        Raises
        ------
        ParameterError : the text is empty.
        CalibrationError : the template cannot be applied.
        """
        if not text:
            raise ParameterError("prompt", text, "must not be empty")
        if self.template is not None:
            text = await self.template(text)
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

        ``speculation`` is the token-level speculation of each role's requests; other roles use plain decoding.

        Requests that the algorithm leaves running at its end continue in the background; see `drain`. If the run fails
        or is cancelled, all requests in flight are aborted first.

        Raises
        ------
        CalibrationError : an engine failed; the message names the operation.
        """
        session = WallSession(stream, speculation)
        drive = Drive(self.perform, session)
        try:
            await drive.follow(algorithm)
        except BaseException:
            await drive.abort()
            raise
        finally:
            algorithm.close()
        left = await drive.leave()  # before the set is read: other runs may change it meanwhile
        self._left_running |= left
        return session

    async def drain(self) -> None:
        """Wait for requests that earlier runs left running (a schedule may leave some in flight at an answer's end)."""
        while self._left_running:
            await asyncio.wait(self._left_running)
            self._left_running = {task for task in self._left_running if not task.done()}

    async def fresh(self, speculation: Mapping[str, Speculation] | None = None) -> None:
        """Drain, and empty prefix caches of engines that support it, so that no run profits from another's prompts.

        Engines prepare for the token-level speculation of the next run, by role, so that it does not wait for them.
        """
        await self.drain()
        for role, wanted in (speculation or {}).items():
            if isinstance(engine := self.roles.get(role), Preparing):
                await engine.prepare(wanted)
        for engine in {id(engine): engine for engine in self.roles.values()}.values():
            if isinstance(engine, Forgetful):
                await engine.forget()

    async def close(self) -> None:
        """Abort requests that earlier runs left running. The backends stay open: they belong to the caller."""
        for task in self._left_running:
            task.cancel()
        await self.drain()

    def backend(self, role: str) -> Backend:
        """The backend of a role.

        Raises
        ------
        CalibrationError : the role has no backend.
        """
        return _known(self.roles, role, "backend")

    async def perform(self, operation: Operation, session: WallSession, progress: Progress) -> Reply[Any, Any]:
        """Run an operation of a session by the model of its role; ``progress`` counts the tokens of a step."""
        if isinstance(operation, Generate):
            return await self.generate(operation, session.stream, progress, session.speculation.get(operation.role))
        if isinstance(operation, Verify):
            return await self.verify(operation, session.stream)
        if isinstance(operation, Score):
            return await self.score(operation, session.stream)
        assert isinstance(operation, Choose)
        return await self.choose(operation)

    async def generate(
        self, operation: Generate, stream: str, progress: Progress, speculation: Speculation | None = None
    ) -> Reply[Step, Generation]:
        """Generate a step after a prefix on a real engine, or all steps up to the answer's end in one request."""
        role, prefix, limits = operation.role, operation.prefix, self.limits
        backend = self.backend(role)
        seed = derive_seed(self.seed, stream, role, prefix.depth + 1, operation.branch)
        if not operation.whole:
            most, stop = limits.max_step_tokens, (limits.separator,)
            generation = await self.rest(operation, progress, seed=seed, speculation=speculation, most=most, stop=stop)
            return Reply(self._step(prefix, role, generation, backend.tokenizer_id), generation)
        marks = StepMarks(prefix, role, limits.separator)
        progress.on_text = marks.take
        context = backend.describe().get("max_context")
        room = None if context is None else max(int(context) - prefix.context_tokens - _UNSEEN, 1)
        generation = await self.rest(operation, progress, seed=seed, speculation=speculation, most=room)
        if marks.n_seen:
            marks.end(generation)
        else:
            marks.whole(generation, backend)
        return Reply(marks.last, generation)

    async def rest(
        self,
        operation: Generate,
        progress: Progress,
        *,
        seed: int,
        speculation: Speculation | None = None,
        most: int | None = None,
        stop: tuple[str, ...] = (),
        ids: tuple[int, ...] = (),
    ) -> Generation:
        """Return the text of an answer after the operation's prefix, generated in one request.

        Parameters
        ----------
        most : tokens to ask for at most; None: what the limit of an answer leaves.
        stop : strings at which it ends.
        ids : token ids of all before it, in place of its text; empty: unknown.
        """
        backend, prefix = self.backend(operation.role), operation.prefix
        room = self._room(prefix)
        request = Request(
            prompt=ids or self._prompt_after(prefix, backend.tokenizer_id),
            max_tokens=room if most is None else min(room, most),
            stop=stop,
            sampling=self.sampling,
            seed=seed,
            speculation=speculation,
        )
        return await backend.generate(request, progress)

    async def verify(self, operation: Verify, stream: str) -> Reply[Verdict, Choice | None]:
        """The verdict on a draft, and the model's reply.

        Raises
        ------
        CalibrationError : the operation's role has no verifier.
        """
        role, depth, branch = operation.role, operation.candidate.depth, operation.branch
        verdict, choice = await _known(self.verifiers, role, "verifier").verify(
            operation.candidate,
            operation.reference,
            judge=self.roles.get(role) if role == JUDGE else self.engine(role),
            seed=derive_seed(self.seed, stream, role, depth, branch),
        )
        if operation.threshold is not None and verdict.score is not None:
            verdict = Verdict(verdict.score >= operation.threshold, verdict.score)
        return Reply(verdict, choice)

    async def score(self, operation: Score, stream: str = "") -> Reply[float, Choice | Likelihood | None]:
        """The score of a step, and the model's reply; for the role `RANDOM` a uniform number from the seed."""
        role, step = operation.role, operation.candidate
        if role == RANDOM:
            return Reply(uniform(derive_seed(self.seed, stream, role, step.depth, operation.branch), 0), None)
        scorer = _known(self.scorers, role, "scorer")
        return await scorer.score(step, engine=self.engine(role) or self.backend(role))

    async def choose(self, operation: Choose) -> Reply[Selection, Choice]:
        """The choice of a model among several steps, and its reply."""
        if self.chooser is None:
            raise CalibrationError("no chooser: these models have no prompt for a choice among steps")
        return await self.chooser.choose(
            operation.candidates, engine=self.engine(operation.role) or self.backend(operation.role)
        )

    def engine(self, role: str) -> Backend | None:
        """Return the backend of a role, or of its stand-in; None for roles that need none."""
        return self.roles.get(role) or self.roles.get(STANDS_IN.get(role, ""))

    def _room(self, prefix: Step) -> int:
        """Tokens that the limit of an answer leaves after ``prefix``."""
        root, _ = self._text(prefix)
        return self.limits.max_answer_tokens - (prefix.context_tokens - root.n_tokens)

    def _text(self, last: Step) -> tuple[Step, str]:
        """Return the root, and the text from there up to the end of a step."""
        step, parts = last, list[str]()
        while step.parent is not None and step not in self._texts:
            parts.append(step.payload.text)
            step = step.parent
        root, text = self._texts.get(step, (step, step.payload.text))
        if parts:
            text = "".join((text, *reversed(parts)))
            self._texts[last] = root, text
            if len(self._texts) > _KEPT_TEXTS:
                del self._texts[next(iter(self._texts))]
        return root, text

    def _prompt_after(self, prefix: Step, tokenizer_id: str | None) -> Prompt:
        """The text up to the end of ``prefix``, as token ids if the engine has the same tokenizer."""
        if tokenizer_id is not None:
            parts: list[StepText] = [step.payload for step in steps_after(None, prefix)]
            if all(part.tokenizer_id == tokenizer_id for part in parts):
                return tuple(chain.from_iterable(part.token_ids or () for part in parts))
        return self._text(prefix)[1]

    def _step(self, prefix: Step, role: str, generation: Generation, tokenizer_id: str | None) -> Step:
        limits, room = self.limits, self._room(prefix)
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


T = TypeVar("T")


def _known(table: Mapping[str, T], role: str, what: str) -> T:
    try:
        return table[role]
    except KeyError:
        there = ", ".join(table) or "none"
        raise CalibrationError(f"no {what} for the role {role!r}; there are: {there}") from None
