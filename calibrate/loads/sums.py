"""The record of a closed loop, from the passes and answers of the loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean
from typing import Final, NamedTuple

from calibrate.engines.work import EngineStatistics, sums_by
from calibrate.loads.closed_loop import Loop
from calibrate.record.engine_records import JoinedSums, LoadedSums, LoadRecord

__all__ = ["record_of"]

_AT_MOST: Final = 0.5
"""Least share of the passes with the largest number of answers at which the server is taken to let others wait, [-]:
on a server without a limit, requests on their way and prompts being read make that number vary."""
_RARE: Final = 0.05
"""Share of passes that may seem to have more answers than the server ran, where tokens were read late, [-]."""


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
