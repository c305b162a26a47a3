"""Work of engines while answers are generated: sums, in all and for the time in which another engine worked too."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from calibrate.engines.protocol import MeasuredEngine
from calibrate.engines.work import EngineStatistics, Pass, Prefill, sums_by, united
from calibrate.record.engine_records import InUse, IterationSums, PrefillSums, RequestSums, Work
from sim.engines.batching import RESTED_S

__all__ = ["prefill_sums", "summed", "work_done"]

Done = TypeVar("Done", Pass, Prefill)


async def work_done(
    engines: Mapping[str, MeasuredEngine], outside: Mapping[str, Sequence[float]] | None = None
) -> dict[str, InUse]:
    """Sum up the work of engines since the last call.

    Parameters
    ----------
    engines : name -> engine, for all engines of the machine, to determine when several worked at once.
    outside : name -> seconds that requests spent outside their engine, where known.

    Raises
    ------
    CalibrationError : an engine has ended.
    """
    outside = outside or {}
    statistics = {name: await engine.stats(clear=True) for name, engine in engines.items()}
    working = {name: stats.busy_spans() for name, stats in statistics.items()}
    work = {}
    for name, stats in statistics.items():
        others = united(span for other, spans in working.items() if other != name for span in spans)
        work[name] = _in_use(stats, others, outside.get(name, ()))
    return work


def _in_use(statistics: EngineStatistics, others: Sequence[tuple[float, float]], outside: Sequence[float]) -> InUse:
    woken = _after_a_rest(statistics)
    everything = _work(statistics.iterations, statistics.passes, statistics.prefills, woken)
    iterations, iterations_s = _shared(statistics.iterations, others)
    passes, passes_s = _shared(statistics.passes, others)
    prefills, prefills_s = _shared(statistics.prefills, others)
    return InUse(
        **dict(everything),
        request=RequestSums(len(outside), sum(outside)),
        beside=_work(iterations, passes, prefills, woken),
        shared_s=iterations_s + passes_s + prefills_s,
    )


def _after_a_rest(statistics: EngineStatistics) -> frozenset[float]:
    """End times of the first prefill after each rest of `RESTED_S` or more; the very first prefill counts too.

    A prefill that joined a pass is none, and of prompts that are read together only the first to end.
    """
    done: list[Pass | Prefill] = [*statistics.iterations, *statistics.passes, *statistics.prefills]
    done.sort(key=lambda one: one.ended_s)
    before = [-math.inf, *(one.ended_s for one in done)]
    return frozenset(
        one.ended_s
        for one, last in zip(done, before, strict=False)
        if isinstance(one, Prefill) and not one.beside and one.ended_s - one.together * one.seconds - last >= RESTED_S
    )


def _work(
    iterations: Sequence[Pass], passes: Sequence[Pass], prefills: Sequence[Prefill], woken: Container[float]
) -> Work:
    return Work(
        decode=_by_batch(IterationSums(it.batch, 1, it.context, it.seconds) for it in iterations),
        passes=_by_batch(IterationSums(it.batch, 1, it.context, it.seconds) for it in passes),
        prefill=prefill_sums(prefills),
        waking=prefill_sums([p for p in prefills if p.ended_s in woken]),
        joined=math.fsum(1.0 if p.beside else 1.0 - 1.0 / p.together for p in prefills),
    )


def prefill_sums(prefills: Sequence[Prefill]) -> PrefillSums:
    """Return the sums over prefills."""
    return PrefillSums(len(prefills), sum(p.tokens for p in prefills), sum(p.seconds for p in prefills))


def _by_batch(cells: Iterable[IterationSums]) -> list[IterationSums]:
    return [IterationSums(*cell) for cell in sums_by(1, cells)]


def _shared(done: Sequence[Done], others: Sequence[tuple[float, float]]) -> tuple[list[Done], float]:
    """Return the work that overlapped with another engine's, at least partly, and the seconds of overlap.

    Work that overlaps in part is slowed too, so it is not counted as undisturbed.
    """
    begins = [begin for begin, _ in others]
    overlapping, seconds = [], 0.0
    for one in done:
        end = one.ended_s
        begin, overlap, i = end - one.seconds, 0.0, bisect_right(begins, end) - 1
        while i >= 0 and others[i][1] > begin:
            overlap += max(min(end, others[i][1]) - max(begin, others[i][0]), 0.0)
            i -= 1
        if overlap > 0.0:
            overlapping.append(one)
            seconds += overlap
    return overlapping, seconds


def summed(entries: Sequence[InUse]) -> list[InUse]:
    """Return a single entry with the sums of all entries; none if there are none."""
    if not entries:
        return []
    parts = [entry.beside for entry in entries if entry.beside is not None]
    load_known = len(parts) == len(entries)
    return [
        InUse(
            **_total(entries),
            request=RequestSums(*_columns(entry.request for entry in entries)),
            beside=Work(**_total(parts)) if load_known else None,
            shared_s=sum(entry.company_s for entry in entries) if load_known else None,
        )
    ]


def _total(done: Sequence[Work]) -> dict[str, Any]:
    return {
        "decode": _by_batch(cell for work in done for cell in work.decode),
        "passes": _by_batch(cell for work in done for cell in work.passes),
        "prefill": PrefillSums(*_columns(work.prefill for work in done)),
        "waking": PrefillSums(*_columns(work.waking for work in done)),
        "joined": math.fsum(work.joined for work in done),
    }


def _columns(sums: Iterable[Sequence[Any]]) -> list[Any]:
    """The sums over several entries, number by number."""
    return [sum(values) for values in zip(*sums, strict=True)]
