"""Cost model of an engine in a use, and its resampled variants: a fitted sweep, scaled to the times in that use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from calibrate.costs.by_load import resampled
from calibrate.costs.in_use import CostFit, factors_in_use, scaled_to_use, slowdown_of, waking_seconds
from calibrate.costs.sweep import fit_sweep
from calibrate.record.engine_records import ClientsInUse, EngineRecord, InUse, Use
from calibrate.record.profile import Profile
from sim.roles import TARGET

__all__ = ["CostFit", "fit_cost", "reread_tokens", "resampled_answers", "slowdown_of"]


def fit_cost(
    record: EngineRecord, rng: np.random.Generator | None = None, *, use: Use = "steps", reread: float = 0.0
) -> CostFit:
    """Fit a `TableCost` to an engine's timings.

    Parameters
    ----------
    rng : if given, fit to a bootstrap resample (within cells; of answers, in blocks of neighbours), for the error of
        predictions with the fit.
    use : use of the engine; without a record of that use, the record of ``steps`` is used.
    reread : cached tokens that a prefill reads again, see `reread_tokens`.

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
    swept = CostFit(cost=sweep.cost, sweep=sweep, shared_s=shared_s)
    waking_s = waking_seconds(swept, _picked([*record.in_use, *quiet], rng))
    done = _picked(in_use, rng)
    cost, factors = sweep.cost, swept.factors
    if done:
        factors = factors_in_use(replace(swept, waking_s=waking_s), done, quiet)
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


def resampled_answers(n: int, rng: np.random.Generator) -> list[int]:
    """Return indices of a resample of ``n`` answers in blocks of sqrt(n) neighbours, circular.

    Machines have slow phases, so that the times of neighbouring answers are correlated: resampled one by one, they
    would give too small an error (Politis and Romano 1992, circular block bootstrap).
    """
    length = max(round(n**0.5), 1)
    starts = rng.integers(0, n, -(-n // length))
    indices: list[int] = ((starts[:, None] + np.arange(length)) % n).ravel()[:n].tolist()
    return indices


def _picked(done: Sequence[InUse], rng: np.random.Generator | None) -> Sequence[InUse]:
    """The records of work, or a bootstrap resample of them."""
    return done if rng is None or not done else [done[i] for i in resampled_answers(len(done), rng)]


def reread_tokens(profile: Profile, use: Use = "steps") -> float:
    """Return the mean number of tokens that a prefill of the target computes again, although they were known before.

    The last token of a step is not cached when the next step is requested, and a prefix cache of whole blocks (vLLM's)
    lacks some tokens before it. Counted in answers of the target without a draft, in a request for each step, where
    only the prompt is new; 0 where that was not recorded, and in plain decoding, whose answers are one request.
    """
    done = profile.engines[profile.placement[TARGET]].stepwise if use != "plain" else []
    n = sum(one.prefill[0] for one in done)
    if not n or len(done) != len(profile.answers):
        return 0.0
    new = sum(answer.prompt_tokens for answer in profile.answers)
    return max(sum(one.prefill[1] for one in done) - new, 0) / n
