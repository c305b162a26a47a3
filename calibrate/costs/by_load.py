"""Timings from closed loops of whole answers as samples of a sweep: passes by batch, and prompts that joined them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrate.costs.resampling import resampled
from calibrate.record.engine_records import DecodeSample, EngineRecord, LoadedSums, LoadRecord
from sim.engines.protocol import Cost
from sim.serving.limits import JoinLaw

__all__ = ["join_law", "loaded_samples", "most_at_once"]

_NEAR: Final = 0.75
"""Least batch of a pass / largest batch of its loop, [-], for passes that tell what that load takes."""

_LEAST: Final = 4
"""Least passes of a loop that tell a mean."""

_WEIGHT: Final = 16
"""Samples, at most, that stand for the passes of a loop."""

_SEEN: Final = 1.1
"""Least time of a pass that reads prompts / time of one that does not, [-], at which reading is not hidden."""

_APART: Final = 1.2
"""Least ratio of the longest to the shortest passes, or prompts, whose part of the time can be estimated, [-]."""

_Numbers: TypeAlias = NDArray[np.float64]


def loaded_samples(
    record: EngineRecord, method: str = "", rng: np.random.Generator | None = None
) -> list[DecodeSample]:
    """Return passes of plain decoding or of a method, drafting included, by the loads of an engine.

    The passes of a load are taken together at their mean batch, for each number of rows per sequence: a loop has few
    passes of the batches below its own, and those are passes around a beginning or an end. Passes of more sequences
    take no less time: loops last some seconds, and where the machine was faster in that of the larger batch, the two
    have their mean.

    Parameters
    ----------
    record : the engine's timings.
    method : token-level method; empty: plain decoding.
    rng : if given, for a resample of the loops of each load.
    """
    loads: dict[object, list[LoadRecord]] = defaultdict(list)
    for loop in _loops(record, method):
        loads[tuple(sorted(loop.settings.items())), loop.at_once].append(loop)
    means: dict[int, list[tuple[DecodeSample, int]]] = defaultdict(list)
    for loops in loads.values():
        passes = [one for loop in resampled(loops, rng) for one in loop.passes]
        least = _NEAR * max((one.batch for one in passes), default=0)
        by_rows: dict[int, list[LoadedSums]] = defaultdict(list)
        for one in passes:
            if one.batch >= least:
                by_rows[one.rows].append(one)
        for rows, sums in by_rows.items():
            n = sum(one.n for one in sums)
            if n >= _LEAST:
                means[rows].append((_mean(sums, n, rows, method), min(n, _WEIGHT)))
    return [sample for _, known in sorted(means.items()) for sample in _never_falling(known)]


def _never_falling(known: Sequence[tuple[DecodeSample, int]]) -> list[DecodeSample]:
    """As many samples as each weighs, with times by batch that do not fall: the nearest in squares."""
    from scipy.optimize import isotonic_regression

    samples, weights = zip(*sorted(known, key=lambda one: one[0].batch), strict=True)
    seconds = isotonic_regression([one.seconds for one in samples], weights=weights).x.tolist()
    risen = (one.model_copy(update={"seconds": s}) for one, s in zip(samples, seconds, strict=True))
    return [sample for one, n in zip(risen, weights, strict=True) for sample in [one] * n]


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
    """Return the largest number of sequences at once that the timings of an engine reach; 0 without any."""
    swept = (sample.batch for sample in record.decode if (sample.by == method if method else sample.tokens == 1))
    return max([*swept, *(loop.most for loop in _loops(record, method) if loop.passes)], default=0)


def join_law(record: EngineRecord, cost: Cost, method: str = "") -> JoinLaw | None:
    """Return what passes take that read prompts; None if not measured, or if only passes hid it that take longer.

    Loads of different batches tell how much of a pass is added to the reading. Without them nothing is, as on vLLM, and
    the prompts that joined a single stream of a sweep tell the rest, if they saved anything by it.

    Parameters
    ----------
    record : the engine's timings.
    cost : seconds of a pass without prompts, and of a prompt that is read while nothing decodes.
    method : token-level method of both, with whose drafter prompts are read; empty: plain decoding.
    """
    reads = np.array(list(_reads(record, cost, method)))
    if reads.size:
        return _law(*reads.T)
    single = [one for one in record.prefill if one.beside and one.together == 1] if not method else []
    saved_s = float(np.median([cost.prefill(one.tokens) - one.seconds for one in single])) if single else 0.0
    return JoinLaw(saved_s - cost.iteration(1, 0.0)) if saved_s > 0.0 else None


def _law(tokens: _Numbers, passes: _Numbers, added: _Numbers) -> JoinLaw:
    """The law by least squares, from prompt tokens, seconds of plain passes, and seconds beyond those of a prefill.

    What all passes have alike, of length or tokens, cannot be distinguished from the time outside.
    """
    from scipy.optimize import nnls

    share, token_s = 0.0, 0.0
    regressors = [one if one.max() > _APART * one.min() else np.zeros_like(one) for one in (passes, tokens)]
    centred = [one - one.mean() for one in (*regressors, added)]
    if any(one.any() for one in regressors):
        (share, token_s), _ = nnls(np.column_stack(centred[:2]), centred[2])
        if share > 1.0:
            share = 1.0
            (token_s,), _ = nnls(centred[1][:, None], centred[2] - centred[0])
    outside_s = float(np.mean(share * passes + token_s * tokens - added))
    return JoinLaw(outside_s, float(share), float(token_s))


def _reads(record: EngineRecord, cost: Cost, method: str) -> Iterator[tuple[float, float, float]]:
    """Prompt tokens, seconds without them, and seconds beyond a prefill: of passes that whole prompts make longer."""
    for loop in _loops(record, method):
        for one in loop.joined:
            if one.batch and one.n == one.reads:
                pass_s, seconds = cost.iteration(one.batch, one.cached_tokens / one.reads), one.seconds / one.n
                tokens = one.prompt_tokens / one.reads
                if seconds > _SEEN * pass_s:
                    yield from [(tokens, pass_s, seconds - cost.prefill(round(tokens)))] * min(one.reads, _WEIGHT)
