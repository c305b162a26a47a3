"""Work of a server for the requests of this process, estimated from the arrival times of their tokens.

While several requests decode, the stream that began first shows the iterations of all. A request whose first token
arrived while others decoded was prefilled in one of their iterations, a joined pass: its time beyond the plain ones
around it counts as prefill, and it is not a decode iteration. Iterations before it, while the request waited, belong to
the joined pass if they are much longer than plain ones: its prompt was read in parts. For a request without others, the
prefill is the time to its first token - a round trip. Requests of other clients are not visible, except through slower
iterations.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import fmean, median
from typing import Final

from calibrate.engines.http.stream import Streamed
from calibrate.engines.work import EngineStatistics, JoinedPass, Pass, Prefill

__all__ = ["activity"]

_JITTER: Final = 0.25
"""Largest difference between deliveries of the same iteration, as a share of a gap, [-]."""

_NEAREST: Final = 0.5
"""The same for the first token of a prompt that an iteration read, while others decode, [-]."""

_AROUND: Final = 4
"""Number of plain iterations that an iteration with a prefill is compared with; about a step of a fast model."""

_IN_PART: Final = 1.5
"""Least time of an iteration that read a part of a prompt / median of iterations without a prompt, [-]."""


@dataclass(slots=True)
class _Gap:
    """The time between two deliveries of a stream, in which all decoding streams took ``n`` iterations."""

    begin: float
    end: float
    n: int
    batch: int
    context: int
    tokens: int = 0
    """Tokens of all streams."""

    prefilled: list[Streamed] = field(default_factory=list)
    in_part: bool = False
    """Whether it read a part of the prompts of a later iteration."""

    @property
    def seconds(self) -> float:
        """Seconds of all iterations."""
        return self.end - self.begin

    @property
    def each(self) -> float:
        """Seconds of an iteration."""
        return self.seconds / self.n

    @property
    def is_plain(self) -> bool:
        """Whether it read no prompt."""
        return not self.prefilled and not self.in_part


class _Tokens:
    """The tokens of a stream by moment."""

    def __init__(self, streamed: Streamed) -> None:
        self.n_prompt, self.share = streamed.n_prompt, streamed.tokens_per_unit
        self.moments = [moment for moment, _ in streamed.arrivals]
        self.first, self.last = self.moments[0], self.moments[-1]
        self._sums = list(accumulate((n for _, n in streamed.arrivals), initial=0))

    def at(self, moment: float) -> int:
        """Units that had arrived at a moment: tokens, where the stream tells them."""
        return self._sums[bisect_right(self.moments, moment)]


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
    prefills = _own_prefills(_assign(begun, gaps), begun, trip_s)
    plain, joined, parts = _plain(gaps), [], list[_Gap]()
    for gap in gaps:
        parts += [gap] if gap.prefilled or gap.in_part else []
        if gap.prefilled:  # prompts end here, and the gaps before read parts of them
            joined.append(_joined_pass(parts, k2))
            together = len(gap.prefilled)
            extra = sum(_extra_s(part, plain) for part in parts) / together
            prefills += [_prefill(streamed, extra, together, gap.batch) for streamed in gap.prefilled]
            parts = []
    done = [(gap, gap.begin + (i + 1) * gap.each) for gap in gaps if gap.is_plain for i in range(gap.n)]
    passes = tuple(
        Pass(gap.batch, gap.context, k2 * gap.batch, round(gap.tokens / gap.n), gap.each, 0.0, end)
        if k2 > 1
        else Pass.plain(gap.batch, gap.context, gap.each, end)
        for gap, end in done
    )
    return EngineStatistics(
        iterations=passes if k2 == 1 else (),
        passes=passes if k2 > 1 else (),
        prefills=tuple(sorted(prefills, key=lambda prefill: prefill.ended_s)),
        joined=tuple(joined),
    )


def _first(streamed: Streamed) -> float:
    return streamed.arrivals[0][0]


def _gaps(begun: Sequence[Streamed], k2: int) -> list[_Gap]:
    """Gaps between deliveries, each iteration counted once, in the order of time."""
    gaps: list[_Gap] = []
    covered = 0.0
    known = [_Tokens(streamed) for streamed in begun]
    for streamed, lead in zip(begun, known, strict=True):
        overlapping = [other for other in known if other.first <= lead.last and other.last >= lead.first]
        for (begin, _), (end, n) in pairwise(_deliveries(streamed, k2)):
            if begin < covered - _JITTER * (end - begin):
                continue
            middle = 0.5 * (begin + end)
            decoding = [other for other in overlapping if other.first <= middle <= other.last]
            context = sum(other.n_prompt + other.at(begin) for other in decoding)
            late = _JITTER * (end - begin) / n
            tokens = round(sum((one.at(end + late) - one.at(begin + late)) * one.share for one in decoding))
            gaps.append(_Gap(begin, end, n, len(decoding), context, tokens))
        covered = max(covered, lead.last)
    return sorted(gaps, key=lambda gap: gap.end)


def _deliveries(streamed: Streamed, k2: int) -> list[tuple[float, int]]:
    """Arrival times and iterations of chunks; chunks that arrived at the same time are merged."""
    deliveries: list[tuple[float, int]] = []
    share = streamed.tokens_per_unit
    for moment, n in streamed.arrivals:
        made = -(-max(round(n * share), 1) // k2)
        if deliveries and moment <= deliveries[-1][0]:
            made += deliveries.pop()[1]
        deliveries.append((moment, made))
    return deliveries


def _assign(begun: Sequence[Streamed], gaps: Sequence[_Gap]) -> list[Streamed]:
    """Assign each stream to the iteration of others that prefilled it; return the streams without others.

    Iterations that read a part of a prompt are marked: they are much longer than plain ones while its request waited.
    """
    ends = [gap.end for gap in gaps]
    without: list[Streamed] = []
    for streamed in begun:
        gap = _prefilling(streamed, gaps, ends)
        (without if gap is None else gap.prefilled).append(streamed)
    usual = {batch: median(gap.each for gap in alike) for batch, alike in _plain(gaps).items()}
    for gap in gaps:
        for streamed in gap.prefilled:
            for other in gaps[bisect_right(ends, streamed.sent) : bisect_left(ends, gap.end)]:
                known_s = usual.get(other.batch, math.inf)
                other.in_part |= other.begin >= streamed.sent and other.each > _IN_PART * known_s
    return without


def _joined_pass(group: Sequence[_Gap], k2: int) -> JoinedPass:
    """The joined pass of gaps; its batch is that of the last, in which the prompts' first tokens came."""
    last = group[-1]
    return JoinedPass(
        batch=last.batch,
        context=last.context,
        n=sum(gap.n for gap in group),
        joiners=len(last.prefilled),
        prompt_tokens=sum(_new_and_cached(streamed)[0] for streamed in last.prefilled),
        rows=k2 * sum(gap.n * gap.batch for gap in group),
        tokens=sum(gap.tokens for gap in group),
        seconds=sum(gap.seconds for gap in group),
        ended_s=last.end,
    )


