"""Scale of a cost model: time of an engine's work while answers were generated / time by the fitted sweep.

A sweep keeps its engine busy with one kind of work; between the requests of an answer caches go cold and the machine
does other work. The sweep determines how the cost grows with batch and context, the work for answers its scale: a
factor while no other engine works, and another factor while one works that shares memory and caches with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from calibrate.record.engine_records import InUse, Work
from sim.engines.costs import TableCost
from sim.engines.pass_costs import PassCost

__all__ = ["Factors", "Modelled", "Pairs", "factors_in_use", "ratio", "scaled_to_use", "waking_seconds", "work_pairs"]

_HARDLY: Final = 0.1
"""Least share of an engine's work without another engine at work for which a factor is estimated from it, [-]."""
_SLOWEST: Final = 8.0
"""Largest factor by which another engine at work slows an engine, [-]."""

Pairs: TypeAlias = list[tuple[float, float]]
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


@dataclass(frozen=True, slots=True)
class Modelled:
    """A cost model, to be compared with the measured times of its engine.

    Attributes
    ----------
    cost : cost of iterations and prefills.
    waking_s, shared_s : additional time of a prefill after a rest, and time that it saves by joining a pass, s.
    again_s : part of a prefill's cost for re-read tokens, s; subtracted, as recorded work counts these tokens as new.
    passes : cost of its iterations and passes while it speculates; None if it does not.
    """

    cost: TableCost
    waking_s: float = 0.0
    shared_s: float = 0.0
    again_s: float = 0.0
    passes: PassCost | None = None

    def decodes(self, done: Sequence[Work]) -> Pairs:
        """Modelled and measured seconds of iterations and passes."""
        cells = [cell for one in done for cell in (*one.decode, *one.passes) if cell.n]
        cost = self.passes or self.cost
        return [(n * cost.iteration(batch, context / n), s) for batch, n, context, s in cells]

    def prefills(self, done: Sequence[Work]) -> Pairs:
        """Modelled and measured seconds of prefills; only sums are recorded, so all are taken to be of mean length."""
        return [(self._prefills_s(one), one.prefill.seconds) for one in done if one.prefill.n]

    def _prefills_s(self, done: Work) -> float:
        n = done.prefill.n
        factor = 1.0 if self.passes is None else self.passes.prefill_factor
        alone_s = factor * self.cost.prefill(done.prefill.tokens / n) - self.again_s
        joined_s = max(alone_s - self.shared_s, 0.0)
        return (n - done.joined) * alone_s + done.joined * joined_s + done.waking.n * self.waking_s


def scaled_to_use(cost: TableCost, factors: Factors, done: Sequence[InUse], *, grouped: bool = False) -> TableCost:
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


def waking_seconds(cost: TableCost, done: Sequence[InUse], shared_s: float = 0.0) -> float:
    """Return the additional time of a prefill after a rest, s, at the speed at which other prefills match the sweep."""
    modelled = Modelled(cost, shared_s=shared_s)
    after_a_rest = [Work(prefill=one.waking) for one in done]
    others = [one.without(rested) for one, rested in zip(done, after_a_rest, strict=True)]
    rested_pairs = modelled.prefills(after_a_rest)
    factor = _usual(modelled.prefills(others), rested_pairs)
    modelled_s, seconds = _totals(rested_pairs)
    n = sum(one.waking.n for one in done)
    return max(seconds / factor - modelled_s, 0.0) / n if factor and n else 0.0


def factors_in_use(modelled: Modelled, done: Sequence[InUse], quiet: Sequence[InUse]) -> Factors:
    """Return measured / modelled seconds of iterations and prefills, without and with another engine at work.

    Parameters
    ----------
    quiet : its work during plain decoding, when no other engine worked.
    """
    load_known = any(one.beside is not None and one.beside.seconds > 0.0 for one in done)
    factors = _factors_by_load(modelled, done, quiet) if load_known else None
    if factors is not None:
        return factors
    decode, prefill = ratio(modelled.decodes(done)), ratio(modelled.prefills(done))
    return Factors(decode or 1.0, prefill or 1.0, 1.0 if load_known else None)


def work_pairs(modelled: Modelled, done: InUse, beside: float | None) -> Pairs:
    """Return modelled and measured seconds of all work; ``beside`` is as in `Factors`."""
    pairs: Pairs = []
    for part, factor in ((done.undisturbed, 1.0), (done.beside, _slowing(_share([done]), beside))):
        if part is not None:
            pairs += _scaled([*modelled.decodes([part]), *modelled.prefills([part])], factor)
    return pairs


def _factors_by_load(modelled: Modelled, done: Sequence[InUse], quiet: Sequence[InUse]) -> Factors | None:
    """Factors with and without another engine at work; None if the same factor fits both cases.

    The slowdown by another engine is estimated from iterations, or from prefills where there are no iterations. An
    engine with little work of its own without another engine has the factor of plain decoding there. Prefills often
    start together with the other engine, so that few run without it: the others count too, with the slowdown removed.
    """
    alone, both = [one.undisturbed for one in done], [one.beside for one in done if one.beside is not None]
    by_iterations = bool(modelled.decodes(done))
    telling = modelled.decodes if by_iterations else modelled.prefills
    factor = _usual(telling(alone), telling(both)) or _usual(telling([one.undisturbed for one in quiet]), telling(both))
    if factor is None:
        return None
    share = _share(done)
    slowdown = _slowdown(_scaled(telling(both), factor), share)
    if slowdown < 1.0:  # Another engine cannot speed it up: the few seconds without one were slow.
        return None
    loaded = _scaled(modelled.prefills(both), _slowing(share, slowdown))
    prefill = ratio(modelled.prefills(alone) + loaded) or factor
    return Factors(factor if by_iterations else 1.0, prefill, slowdown)


def _slowdown(both: Pairs, share: float) -> float:
    """Factor by which another engine slows an engine if it works for ``share`` of the measured time."""
    work_s, measured_s = _totals(both)
    loaded_s = share * measured_s
    work_s -= measured_s - loaded_s  # the time that the work would take without the other engine
    return loaded_s / max(work_s, loaded_s / _SLOWEST) if loaded_s > 0.0 else 1.0


def _usual(alone: Pairs, both: Pairs) -> float | None:
    """Measured / modelled seconds of work without another engine; None if that is a small share of all work."""
    return ratio(alone) if _totals(alone)[0] > _HARDLY * _totals(alone + both)[0] else None


def _share(done: Iterable[InUse]) -> float:
    """Share of the time of `InUse.beside` in which another engine worked, in [0, 1]."""
    pairs = [(one.beside.seconds, one.company_s) for one in done if one.beside is not None]
    return min(ratio(pairs) or 0.0, 1.0)


def _slowing(share: float, beside: float | None) -> float:
    """Mean slowdown of work during which another engine works for ``share`` of the time, [-]."""
    return 1.0 / (1.0 - share + share / (beside or 1.0))


def _scaled(pairs: Pairs, factor: float) -> Pairs:
    return [(factor * modelled, measured) for modelled, measured in pairs]


def _totals(pairs: Pairs) -> tuple[float, float]:
    return sum(modelled for modelled, _ in pairs), sum(seconds for _, seconds in pairs)


def ratio(pairs: Pairs) -> float | None:
    """Measured / modelled seconds, ratio of totals; None without samples."""
    modelled, seconds = _totals(pairs)
    return seconds / modelled if modelled > 0.0 else None
