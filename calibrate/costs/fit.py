"""The cost model of an engine in a use, and its resampled variants: a sweep, scaled to what the engine took then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibrate.costs.in_use import (
    Factors,
    Modelled,
    Pairs,
    factors_in_use,
    ratio,
    scaled_to_use,
    waking_seconds,
    work_pairs,
)
from calibrate.costs.resampling import resampled_answers
from calibrate.costs.sweep import SweepFit, fit_sweep
from calibrate.record.engine_records import EngineRecord, InUse
from calibrate.record.uses import Use, work_in_use
from sim.engines.costs import TableCost

__all__ = ["CostFit", "fit_cost", "slowdown_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFit:
    """A fitted cost model, and what it was made of.

    Attributes
    ----------
    cost : the model; its prefills are of new tokens, what is read again besides them included.
    sweep : the timings of the engine while nothing else was asked of it.
    factors : by how much the times in use exceed those of the sweep.
    waking_s : what the prefill with which it begins after a rest takes more than others, s; 0 if not measured.
    reread : tokens that each prefill reads again besides the new ones.
    shared_s : what a prefill takes less where it joins a pass, s; 0 where not measured, or in the factor already.
    """

    cost: TableCost
    sweep: SweepFit
    factors: Factors
    waking_s: float
    reread: float
    shared_s: float


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
    sweep = fit_sweep(record, rng)
    in_use, quiet = work_in_use(record, use), record.plain_in_use
    grouped = use == "beams" and bool(in_use)
    if not any(one.decode for one in in_use):
        in_use = record.in_use
    # Where several requests meet and it is not known which prefills joined, what these save is in the factor.
    told = use == "plain" or any(one.joined for one in in_use)
    shared_s = sweep.shared_s if told else 0.0
    waking_s = waking_seconds(sweep.cost, _picked([*record.in_use, *quiet], rng), shared_s)
    done = _picked(in_use, rng)
    cost, factors = sweep.cost, Factors()
    if done:
        factors = factors_in_use(Modelled(cost, waking_s, shared_s), done, quiet)
        cost = scaled_to_use(cost, factors, done, grouped=grouped)
    return CostFit(
        cost=replace(cost, prefill_s=cost.prefill_s + reread * cost.prefill_token_s),
        sweep=sweep,
        factors=factors,
        waking_s=factors.prefill * waking_s,
        reread=reread,
        shared_s=factors.prefill * shared_s,
    )


def slowdown_of(work: Iterable[tuple[CostFit, InUse]]) -> float | None:
    """Return what an engine took for its work as a multiple of what fits say, ratio of totals; None without any work.

    Parameters
    ----------
    work : what the engine did, each with the fit for that use.
    """
    pairs: Pairs = []
    for fit, done in work:
        modelled = Modelled(fit.cost, fit.waking_s, fit.shared_s, again_s=fit.reread * fit.cost.prefill_token_s)
        pairs += work_pairs(modelled, done, fit.factors.beside)
    return ratio(pairs)


def _picked(done: Sequence[InUse], rng: np.random.Generator | None) -> Sequence[InUse]:
    """What was done, or a bootstrap resample of it."""
    return done if rng is None or not done else [done[i] for i in resampled_answers(len(done), rng)]
