"""Timings from closed loops of whole answers as samples of a sweep: passes by batch, and prompts that joined them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrate.record.engine_records import DecodeSample, EngineRecord, LoadedSums, LoadRecord
from sim.engines.protocol import Cost
from sim.serving.limits import JoinLaw

__all__ = ["join_law", "loaded_samples", "most_at_once", "resampled"]

_NEAR: Final = 0.75
"""Least batch of a pass / largest batch of its loop, [-], for passes that tell what that load takes."""
_LEAST: Final = 4
"""Least passes of a loop that tell a mean."""
_WEIGHT: Final = 16
"""Samples, at most, that stand for the passes of a loop."""
_LINE: Final = 3
"""Least loads that tell how far their times are from a line."""
_SEEN: Final = 1.1
"""Least time of a pass that reads prompts / time of one that does not, [-], at which reading is not hidden."""
_APART: Final = 1.2
"""Least ratio of the longest to the shortest passes, or prompts, whose part of the time can be estimated, [-]."""

_Numbers: TypeAlias = NDArray[np.float64]
_Round = TypeVar("_Round")


class _Passes(NamedTuple):
    """The mean pass of a load, how many samples stand for it, and the relative variance of its seconds over rounds."""

    sample: DecodeSample
    weight: int
    variance: float


def resampled(rounds: Sequence[_Round], rng: np.random.Generator | None) -> Sequence[_Round]:
    """Return the rounds, or a resample of one fewer: so the mean of a few varies by its unbiased standard error.

    A resample of as many would vary by too little, of two rounds by 0.7 times that (Rao and Wu 1988).
    """
    if rng is None or len(rounds) == 1:
        return rounds
    return [rounds[i] for i in rng.integers(0, len(rounds), len(rounds) - 1)]


def loaded_samples(
    record: EngineRecord, method: str = "", rng: np.random.Generator | None = None
) -> list[DecodeSample]:
    """Return passes of plain decoding or of a method, drafting included, by the loads of an engine.

    The passes of a load are taken together at their mean batch, for each number of rows per sequence. Loops last
    seconds, in which machines are faster or slower by a tenth: as far as the rounds of the loads leave it open, their
    times lie on a line by batch. Passes of more sequences take no less time.

    Parameters
    ----------
    method : token-level method; empty: plain decoding.
    rng : if given, for a resample of the loops of each load.
    """
    loads: dict[object, list[LoadRecord]] = defaultdict(list)
    for loop in record.by_load:
        if loop.method == method:
            loads[tuple(sorted(loop.settings.items())), loop.at_once].append(loop)
    known: dict[int, list[_Passes]] = defaultdict(list)
    for loops in loads.values():
        rounds = [_by_rows(loop) for loop in loops]
        picked = resampled(rounds, rng)
        for rows in {rows for one in picked for rows in one}:
            sums = [one for by_rows in picked for one in by_rows[rows]]
            n = sum(one.n for one in sums)
            if n >= _LEAST:
                mean = DecodeSample(
                    batch=max(round(sum(one.n * one.batch for one in sums) / n), 1),
                    context=round(sum(one.cached_tokens for one in sums) / n),
                    tokens=rows,
                    by=method,
                    seconds=sum(one.seconds for one in sums) / n,
                )
                known[rows].append(_Passes(mean, min(n, _WEIGHT), _variance(rounds, rows)))
    return [sample for _, passes in sorted(known.items()) for sample in _by_batch(passes)]


def _by_rows(loop: LoadRecord) -> dict[int, list[LoadedSums]]:
    """The passes of a loop near its largest batch, by rows per sequence."""
    least = _NEAR * max((one.batch for one in loop.passes), default=0)
    by_rows: dict[int, list[LoadedSums]] = defaultdict(list)
    for one in loop.passes:
        if one.batch >= least:
            by_rows[one.rows].append(one)
    return by_rows


def _variance(rounds: Sequence[dict[int, list[LoadedSums]]], rows: int) -> float:
    """Variance of the mean time of a pass over the rounds of a load, relative to its square; NaN of one round."""
    means = [sum(one.seconds for one in sums) / sum(one.n for one in sums) for r in rounds if (sums := r.get(rows))]
    return float(np.var(means, ddof=1)) / len(means) / fmean(means) ** 2 if len(means) > 1 else math.nan


def _by_batch(known: list[_Passes]) -> list[DecodeSample]:
    """As many samples as each load weighs, with times that do not fall with the batch: the nearest in squares."""
    from scipy.optimize import isotonic_regression

    known.sort(key=lambda one: one.sample.batch)
    weights = [one.weight for one in known]
    seconds = isotonic_regression(_towards_line(known), weights=weights).x.tolist()
    risen = zip(known, seconds, strict=True)
    return [sample for one, s in risen for sample in [one.sample.model_copy(update={"seconds": s})] * one.weight]


def _towards_line(known: Sequence[_Passes]) -> _Numbers:
    """Seconds of passes by batch, moved towards the line through them by the share that their rounds explain.

    The share is the variance of the loads' means over rounds / that of their deviations from the line (moments), both
    relative to the times: where engines have steps by batch, the deviations are larger, and stay.
    """
    from scipy.optimize import nnls

    seconds = np.array([one.sample.seconds for one in known])
    variances = [one.variance for one in known if not math.isnan(one.variance)]
    if len(known) < _LINE or not variances:
        return seconds
    batches = np.array([one.sample.batch for one in known], dtype=float)
    terms = np.column_stack([np.ones_like(batches), batches])
    line = terms @ nnls(terms / seconds[:, None], np.ones_like(seconds))[0]
    deviations = float(np.sum((line / seconds - 1.0) ** 2)) / (len(known) - 2)
    share = min(fmean(variances) / deviations, 1.0) if deviations else 1.0
    return np.asarray(seconds + share * (line - seconds))


def most_at_once(record: EngineRecord, method: str = "") -> int:
    """Return the largest number of sequences at once that the timings of an engine reach; 0 without any."""
    swept = (sample.batch for sample in record.decode if (sample.by == method if method else sample.tokens == 1))
    return max([*swept, *(one.most for one in record.by_load if one.method == method and one.passes)], default=0)


def join_law(record: EngineRecord, cost: Cost, method: str = "") -> JoinLaw | None:
    """Return what passes take that read prompts; None if not measured, or if only passes hid it that take longer.

    Loads of different batches tell how much of a pass is added to the reading. Without them nothing is, as on vLLM, and
    the prompts that joined a single stream of a sweep tell the rest, if they saved anything by it.

    Parameters
    ----------
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
    for one in (joined for loop in record.by_load if loop.method == method for joined in loop.joined):
        if one.batch and one.n == one.reads:
            pass_s, seconds = cost.iteration(one.batch, one.cached_tokens / one.reads), one.seconds / one.n
            tokens = one.prompt_tokens / one.reads
            if seconds > _SEEN * pass_s:
                yield from [(tokens, pass_s, seconds - cost.prefill(round(tokens)))] * min(one.reads, _WEIGHT)
