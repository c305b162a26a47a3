"""Cost model of an engine in a use, and its resampled variants: a fitted sweep, scaled to the times in that use.

A sweep keeps its engine busy with one kind of work; between the requests of an answer caches go cold and the machine
does other work. The sweep determines how the cost grows with batch and context, the work for answers its scale: a
factor while no other engine works, and another factor while one works that shares memory and caches with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final, TypeAlias

import numpy as np

from calibrate.costs.by_load import resampled
from calibrate.costs.sweep import SweepFit, fit_sweep
from calibrate.record.engine_records import ClientsInUse, EngineRecord, InUse, Use, Work
from calibrate.record.profile import Profile
from sim.engines.costs import TableCost
from sim.engines.pass_costs import PassCost
from sim.roles import TARGET
from sim.serving.limits import JoinLaw

__all__ = ["CostFit", "Factors", "fit_cost", "reread_tokens", "resampled_answers", "slowdown_of"]

_HARDLY: Final = 0.1
"""Least share of an engine's work without another engine at work for which a factor is estimated from it, [-]."""
_SLOWEST: Final = 8.0
"""Largest factor by which another engine at work slows an engine, [-]."""

_Pairs: TypeAlias = list[tuple[float, float]]
"""Modelled and measured seconds."""


@dataclass(frozen=True, slots=True)
class Factors:
    """Times of an engine in use / times by the sweep.

    Attributes
    ----------
    decode, prefill : factor of iterations and of prefills while no other engine works, [-].
    beside : time while another engine works / time while none does, [-]; None if not measured.
    """

    decode: float = 1.0
    prefill: float = 1.0
    beside: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFit:
    """A fitted cost model, and its parts.

    Attributes
    ----------
    cost : the model; its prefill times are functions of the new tokens and include re-reading.
    sweep : fit to the timings of the engine without other work.
    factors : times in use / times by the sweep.
    waking_s : additional time of a prefill after `sim.engines.batching.RESTED_S` without work, s; 0 if not measured.
    reread : cached tokens that each prefill reads again in addition to the new ones; recorded work counts them as new.
    join : what passes take that read prompts; None if not measured, or if included in the factor.
    shared_s : time that a prefill saves by joining a pass, s; 0 where there is no ``join``.
    passes : cost of its passes with token-level speculation; None for an engine that does not speculate.
    by_clients : answers in flight, and the time of its work there / the time by ``cost``, where that was measured.
    """

    cost: TableCost
    sweep: SweepFit
    factors: Factors = Factors()
    waking_s: float = 0.0
    reread: float = 0.0
    join: JoinLaw | None = None
    shared_s: float = 0.0
    passes: PassCost | None = None
    by_clients: tuple[tuple[float, float], ...] = ()

    def slowdown(self, in_flight: float) -> float:
        """Return the time of its work with so many answers in flight / the time by ``cost``, [-].

        It is 1 with one answer, linear in the logarithm between the measured numbers, and constant beyond the largest.
        """
        answers, ratios = zip((1.0, 1.0), *self.by_clients, strict=True)
        return float(np.interp(np.log(in_flight), np.log(answers), ratios))

    def decodes(self, done: Sequence[Work]) -> _Pairs:
        """Modelled and measured seconds of iterations and passes."""
        cells = [cell for one in done for cell in (*one.decode, *one.passes) if cell.n]
        cost = self.passes or self.cost
        return [(n * cost.iteration(batch, context / n), s) for batch, n, context, s in cells]

    def prefills(self, done: Sequence[Work]) -> _Pairs:
        """Modelled and measured seconds of prefills; only sums are recorded, so all are taken to be of mean length."""
        factor = 1.0 if self.passes is None else self.passes.prefill_factor
        again_s = self.reread * self.cost.prefill_token_s
        pairs = []
        for one in done:
            n = one.prefill.n
            if n:
                alone_s = factor * self.cost.prefill(one.prefill.tokens / n) - again_s
                joined_s = max(alone_s - self.shared_s, 0.0)
                modelled_s = (n - one.joined) * alone_s + one.joined * joined_s + one.waking.n * self.waking_s
                pairs.append((modelled_s, one.prefill.seconds))
        return pairs


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
    waking_s = _waking_seconds(swept, _picked([*record.in_use, *quiet], rng))
    done = _picked(in_use, rng)
    cost, factors = sweep.cost, swept.factors
    if done:
        factors = _factors_in_use(replace(swept, waking_s=waking_s), done, quiet)
        cost = _scaled_to_use(cost, factors, done, grouped=grouped)
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


def _scaled_to_use(cost: TableCost, factors: Factors, done: Sequence[InUse], *, grouped: bool = False) -> TableCost:
    """Return a swept cost scaled to its use, with the latency of requests in that use.

    Where requests come in groups (``grouped``), the latency of a group grows with its size: the server reads requests
    and sends results one after the other. That part of the latency counts as prefill time.
    """
    n_requests = sum(one.request.n for one in done)
    latency = sum(one.request.seconds for one in done)
    request_s, handling_s = latency / n_requests if n_requests else cost.request_s, 0.0
    if grouped:
        n_prefills = sum(one.prefill.n for one in done)
        request_s, handling_s = cost.request_s, max(latency - n_requests * cost.request_s, 0.0) / max(n_prefills, 1)
    return replace(
        cost,
        seconds=tuple(factors.decode * s for s in cost.seconds),
        context_s=factors.decode * cost.context_s,
        prefill_s=factors.prefill * cost.prefill_s + handling_s,
        prefill_token_s=factors.prefill * cost.prefill_token_s,
        bends=tuple((tokens, factors.prefill * s) for tokens, s in cost.bends),
        request_s=request_s,
    )


