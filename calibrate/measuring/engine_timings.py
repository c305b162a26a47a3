"""Timings of an engine that reports its iterations: decoding at several batch sizes, prefills, and requests."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, TypeAlias, TypeVar

from calibrate.engines.protocol import GREEDY, Backend, MeasuredEngine, Prompt, Request, Sampling
from calibrate.engines.speculation import Speculation
from calibrate.engines.work import EngineStatistics, Prefill
from calibrate.record.engine_records import DecodeSample, EngineRecord, PrefillSample
from theory.errors import CalibrationError, ParameterError, check_integers

__all__ = [
    "MeasureOptions",
    "WarmUp",
    "ask_beside",
    "measure_drafting_passes",
    "measure_engine",
    "measure_joining_prefills",
    "prefill_samples",
    "request_of_length",
    "timed_passes",
    "warm_up",
]

Answered = TypeVar("Answered")
WarmUp: TypeAlias = tuple[list[DecodeSample], list[PrefillSample]]
"""Timings of an engine's first requests."""

_PASS_BATCHES: Final = (1, 2, 4, 8, 16)
_MOST_CACHED: Final = 1 << 16
"""Cached tokens of all sequences of a batch, at most; a single sequence may have more."""
_FAR: Final = 2
"""Questions and answers this many times as long as what is timed by default are timed at their own lengths."""
_DRAFTING_BATCHES: Final = (1, 4, 16)
"""Measured numbers of tokens per sequence; costs are interpolated between them."""
_BETWEEN_S: Final = 0.05
"""Wait between prefills that join a decoding sequence, s."""
_APART: Final = 3
"""Difference of prompt lengths in a batch, tokens: equal lengths would need no mask in attention, unlike answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """Batch sizes, lengths and repeats of an engine's timings."""

    batches: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16)
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
    """Largest number of tokens per sequence for the times of passes that verify a draft; 1: no such passes."""
    rounds: int | None = None
    """Rounds of timing, spread evenly between the answers, so that a slow phase of the machine affects all parts alike.
    None: a number that depends on the number of answers (`calibrate.measuring.plan`)."""
    seed: int = 0
    """Seed of the random prompts."""

    def __post_init__(self) -> None:
        for name in ("batches", "contexts", "prefills"):
            values = getattr(self, name)
            if not values or any(isinstance(v, bool) or not isinstance(v, int) or v < 1 for v in values):
                raise ParameterError(name, values, "must be a non-empty list of integers >= 1")
        if 1 not in self.batches:
            raise ParameterError("batches", self.batches, "must contain 1")
        check_integers(self, iterations=2, repeats=1, k2=1, rounds=1)

    @property
    def cells(self) -> tuple[tuple[int, int], ...]:
        """Contexts and batch sizes to time together: all whose sequences fit a cache of `_MOST_CACHED` tokens."""
        pairs = product(self.contexts, self.batches)
        return tuple((context, batch) for context, batch in pairs if batch == 1 or batch * context <= _MOST_CACHED)

    @property
    def pass_batches(self) -> tuple[int, ...]:
        """Batch sizes for the times of a token-level method's own passes: few, as each takes more time."""
        return tuple(sorted(set(self.batches) & set(_PASS_BATCHES)))

    @property
    def n_parts(self) -> int:
        """Parts of one round of timing one engine, for progress bars."""
        return len(self.cells) + len(self.prefills) + 1

    def reaching(self, shortest: int, longest: int, end: int) -> MeasureOptions:
        """Return the options with contexts and prompts as long as those of the questions at hand.

        Times grow evenly with the context, so that a small, a middle and a large one tell them. Short questions leave
        everything as it is.

        Parameters
        ----------
        shortest, longest : tokens of the shortest and of the longest question.
        end : tokens at the end of a long answer, its question included.
        """
        contexts, prefills = self.contexts, self.prefills
        if end > _FAR * max(contexts):
            first = max(min(contexts), shortest)
            contexts = tuple(sorted({first, round(math.sqrt(first * end)), end}))
        while longest > _FAR * max(prefills):
            prefills = (*prefills, min(4 * max(prefills), longest))
        return replace(self, contexts=contexts, prefills=prefills)


