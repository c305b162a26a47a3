"""Measuring a set of models on their engines: timings of the engines, and answers with their verdicts.

The functions here measure one piece each and return its record; what to measure, in which order, and keeping what is
finished is the business of `calibrate.measuring.session`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from calibrate.engines.protocol import Backend, Choice, EngineStatistics, Generation, Request
from calibrate.engines.speculation import Speculation
from calibrate.record.profile import (
    AnswerRecord,
    DecodeSample,
    EngineRecord,
    Generated,
    PrefillSample,
    StepRecord,
    VerdictRecord,
)
from calibrate.running.wall_clock import WallClock, WallSession
from sim.algorithms import autoregressive, draft_trajectory, paired_trajectory
from sim.operations import (
    DRAFT,
    EXACT,
    GATE,
    INSTANT,
    JUDGE,
    STANDS_IN,
    TARGET,
    Choose,
    Generate,
    Operation,
    Score,
    Step,
    Verify,
)
from theory.errors import CalibrationError, ParameterError

__all__ = [
    "Look",
    "MeasureOptions",
    "MeasuredEngine",
    "Problem",
    "Recorded",
    "Truth",
    "measure_answer",
    "measure_engine",
    "warm_up",
]

_PASS_BATCHES = (1, 2, 4)
_RECENT = 64
"""Operations before a request among which one can be in its engine's hands."""


