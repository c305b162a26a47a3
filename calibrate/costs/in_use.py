"""How large a cost is: what an engine took for its work while answers were made, over what a sweep says.

A sweep keeps its engine busy with one kind of work; between the requests of an answer caches go cold and the machine
does other things. The sweep says how cost grows with batch and context, the answers how large it is: while the engine
works alone, and by how much larger while another one works, which shares memory and caches with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from calibrate.record.engine_records import InUse, Work
from sim.engines.costs import TableCost

__all__ = ["Factors", "Modelled", "Pairs", "factors_in_use", "ratio", "scaled_to_use", "waking_seconds", "work_pairs"]

_HARDLY: Final = 0.1
"""Share of its work up to which an engine hardly ever did it alone, [-]: then it is taken to always have company."""

_SLOWEST: Final = 8.0
"""By how much company slows an engine at most, [-]."""

Pairs: TypeAlias = list[tuple[float, float]]
"""Modelled and measured seconds."""


@dataclass(frozen=True, slots=True)
class Factors:
    """What an engine took in use, as a multiple of what a sweep says.

    Attributes
    ----------
    decode, prefill : of iterations and of prefills, while no other engine worked, [-].
    beside : time while another engine works / time while none does, [-]; None if not measured.
    """

    decode: float = 1.0
    prefill: float = 1.0
    beside: float | None = None


@dataclass(frozen=True, slots=True)
class Modelled:
    """A cost, to be compared with what its engine took for its work.

    Attributes
    ----------
    cost : of iterations and prefills.
    waking_s, shared_s : what a prefill takes more after a rest, and less where it joins a pass, s.
    again_s : of a prefill, what the cost has for tokens that are read again; what was done counts them as others, s.
    """

    cost: TableCost
    waking_s: float = 0.0
    shared_s: float = 0.0
    again_s: float = 0.0

    def decodes(self, done: Sequence[Work]) -> Pairs:
        """Modelled and measured seconds of iterations."""
        cells = [cell for one in done for cell in one.decode if cell.n]
        return [(n * self.cost.iteration(batch, context / n), s) for batch, n, context, s in cells]

    def prefills(self, done: Sequence[Work]) -> Pairs:
        """Modelled and measured seconds of prefills; only their sums are known: all are taken to be of mean length."""
        return [(self._prefills_s(one), one.prefill.seconds) for one in done if one.prefill.n]

    def _prefills_s(self, done: Work) -> float:
        n = done.prefill.n
        alone_s = self.cost.prefill(done.prefill.tokens / n) - self.again_s
        joined_s = max(alone_s - self.shared_s, 0.0)
        return (n - done.joined) * alone_s + done.joined * joined_s + done.waking.n * self.waking_s


def scaled_to_use(cost: TableCost, factors: Factors, done: Sequence[InUse], *, grouped: bool = False) -> TableCost:
    """Return a swept cost as large as it was in use, with the latency of requests there.

    Where requests come in groups (``grouped``), the latency of a group grows with its size: reading a request and
    sending its result takes its server some time that the others wait for. That part counts as prefill, one after the
    other.
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
    """Return what a prefill after a rest takes more than others, s, where those take what they took in the sweep."""
    modelled = Modelled(cost, shared_s=shared_s)
    after_a_rest = [Work(prefill=one.waking) for one in done]
    others = [one.without(rested) for one, rested in zip(done, after_a_rest, strict=True)]
    rested_pairs = modelled.prefills(after_a_rest)
    factor = _usual(modelled.prefills(others), rested_pairs)
    modelled_s, seconds = _totals(rested_pairs)
    n = sum(one.waking.n for one in done)
    return max(seconds / factor - modelled_s, 0.0) / n if factor and n else 0.0


