"""Timings from closed loops of whole answers as samples of a sweep: passes by batch, and prompts that joined them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from calibrate.record.engine_records import DecodeSample, EngineRecord, LoadedSums, LoadRecord
from sim.engines.costs import TableCost

__all__ = ["loaded_samples", "most_at_once", "shared_seconds"]

_NEAR: Final = 0.75
"""Least batch of a pass / largest batch of its loop, [-], for passes that tell what that load takes."""

_LEAST: Final = 4
"""Least passes of a loop that tell a mean."""

_WEIGHT: Final = 16
"""Samples, at most, that stand for the passes of a loop."""

_SEEN: Final = 1.1
"""Least time of a pass that reads prompts / time of one that does not, [-], at which reading is not hidden."""


def loaded_samples(record: EngineRecord, method: str = "") -> list[DecodeSample]:
    """Return passes of plain decoding or of a method, drafting included, by the loads of an engine.

    The passes of a loop are taken together at their mean batch, for each number of rows per sequence: a loop has few
    passes of the batches below its own, and those are passes around a beginning or an end.
    """
    samples: list[DecodeSample] = []
    for loop in _loops(record, method):
        least = _NEAR * max((one.batch for one in loop.passes), default=0)
        by_rows: dict[int, list[LoadedSums]] = defaultdict(list)
        for one in loop.passes:
            if one.batch >= least:
                by_rows[one.rows].append(one)
        for rows, sums in sorted(by_rows.items()):
            n = sum(one.n for one in sums)
            if n >= _LEAST:
                samples += [_mean(sums, n, rows, method)] * min(n, _WEIGHT)
    return samples


def _mean(sums: Sequence[LoadedSums], n: int, rows: int, method: str) -> DecodeSample:
    return DecodeSample(
        batch=max(round(sum(one.n * one.batch for one in sums) / n), 1),
        context=round(sum(one.cached_tokens for one in sums) / n),
        tokens=rows,
        by=method,
        seconds=sum(one.seconds for one in sums) / n,
    )


def _loops(record: EngineRecord, method: str) -> Iterator[LoadRecord]:
    return (loop for loop in record.by_load if loop.method == method)


def most_at_once(record: EngineRecord, method: str = "") -> int:
    """Return the largest batch that the timings of an engine reach, by sweep or load; 0 without any."""
    swept = (sample.batch for sample in record.decode if (sample.by == method if method else sample.tokens == 1))
    return max([*swept, *(sample.batch for sample in loaded_samples(record, method))], default=0)


def shared_seconds(record: EngineRecord, cost: TableCost, method: str = "") -> float:
    """Return the time that a prompt saves by joining a pass that decodes one sequence, s; 0 if not measured.

    A pass that reads prompts takes what reading takes, whatever it decodes, if that is longer. Passes in which reading
    is hidden by decoding tell nothing. Without loads, the prompts that joined a single stream of a sweep tell it.

    Parameters
    ----------
    record : the engine's timings.
    cost : seconds of a pass without prompts, and of a prompt that is read while nothing decodes.
    method : token-level method of both, with whose drafter prompts are read; empty: plain decoding.
    """
    alone_s = cost.iteration(1, 0.0)
    saved = [cost.prefill(tokens) - seconds + alone_s for tokens, seconds in _reads(record, cost, method)]
    if not any(loop.joined for loop in _loops(record, method)) and not method:
        single = (one for one in record.prefill if one.beside and one.together == 1)
        saved = [cost.prefill(one.tokens) - one.seconds for one in single]
    return max(float(np.median(saved)), 0.0) if saved else 0.0


def _reads(record: EngineRecord, cost: TableCost, method: str) -> Iterator[tuple[float, float]]:
    """Prompt tokens and seconds of passes that read whole prompts, longer than if they had read none."""
    for loop in _loops(record, method):
        for one in loop.joined:
            seconds, context = one.seconds / one.n, one.cached_tokens / one.reads
            if one.batch and one.n == one.reads and seconds > _SEEN * cost.iteration(one.batch, context):
                yield from [(one.prompt_tokens / one.reads, seconds)] * min(one.reads, _WEIGHT)
