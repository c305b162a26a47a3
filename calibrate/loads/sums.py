"""The record of a closed loop, from its passes and answers, and what the loop cannot tell, or tells with a doubt."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean
from typing import Final, NamedTuple

from calibrate.engines.work import EngineStatistics, sums_by
from calibrate.loads.closed_loop import Loop
from calibrate.record.engine_records import JoinedSums, LoadedSums, LoadRecord
from theory.errors import SchemaError

__all__ = ["cautions", "record_of", "unusable"]

_AT_MOST: Final = 0.5
"""Least share of the passes with the largest number of answers at which the server is taken to let others wait, [-]:
on a server without a limit, requests on their way and prompts being read make that number vary."""
_RARE: Final = 0.05
"""Share of passes that may seem to have more answers than the server ran, where tokens were read late, [-]."""
_SHARE: Final = 0.02
"""Difference between counters and streams that is put down to their definitions, as a share, [-]."""
_PASSES: Final = 3
"""Passes by which the moments of a reading may be off, for each reading."""
_ANEW: Final = "warning: the server's counters started anew in between: only its streams are used"
_Z: Final = 4.0
"""Standard errors by which counted and streamed tokens per pass may differ."""


class _Done(NamedTuple):
    """A pass of any kind, or several of the same answers."""

    ended_s: float
    seconds: float
    n: int
    answers: int
    """Answers that it decoded or read."""
    tokens: int
    """Tokens that it generated, first tokens included."""


def record_of(loop: Loop, method: str, settings: Mapping[str, int | float | str | bool]) -> LoadRecord | None:
    """Return the record of a loop; None if the server finished no pass in its window."""
    done = list(_passes_of(loop.work))
    inside = [one for one in done if loop.within(one.ended_s)]
    busy_s = sum(one.seconds for one in inside)
    if not busy_s:
        return None
    most, share = _largest(done)
    counts = loop.closed.counts  # of the server's metrics, if it has any
    waiting = 0 if counts is None or counts.load is None else counts.load.waiting
    ended = [one for one in loop.ended if loop.within(one.times.end)]
    begun = [one for one in ended if loop.within(one.times.queued)] or loop.ended
    decoded = (*loop.work.iterations, *loop.work.passes)
    loaded = ((p.batch, max(round(p.rows / p.batch), 1), 1, p.context, p.tokens, p.seconds) for p in decoded)
    joined = (
        (one.batch, one.joiners, 1, one.n, one.context, one.prompt_tokens, one.tokens, one.seconds)
        for one in loop.work.joined
    )
    # Each prompt that a pass read while no sequence decoded has its share of the pass.
    apart = sums_by(1, ((p.together, 1, p.tokens, p.seconds) for p in loop.work.prefills if not p.beside))
    read_apart = [
        JoinedSums(0, together, passes, passes, 0, int(tokens), 0, seconds)
        for together, n, tokens, seconds in apart
        for passes in (max(round(n / together), 1),)
    ]
    return LoadRecord(
        method=method,
        settings=dict(settings),
        at_once=loop.at_once,
        running=sum(one.answers * one.seconds for one in inside) / busy_s,
        most=most,
        queued=most < loop.at_once and (share >= _AT_MOST or waiting >= loop.at_once - most),
        seconds=loop.seconds,
        answers=len(ended),
        tokens=sum(one.tokens for one in inside),
        prompt_tokens=sum(one.n_prompt_tokens for one in loop.ended),
        answer_tokens=sum(one.n_generated for one in loop.ended),
        ended=len(loop.ended),
        first_token_s=fmean(max(one.times.first_token - one.times.queued, 0.0) for one in begun) if begun else None,
        passes=[LoadedSums(*row) for row in sums_by(2, loaded)],
        joined=[*read_apart, *(JoinedSums(*row) for row in sums_by(2, joined))],
    )


def _passes_of(work: EngineStatistics) -> Iterator[_Done]:
    for one in (*work.iterations, *work.passes):
        yield _Done(one.ended_s, one.seconds, 1, one.batch, one.tokens)
    for both in work.joined:
        yield _Done(both.ended_s, both.seconds, both.n, both.batch + both.joiners, both.tokens + both.joiners)
    for read in work.prefills:
        if not read.beside:  # each of those read together has its own entry
            yield _Done(read.ended_s, read.seconds, 1, read.together, 1)


def _largest(done: Iterable[_Done]) -> tuple[int, float]:
    """The largest number of answers that passes have, rare ones left out, and the share of passes with it, [-]."""
    passes: Counter[int] = Counter()
    for one in done:
        passes[one.answers] += one.n
    n = 0
    for most in sorted(passes, reverse=True):
        n += passes[most]
        if n >= _RARE * passes.total():
            return most, n / passes.total()
    raise AssertionError("all passes together are no rare ones")


def unusable(loop: Loop, record: LoadRecord | None) -> str:
    """Return why a level is left out; empty if it can be used."""
    if loop.ended and not any(one.n_generated > 1 for one in loop.ended):
        return f"all {len(loop.ended)} answers were empty"
    if record is None:
        return "no pass ended in its time: give fewer answers at once (--concurrency)"
    before, after = loop.begun.counts, loop.closed.counts
    if before is None or after is None:
        return ""
    if after.retries > before.retries:
        return f"the server refused or broke off {after.retries - before.retries} requests, which were sent again"
    if after.preempted > before.preempted:
        return f"the server preempted {after.preempted - before.preempted} answers for want of cache"
    return ""


def cautions(loop: Loop, record: LoadRecord) -> Iterator[str]:
    """Yield what is to be known of a level, a line each."""
    if record.queued:
        yield f"the server ran {record.most} answers at once, the others waited"
    n_cut = sum(one.finish == "length" for one in loop.ended)
    if n_cut:
        yield f"{n_cut} of {len(loop.ended)} answers were cut at the limit of tokens"
    n_empty = sum(one.n_generated <= 1 for one in loop.ended)
    if n_empty:
        yield f"{n_empty} of {len(loop.ended)} answers were empty"
    if loop.ended and not any(one.n_prompt_tokens for one in loop.ended):
        yield "warning: the server's streams tell no usage: a chunk counts as a token, prompts as without length"
    yield from _disagreements(loop, record)


def _disagreements(loop: Loop, record: LoadRecord) -> Iterator[str]:
    """Where the server's counters and the tokens of the streams differ by more than chance; the streams' are kept."""
    before, after = loop.opened.counts, loop.closed.counts
    if before is None or after is None or before.tokens is None or after.tokens is None:
        return
    counted = after.tokens - before.tokens
    if counted < 0:
        yield _ANEW
        return
    rate = record.tokens / record.seconds
    unsure_s = sum(reading.ended - reading.begun for reading in (loop.opened, loop.closed))
    allowed = _SHARE * record.tokens + rate * unsure_s + 2 * _PASSES * record.k2 * record.most
    if abs(counted - record.tokens) > allowed:
        yield f"warning: the server counted {counted} tokens, its streams had {record.tokens}: does it serve others?"
    elif before.speculation is not None and after.speculation is not None:
        try:
            drafts = after.speculation.since(before.speculation)
        except SchemaError:
            yield _ANEW
            return
        passes = sum(one.batch * one.n for one in record.passes)
        if not passes or drafts.tokens <= drafts.accepted:
            return
        streamed = sum(one.tokens for one in record.passes) / passes
        error = record.k2 / 2.0 * math.sqrt(1.0 / passes + 1.0 / (drafts.tokens - drafts.accepted))
        if abs(drafts.tokens_per_pass - streamed) > _Z * error + _SHARE * streamed:
            said = f"{drafts.tokens_per_pass:.2f} tokens per pass and answer, its streams had {streamed:.2f}"
            yield f"warning: the server counted {said}"