class MeasuredEngine(Backend, Protocol):
    """A backend that reports its iterations."""

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        """Durations of the latest iterations and prefills."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a task can say about its own answers; every function gets plain texts."""

    step_is_correct: Callable[[str, Sequence[str], str], bool]
    same_meaning: Callable[[str, str], bool]
    answer_is_correct: Callable[[str, str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A question to answer."""

    name: str
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How closely to look at the drafts of a position, so that other methods can be predicted from the same answers."""

    drafts: int = 1
    """Drafts per position, >= 1; the first one decides."""

    verifiers: tuple[str, ...] = (GATE, EXACT)
    """Verifiers that see every draft besides the judge."""

    scorers: tuple[str, ...] = ()
    """Roles that score every draft."""

    chooser: bool = False
    """Whether the chooser is asked about the drafts of a position, all at once."""

    beams: int = 0
    """Candidates per position and model of one more answer, for methods that choose among them; 0 leaves it out."""

    def __post_init__(self) -> None:
        if isinstance(self.drafts, bool) or not isinstance(self.drafts, int) or self.drafts < 1:
            raise ParameterError("drafts", self.drafts, "must be an integer >= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded answer, and what does not belong in its record."""

    record: AnswerRecord

    ids: tuple[tuple[int, ...], tuple[int, ...]] | None
    """Token ids of prompt and target answer, where the engine tells them (for n-gram statistics)."""

    role_seconds: dict[str, list[float]]
    """Times of verdicts by roles that run on no engine, s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """How much to measure of an engine."""

    batches: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    """Batch sizes for iteration times; 1 must be among them."""

    contexts: tuple[int, ...] = (32, 256)
    """Prompt lengths for iteration times, tokens."""

    iterations: int = 16
    """Iterations per batch size and context, each round."""

    prefills: tuple[int, ...] = (4, 16, 48, 128)
    """Prompt lengths for prefill times, tokens."""

    repeats: int = 3
    """Prefills per length, each round."""

    k2: int = 16
    """Largest number of tokens per sequence for the times of passes that verify a draft; 1 leaves them out."""

    rounds: int = 6
    """Rounds of timing, spread evenly between the answers: a machine that is slow for some seconds slows all alike."""

    seed: int = 0
    """Of the random prompts."""

    def __post_init__(self) -> None:
        for name in ("batches", "contexts", "prefills"):
            values = getattr(self, name)
            if not values or any(isinstance(v, bool) or not isinstance(v, int) or v < 1 for v in values):
                raise ParameterError(name, values, "must be a non-empty list of integers >= 1")
        if 1 not in self.batches:
            raise ParameterError("batches", self.batches, "must contain 1")
        for name, least in (("iterations", 2), ("repeats", 1), ("k2", 1), ("rounds", 1)):
            if getattr(self, name) < least:
                raise ParameterError(name, getattr(self, name), f"must be an integer >= {least}")

    @property
    def pass_batches(self) -> tuple[int, ...]:
        """Batch sizes for the times of a token-level method's own passes, which take an engine more time each."""
        return tuple(sorted(set(self.batches) & set(_PASS_BATCHES)))

    @property
    def n_parts(self) -> int:
        """Parts of one round of timing one engine, for progress bars."""
        return len(self.batches) * len(self.contexts) + len(self.prefills) + 1


async def warm_up(engine: MeasuredEngine, *, seconds: float = 1.0) -> EngineStatistics:
    """Keep an engine busy until its first, slow iterations are over; return them (they are kept apart)."""
    prompts = _prompts(engine, random.Random("warm-up"))  # other prompts than those to be timed
    await engine.stats(clear=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await engine.generate(_fixed(next(prompts)(32), 16))
    return await engine.stats(clear=True)


async def measure_engine(
    engine: MeasuredEngine,
    device: str,
    options: MeasureOptions,
    *,
    warmup: EngineStatistics | None = None,
    progress: Callable[[str], None] = lambda part: None,
) -> EngineRecord:
    """Measure iteration, prefill and request times of one engine that has nothing else to do.

    Parameters
    ----------
    engine : the engine; warm.
    device : name of the processor that it runs on; engines of one device share it.
    options : batch sizes, contexts and repeats.
    warmup : what `warm_up` returned, to be kept apart in the record.
    progress : called with a description when a part is done, ``options.n_parts`` times.

    Raises
    ------
    CalibrationError : the engine failed, or reported no iterations.
    """
    prompts = _prompts(engine, random.Random(options.seed))
    await engine.stats(clear=True)
    for context in options.contexts:
        for batch in options.batches:
            requests = [_fixed(next(prompts)(context), options.iterations + 1) for _ in range(batch)]
            await asyncio.gather(*(engine.generate(request) for request in requests))
            if options.k2 > 1 and engine.describe().get("speculates_per_request"):
                drafting = [_drafting(next(prompts)(context), options.k2) for _ in range(batch)]
                await asyncio.gather(*(engine.generate(request) for request in drafting))
            progress(f"{engine.name}: batch {batch}, context {context}")
    for n_tokens in options.prefills:
        for _ in range(options.repeats):
            await engine.generate(_fixed(next(prompts)(n_tokens), 1))
        progress(f"{engine.name}: prefill {n_tokens}")
    statistics = await engine.stats(clear=True)
    request_s = [await _request_latency(engine, next(prompts)(32)) for _ in range(4 * options.repeats)]
    progress(f"{engine.name}: request latency")
    await engine.stats(clear=True)
    if not statistics.iterations or not statistics.prefills:
        raise CalibrationError(f"engine {engine.name!r} reported no iterations: it cannot be timed")
    kept = warmup if warmup is not None else EngineStatistics(iterations=(), prefills=(), n_aborted_tokens=0)
    return EngineRecord(
        device=device,
        decode=[*_decode_samples(statistics), *_pass_samples(statistics)],
        prefill=_prefill_samples(statistics),
        request_s=request_s,
        warmup_decode=_decode_samples(kept),
        warmup_prefill=_prefill_samples(kept),
    )


def _prompts(engine: Backend, rng: random.Random) -> Iterator[Callable[[int], tuple[int, ...]]]:
    """Endless makers of random prompts: no two share a prefix, so that no cache helps."""
    vocabulary = int(engine.describe()["vocab_size"])
    while True:
        yield lambda n: tuple(rng.randrange(vocabulary) for _ in range(n))


def _fixed(prompt: tuple[int, ...], n_tokens: int) -> Request:
    return Request(prompt=prompt, max_tokens=n_tokens, stop=(), ignore_eos=True)


def _drafting(prompt: tuple[int, ...], k2: int) -> Request:
    """A request whose passes take k2 tokens, k2 - 1 tokens, ... and 2: a draft never goes beyond the request's end."""
    return replace(_fixed(prompt, k2 + 1), speculation=Speculation(method="random", k2=k2))


async def _request_latency(engine: Backend, prompt: tuple[int, ...]) -> float:
    started = time.monotonic()
    generation = await engine.generate(_fixed(prompt, 2))
    return max(time.monotonic() - started - (generation.times.end - generation.times.prefill_start), 0.0)


def _decode_samples(statistics: EngineStatistics) -> list[DecodeSample]:
    return [DecodeSample(batch=b, context=c, seconds=s) for b, c, s in statistics.iterations]


def _pass_samples(statistics: EngineStatistics) -> list[DecodeSample]:
    """Passes over drafts, without the drafting; of batches of equal sequences."""
    return [
        DecodeSample(batch=batch, context=context, tokens=rows // batch, seconds=seconds - drafting)
        for batch, context, rows, _, seconds, drafting in statistics.passes
        if rows > batch
    ]


def _prefill_samples(statistics: EngineStatistics) -> list[PrefillSample]:
    return [PrefillSample(tokens=n, cached=c, seconds=s) for n, c, s in statistics.prefills]


def outside_seconds(session: WallSession, clock: WallClock) -> dict[str, list[float]]:
    """Seconds that requests spent outside their engines, by role: round trip less engine time.

    Requests that began while their engine had another one in hand are left out: part of their wait is for that one.
    """
    found: dict[str, list[float]] = {}
    for i, o in enumerate(session.operations):
        if isinstance(o.job, Generation | Choice) and not o.cancelled and not _queued(session.operations[:i], o, clock):
            inside = o.job.times.end - o.job.times.prefill_start
            found.setdefault(o.role, []).append(max(o.finished - o.started - inside, 0.0))
    return found


def _queued(earlier: Sequence[Operation], operation: Operation, clock: WallClock) -> bool:
    engine = clock.engine(operation.role)
    return any(o.finished > operation.started and clock.engine(o.role) is engine for o in reversed(earlier[-_RECENT:]))


async def measure_answer(
    clock: WallClock,
    problem: Problem,
    truth: Truth | None = None,
    look: Look | None = None,
) -> Recorded:
    """Answer one problem twice: the target alone, and both models side by side along the committed trajectory.

    Where somebody scores steps, the draft answers it alone, too.

    Parameters
    ----------
    clock : real engines.
    problem : what to answer.
    truth : ground truth of the task, if it has one.
    look : what else to find out about each draft; nothing by default.

    Raises
    ------
    CalibrationError : an engine failed.
    """
    await clock.fresh()
    root = await clock.root(problem.prompt)
    baseline = await clock.run(autoregressive(root), stream=problem.name)
    seen = look if look is not None else Look(verifiers=())
    procedure = paired_trajectory(
        root, drafts=seen.drafts, verifiers=seen.verifiers, scorers=seen.scorers, chooser=seen.chooser
    )
    await clock.fresh()
    paired = await clock.run(procedure, stream=problem.name)
    alone = await _alone(clock, root, problem, truth, seen.scorers)
    record = AnswerRecord(
        problem=problem.name,
        prompt_tokens=root.n_tokens,
        steps=_step_records(paired, problem, truth),
        baseline=_baseline(baseline, problem, truth),
        answer_correct=None if truth is None else truth.answer_is_correct(problem.prompt, paired.text),
        baseline_correct=None if truth is None else truth.answer_is_correct(problem.prompt, baseline.text),
        alone=alone,
    )
    return Recorded(
        record=record,
        ids=_token_ids(clock, problem, baseline),
        role_seconds=_role_seconds(paired),
    )


async def _alone(
    clock: WallClock, root: Step, problem: Problem, truth: Truth | None, scorers: Sequence[str]
) -> list[Generated]:
    """The draft's own answer with the scores of its steps; nothing where nobody scores."""
    if not scorers:
        return []
    await clock.fresh()
    session = await clock.run(draft_trajectory(root, scorers=scorers), stream=problem.name)
    opinions = _opinions(session)
    steps = [o for o in session.operations if isinstance(o, Generate)]
    return [
        _looked_at(o, _generated(o, problem, truth, session.committed[:depth]), opinions)
        for depth, o in enumerate(steps)
    ]


def _baseline(session: WallSession, problem: Problem, truth: Truth | None) -> list[Generated]:
    return [
        _generated(operation, problem, truth, session.committed[:depth])
        for depth, operation in enumerate(session.operations)
    ]


def _step_records(session: WallSession, problem: Problem, truth: Truth | None) -> list[StepRecord]:
    generated = [o for o in session.operations if isinstance(o, Generate)]
    first = {role: [o for o in generated if o.role == role and not o.branch] for role in (TARGET, DRAFT)}
    verifies = [o for o in session.operations if isinstance(o, Verify) and o.role == JUDGE and not o.branch]
    opinions = _opinions(session)
    records = []
    for depth, (target, draft, verify) in enumerate(zip(first[TARGET], first[DRAFT], verifies, strict=True)):
        before = session.committed[:depth]
        others = [o for o in generated if o.role == DRAFT and o.branch and o.prefix is draft.prefix]
        texts = draft.result.payload.text, target.result.payload.text
        records.append(
            StepRecord(
                draft=_looked_at(draft, _generated(draft, problem, truth, before), opinions),
                target=_generated(target, problem, truth, before),
                verdict=VerdictRecord(
                    accepted=verify.result.accepted,
                    score=verify.result.score,
                    seconds=verify.finished - verify.started,
                    prompt_tokens=verify.job.n_prompt_tokens if verify.job is not None else 0,
                    same_meaning=None if truth is None else truth.same_meaning(*texts),
                ),
                candidates=[_looked_at(o, _generated(o, problem, truth, before), opinions) for o in others],
            )
        )
    return records


def _opinions(session: WallSession) -> dict[int, list[Verify | Score | tuple[str, float]]]:
    """What was said about each step besides the judge's verdict on the first draft, by the step's identity.

    Of a choice it is the role and its score of the step, where the chooser tells one.
    """
    found: dict[int, list[Verify | Score | tuple[str, float]]] = {}
    for o in session.operations:
        if isinstance(o, Score) or (isinstance(o, Verify) and (o.role != JUDGE or o.branch)):
            found.setdefault(id(o.candidate), []).append(o)
        elif isinstance(o, Choose) and o.result.scores is not None:
            for candidate, score in zip(o.candidates, o.result.scores, strict=True):
                found.setdefault(id(candidate), []).append((o.role, score))
    return found


def _looked_at(
    draft: Generate, generated: Generated, opinions: dict[int, list[Verify | Score | tuple[str, float]]]
) -> Generated:
    """Add to a draft's record what others than the deciding judge said about it."""
    scores, accepted = {}, None
    for o in opinions.get(id(draft.result), []):
        if isinstance(o, tuple):
            scores[o[0]] = o[1]
            continue
        if isinstance(o, Score):
            scores[o.role] = float(o.result)
            continue
        scores[o.role] = float(o.result.accepted) if o.result.score is None else float(o.result.score)
        if o.role == JUDGE:
            accepted = o.result.accepted
    return generated.model_copy(update={"scores": scores, "accepted": accepted})


def _role_seconds(session: WallSession) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for o in session.operations:
        if isinstance(o, Verify) and o.role != JUDGE and o.role not in INSTANT and o.role not in STANDS_IN:
            found.setdefault(o.role, []).append(o.finished - o.started)
    return found


def _generated(operation: Operation, problem: Problem, truth: Truth | None, before: Sequence[Step]) -> Generated:
    step: Step = operation.result
    correct = None
    if truth is not None:
        previous = [one.payload.text for one in before]
        correct = truth.step_is_correct(problem.prompt, previous, step.payload.text)
    return Generated(
        tokens=step.n_tokens,
        seconds=operation.finished - operation.started,
        final=step.final,
        truncated=step.truncated,
        correct=correct,
    )


def _token_ids(
    clock: WallClock, problem: Problem, session: WallSession
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Prompt and answer as the target's token ids; None where the engine does not tell them."""
    answer = [step.payload.token_ids for step in session.committed]
    prompt = clock.backend(TARGET).encode(problem.prompt)
    if prompt is None or any(part is None for part in answer):
        return None
    return tuple(prompt), tuple(token for part in answer for token in part)
