"""What a server did for the requests of this process, told from the moments at which their tokens came.

While requests decode side by side, the one that began first shows the iterations of all. A request whose first token
came beside those of others was prefilled in an iteration of theirs: what that took longer than a plain one is put down
to the prefill, and it is not counted as a decode iteration. A request without company was prefilled in the time to its
first token, less a round trip. Other users of the server are not seen: slow iterations are all that tells of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Final

from calibrate.engines.http.stream import Streamed
from calibrate.engines.protocol import EngineStatistics

__all__ = ["activity"]

_JITTER: Final = 0.25
"""By what share of a gap deliveries of one iteration may lie apart, [-]."""


@dataclass(slots=True)
class _Gap:
    """The time between two deliveries of one stream, in which all streams that decoded made ``n`` iterations."""

    begin: float
    end: float
    tokens: int
    n: int
    batch: int
    context: int
    joined: list[Streamed] = field(default_factory=list)
    """Requests whose prefill was part of it."""

    @property
    def each(self) -> float:
        return (self.end - self.begin) / self.n


def activity(streams: Iterable[Streamed], *, trip_s: float, k2: int = 1) -> EngineStatistics:
    """Return the iterations and prefills that streams show.

    Parameters
    ----------
    streams : complete ones and ones that were broken off, in any order; without tokens they show nothing.
    trip_s : round trip of a request that needs no model, s.
    k2 : tokens that an iteration gives a sequence at most; above 1 iterations are passes over drafts.
    """
    begun = sorted((one for one in streams if one.arrivals), key=lambda one: one.arrivals[0][0])
    gaps = _gaps(begun, k2)
    ends = [gap.end for gap in gaps]
    alone = []
    for streamed in begun:
        gap = _shared(streamed, gaps, ends)
        if gap is None:
            alone.append(streamed)
        else:
            gap.joined.append(streamed)
    plain = _plain(gaps)
    prefills = _without_company(alone, begun, trip_s)
    for gap in gaps:
        for one in gap.joined:
            # Where no iteration of the batch was plain, none of it is known to be the prefill's.
            extra = gap.end - gap.begin - gap.n * plain.get(gap.batch, gap.each)
            prefills.append((one.arrivals[0][0], _prompt(one), max(extra, 0.0) / len(gap.joined)))
    prefills.sort()
    done = [(gap, gap.begin + (i + 1) * gap.each) for gap in gaps if not gap.joined for i in range(gap.n)]
    iterations: tuple[tuple[int, int, float], ...] = ()
    passes: tuple[tuple[int, int, int, int, float, float], ...] = ()
    if k2 == 1:
        iterations = tuple((gap.batch, gap.context, gap.each) for gap, _ in done)
    else:
        each = ((gap, gap.tokens * gap.batch // gap.n) for gap, _ in done)
        passes = tuple((gap.batch, gap.context, k2 * gap.batch, tokens, gap.each, 0.0) for gap, tokens in each)
    moments = tuple(end for _, end in done)
    return EngineStatistics(
        iterations=iterations,
        iteration_ends=moments if k2 == 1 else (),
        passes=passes,
        pass_ends=() if k2 == 1 else moments,
        prefills=tuple((*tokens, seconds) for _, tokens, seconds in prefills),
        prefill_ends=tuple(end for end, _, _ in prefills),
        n_aborted_tokens=sum(one.n_tokens for one in begun if not one.complete),
    )


def _gaps(begun: Sequence[Streamed], k2: int) -> list[_Gap]:
    """What the streams show of the iterations, each of them once, in the order of time."""
    found: list[_Gap] = []
    covered = 0.0
    for streamed in begun:
        first, last = streamed.arrivals[0][0], streamed.arrivals[-1][0]
        company = [one for one in begun if one.arrivals[0][0] <= last and one.arrivals[-1][0] >= first]
        for (begin, _, _), (end, tokens, n) in pairwise(_deliveries(streamed, k2)):
            if begin < covered - _JITTER * (end - begin):
                continue
            decoding = [one for one in company if one.arrivals[0][0] <= 0.5 * (begin + end) <= one.arrivals[-1][0]]
            context = sum(one.n_prompt + one.seen(begin) for one in decoding)
            found.append(_Gap(begin, end, tokens, n, len(decoding), context))
        covered = max(covered, last)
    return sorted(found, key=lambda gap: gap.end)


def _deliveries(streamed: Streamed, k2: int) -> list[tuple[float, int, int]]:
    """When tokens came, how many, and in how many iterations they were made; chunks that came at once are one."""
    found: list[tuple[float, int, int]] = []
    share = streamed.tokens_per_unit
    for moment, n in streamed.arrivals:
        tokens = max(round(n * share), 1)
        made = -(-tokens // k2)
        if found and moment <= found[-1][0]:
            tokens, made = tokens + found[-1][1], made + found[-1][2]
            found.pop()
        found.append((moment, tokens, made))
    return found


def _shared(streamed: Streamed, gaps: Sequence[_Gap], ends: Sequence[float]) -> _Gap | None:
    """The iteration of others in which a stream's first token was made: the one whose end lies nearest."""
    first = streamed.arrivals[0][0]
    at = bisect_left(ends, first)
    for gap in sorted(gaps[max(at - 1, 0) : at + 1], key=lambda one: abs(one.end - first)):
        jitter = _JITTER * gap.each
        first_of_several = gap.end - (gap.n - 1) * gap.each  # where several iterations were delivered at once
        if streamed.sent < gap.end and first_of_several - jitter < first < gap.end + jitter:
            return gap
    return None


def _without_company(
    alone: Sequence[Streamed], begun: Sequence[Streamed], trip_s: float
) -> list[tuple[float, tuple[int, int], float]]:
    """Moment, prompt and seconds of prefills beside which nothing was decoded.

    They begin when the server has the request, and is done with what came before; those that end together share theirs.
    """
    moments = sorted(moment for one in begun for moment, _ in one.arrivals)
    firsts = sorted(one.arrivals[0][0] for one in alone)
    found = []
    for one in alone:
        first = one.arrivals[0][0]
        begin = min(one.sent + trip_s, first)
        near = _JITTER * (first - begin)
        before = bisect_left(moments, first - near)
        if before:
            begin = max(begin, moments[before - 1])
        together = bisect_right(firsts, first + near) - bisect_left(firsts, first - near)
        found.append((first, _prompt(one), (first - begin) / together))
    return found


def _plain(gaps: Sequence[_Gap]) -> Mapping[int, float]:
    """Mean seconds of an iteration that prefills nothing, by batch size."""
    seconds: dict[int, list[float]] = defaultdict(list)
    for gap in gaps:
        if not gap.joined:
            seconds[gap.batch] += [gap.each] * gap.n
    return {batch: fmean(values) for batch, values in seconds.items()}


def _prompt(streamed: Streamed) -> tuple[int, int]:
    """Prompt tokens computed, and prompt tokens found in the cache: as told, or as far as the text was read before."""
    cached = streamed.n_cached if streamed.tells_cached else round(streamed.read_before * streamed.n_prompt)
    return max(streamed.n_prompt - cached, 1), cached
