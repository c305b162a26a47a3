"""Timings from closed loops of whole answers as samples of a sweep: passes by batch, and prompts that joined them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from calibrate.record.engine_records import (
    DecodeSample,
    EngineRecord,
    JoinedSums,
    LoadedSums,
    LoadRecord,
    PrefillSample,
)

__all__ = ["joined_prefills", "loaded_samples", "most_at_once", "shared_seconds"]

_NEAR: Final = 0.75
"""Least batch of a pass / largest batch of its loop, [-], for passes that tell what that load takes."""

_LEAST: Final = 4
"""Least passes of a loop that tell a mean."""

_WEIGHT: Final = 16
"""Samples, at most, that stand for the passes of a loop."""


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


def joined_prefills(
    record: EngineRecord, iteration: Callable[[int, float], float], method: str = ""
) -> list[PrefillSample]:
    """Return prompts that were read in passes of others, with the time that each added to its pass.

    Parameters
    ----------
    record : the engine's timings.
    iteration : seconds of a pass without prompts, by batch and cached tokens of all sequences.
    method : token-level method by which the others decode, and with whose drafter prompts are read; empty: plain.
    """
    sums = (one for loop in _loops(record, method) for one in loop.joined if one.batch)
    return [sample for one in sums for sample in _prefills(one, iteration)]


def _prefills(one: JoinedSums, iteration: Callable[[int, float], float]) -> list[PrefillSample]:
    """The mean prompt of equal joined passes, as often as they were seen."""
    prompts = one.reads * one.joiners
    added = one.seconds - one.n * iteration(one.batch, one.cached_tokens / one.reads)
    sample = PrefillSample(
        tokens=round(one.prompt_tokens / prompts),
        seconds=max(added / prompts, 0.0),
        together=one.joiners,
        beside=one.batch,
    )
    return [sample] * min(one.reads, _WEIGHT)


def shared_seconds(joined: Iterable[PrefillSample], prefill: Callable[[float], float]) -> float:
    """Return the time that a prompt saves by joining a pass that decodes, s: the median over prompts that joined.

    Prompts that joined in company share their time; they count where none joined without.

    Parameters
    ----------
    joined : prompts, those among them that joined no pass do not count.
    prefill : seconds of a prefill apart, by its tokens.
    """
    known = [one for one in joined if one.beside]
    known = [one for one in known if one.together == 1] or known
    saved = [prefill(one.tokens) - one.seconds for one in known]
    return max(float(np.median(saved)), 0.0) if saved else 0.0
