"""Fit of an engine's costs to raw timings, of a sweep and by load: non-negative least squares on cell means.

A sweep with random prompts tells how times grow with the context. Where closed loops of whole answers were measured,
they tell the times by batch, in the range of their loads (`calibrate.costs.by_load`). Means, not medians: an answer's
time is the sum of its iterations, including slow ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrate.costs.by_load import join_law, loaded_samples
from calibrate.record.engine_records import DecodeSample, EngineRecord, PrefillSample
from sim.engines.costs import TableCost
from sim.serving.limits import JoinLaw
from theory.errors import CalibrationError

__all__ = ["SweepFit", "fit_passes", "fit_sweep"]

_ENOUGH: Final = 0.25
"""Least number of timings of a batch size that is used / number of batch 1, [-]: a pass in which all sequences of a
large batch have an n-gram to draft is rare."""
_CELL: Final = 64
"""Cached tokens by which contexts of the same cell differ at most."""
_MOST_BY_CONTEXT: Final = 0.9
"""Largest share of an iteration's time that its context takes, [-]."""
_BENDS: Final = tuple(4.0**power for power in range(2, 9))
"""Prompt lengths at which the time of a prefill may begin to grow faster, tokens."""
_LEAST: Final = 2
"""Least number of prompt lengths timed on either side of a bend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFit:
    """Fit of timings over batch sizes, contexts and prompts.

    Attributes
    ----------
    cost : cost of iterations, of prefills that do not share a pass, and of requests.
    decode_error : root-mean-square relative error of the fit of iterations on the cell means, [-].
    join : what passes take that read prompts; None if not measured.
    n_decode : samples of iterations.
    """

    cost: TableCost
    decode_error: float
    join: JoinLaw | None
    n_decode: int

    @property
    def shared_s(self) -> float:
        """Time that a prefill saves by joining a pass that decodes one sequence, s; 0 if not measured."""
        if self.join is None:
            return 0.0
        return max(self.join.outside_s + (1.0 - self.join.share) * self.cost.iteration(1, 0.0), 0.0)


def fit_sweep(record: EngineRecord, rng: np.random.Generator | None = None) -> SweepFit:
    """Fit a `TableCost` to an engine's timings without other engines at work.

    Parameters
    ----------
    rng : if given, fit to a bootstrap resample (within cells).

    Raises
    ------
    CalibrationError : no decode sample at batch 1, or no prefill sample.
    """
    decode = [sample for sample in record.decode if sample.tokens == 1]
    if not any(sample.batch == 1 for sample in decode) or not record.prefill:
        raise CalibrationError("the engine record needs decode samples at batch 1 and prefill samples: calibrate again")
    batches, times, context_s, decode_error = _fit_with_loads(decode, loaded_samples(record, rng=rng), rng)
    apart = [sample for sample in record.prefill if sample.together == 1 and not sample.beside]
    prefill_s, prefill_token_s, bends = _fit_prefill(apart or record.prefill, rng)
    request = np.array(record.request_s or [0.0])
    if rng is not None:
        request = rng.choice(request, request.size)
    cost = TableCost(
        batches=batches,
        seconds=times,
        context_s=context_s,
        prefill_s=prefill_s,
        prefill_token_s=prefill_token_s,
        bends=bends,
        request_s=float(request.mean()),
    )
    return SweepFit(cost=cost, decode_error=decode_error, join=join_law(record, cost), n_decode=len(decode))


def fit_passes(
    record: EngineRecord, rng: np.random.Generator | None = None, *, method: str = ""
) -> dict[int, TableCost]:
    """Fit the time of a pass over several tokens per sequence, for each number of tokens that was measured at batch 1.

    Parameters
    ----------
    rng : if given, fit to a bootstrap resample (within cells).
    method : token-level method; its own passes, drafting included, are used if there are any, else passes without
        drafting.

    Returns
    -------
    Tokens per sequence -> iteration times; 1 is plain decoding. Prefill and request times are 0. Beyond the batch sizes
    with enough timings, times grow as those of plain iterations do.
    """
    tables: dict[int, TableCost] = {}
    plain, by_load = loaded_samples(record, rng=rng), loaded_samples(record, method, rng) if method else []
    own = method if method in record.timed_methods else ""
    usable = [sample for sample in record.decode if sample.tokens == 1 or sample.by == own]
    for tokens in sorted({sample.tokens for sample in (*usable, *by_load)}):
        n = Counter(sample.batch for sample in usable if sample.tokens == tokens)
        samples = [sample for sample in usable if sample.tokens == tokens and n[sample.batch] >= _ENOUGH * n[1]]
        loaded = plain if tokens == 1 else [sample for sample in by_load if sample.tokens == tokens]
        if n[1] or any(sample.batch == 1 for sample in loaded):
            plain_s = None if tokens == 1 or _lengths_vary(samples) else tables[1].context_s
            batches, times, context_s, _ = _fit_with_loads(samples, loaded, rng, plain_s)
            table = TableCost(batches=batches, seconds=times, context_s=context_s)
            tables[tokens] = _grown(table, tables[1]) if tokens > 1 else table
    return tables


def _fit_with_loads(
    swept: Sequence[DecodeSample],
    loaded: Sequence[DecodeSample],
    rng: np.random.Generator | None,
    context_s: float | None = None,
) -> tuple[tuple[int, ...], tuple[float, ...], float, float]:
    """As `_fit_decode`; batches within the range of the loads have the times measured there.

    The loads have a context each: only a sweep over several contexts tells what a token of it costs, of which no load
    can have been nearly all.
    """
    if not loaded:
        return _fit_decode(swept, rng, context_s)
    if context_s is None:
        slope_s = _fit_decode(swept, rng)[2] if _contexts_differ(swept) else 0.0
        context_s = min([slope_s, *(_MOST_BY_CONTEXT * one.seconds / one.context for one in loaded if one.context)])
    least, most = (bound(sample.batch for sample in loaded) for bound in (min, max))
    apart = [sample for sample in swept if not least <= sample.batch <= most]
    return _fit_decode([*apart, *loaded], rng, context_s)


def _contexts_differ(samples: Sequence[DecodeSample]) -> bool:
    """Whether a batch size was timed at several contexts: else its intercepts explain all times."""
    cells = {(sample.batch, sample.context // _CELL) for sample in samples}
    return len(cells) > len({batch for batch, _ in cells})


def _lengths_vary(samples: Sequence[DecodeSample]) -> bool:
    """Whether contexts of the same batch size differ enough to estimate the cost of context apart from the batch's."""
    contexts = [[s.context for s in samples if s.batch == batch] for batch in {s.batch for s in samples}]
    return any(max(each) > 2 * min(each) for each in contexts)


