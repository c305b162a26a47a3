"""What engines did while answers were made: in sums, apart for the time in which another engine worked too."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from calibrate.engines.protocol import EngineStatistics, united
from calibrate.record.profile import InUse, Work

__all__ = ["Reporting", "in_use_records", "summed"]


class Reporting(Protocol):
    """An engine that reports its iterations."""

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        """Durations of the latest iterations and prefills."""
        ...


async def in_use_records(engines: Mapping[str, Reporting], outside: Mapping[str, Sequence[float]]) -> dict[str, InUse]:
    """Sum up what engines did since they were last asked.

    Parameters
    ----------
    engines : by name; all that work at the same time on one machine, so that it can be told who had company.
    outside : by name, the seconds that requests spent outside their engine.

    Raises
    ------
    CalibrationError : an engine is gone.
    """
    statistics = {name: await engine.stats(clear=True) for name, engine in engines.items()}
    if not all(one.tells_moments for one in statistics.values()):
        return {name: _in_use(one, None, outside.get(name, ())) for name, one in statistics.items()}
    working = {name: one.working() for name, one in statistics.items()}
    found = {}
    for name, one in statistics.items():
        others = united(span for other, spans in working.items() if other != name for span in spans)
        found[name] = _in_use(one, others, outside.get(name, ()))
    return found


def _in_use(
    statistics: EngineStatistics, others: Sequence[tuple[float, float]] | None, outside: Sequence[float]
) -> InUse:
    everything = _work(statistics.iterations, statistics.prefills)
    beside, shared_s = None, None
    if others is not None:
        iterations, iterations_s = _shared(statistics.iterations, statistics.iteration_ends, others)
        prefills, prefills_s = _shared(statistics.prefills, statistics.prefill_ends, others)
        beside, shared_s = _work(iterations, prefills), iterations_s + prefills_s
    return InUse(
        decode=everything.decode,
        prefill=everything.prefill,
        request=(len(outside), sum(outside)),
        beside=beside,
        shared_s=shared_s,
    )


def _work(iterations: Sequence[tuple[int, int, float]], prefills: Sequence[tuple[int, int, float]]) -> Work:
    return Work(
        decode=_by_batch((batch, 1, context, seconds) for batch, context, seconds in iterations),
        prefill=(len(prefills), sum(n for n, _, _ in prefills), sum(s for _, _, s in prefills)),
    )


def _by_batch(cells: Iterable[tuple[int, int, int, float]]) -> list[tuple[int, int, int, float]]:
    sums: dict[int, tuple[int, int, float]] = {}
    for batch, n, context, seconds in cells:
        known = sums.get(batch, (0, 0, 0.0))
        sums[batch] = known[0] + n, known[1] + context, known[2] + seconds
    return [(batch, *cell) for batch, cell in sorted(sums.items())]


def _shared(
    done: Sequence[tuple[int, int, float]], ends: Sequence[float], others: Sequence[tuple[float, float]]
) -> tuple[list[tuple[int, int, float]], float]:
    """What others worked beside, be it for a moment, and the seconds for which they did.

    What begins or ends in between is as slow as what has company throughout: it tells nothing of work alone.
    """
    begins = [begin for begin, _ in others]
    found, seconds = [], 0.0
    for one, end in zip(done, ends, strict=True):
        begin, overlap, i = end - one[2], 0.0, bisect_right(begins, end) - 1
        while i >= 0 and others[i][1] > begin:
            overlap += max(min(end, others[i][1]) - max(begin, others[i][0]), 0.0)
            i -= 1
        if overlap > 0.0:
            found.append(one)
            seconds += overlap
    return found, seconds


def summed(entries: Sequence[InUse]) -> list[InUse]:
    """Return everything that entries hold as one; none if there are none."""
    if not entries:
        return []
    parts = [one.beside for one in entries if one.beside is not None]
    told = len(parts) == len(entries)
    return [
        InUse(
            **_total(entries),
            request=(sum(one.request[0] for one in entries), sum(one.request[1] for one in entries)),
            beside=Work(**_total(parts)) if told else None,
            shared_s=sum(one.company_s for one in entries) if told else None,
        )
    ]


def _total(done: Sequence[Work]) -> dict[str, Any]:
    n, tokens, seconds = (sum(values) for values in zip(*(one.prefill for one in done), strict=True))
    return {"decode": _by_batch(cell for one in done for cell in one.decode), "prefill": (n, tokens, seconds)}