async def warm_up(engine: MeasuredEngine, *, seconds: float) -> WarmUp:
    """Run requests until the first, slow iterations are over; return their timings, which are recorded separately."""
    prompts = _prompts(engine, random.Random("warm-up"))  # other prompts than the timed ones
    await engine.stats(clear=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await engine.generate(request_of_length(next(prompts)(32), 16))
    statistics = await engine.stats(clear=True)
    return _decode_samples(statistics), prefill_samples(statistics.prefills)


async def measure_engine(
    engine: MeasuredEngine,
    device: str,
    options: MeasureOptions,
    *,
    sampling: Sampling = GREEDY,
    progress: Callable[[str], None] = lambda part: None,
) -> EngineRecord:
    """Measure iteration, prefill and request times of an engine without other work.

    The batches resemble those of answers: same sampling, and sequences of different length. For a small model, sampling
    takes up to a third of the pass, and more with more sequences.
    """
    prompts = _prompts(engine, random.Random(options.seed))
    decode: list[DecodeSample] = []
    prefill: list[PrefillSample] = []
    await engine.stats(clear=True)
    for context, batch in options.cells:
        texts = [next(prompts)(context + _APART * i) for i in range(batch)]
        requests = [request_of_length(text, options.iterations + 1, sampling) for text in texts]
        await asyncio.gather(*(engine.generate(request) for request in requests))
        if options.k2 > 1 and engine.describe().get("speculates_per_request"):
            # The passes compute k2, k2 - 1, ... and 2 tokens, as drafts are limited by the end of the request.
            lines = [request_of_length(next(prompts)(context), options.k2 + 1, sampling) for _ in range(batch)]
            drafting = Speculation(method="random", k2=options.k2)
            await asyncio.gather(*(engine.generate(replace(line, speculation=drafting)) for line in lines))
        statistics = await engine.stats(clear=True)
        # Iterations while a batch forms or ends are dropped: they have fewer sequences and other work.
        decode += [one for one in _decode_samples(statistics) if one.batch == batch]
        decode += [  # passes over equally long drafts, without drafting
            DecodeSample(batch=batch, context=p.context, tokens=p.rows // batch, seconds=p.seconds - p.drafting_s)
            for p in statistics.passes
            if p.rows > p.batch == batch
        ]
        prefill += prefill_samples(statistics.prefills)
        progress(f"{engine.name}: batch {batch}, context {context}")
    for n_tokens in options.prefills:
        for _ in range(options.repeats):
            await engine.generate(request_of_length(next(prompts)(n_tokens), 1, sampling))
        progress(f"{engine.name}: prefill {n_tokens}")
    prefill += prefill_samples((await engine.stats(clear=True)).prefills)
    request_s = [await _request_latency(engine, next(prompts)(32)) for _ in range(4 * options.repeats)]
    progress(f"{engine.name}: request latency")
    await engine.stats(clear=True)
    if not decode or not prefill:
        raise CalibrationError(f"engine {engine.name!r} reported no iterations: it cannot be timed")
    return EngineRecord(device=device, decode=decode, prefill=prefill, request_s=request_s)


async def measure_drafting_passes(
    engine: MeasuredEngine, method: str, speculation: Speculation, options: MeasureOptions, sampling: Sampling = GREEDY
) -> list[DecodeSample]:
    """Measure the passes of a method with a draft model or head, by batch size, including drafting and verification.

    Both grow with the batch in different ways, so that passes of one sequence are not enough. Prompts are random:
    drafts are rarely right, but take as long. The first pass of a batch includes the drafter's prefill, and does not
    count.
    """
    samples: list[DecodeSample] = []
    length = options.iterations // 2 + 2 * speculation.k2  # the last passes have shorter drafts
    for context in options.contexts:
        batches = [size for at, size in options.cells if at == context and size in _DRAFTING_BATCHES]
        prompts = _prompts(engine, random.Random(f"drafting {context} {options.seed}"))  # engines of all settings
        texts = [next(prompts)(context + _APART * i) for i in range(max(batches))]
        for batch in batches:
            requests = [request_of_length(text, length, sampling) for text in texts[:batch]]
            speculating = [replace(request, speculation=speculation) for request in requests]
            samples += (await timed_passes(engine, method, speculation.k2, speculating))[1:]
    return samples


async def measure_joining_prefills(
    engine: MeasuredEngine, options: MeasureOptions, sampling: Sampling = GREEDY
) -> list[PrefillSample]:
    """Measure prefills while another sequence decodes, on an engine that does both in one pass; none on others."""
    prompts = _prompts(engine, random.Random(f"joining {options.seed}"))
    lengths = [n for n in options.prefills for _ in range(options.repeats)]
    requests = [request_of_length(next(prompts)(n), 1, sampling) for n in lengths]
    decoding = request_of_length(next(prompts)(32), 16 + 8 * len(requests), sampling)
    await engine.stats(clear=True)
    await ask_beside(asyncio.ensure_future(engine.generate(decoding)), requests, engine.generate)
    statistics = await engine.stats(clear=True)
    return [sample for sample in prefill_samples(statistics.prefills) if sample.beside]


async def ask_beside(
    decoding: asyncio.Future[Any], requests: Iterable[Request], ask: Callable[[Request], Awaitable[Answered]]
) -> list[Answered]:
    """Send ``requests`` one after the other while the request ``decoding`` runs; then cancel that."""
    answered = []
    try:
        for request in requests:
            await asyncio.sleep(_BETWEEN_S)  # at least a pass without a prompt
            if decoding.done():
                break
            answered.append(await ask(request))
    finally:
        decoding.cancel()
        await asyncio.gather(decoding, return_exceptions=True)
    return answered


async def timed_passes(engine: MeasuredEngine, method: str, k2: int, requests: Sequence[Request]) -> list[DecodeSample]:
    """Run concurrent requests; return the passes in which each of them had a full draft, drafting included."""
    batch = len(requests)
    await engine.stats(clear=True)
    await asyncio.gather(*map(engine.generate, requests))
    passes = (await engine.stats(clear=True)).passes
    return [
        DecodeSample(batch=batch, context=p.context, tokens=k2, by=method, seconds=p.seconds)
        for p in passes
        if p.batch == batch and p.rows == batch * k2
    ]


def _prompts(engine: Backend, rng: random.Random) -> Iterator[Callable[[int], tuple[int, ...]]]:
    """Yield functions that make a random prompt of a length; no two share a prefix, so that no prefix cache helps."""
    vocabulary = int(engine.describe()["vocab_size"])
    while True:
        yield lambda n: tuple(rng.randrange(vocabulary) for _ in range(n))


def request_of_length(prompt: Prompt, n_tokens: int, sampling: Sampling = GREEDY) -> Request:
    """Return a request that generates exactly ``n_tokens`` tokens."""
    return Request(prompt=prompt, max_tokens=n_tokens, stop=(), sampling=sampling, ignore_eos=True)


async def _request_latency(engine: Backend, prompt: tuple[int, ...]) -> float:
    started = time.monotonic()
    generation = await engine.generate(request_of_length(prompt, 2))
    return max(time.monotonic() - started - (generation.times.end - generation.times.prefill_start), 0.0)


def _decode_samples(statistics: EngineStatistics) -> list[DecodeSample]:
    return [DecodeSample(batch=it.batch, context=it.context, seconds=it.seconds) for it in statistics.iterations]


def prefill_samples(prefills: Iterable[Prefill]) -> list[PrefillSample]:
    """Return prefills as records of a profile."""
    return [
        PrefillSample(tokens=p.tokens, cached=p.cached, seconds=p.seconds, together=p.together, beside=p.beside)
        for p in prefills
    ]