def _waking_seconds(swept: CostFit, done: Sequence[InUse]) -> float:
    """Return the additional time of a prefill after a rest, s, at the speed at which other prefills match the sweep."""
    after_a_rest = [Work(prefill=one.waking) for one in done]
    others = [one.without(rested) for one, rested in zip(done, after_a_rest, strict=True)]
    rested_pairs = swept.prefills(after_a_rest)
    factor = _usual(swept.prefills(others), rested_pairs)
    modelled_s, seconds = _totals(rested_pairs)
    n = sum(one.waking.n for one in done)
    return max(seconds / factor - modelled_s, 0.0) / n if factor and n else 0.0


def _factors_in_use(swept: CostFit, done: Sequence[InUse], quiet: Sequence[InUse]) -> Factors:
    """Return measured / modelled seconds of iterations and prefills, without and with another engine at work.

    Parameters
    ----------
    quiet : its work during plain decoding, when no other engine worked.
    """
    load_known = any(one.beside is not None and one.beside.seconds > 0.0 for one in done)
    factors = _factors_by_load(swept, done, quiet) if load_known else None
    if factors is not None:
        return factors
    decode, prefill = _ratio(swept.decodes(done)), _ratio(swept.prefills(done))
    return Factors(decode or 1.0, prefill or 1.0, 1.0 if load_known else None)


def slowdown_of(work: Iterable[tuple[CostFit, InUse]]) -> float | None:
    """Return the measured time of an engine's work / the time by its fits, ratio of totals; None without any work.

    Parameters
    ----------
    work : pairs of a fit and the engine's work in that use.
    """
    pairs: _Pairs = []
    for fit, done in work:
        slowing = _slowing(_share([done]), fit.factors.beside)
        for part, factor in ((done.undisturbed, 1.0), (done.beside, slowing)):
            if part is not None:
                pairs += _scaled([*fit.decodes([part]), *fit.prefills([part])], factor)
    return _ratio(pairs)


def _factors_by_load(swept: CostFit, done: Sequence[InUse], quiet: Sequence[InUse]) -> Factors | None:
    """Factors with and without another engine at work; None if the same factor fits both cases.

    The slowdown is estimated from iterations, else from prefills. An engine with little work of its own without another
    engine has the factor of plain decoding there. Few prefills run without the other engine: those that run with it
    count too, with the slowdown removed.
    """
    alone, both = [one.undisturbed for one in done], [one.beside for one in done if one.beside is not None]
    by_iterations = bool(swept.decodes(done))
    telling = swept.decodes if by_iterations else swept.prefills
    factor = _usual(telling(alone), telling(both)) or _usual(telling([one.undisturbed for one in quiet]), telling(both))
    if factor is None:
        return None
    share = _share(done)
    slowdown = _slowdown(_scaled(telling(both), factor), share)
    if slowdown < 1.0:  # Another engine cannot speed it up: the few seconds without one were slow.
        return None
    loaded = _scaled(swept.prefills(both), _slowing(share, slowdown))
    prefill = _ratio(swept.prefills(alone) + loaded) or factor
    return Factors(factor if by_iterations else 1.0, prefill, slowdown)


def _slowdown(both: _Pairs, share: float) -> float:
    """Factor by which another engine slows an engine if it works for ``share`` of the measured time."""
    work_s, measured_s = _totals(both)
    loaded_s = share * measured_s
    work_s -= measured_s - loaded_s  # the time that the work would take without the other engine
    return loaded_s / max(work_s, loaded_s / _SLOWEST) if loaded_s > 0.0 else 1.0


def _usual(alone: _Pairs, both: _Pairs) -> float | None:
    """Measured / modelled seconds of work without another engine; None if that is a small share of all work."""
    return _ratio(alone) if _totals(alone)[0] > _HARDLY * _totals(alone + both)[0] else None


def _share(done: Iterable[InUse]) -> float:
    """Share of the time of `InUse.beside` in which another engine worked, in [0, 1]."""
    pairs = [(one.beside.seconds, one.company_s) for one in done if one.beside is not None]
    return min(_ratio(pairs) or 0.0, 1.0)


def _slowing(share: float, beside: float | None) -> float:
    """Mean slowdown of work during which another engine works for ``share`` of the time, [-]."""
    return 1.0 / (1.0 - share + share / (beside or 1.0))


def _scaled(pairs: _Pairs, factor: float) -> _Pairs:
    return [(factor * modelled, measured) for modelled, measured in pairs]


def _totals(pairs: _Pairs) -> tuple[float, float]:
    return sum(modelled for modelled, _ in pairs), sum(seconds for _, seconds in pairs)


def _ratio(pairs: _Pairs) -> float | None:
    """Measured / modelled seconds, ratio of totals; None without samples."""
    modelled, seconds = _totals(pairs)
    return seconds / modelled if modelled > 0.0 else None