def _prefilling(streamed: Streamed, gaps: Sequence[_Gap], ends: Sequence[float]) -> _Gap | None:
    """The iteration of others in which a stream's first token was generated: the one with the nearest end."""
    first = _first(streamed)
    at = bisect_left(ends, first)
    amid = at < len(gaps) and gaps[at].begin < first  # others decode: it belongs to one of their iterations
    for gap in sorted(gaps[max(at - 1, 0) : at + 1], key=lambda gap: abs(gap.end - first)):
        jitter = (_NEAREST if amid else _JITTER) * gap.each
        first_of_several = gap.end - (gap.n - 1) * gap.each  # where several iterations were delivered at once
        if streamed.sent < gap.end and first_of_several - jitter < first < gap.end + jitter:
            return gap
    return None


def _own_prefills(own: Sequence[Streamed], begun: Sequence[Streamed], trip_s: float) -> list[Prefill]:
    """Prefills during which no request decoded.

    A prefill begins when the server has the request and has finished earlier work; prefills that end at the same time
    share their time.
    """
    moments = sorted(moment for streamed in begun for moment, _ in streamed.arrivals)
    firsts = sorted(map(_first, own))
    prefills = []
    for streamed in own:
        first = _first(streamed)
        begin = min(streamed.sent + trip_s, first)
        near = _JITTER * (first - begin)
        before = bisect_left(moments, first - near)
        if before:
            begin = max(begin, moments[before - 1])
        together = bisect_right(firsts, first + near) - bisect_left(firsts, first - near)
        prefills.append(_prefill(streamed, (first - begin) / together, together))
    return prefills


def _plain(gaps: Sequence[_Gap]) -> Mapping[int, list[_Gap]]:
    """Gaps without a prefill, by batch size, in the order of time."""
    by_batch: dict[int, list[_Gap]] = defaultdict(list)
    for gap in gaps:
        if gap.is_plain:
            by_batch[gap.batch].append(gap)
    return by_batch


def _extra_s(gap: _Gap, plain: Mapping[int, list[_Gap]]) -> float:
    """Seconds of a gap beyond the mean of plain iterations nearest in time, as other engines' load varies; 0: none.

    They have the same batch size, or the nearest one with plain iterations.
    """
    if not plain:
        return 0.0
    alike = plain[min(plain, key=lambda batch: (abs(batch - gap.batch), batch))]
    at = bisect_left(alike, gap.end, key=lambda other: other.end)
    around = sorted(alike[max(at - _AROUND, 0) : at + _AROUND], key=lambda other: abs(other.end - gap.end))
    return max(gap.seconds - gap.n * fmean(other.each for other in around[:_AROUND]), 0.0)


def _prefill(streamed: Streamed, seconds: float, together: int, beside: int = 0) -> Prefill:
    return Prefill(*_new_and_cached(streamed), seconds, _first(streamed), together, beside)


def _new_and_cached(streamed: Streamed) -> tuple[int, int]:
    """New and cached tokens of a prompt; cached ones as the server reports, or estimated from earlier prompts."""
    reported = streamed.usage.get("prompt_tokens_details")
    cached = streamed.n_cached if reported else round(streamed.read_before * streamed.n_prompt)
    return max(streamed.n_prompt - cached, 1), cached
