"""Work of a server for the requests of this process, estimated from the arrival times of their tokens.

While several requests decode, the stream that began first shows the iterations of all. A request whose first token
arrived while others decoded was prefilled in one of their iterations: the time of that iteration beyond the plain ones
around it counts as prefill, and it is not a decode iteration. For a request without others, the prefill is the time to
its first token - a round trip. Requests of other clients are not visible, except through slower iterations.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Final

from calibrate.engines.http.stream import Streamed
from calibrate.engines.work import EngineStatistics, Iteration, Pass, Prefill

__all__ = ["activity"]

_JITTER: Final = 0.25
"""Largest difference between deliveries of the same iteration, as a share of a gap, [-]."""

_AROUND: Final = 4
"""Number of plain iterations that an iteration with a prefill is compared with; about a step of a fast model."""


@dataclass(slots=True)
class _Gap:
    """The time between two deliveries of a stream, in which all decoding streams took ``n`` iterations."""

    begin: float
    end: float
    tokens: int
    """Tokens of that stream."""

    n: int
    batch: int
    context: int
    prefilled: list[Streamed] = field(default_factory=list)
    """Requests that were prefilled in it."""

    @property
    def each(self) -> float:
        """Seconds of an iteration."""
        return (self.end - self.begin) / self.n


def activity(streams: Iterable[Streamed], *, trip_s: float, k2: int = 1) -> EngineStatistics:
    """Return the iterations and prefills estimated from streams.

    Parameters
    ----------
    streams : complete and aborted streams, in any order; streams without tokens are ignored.
    trip_s : round trip of a request that needs no model, s.
    k2 : most tokens that an iteration commits per sequence; above 1 iterations are passes over drafts.
    """
    begun = sorted((streamed for streamed in streams if streamed.arrivals), key=_first)
    gaps = _gaps(begun, k2)
    by_themselves = _assign(begun, gaps)
    prefills = [*_own_prefills(by_themselves, begun, trip_s), *_shared_prefills(gaps)]
    done = [(gap, gap.begin + (i + 1) * gap.each) for gap in gaps if not gap.prefilled for i in range(gap.n)]
    iterations = [Iteration(gap.batch, gap.context, gap.each, end) for gap, end in done]
    passes = [
        Pass(gap.batch, gap.context, k2 * gap.batch, gap.tokens * gap.batch // gap.n, gap.each, 0.0, end)
        for gap, end in done
    ]
    return EngineStatistics(
        iterations=tuple(iterations) if k2 == 1 else (),
        passes=() if k2 == 1 else tuple(passes),
        prefills=tuple(sorted(prefills, key=lambda prefill: prefill.ended_s)),
        n_aborted_tokens=sum(streamed.n_tokens for streamed in begun if not streamed.complete),
    )


def _first(streamed: Streamed) -> float:
    return streamed.arrivals[0][0]


def _gaps(begun: Sequence[Streamed], k2: int) -> list[_Gap]:
    """Gaps between deliveries, each iteration counted once, in the order of time."""
    gaps: list[_Gap] = []
    covered = 0.0
    for streamed in begun:
        first, last = _first(streamed), streamed.arrivals[-1][0]
        overlapping = [other for other in begun if _first(other) <= last and other.arrivals[-1][0] >= first]
        for (begin, _, _), (end, tokens, n) in pairwise(_deliveries(streamed, k2)):
            if begin < covered - _JITTER * (end - begin):
                continue
            middle = 0.5 * (begin + end)
            decoding = [other for other in overlapping if _first(other) <= middle <= other.arrivals[-1][0]]
            context = sum(other.n_prompt + other.seen(begin) for other in decoding)
            gaps.append(_Gap(begin, end, tokens, n, len(decoding), context))
        covered = max(covered, last)
    return sorted(gaps, key=lambda gap: gap.end)


def _deliveries(streamed: Streamed, k2: int) -> list[tuple[float, int, int]]:
    """Arrival times, tokens and iterations of chunks; chunks that arrived at the same time are merged."""
    deliveries: list[tuple[float, int, int]] = []
    share = streamed.tokens_per_unit
    for moment, n in streamed.arrivals:
        tokens = max(round(n * share), 1)
        made = -(-tokens // k2)
        if deliveries and moment <= deliveries[-1][0]:
            _, tokens_before, made_before = deliveries.pop()
            tokens, made = tokens + tokens_before, made + made_before
        deliveries.append((moment, tokens, made))
    return deliveries


def _assign(begun: Sequence[Streamed], gaps: Sequence[_Gap]) -> list[Streamed]:
    """Assign each stream to the iteration of others that prefilled it; return the streams without others."""
    ends = [gap.end for gap in gaps]
    by_themselves: list[Streamed] = []
    for streamed in begun:
        gap = _prefilling(streamed, gaps, ends)
        (by_themselves if gap is None else gap.prefilled).append(streamed)
    return by_themselves


def _prefilling(streamed: Streamed, gaps: Sequence[_Gap], ends: Sequence[float]) -> _Gap | None:
    """The iteration of others in which a stream's first token was generated: the one with the nearest end."""
    first = _first(streamed)
    at = bisect_left(ends, first)
    for gap in sorted(gaps[max(at - 1, 0) : at + 1], key=lambda gap: abs(gap.end - first)):
        jitter = _JITTER * gap.each
        first_of_several = gap.end - (gap.n - 1) * gap.each  # where several iterations were delivered at once
        if streamed.sent < gap.end and first_of_several - jitter < first < gap.end + jitter:
            return gap
    return None


