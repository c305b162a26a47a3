"""From raw timings to a cost model: non-negative least squares on cell means, and its resampled variants.

Means, not medians: an answer's time is the sum of its iterations, slow ones included.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrate.record.engine_records import DecodeSample, EngineRecord, InUse, PrefillSample, Work
from calibrate.record.uses import Use, work_in_use
from calibrate.replay.recorded import resampled_answers
from sim.engines.costs import TableCost
from theory.errors import CalibrationError

__all__ = ["CostFit", "fit_cost", "fit_passes", "pace"]

_HARDLY: Final = 0.01
"""Share of its work up to which an engine hardly ever did it alone, [-]: then it is taken to always have company."""

_ENOUGH: Final = 0.25
"""Timings of a batch size, as a share of those of batch 1, from which on it counts, [-]: n-grams of all sequences of a
batch are seldom found at once."""

_BENDS: Final = tuple(4.0**power for power in range(2, 9))
"""Prompt lengths at which the time of a prefill may begin to grow faster, tokens."""

_LEAST: Final = 2
"""Lengths that must have been timed on either side of a bend."""

_SLOWEST: Final = 8.0
"""By how much company slows an engine at most, [-]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFit:
    """A fitted cost model with its error.

    Attributes
    ----------
    cost : the model; its prefills are of new tokens, what is read again besides them included.
    decode_error, prefill_error : root-mean-square relative error of the fit on the cell means, [-].
    decode_factor, prefill_factor : by how much the times in use exceed those of the sweep, [-]; 1 if not measured.
    beside : time while another engine works / time while none does, [-]; None if not measured.
    waking_s : what the prefill with which it begins after a rest takes more than others, s; 0 if not measured.
    reread : tokens that each prefill reads again besides the new ones.
    shared_s : what a prefill takes less while sequences decode, s; 0 where not measured, or in the factor already.
    n_decode : samples of iterations.
    """

    cost: TableCost
    decode_error: float
    prefill_error: float
    decode_factor: float
    prefill_factor: float
    beside: float | None
    waking_s: float
    reread: float
    shared_s: float
    n_decode: int


def fit_cost(
    record: EngineRecord, rng: np.random.Generator | None = None, *, use: Use = "steps", reread: float = 0.0
) -> CostFit:
    """Fit a `TableCost` to an engine's timings.

    Parameters
    ----------
    record : the raw samples; warm-ups are not used.
    rng : if given, fit to a bootstrap resample (within cells; of answers, in blocks of neighbours), for the error of
        what is predicted with the fit.
    use : what for; where the record does not tell, as for steps.
    reread : tokens that a prefill reads again besides the new ones, `reread_tokens`.

    Raises
    ------
    CalibrationError : no decode sample at batch 1, or no prefill sample.
    """
    decode = [sample for sample in record.decode if sample.tokens == 1]
    if not any(sample.batch == 1 for sample in decode) or not record.prefill:
        raise CalibrationError("the engine record needs decode samples at batch 1 and prefill samples: calibrate again")
    batches, times, context_s, decode_error = _fit_decode(decode, rng)
    apart = [sample for sample in record.prefill if sample.together == 1 and not sample.beside]
    prefill_s, prefill_token_s, bends, prefill_error = _fit_prefill(apart or record.prefill, rng)
    request = np.array(record.request_s or [0.0])
    if rng is not None:
        request = rng.choice(request, request.size)
    in_use = work_in_use(record, use)
    grouped = use == "beams" and bool(in_use)
    if not any(one.decode for one in in_use):
        in_use = record.in_use
    swept = TableCost(
        batches=batches,
        seconds=times,
        context_s=context_s,
        prefill_s=prefill_s,
        prefill_token_s=prefill_token_s,
        bends=bends,
        request_s=float(request.mean()),
    )
    quiet = record.plain_in_use
    waking_s = _waking_s(swept, _picked([*record.in_use, *quiet], rng))
    cost, decode_factor, prefill_factor, beside = _as_in_use(
        swept, _picked(in_use, rng), quiet, waking_s, grouped=grouped
    )
    return CostFit(
        cost=replace(cost, prefill_s=cost.prefill_s + reread * cost.prefill_token_s),
        decode_error=decode_error,
        prefill_error=prefill_error,
        decode_factor=decode_factor,
        prefill_factor=prefill_factor,
        beside=beside,
        waking_s=prefill_factor * waking_s,
        reread=reread,
        # Other uses have several requests at once: what theirs save is in their factor.
        shared_s=prefill_factor * _shared_s(swept, record.prefill) if use == "plain" else 0.0,
        n_decode=len(decode),
    )


