"""Cost model of an engine in a use, and its resampled variants: a fitted sweep, scaled to the times in that use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

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
from calibrate.costs.resampling import resampled, resampled_answers
from calibrate.costs.sweep import SweepFit, fit_sweep
from calibrate.record.engine_records import ClientsInUse, EngineRecord, InUse, Use
from sim.engines.costs import TableCost
from sim.engines.pass_costs import PassCost
from sim.serving.limits import JoinLaw

__all__ = ["CostFit", "fit_cost", "slowdown_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFit:
    """A fitted cost model, and its parts.

    Attributes
    ----------
    cost : the model; its prefill times are functions of the new tokens and include re-reading.
    sweep : fit to the timings of the engine without other work.
    factors : times in use / times by the sweep.
    waking_s : additional time of a prefill after `sim.engines.batching.RESTED_S` without work, s; 0 if not measured.
    reread : cached tokens that each prefill reads again in addition to the new ones.
    join : what passes take that read prompts; None if not measured, or if included in the factor.
    shared_s : time that a prefill saves by joining a pass, s; 0 where there is no ``join``.
    passes : cost of its passes with token-level speculation; None for an engine that does not speculate.
    by_clients : answers in flight, and the time of its work there / the time by ``cost``, where that was measured.
    """

    cost: TableCost
    sweep: SweepFit
    factors: Factors
    waking_s: float
    reread: float
    join: JoinLaw | None
    shared_s: float
    passes: PassCost | None = None
    by_clients: tuple[tuple[float, float], ...] = ()

    def slowdown(self, in_flight: float) -> float:
        """Return the time of its work with so many answers in flight / the time by ``cost``, [-].

        It is 1 with one answer, linear in the logarithm between the measured numbers, and constant beyond the largest.
        """
        answers, ratios = zip((1.0, 1.0), *self.by_clients, strict=True)
        return float(np.interp(np.log(in_flight), np.log(answers), ratios))


def fit_cost(
    record: EngineRecord, rng: np.random.Generator | None = None, *, use: Use = "steps", reread: float = 0.0
) -> CostFit:
    """Fit a `TableCost` to an engine's timings.

    Parameters
    ----------
    record : the raw samples; warm-ups are not used.
    rng : if given, fit to a bootstrap resample (within cells; of answers, in blocks of neighbours), for the error of
        predictions with the fit.
    use : use of the engine; without a record of that use, the record of ``steps`` is used.
    reread : cached tokens that a prefill reads again, see `calibrate.replay.recorded.reread_tokens`.

    Raises
    ------
    CalibrationError : no decode sample at batch 1, or no prefill sample.
    """
    sweep = fit_sweep(record, rng)
    in_use = record.work_in(use)
    quiet = record.plain_in_use if use == "plain" else record.stepwise or record.plain_in_use
    grouped = use == "beams" and bool(in_use)
    if not any(one.decode for one in in_use):
        in_use = record.in_use
    # With concurrent requests and no record of which prefills joined a pass, the factor includes the saved time.
    joins_known = use == "plain" or any(one.joined for one in in_use)
    shared_s = sweep.shared_s if joins_known else 0.0
    waking_s = waking_seconds(sweep.cost, _picked([*record.in_use, *quiet], rng), shared_s)
    done = _picked(in_use, rng)
    cost, factors = sweep.cost, Factors()
    if done:
        factors = factors_in_use(Modelled(cost, waking_s, shared_s), done, quiet)
        cost = scaled_to_use(cost, factors, done, grouped=grouped)
    fit = CostFit(
        cost=replace(cost, prefill_s=cost.prefill_s + reread * cost.prefill_token_s),
        sweep=sweep,
        factors=factors,
        waking_s=factors.prefill * waking_s,
        reread=reread,
        join=sweep.join.slower(factors.prefill) if joins_known and sweep.join is not None else None,
        shared_s=factors.prefill * shared_s,
    )
    return replace(fit, by_clients=_by_clients(fit, record.clients_in_use, rng)) if use == "steps" else fit


def _by_clients(
    fit: CostFit, done: Sequence[ClientsInUse], rng: np.random.Generator | None
) -> tuple[tuple[float, float], ...]:
    """`CostFit.by_clients`; levels without work of the engine, or with one answer only, are left out.

    Other answers do not make an engine faster: a ratio below 1 comes of prompts that are read together, which
    simulations of the load have anyway.
    """
    levels: dict[int, list[ClientsInUse]] = defaultdict(list)
    for one in done:
        levels[one.clients].append(one)
    ratios = [
        (fmean(one.in_flight for one in rounds), slowdown_of([(fit, one) for one in resampled(rounds, rng)]))
        for _, rounds in sorted(levels.items())
    ]
    return tuple((n, max(ratio, 1.0)) for n, ratio in ratios if ratio is not None and n > 1.0)


def slowdown_of(work: Iterable[tuple[CostFit, InUse]]) -> float | None:
    """Return the measured time of an engine's work / the time by its fits, ratio of totals; None without any work.

    Parameters
    ----------
    work : pairs of a fit and the engine's work in that use.
    """
    pairs: Pairs = []
    for fit, done in work:
        again_s = fit.reread * fit.cost.prefill_token_s
        modelled = Modelled(fit.cost, fit.waking_s, fit.shared_s, again_s=again_s, passes=fit.passes)
        pairs += work_pairs(modelled, done, fit.factors.beside)
    return ratio(pairs)


def _picked(done: Sequence[InUse], rng: np.random.Generator | None) -> Sequence[InUse]:
    """The records of work, or a bootstrap resample of them."""
    return done if rng is None or not done else [done[i] for i in resampled_answers(len(done), rng)]
