"""Iterations and prefills of a server, estimated from the arrival times of streamed tokens."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from calibrate.engines.http.stream import Streamed
from calibrate.record.engine_records import DecodeSample, PrefillSample

__all__ = ["grouped", "iterations", "levelled", "prefill", "tail_s"]


def iterations(streams: Sequence[Streamed], *, k2: int = 1) -> list[DecodeSample]:
    """Iterations in which all streams took part, by the chunks of the stream that began last.

    A chunk of n tokens counts as n iterations of equal length; where an iteration commits up to ``k2`` tokens (a pass
    over a draft), as n / k2 of them, rounded up. Chunks without a token count are taken to hold the same number of
    tokens, with the server's count as the sum. A chunk counts if it arrived before any other stream ended, and if the
    other streams had enough tokens left for it.
    """
    if any(len(streamed.arrivals) < 2 for streamed in streams):
        return []
    latest = max(streams, key=lambda streamed: streamed.arrivals[0][0])
    end = min(streamed.arrivals[-1][0] for streamed in streams)
    share = latest.tokens_per_unit
    left = [_left(other, latest.arrivals[0][0]) for other in streams if other is not latest]
    most = min((math.ceil(tokens / k2) if k2 > 1 else tokens for tokens in left), default=math.inf)
    samples: list[DecodeSample] = []
    made = owed = 0.0
    for (before, _), (now, n) in zip(latest.arrivals, latest.arrivals[1:], strict=False):
        part = n * share if k2 == 1 else math.ceil(n * share / k2)
        made += part
        if now > end or made > most:
            break
        owed += part
        whole = max(round(owed), 1)
        owed -= whole
        context = sum(streamed.n_prompt + streamed.seen(before) for streamed in streams)
        sample = DecodeSample(batch=len(streams), context=context, tokens=k2, seconds=(now - before) / part)
        samples += [sample] * whole
    return samples


def _left(streamed: Streamed, moment: float) -> float:
    """Least number of tokens that a stream had still to generate at a moment.

    The delivery of a chunk of several tokens may have been delayed: all but its last token may be older.
    """
    left = sum(n for arrived, n in streamed.arrivals if arrived > moment)
    waiting = next((n - 1 for arrived, n in streamed.arrivals if arrived > moment), 0)
    return (left - waiting) * streamed.tokens_per_unit


def prefill(streamed: Streamed, trip: float) -> PrefillSample:
    """The prefill of a stream's request, given the seconds of a round trip without the model."""
    first = streamed.arrivals[0][0] if streamed.arrivals else streamed.end
    return PrefillSample(
        tokens=max(streamed.n_prompt - streamed.n_cached, 1),
        cached=streamed.n_cached,
        seconds=max(first - streamed.sent - trip, 0.0),
    )


def tail_s(streamed: Streamed) -> float:
    """Seconds from a stream's last token to its end."""
    return streamed.end - streamed.arrivals[-1][0] if streamed.arrivals else 0.0


def grouped(samples: Sequence[DecodeSample], n: int) -> list[DecodeSample]:
    """At most ``n`` samples with the same mean; a late delivery could dominate the mean of the first ``n``."""
    groups = min(n, len(samples))
    return [_mean(samples[len(samples) * i // groups : len(samples) * (i + 1) // groups]) for i in range(groups)]


def levelled(samples: Sequence[DecodeSample], n: int) -> list[DecodeSample]:
    """At most ``n`` samples that all equal the mean, for timings read late, in bursts, with unknown spread."""
    return [_mean(samples)] * min(n, len(samples))


def _mean(samples: Sequence[DecodeSample]) -> DecodeSample:
    """A sample of the same kind with the mean of the others' seconds and contexts."""
    context = round(statistics.fmean(sample.context for sample in samples))
    seconds = statistics.fmean(sample.seconds for sample in samples)
    return samples[0].model_copy(update={"context": context, "seconds": seconds})