def _shared_s(cost: TableCost, prefills: Sequence[PrefillSample]) -> float:
    """What prefills that joined decoding sequences took less than they take alone, median, s: some met others too."""
    saved = [cost.prefill(one.tokens) - one.seconds for one in prefills if one.beside and one.together == 1]
    return max(float(np.median(saved)), 0.0) if saved else 0.0


def fit_passes(
    record: EngineRecord, rng: np.random.Generator | None = None, *, method: str = ""
) -> dict[int, TableCost]:
    """Fit the time of a pass over several tokens per sequence, for each number of tokens that was measured alone.

    Parameters
    ----------
    record : the raw samples, of `DecodeSample.tokens` >= 1; warm-ups are not used.
    rng : if given, fit to a bootstrap resample (within cells).
    method : token-level method whose own passes, drafting included, are taken where there are such; else those without
        drafting are.

    Returns
    -------
    Tokens per sequence to iteration times as swept; 1 is plain decoding. Prefill and request times are left at 0.
    Beyond the batch sizes that were timed often enough, passes grow as plain iterations do.
    """
    found: dict[int, TableCost] = {}
    own = method if any(sample.by == method for sample in record.decode) else ""
    usable = [sample for sample in record.decode if sample.tokens == 1 or sample.by == own]
    for tokens in sorted({sample.tokens for sample in usable}):
        n = Counter(sample.batch for sample in usable if sample.tokens == tokens)
        samples = [sample for sample in usable if sample.tokens == tokens and n[sample.batch] >= _ENOUGH * n[1]]
        if n[1]:
            plain_s = None if tokens == 1 or _lengths_vary(samples) else found[1].context_s
            batches, times, context_s, _ = _fit_decode(samples, rng, plain_s)
            table = TableCost(batches=batches, seconds=times, context_s=context_s)
            found[tokens] = _grown(table, found[1]) if tokens > 1 else table
    return found


def _lengths_vary(samples: Sequence[DecodeSample]) -> bool:
    """Whether contexts of a batch size tell what context costs: else it would be told by the size of batches alone."""
    contexts = [[s.context for s in samples if s.batch == batch] for batch in {s.batch for s in samples}]
    return any(max(each) > 2 * min(each) for each in contexts)


def _grown(table: TableCost, plain: TableCost) -> TableCost:
    """Add the batch sizes beyond the table's largest, growing as in another one."""
    last = table.batches[-1]
    plain_s = plain.iteration(last, 0.0)
    growth = table.seconds[-1] / plain_s if plain_s > 0.0 else 0.0
    beyond = [(batch, growth * s) for batch, s in zip(plain.batches, plain.seconds, strict=True) if batch > last]
    return replace(
        table,
        batches=(*table.batches, *(batch for batch, _ in beyond)),
        seconds=(*table.seconds, *(s for _, s in beyond)),
    )


