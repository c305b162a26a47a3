"""Timings of a server's engine, estimated from the arrival times of streamed tokens.

Iteration at batch b: when b - 1 requests have their first tokens, another request is sent that ends before they do.
From its first token on all b are in every iteration, and the gaps between its tokens are iterations; the other streams
have the same iterations, which are counted once. The gaps sum to the elapsed time, so a late delivery in between
increases the variance but does not change the mean. A late first or last token does: an attempt during which this
process waited for a processor (`calibrate.engines.http.stalls`) is repeated. A batch that the server does not run at
once is left out, and noted. On a server that speculates, iterations are passes over drafts.

Prefill: time to the first token - median round trip of a request without a model. Request: such a round trip, and the
time from the last token to the end of the stream. Time that the server spends on a request before its engine starts,
beyond such a round trip, is therefore part of the prefill. The time of a prefill that joins a decoding stream is the
growth of that stream's gap (`calibrate.engines.http.activity`): none is recorded where the server queued requests.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from calibrate.engines.http.activity import activity
from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.stalls import StallWatch, tolerated
from calibrate.engines.http.stream import Streamed
from calibrate.engines.token_vocabulary import OF_REQUEST
from calibrate.measuring.engine_timings import MeasureOptions, WarmUp, ask_beside, prefill_samples, request_of_length
from calibrate.measuring.stream_samples import grouped, iterations, levelled, prefill, tail_s
from calibrate.record.engine_records import DecodeSample, EngineRecord, PrefillSample
from theory.errors import CalibrationError

__all__ = ["ESTIMATOR", "left_out_notes", "measure_server", "timing_notes", "warm_up_server"]

ESTIMATOR: Final = (
    "timings seen from outside: iterations are gaps between the tokens of one of b concurrent streams; prefill is the "
    "time to the first token less the median round trip of GET /v1/models; a request costs such a round trip and the "
    "time from its last token to its end"
)
_TIMED: Final = "timed"
_LATE: Final = "late"
_LEFT_OUT: Final = "left out"
_PREFILLS: Final = "prefills"
_LEVELS: Final = 3
_TRIES: Final = 4
_PAUSE_S: Final = 0.05
"""Wait before an attempt with late reads is repeated, s; a multiple of it each time."""
_GIVEN_UP: Final = 3
"""Failed timings of a batch - successful ones, at which it is not tried any more."""
_COMPANY: Final = 32
"""Words in the prompt of the stream that prefills join, and tokens of its answer per prefill."""
_AT_MOST_EACH: Final = 4
"""Most tokens of a word."""
_LONG_S: Final = 2.0
"""Time to first token from which on the server is taken to run one request after the other, s."""
_NOTED_SHARE: Final = 0.01
"""Share of the requests of answers that may have been read late without a note, [-]."""
_WORDS: Final = (
    *("the", "of", "and", "to", "in", "is", "that", "it", "was", "for", "on", "are", "as", "with", "his", "they", "at"),
    *("be", "this", "from", "have", "or", "by", "one", "had", "not", "but", "what", "all", "were", "when", "we", "how"),
)
"""Words that are a single token in most vocabularies, so that equal lengths in words are equal in tokens."""


async def warm_up_server(engine: OpenAIEngine, *, seconds: float) -> WarmUp:
    """Send requests until the first, slow ones are over; return their timings, which are recorded separately."""
    prompts = _prompts(random.Random("warm-up"))  # other prompts than the timed ones
    decode: list[DecodeSample] = []
    prefills: list[PrefillSample] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        streamed = await engine.stream(request_of_length(next(prompts)(32), 16), Streamed())
        decode += iterations([streamed])
        prefills.append(prefill(streamed, 0.0))
    return decode, prefills


async def measure_server(
    engine: OpenAIEngine,
    device: str,
    options: MeasureOptions,
    *,
    progress: Callable[[str], None] = lambda part: None,
) -> EngineRecord:
    """Measure iteration, prefill and request times of a server without other work; see the module.

    Passes over drafts are timed on servers of the same model that speculate (`OpenAIEngine.speculating`).

    Parameters
    ----------
    options : batch sizes and lengths; lengths are in words here, and the server's token counts are recorded.

    Raises
    ------
    CalibrationError : the server failed, or the iterations of a single request cannot be timed.
    """
    prompts = _prompts(random.Random(options.seed))
    decode: list[DecodeSample] = []
    first: list[Streamed] = []
    trips: list[float] = []
    async with StallWatch() as watch:
        for context, batch in options.cells:
            texts = [next(prompts)(context) for _ in range(batch)]
            decode += await _timed_batch(engine, texts, options.iterations, watch)
            progress(f"{engine.name}: batch {batch}, context {context}")
        for n_words in options.prefills:
            for _ in range(options.repeats):
                trip, streamed = await _timed_prefill(engine, prompts, n_words, watch)
                trips.append(trip)
                first.append(streamed)
            progress(f"{engine.name}: prefill {n_words}")
        for speculation, other in engine.speculating.items() if len(options.batches) > 1 else ():
            passes = await _passes(other, prompts, options, watch)
            decode += [sample.model_copy(update={"by": OF_REQUEST[speculation.method].catalogue}) for sample in passes]
        trip = statistics.median(trips)  # a late answer must not make all prefills appear short
        joining = await _joining_prefills(engine, prompts, options, trip, watch)
    progress(f"{engine.name}: request latency")
    return EngineRecord(
        device=device,
        decode=decode,
        prefill=[*(prefill(streamed, trip) for streamed in first), *joining],
        request_s=[s + tail_s(streamed) for s, streamed in zip(trips, first, strict=True)],
    )


async def _timed_batch(engine: OpenAIEngine, prompts: Sequence[str], n: int, watch: StallWatch) -> list[DecodeSample]:
    """About ``n`` iterations of a batch; none if the server did not run its requests at once.

    Attempts with late reads are repeated; requests that did not overlap are made longer. Where iterations are passes
    over drafts, lengths assume that half of each draft is right.
    """
    what = f"batch {len(prompts)}"
    behind = engine.outcomes[what, _LEFT_OUT] - engine.outcomes[what, _TIMED] if len(prompts) > 1 else 0
    hopeless = behind > 0
    enough, tried = max(n // 2, 1), list[_Attempt]()
    for level in () if behind >= _GIVEN_UP else (1,) if hopeless else range(_LEVELS):
        n_prompt = max((attempt.n_prompt for attempt in tried), default=0)
        n_tokens = math.ceil(n * (1 + _pass_tokens(engine)) / 2)
        lengths = _lengths(n_tokens, len(prompts), level, _most_tokens(engine, n_prompt))
        for repetition in range(1 if hopeless else _TRIES):
            await asyncio.sleep(_PAUSE_S * repetition)
            attempt = await _attempt(engine, prompts, lengths, watch)
            tried.append(attempt)
            if not attempt.late:
                break
        if not attempt.late and len(attempt.samples) >= enough:
            engine.outcomes[what, _TIMED] += 1
            return grouped(attempt.samples, n)
        last = attempt.last
        if level and not attempt.late and last.arrivals and last.arrivals[0][0] - last.sent > _LONG_S:
            break
    if len(prompts) > 1:
        engine.outcomes[what, _LEFT_OUT] += 1
        return []
    usable = [attempt for attempt in tried if len(attempt.samples) >= enough]
    if not usable:
        request = f"a request of {attempt.max_tokens} tokens"
        raise CalibrationError(f"{engine.name}: {request} cannot be timed: {attempt.failure()}")
    engine.outcomes[what, _LATE] += 1
    return levelled(min(usable, key=lambda attempt: attempt.stall_s / max(attempt.seconds, 1e-9)).samples, n)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """Requests sent to run at once, and the timings of the last of them."""

    samples: list[DecodeSample]
    last: Streamed
    max_tokens: int
    stall_s: float
    n_prompt: int

    @property
    def seconds(self) -> float:
        return sum(sample.seconds for sample in self.samples)

    @property
    def late(self) -> bool:
        return self.stall_s > tolerated(self.seconds)

    def failure(self) -> str:
        """Reason why no iteration of the last request could be timed."""
        if self.last.n_tokens < self.max_tokens:
            return f"the server ended the answer after {self.last.n_tokens}, though the request says ignore_eos"
        return f"its tokens came in {len(self.last.arrivals)} piece(s): does something on the way collect the stream?"


async def _attempt(
    engine: OpenAIEngine, prompts: Sequence[str], lengths: tuple[int, int], watch: StallWatch
) -> _Attempt:
    """Send a request of ``lengths[0]`` tokens while the others, of ``lengths[1]``, decode."""
    streams = [Streamed() for _ in prompts]
    tasks: list[asyncio.Task[Streamed]] = []
    try:
        for prompt, streamed in zip(prompts[:-1], streams, strict=False):
            tasks.append(asyncio.ensure_future(engine.stream(request_of_length(prompt, lengths[1]), streamed)))
        for task, streamed in zip(tasks, streams, strict=False):
            await _wait_for_first_token(task, streamed)
        tasks.append(asyncio.ensure_future(engine.stream(request_of_length(prompts[-1], lengths[0]), streams[-1])))
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    last = streams[-1]
    return _Attempt(
        samples=iterations(streams, k2=_pass_tokens(engine)),
        last=last,
        max_tokens=lengths[0],
        stall_s=watch.longest(last.sent, last.end),
        n_prompt=max(streamed.n_prompt for streamed in streams),
    )


async def _wait_for_first_token(task: asyncio.Task[Streamed], streamed: Streamed) -> None:
    """Return when the first token has arrived."""
    first = asyncio.ensure_future(streamed.begun.wait())
    try:
        await asyncio.wait({task, first}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        first.cancel()
    if task.done():
        task.result()  # raises the error that ended it


async def _passes(
    engine: OpenAIEngine, prompts: Iterator[Callable[[int], str]], options: MeasureOptions, watch: StallWatch
) -> list[DecodeSample]:
    """Passes of a server that speculates, at several batch sizes, with repetitive prompts for n-gram drafts."""
    samples: list[DecodeSample] = []
    for _ in range(options.repeats):
        await engine.round_trip()  # updates the engine's estimate of request latency
    for batch in options.pass_batches:
        texts = [" ".join([next(prompts)(max(options.contexts[0] // 4, 4))] * 4) for _ in range(batch)]
        samples += await _timed_batch(engine, texts, options.iterations, watch)
    return samples


def _pass_tokens(engine: OpenAIEngine) -> int:
    """Most tokens that an iteration of a server commits per sequence."""
    return 1 if engine.speculates is None else engine.speculates.k2


def _lengths(n: int, batch: int, level: int, room: int | None) -> tuple[int, int]:
    """Tokens of the timed request, and of the others that decode at the same time.

    A server starts a request some iterations after it was sent; the faster its model, the more iterations.
    """
    timed, others = ((n + 1, n + 5 + 2 * batch), (4 * n, 8 * n + 8 * batch), (16 * n, 64 * n + 64 * batch))[level]
    if not level:
        return timed, others
    others = min(others, 16 * n + 32 * batch if room is None else max(room, 2))
    return max(min(timed, others if batch == 1 else others // 2), 2), others


def _most_tokens(engine: OpenAIEngine, n_prompt: int) -> int | None:
    """Most tokens that a request may generate; None if the server does not report a limit."""
    most = engine.describe()["max_context"]
    return int(most) - n_prompt if most and n_prompt else None


async def _timed_prefill(
    engine: OpenAIEngine, prompts: Iterator[Callable[[int], str]], n_words: int, watch: StallWatch
) -> tuple[float, Streamed]:
    """Time a round trip without the model and a request for one token, with a new prompt for each attempt."""
    tried: list[tuple[float, float, Streamed]] = []
    for repetition in range(_TRIES):
        await asyncio.sleep(_PAUSE_S * repetition)
        began = time.monotonic()
        trip = await engine.round_trip()
        streamed = await engine.stream(request_of_length(next(prompts)(n_words), 1), Streamed())
        tried.append((watch.longest(began, streamed.end), trip, streamed))
        if tried[-1][0] <= tolerated(streamed.end - began):
            break
    else:
        engine.outcomes[_PREFILLS, _LATE] += 1
    _, trip, streamed = min(tried, key=lambda attempt: attempt[0])
    return trip, streamed


async def _joining_prefills(
    engine: OpenAIEngine,
    prompts: Iterator[Callable[[int], str]],
    options: MeasureOptions,
    trip: float,
    watch: StallWatch,
) -> list[PrefillSample]:
    """Prefills that joined a decoding stream, timed by the growth of its gap, without those that were read late."""
    lengths = [n for n in options.prefills for _ in range(options.repeats)]
    room = _most_tokens(engine, _AT_MOST_EACH * _COMPANY)
    n_tokens = _COMPANY * len(lengths) if room is None else max(min(_COMPANY * len(lengths), room), 2)
    stream = Streamed()
    task = asyncio.ensure_future(engine.stream(request_of_length(next(prompts)(_COMPANY), n_tokens), stream))
    try:
        await _wait_for_first_token(task, stream)
        requests = (request_of_length(next(prompts)(n_words), 1) for n_words in lengths)
        answered = await ask_beside(task, requests, lambda request: engine.stream(request, Streamed()))
    finally:
        task.cancel()
    in_time = [one for one in answered if watch.longest(one.sent, one.end) <= tolerated(one.end - one.sent)]
    done = activity([stream, *in_time], trip_s=trip).prefills
    return prefill_samples(one for one in done if one.beside)


def timing_notes(engine: OpenAIEngine) -> list[str]:
    """Notes for the profile on timings of a server that this process read late."""
    engines = (engine, *engine.speculating.values())
    outcomes = sum((server.outcomes for server in engines), start=Counter[tuple[str, str]]())
    late = [f"{n} timings of {what}" for (what, outcome), n in outcomes.items() if outcome == _LATE]
    n_late, n_answered = sum(server.n_late for server in engines), sum(server.n_answered for server in engines)
    if n_late > _NOTED_SHARE * n_answered:
        late.append(f"{n_late} of {n_answered} requests of answers")
    return [f"warning: {what} were read late, because this machine was overloaded" for what in late]


def left_out_notes(batches: Sequence[int], rounds: Sequence[Sequence[DecodeSample]]) -> list[str]:
    """Notes for the profile on batch sizes that timing rounds lack, including rounds of earlier runs."""
    why = "its requests did not run at the same time"
    remedy = (
        "give a smaller --concurrency if the server limits how many it runs at once, else calibrate again without "
        "other load on this machine and the server; simulations compute its time from the timed batches: between two "
        "of them by interpolation, beyond the largest by the slope of the upper half, and as long as an iteration of "
        "one request where only batch 1 was timed"
    )
    notes = []
    for batch in batches:
        n = sum(all(sample.batch != batch or sample.by for sample in samples) for samples in rounds)
        if n == len(rounds):
            notes.append(f"warning: batch {batch} was left out: {why}; {remedy}")
        elif n:
            notes.append(f"batch {batch} was left out in {n} of {len(rounds)} rounds: {why}")
    return notes


def _prompts(rng: random.Random) -> Iterator[Callable[[int], str]]:
    """Yield functions that make a random prompt of a length; no two share a prefix, so that no prefix cache helps."""
    while True:
        yield lambda n: " ".join(rng.choice(_WORDS) for _ in range(n))