def _shared_prefills(gaps: Sequence[_Gap]) -> Iterator[Prefill]:
    """Prefills that shared an iteration; without plain iterations to compare with, their time is 0."""
    plain = _plain(gaps)
    for gap in gaps:
        if gap.prefilled:
            n, each = len(gap.prefilled), _nearest_s(gap, plain)
            extra = 0.0 if each is None else max(gap.end - gap.begin - gap.n * each, 0.0)
            for streamed in gap.prefilled:
                yield _prefill(streamed, extra / n, together=n, beside=gap.batch)


def _own_prefills(by_themselves: Sequence[Streamed], begun: Sequence[Streamed], trip_s: float) -> Iterator[Prefill]:
    """Prefills during which no request decoded.

    A prefill begins when the server has the request and has finished earlier work; prefills that end at the same time
    share their time.
    """
    moments = sorted(moment for streamed in begun for moment, _ in streamed.arrivals)
    firsts = sorted(map(_first, by_themselves))
    for streamed in by_themselves:
        first = _first(streamed)
        begin = min(streamed.sent + trip_s, first)
        near = _JITTER * (first - begin)
        before = bisect_left(moments, first - near)
        if before:
            begin = max(begin, moments[before - 1])
        together = bisect_right(firsts, first + near) - bisect_left(firsts, first - near)
        yield _prefill(streamed, (first - begin) / together, together=together)


def _plain(gaps: Sequence[_Gap]) -> Mapping[int, list[_Gap]]:
    """Gaps without a prefill, by batch size, in the order of time."""
    by_batch: dict[int, list[_Gap]] = defaultdict(list)
    for gap in gaps:
        if not gap.prefilled:
            by_batch[gap.batch].append(gap)
    return by_batch


def _nearest_s(gap: _Gap, plain: Mapping[int, list[_Gap]]) -> float | None:
    """Mean seconds of the plain iterations nearest in time to a gap, as other engines' load varies; None without any.

    They have the same batch size, or the nearest one with plain iterations.
    """
    if not plain:
        return None
    alike = plain[min(plain, key=lambda batch: (abs(batch - gap.batch), batch))]
    at = bisect_left(alike, gap.end, key=lambda other: other.end)
    around = sorted(alike[max(at - _AROUND, 0) : at + _AROUND], key=lambda other: abs(other.end - gap.end))
    return fmean(other.each for other in around[:_AROUND])


def _prefill(streamed: Streamed, seconds: float, *, together: int, beside: int = 0) -> Prefill:
    """A stream's prefill; cached tokens are those that the server reports, or an estimate from earlier prompts."""
    cached = streamed.n_cached if streamed.tells_cached else round(streamed.read_before * streamed.n_prompt)
    return Prefill(max(streamed.n_prompt - cached, 1), cached, seconds, _first(streamed), together, beside)