def _as_in_use(
    cost: TableCost, picked: Sequence[InUse], quiet: Sequence[InUse], waking_s: float, *, grouped: bool = False
) -> tuple[TableCost, float, float, float | None]:
    """Scale a swept cost to what the engine took while it made answers; return the factors too.

    A sweep keeps its engine busy with one kind of work; between the requests of an answer caches go cold and the
    machine does other things. The sweep says how cost grows with batch and context, the answers how large it is: while
    the engine works alone, and by how much larger while another one works, which shares memory and caches with it.

    Where requests come in groups, the latency of a group grows with its size: reading a request and sending its result
    takes its server some time that the others wait for. That part counts as prefill, one after the other.
    """
    if not picked:
        return cost, 1.0, 1.0, None
    decode_factor, prefill_factor, beside = _factors(cost, picked, quiet, waking_s)
    n_requests = sum(one.request[0] for one in picked)
    latency = sum(one.request[1] for one in picked)
    request_s, handling_s = latency / n_requests if n_requests else cost.request_s, 0.0
    if grouped:
        n_prefills = sum(one.prefill[0] for one in picked)
        request_s, handling_s = cost.request_s, max(latency - n_requests * cost.request_s, 0.0) / max(n_prefills, 1)
    scaled = replace(
        cost,
        seconds=tuple(decode_factor * s for s in cost.seconds),
        context_s=decode_factor * cost.context_s,
        prefill_s=prefill_factor * cost.prefill_s + handling_s,
        prefill_token_s=prefill_factor * cost.prefill_token_s,
        bends=tuple((tokens, prefill_factor * s) for tokens, s in cost.bends),
        request_s=request_s,
    )
    return scaled, decode_factor, prefill_factor, beside


def _picked(done: Sequence[InUse], rng: np.random.Generator | None) -> Sequence[InUse]:
    """What was done, or a bootstrap resample of it."""
    return done if rng is None or not done else [done[i] for i in resampled_answers(len(done), rng)]


def _waking_s(cost: TableCost, done: Sequence[InUse]) -> float:
    """What a prefill after a rest takes more than others, s, where those take what they took in the sweep."""
    after_a_rest = [Work(prefill=one.waking) for one in done]
    others = [one.without(rested) for one, rested in zip(done, after_a_rest, strict=True)]
    factor = _usual(_prefills(cost, others), _prefills(cost, after_a_rest))
    modelled_s, seconds = _totals(_prefills(cost, after_a_rest))
    n = sum(one.waking.n for one in done)
    return max(seconds / factor - modelled_s, 0.0) / n if factor and n else 0.0


def _factors(
    cost: TableCost, done: Sequence[InUse], quiet: Sequence[InUse], waking_s: float
) -> tuple[float, float, float | None]:
    """Measured over modelled seconds of iterations and of prefills alone, and by how much company slows both, [-]."""
    told = any(one.beside is not None and one.beside.seconds > 0.0 for one in done)
    found = _alone_and_beside(cost, done, quiet, waking_s) if told else None
    if found is not None:
        return found
    pairs = _prefills(cost, done, waking_s=waking_s)
    return _ratio(_decodes(cost, done)) or 1.0, _ratio(pairs) or 1.0, 1.0 if told else None


def _alone_and_beside(
    cost: TableCost, done: Sequence[InUse], quiet: Sequence[InUse], waking_s: float
) -> tuple[float, float, float] | None:
    """The factors alone, and by how much company slows; None if one factor will do for both cases.

    An engine that hardly ever worked alone is taken to be as fast then as when it had an answer to itself.
    """
    both = [one.beside for one in done if one.beside is not None]
    both_s = _decodes(cost, both), _prefills(cost, both, waking_s=waking_s)
    alone = [one.undisturbed for one in done]
    decode_factor = _usual(_decodes(cost, alone), both_s[0])
    if decode_factor is None:
        alone = [one.undisturbed for one in quiet]
        decode_factor = _usual(_decodes(cost, alone), both_s[0])
    if decode_factor is None:
        return None
    # Prefills that begin as the other engine begins tell nothing of those alone: then as much slower as iterations.
    prefill_factor = _usual(_prefills(cost, alone, waking_s=waking_s), both_s[1]) or decode_factor
    pairs = _scaled(both_s[0], decode_factor) + _scaled(both_s[1], prefill_factor)
    work_s, measured_s = _totals(pairs)
    in_company_s = _share(done) * measured_s
    work_s -= measured_s - in_company_s  # what was done in company would have taken so long alone
    beside = in_company_s / max(work_s, in_company_s / _SLOWEST) if in_company_s > 0.0 else 1.0
    # Company speeds nothing up: the few seconds alone were slow by chance.
    return (decode_factor, prefill_factor, beside) if beside >= 1.0 else None


def _usual(alone: _Pairs, both: _Pairs) -> float | None:
    """Measured over modelled seconds of what was done alone; None where that is hardly anything."""
    return _ratio(alone) if _totals(alone)[0] > _HARDLY * _totals(alone + both)[0] else None