def factors_in_use(modelled: Modelled, done: Sequence[InUse], quiet: Sequence[InUse]) -> Factors:
    """Return measured over modelled seconds of iterations and of prefills alone, and by how much company slows both.

    Parameters
    ----------
    modelled : by the sweep.
    done : what the engine did in the use.
    quiet : what it did while it had answers to itself.
    """
    told = any(one.beside is not None and one.beside.seconds > 0.0 for one in done)
    found = _alone_and_beside(modelled, done, quiet) if told else None
    if found is not None:
        return found
    decode, prefill = ratio(modelled.decodes(done)), ratio(modelled.prefills(done))
    return Factors(decode or 1.0, prefill or 1.0, 1.0 if told else None)


def work_pairs(modelled: Modelled, done: InUse, beside: float | None) -> Pairs:
    """Return modelled and measured seconds of all that was done, where ``beside`` is how much company slows."""
    pairs: Pairs = []
    for part, factor in ((done.undisturbed, 1.0), (done.beside, _slowing(_share([done]), beside))):
        if part is not None:
            pairs += _scaled([*modelled.decodes([part]), *modelled.prefills([part])], factor)
    return pairs


def _alone_and_beside(modelled: Modelled, done: Sequence[InUse], quiet: Sequence[InUse]) -> Factors | None:
    """The factors alone, and by how much company slows; None if one factor will do for both cases.

    How much company slows is told by iterations, or by prefills where there are no others. An engine that hardly ever
    worked alone is taken to be as fast then as when it had an answer to itself. Prefills mostly begin as the other
    engine begins, so that few were alone: those in company count too, with what company slows them.
    """
    alone, both = [one.undisturbed for one in done], [one.beside for one in done if one.beside is not None]
    by_iterations = bool(modelled.decodes(done))
    telling = modelled.decodes if by_iterations else modelled.prefills
    factor = _usual(telling(alone), telling(both)) or _usual(telling([one.undisturbed for one in quiet]), telling(both))
    if factor is None:
        return None
    share = _share(done)
    beside = _company(_scaled(telling(both), factor), share)
    if beside < 1.0:  # Company speeds nothing up: the few seconds alone were slow by chance.
        return None
    in_company = _scaled(modelled.prefills(both), _slowing(share, beside))
    prefill = ratio(modelled.prefills(alone) + in_company) or factor
    return Factors(factor if by_iterations else 1.0, prefill, beside)


def _company(both: Pairs, share: float) -> float:
    """By how much company slows an engine that had it for a share of what it took, as the time that the rest leaves."""
    work_s, measured_s = _totals(both)
    in_company_s = share * measured_s
    work_s -= measured_s - in_company_s  # what was done in company would have taken so long alone
    return in_company_s / max(work_s, in_company_s / _SLOWEST) if in_company_s > 0.0 else 1.0


def _usual(alone: Pairs, both: Pairs) -> float | None:
    """Measured over modelled seconds of what was done alone; None where that is hardly anything."""
    return ratio(alone) if _totals(alone)[0] > _HARDLY * _totals(alone + both)[0] else None


def _share(done: Iterable[InUse]) -> float:
    """The share of the time of what was done beside another engine in which that worked, in [0, 1]."""
    pairs = [(one.beside.seconds, one.company_s) for one in done if one.beside is not None]
    return min(ratio(pairs) or 0.0, 1.0)


def _slowing(share: float, beside: float | None) -> float:
    """By how much that takes longer which has company for a share of its time, [-]."""
    return 1.0 / (1.0 - share + share / (beside or 1.0))


def _scaled(pairs: Pairs, factor: float) -> Pairs:
    return [(factor * modelled, measured) for modelled, measured in pairs]


def _totals(pairs: Pairs) -> tuple[float, float]:
    return sum(modelled for modelled, _ in pairs), sum(seconds for _, seconds in pairs)


def ratio(pairs: Pairs) -> float | None:
    """Measured over modelled seconds, ratio of totals; None without samples."""
    modelled, seconds = _totals(pairs)
    return seconds / modelled if modelled > 0.0 else None
