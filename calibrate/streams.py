"""Timings of an engine estimated from outside, from the moments at which the tokens of its streams arrive.

Iteration at batch b: b requests run side by side; from the moment when the last of them has its first token until the
first of them ends, all b are in every iteration, and the gaps between the tokens of one stream are iterations. The
gaps of one stream add up to the time that passed, so late deliveries widen the spread and leave the mean alone. The
streams of a batch see the same iterations; only the one that began last is used, and none is counted twice.

Prefill: time to the first token, less the median round trip of a request without a model. Request: such a round trip,
and the time from the last token to the end of the stream. What the server spends on a request before its engine sees
it, beyond such a round trip, is therefore part of the prefill.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from calibrate.backends.base import Request
from calibrate.backends.openai_http import OpenAIEngine
from calibrate.backends.openai_stream import Streamed
from calibrate.measure import MeasureOptions
from calibrate.profile import DecodeSample, EngineRecord, PrefillSample
from theory.errors import CalibrationError

__all__ = ["ESTIMATOR", "iterations", "measure_streams", "warm_streams"]

ESTIMATOR: Final = (
    "timings seen from outside: iterations are gaps between the tokens of one of b concurrent streams; prefill is the "
    "time to the first token less the median round trip of GET /v1/models; a request costs such a round trip and the "
    "time from its last token to its end"
)
_WORDS: Final = (
    *("the", "of", "and", "to", "in", "is", "that", "it", "was", "for", "on", "are", "as", "with", "his", "they", "at"),
    *("be", "this", "from", "have", "or", "by", "one", "had", "not", "but", "what", "all", "were", "when", "we", "how"),
)
"""Words that are one token in most vocabularies, so that prompts of one length in words have one in tokens."""

Warmup = tuple[list[DecodeSample], list[PrefillSample]]


async def warm_streams(engine: OpenAIEngine, *, seconds: float) -> Warmup:
    """Keep a server busy until its first, slow requests are over; return their timings (they are kept apart)."""
    prompts = _prompts(random.Random("warm-up"))  # other prompts than those to be timed
    decode: list[DecodeSample] = []
    prefill: list[PrefillSample] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        streamed = await engine.stream(_fixed(next(prompts)(32), 16), Streamed())
        decode += iterations([streamed])
        prefill.append(_prefill(streamed, 0.0))
    return decode, prefill


async def measure_streams(
    engine: OpenAIEngine,
    device: str,
    options: MeasureOptions,
    *,
    warmup: Warmup = ([], []),
    progress: Callable[[str], None] = lambda part: None,
) -> EngineRecord:
    """Measure iteration, prefill and request times of a server that has nothing else to do; see the module.

    Parameters
    ----------
    engine : the server; warm.
    device : name of what it runs on; engines of one device share it.
    options : batch sizes and lengths; lengths are in words here, and what the server counted is recorded.
    warmup : what `warm_streams` returned, to be kept apart in the record.
    progress : called with a description when a part is done, ``options.n_parts`` times.

    Raises
    ------
    CalibrationError : the server failed, or requests did not run side by side.
    """
    prompts = _prompts(random.Random(options.seed))
    decode: list[DecodeSample] = []
    for context in options.contexts:
        for batch in options.batches:
            decode += await _side_by_side(engine, [next(prompts)(context) for _ in range(batch)], options.iterations)
            progress(f"{engine.name}: batch {batch}, context {context}")
    first: list[Streamed] = []
    trips: list[float] = []
    for n_words in options.prefills:
        for _ in range(options.repeats):
            trips.append(await engine.round_trip())
            first.append(await engine.stream(_fixed(next(prompts)(n_words), 1), Streamed()))
        progress(f"{engine.name}: prefill {n_words}")
    trip = statistics.median(trips)  # one late answer must not make all prefills look short
    progress(f"{engine.name}: request latency")
    return EngineRecord(
        device=device,
        decode=decode,
        prefill=[_prefill(streamed, trip) for streamed in first],
        request_s=[s + _tail(streamed) for s, streamed in zip(trips, first, strict=True)],
        warmup_decode=warmup[0],
        warmup_prefill=warmup[1],
    )


async def _side_by_side(engine: OpenAIEngine, prompts: Sequence[str], n: int) -> list[DecodeSample]:
    """Iterations of a batch. The requests do not begin together, so each asks for a few tokens more than ``n``."""
    for n_tokens in (n + 1 + 2 * len(prompts), 4 * n + 8 * len(prompts), 16 * n + 32 * len(prompts)):
        requests = [_fixed(prompt, n_tokens) for prompt in prompts]
        tasks = [asyncio.ensure_future(engine.stream(request, Streamed())) for request in requests]
        try:
            samples = iterations(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
        if len(samples) >= max(n // 2, 1):
            return samples[:n]
    raise CalibrationError(
        f"{engine.name}: {len(prompts)} requests of {n_tokens} tokens were side by side for {len(samples)} iterations "
        "only: the server limits how many it runs at once (ask for a smaller --concurrency), or it ends answers early"
    )


def iterations(streams: Sequence[Streamed]) -> list[DecodeSample]:
    """The iterations in which all streams took part, as the stream that began last saw them.

    A chunk of n tokens counts as n iterations of equal length. Where chunks do not say how many tokens they hold, they
    are taken to hold equally many, so that they add up to the server's count.
    """
    if any(len(streamed.arrivals) < 2 for streamed in streams):
        return []
    latest = max(streams, key=lambda streamed: streamed.arrivals[0][0])
    begin, end = latest.arrivals[0][0], min(streamed.arrivals[-1][0] for streamed in streams)
    share = _tokens_per_unit(latest)
    samples: list[DecodeSample] = []
    owed = 0.0
    for (before, _), (now, n) in zip(latest.arrivals, latest.arrivals[1:], strict=False):
        if before < begin or now > end:
            continue
        owed += n * share
        whole = max(round(owed), 1)
        owed -= whole
        context = sum(streamed.n_prompt + _seen(streamed, before) for streamed in streams)
        samples += [DecodeSample(batch=len(streams), context=context, seconds=(now - before) / (n * share))] * whole
    return samples


def _tokens_per_unit(streamed: Streamed) -> float:
    """Tokens by the server's count for each one counted here, [-]; 1 where chunks tell their tokens."""
    if streamed.ids:
        return 1.0
    return streamed.n_tokens / sum(n for _, n in streamed.arrivals)


def _seen(streamed: Streamed, moment: float) -> int:
    return sum(n for arrived, n in streamed.arrivals if arrived <= moment)


def _prefill(streamed: Streamed, trip: float) -> PrefillSample:
    first = streamed.arrivals[0][0] if streamed.arrivals else streamed.end
    return PrefillSample(
        tokens=max(streamed.n_prompt - streamed.n_cached, 1),
        cached=streamed.n_cached,
        seconds=max(first - streamed.sent - trip, 0.0),
    )


def _tail(streamed: Streamed) -> float:
    return streamed.end - streamed.arrivals[-1][0] if streamed.arrivals else 0.0


def _prompts(rng: random.Random) -> Iterator[Callable[[int], str]]:
    """Endless makers of random prompts: no two share a beginning of any length, so that no cache helps."""
    while True:
        yield lambda n: " ".join(rng.choice(_WORDS) for _ in range(n))


def _fixed(prompt: str, n_tokens: int) -> Request:
    return Request(prompt=prompt, max_tokens=n_tokens, stop=(), ignore_eos=True)