def _share(done: Iterable[InUse]) -> float:
    """The share of the time of what was done beside another engine in which that worked, in [0, 1]."""
    pairs = [(one.beside.seconds, one.company_s) for one in done if one.beside is not None]
    return min(_ratio(pairs) or 0.0, 1.0)


def _slowing(share: float, beside: float | None) -> float:
    """By how much that takes longer which has company for a share of its time, [-]."""
    return 1.0 / (1.0 - share + share / (beside or 1.0))


def pace(work: Iterable[tuple[CostFit, InUse]]) -> float | None:
    """Return what an engine took for its work as a multiple of what fits say, ratio of totals; None without any work.

    Parameters
    ----------
    work : what the engine did, each with the fit for that use.
    """
    pairs: _Pairs = []
    for fit, done in work:
        for part, factor in ((done.undisturbed, 1.0), (done.beside, _slowing(_share([done]), fit.beside))):
            if part is not None:
                pairs += _scaled(
                    [*_decodes(fit.cost, [part]), *_prefills(fit.cost, [part], fit.reread, fit.waking_s)], factor
                )
    return _ratio(pairs)


_Pairs = list[tuple[float, float]]
"""Modelled and measured seconds."""


def _decodes(cost: TableCost, done: Sequence[Work]) -> _Pairs:
    return [(n * cost.iteration(batch, context / n), s) for one in done for batch, n, context, s in one.decode if n]


def _prefills(cost: TableCost, done: Sequence[Work], reread: float = 0.0, waking_s: float = 0.0) -> _Pairs:
    """Of a cost with so many tokens read again in each prefill; what was done counts them as others.

    Of prefills only sums are known: all are taken to be of their mean length.
    """
    again_s = reread * cost.prefill_token_s
    sums = [(*one.prefill, one.waking.n) for one in done if one.prefill[0]]
    return [(n * (cost.prefill(tokens / n) - again_s) + n_woken * waking_s, s) for n, tokens, s, n_woken in sums]


def _scaled(pairs: _Pairs, factor: float) -> _Pairs:
    return [(factor * modelled, measured) for modelled, measured in pairs]


def _totals(pairs: _Pairs) -> tuple[float, float]:
    return sum(modelled for modelled, _ in pairs), sum(seconds for _, seconds in pairs)


def _ratio(pairs: _Pairs) -> float | None:
    """Measured over modelled seconds, ratio of totals; None without samples."""
    modelled, seconds = _totals(pairs)
    return seconds / modelled if modelled > 0.0 else None


def _fit_decode(
    samples: Sequence[DecodeSample], rng: np.random.Generator | None, context_s: float | None = None
) -> tuple[tuple[int, ...], tuple[float, ...], float, float]:
    """One intercept per batch size, one slope for the context unless it is given, s per token."""
    cells: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
    for sample in samples:
        cells[sample.batch, sample.context // 64].append((sample.context, sample.seconds))
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
) -> tuple[float, float, tuple[tuple[float, float], ...], float]:
    """Fixed part, slope, bends and error: convex, since all coefficients are >= 0."""
    cells: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
    for sample in samples:
        cells[sample.tokens, 0].append((sample.tokens, sample.seconds))
    _, tokens, mean, n = _cell_means(cells, rng)
    at = [bend for bend in _BENDS if (tokens <= bend).sum() >= _LEAST and (tokens > bend).sum() >= _LEAST]
    design = np.column_stack([np.ones_like(tokens), tokens, *(np.maximum(tokens - bend, 0.0) for bend in at)])
    solution, error = _solve(design, mean, np.sqrt(n) / mean)
    bends = tuple((bend, float(s)) for bend, s in zip(at, solution[2:], strict=True) if s > 0.0)
    return float(solution[0]), float(solution[1]), bends, error


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
    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    from scipy.optimize import nnls

    solution, _ = nnls((design / scale) * weights[:, None], mean * weights)
    solution = solution / scale
    relative = (design @ solution - mean) / mean
    return solution, float(np.sqrt(np.average(relative**2, weights=weights**2)))