def _grown(table: TableCost, plain: TableCost) -> TableCost:
    """Add batch sizes beyond the table's largest, with times in proportion to those of plain iterations."""
    last = table.batches[-1]
    plain_s = plain.iteration(last, 0.0)
    growth = table.seconds[-1] / plain_s if plain_s > 0.0 else 0.0
    n = len(plain.batches) - sum(batch > last for batch in plain.batches)  # sorted
    seconds = (*table.seconds, *(growth * s for s in plain.seconds[n:]))
    return replace(table, batches=(*table.batches, *plain.batches[n:]), seconds=seconds)


def _fit_decode(
    samples: Sequence[DecodeSample], rng: np.random.Generator | None, context_s: float | None = None
) -> tuple[tuple[int, ...], tuple[float, ...], float, float]:
    """Fit an intercept per batch size, and a slope for the context unless it is given, s per token."""
    cells: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
    for sample in samples:
        cells[sample.batch, sample.context // _CELL].append((sample.context, sample.seconds))
    batches = tuple(sorted({batch for batch, _ in cells}))
    keys, context, mean, n = _cell_means(cells, rng)
    design = np.zeros((len(keys), len(batches) + 1))
    for row, (batch, _) in enumerate(keys):
        design[row, batches.index(batch)] = 1.0
    if context_s is None:
        design[:, -1] = context
    weights = np.sqrt(n) / mean
    solution, error = _solve(design, mean - (context_s or 0.0) * context, weights)
    return batches, tuple(map(float, solution[:-1])), solution[-1] if context_s is None else context_s, error


def _fit_prefill(
    samples: Sequence[PrefillSample], rng: np.random.Generator | None
) -> tuple[float, float, tuple[tuple[float, float], ...]]:
    """Fit fixed part, slope and bends. The fit is convex, as all coefficients are >= 0."""
    cells: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
    for sample in samples:
        cells[sample.tokens, 0].append((sample.tokens, sample.seconds))
    _, tokens, mean, n = _cell_means(cells, rng)
    at = [bend for bend in _BENDS if (tokens <= bend).sum() >= _LEAST and (tokens > bend).sum() >= _LEAST]
    design = np.column_stack([np.ones_like(tokens), tokens, *(np.maximum(tokens - bend, 0.0) for bend in at)])
    solution, _ = _solve(design, mean, np.sqrt(n) / mean)
    bends = tuple((bend, float(s)) for bend, s in zip(at, solution[2:], strict=True) if s > 0.0)
    return float(solution[0]), float(solution[1]), bends


def _cell_means(
    cells: dict[tuple[int, int], list[tuple[int, float]]], rng: np.random.Generator | None
) -> tuple[list[tuple[int, int]], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    keys = sorted(cells)
    xs, means, counts = [], [], []
    for key in keys:
        values = np.array(cells[key])
        if rng is not None:
            values = values[rng.integers(0, len(values), len(values))]
        xs.append(values[:, 0].mean())
        means.append(max(values[:, 1].mean(), 1e-9))
        counts.append(len(values))
    return keys, np.array(xs), np.array(means), np.array(counts, dtype=np.float64)


def _solve(
    design: NDArray[np.float64], mean: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    from scipy.optimize import nnls

    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    solution, _ = nnls((design / scale) * weights[:, None], mean * weights)
    solution = solution / scale
    relative = (design @ solution - mean) / mean
    return solution, float(np.sqrt(np.average(relative**2, weights=weights**2)))
