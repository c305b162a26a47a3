"""Lookahead Reasoning, Theorem 4 and Lemma 5: a rounding, a weak inequality, odd budgets, and a constant left out."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from ledger.ledger import Claim, Evidence
from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.hybrid.lemmas_2_and_3 import async_monotone
from ledger.lookahead_reasoning.hybrid.lemmas_5_and_6 import one_peak
from ledger.lookahead_reasoning.hybrid.points import Synchronous, divisors, split, synchronous, words
from ledger.lookahead_reasoning.hybrid.theorem_3 import hybrid_proof
from ledger.proving.cases import Predicate, searched
from ledger.proving.domains import between
from ledger.proving.margins import MET, Margin, at_least
from ledger.proving.records import formula_of, refuted, repaired, restated
from ledger.proving.symbolic import sign
from ledger.proving.tools import screened

__all__ = ["CLAIMS"]


def _constant_from(rounding: str) -> Predicate:
    """f_async is the same at a depth, the floor or the ceiling of 1/c1, and one step deeper."""
    start = exact.floor_inverse if rounding == "floor" else exact.ceil_inverse

    def same(alpha1: Fraction, c1: Fraction) -> bool:
        return bool(exact.f_async(alpha1, c1, start(c1)) == exact.f_async(alpha1, c1, start(c1) + 1))

    def values(alpha1: Fraction, c1: Fraction) -> str:
        return ", ".join(
            f"f_async({k}) = {float(exact.f_async(alpha1, c1, k)):.4f}" for k in (start(c1), start(c1) + 1)
        )

    return Predicate(
        text=f"f_async stays constant from {rounding}(1/c1) on",
        test=same,
        domain={"alpha1": between("0.52", "0.8"), "c1": between(0, "1/3")},
        at=[{"alpha1": "3/5", "c1": c} for c in ("1/4", "2/7")],
        explain=values,
    )


_FROM_FLOOR, _FROM_CEILING = _constant_from("floor"), _constant_from("ceil")


def _two_steps_gain() -> Evidence:
    """f_async(2) > 1 = f_async(1): 1 + alpha1 exceeds 1 + c1 alpha1 (1 - alpha1)."""
    return screened(
        searched(formula_of("LR-T4k", "correction_formula"), {"alpha1": "53/100", "c1": "33/100"}),
        sign("alpha1 * (1 - c1 * (1 - alpha1))", "h(2, k) > h(1, k) for every k", unit=("alpha1", "c1")),
    )


def _interior(*, odd: bool) -> Predicate:
    """Lemma 5 (a) at budgets that are odd and composite, or even."""

    def inside(point: Synchronous, values: Mapping[int, Fraction]) -> Margin:
        return at_least(max(value for d, value in values.items() if 2 <= d <= point.budget // 2), max(values.values()))

    def premise(point: Synchronous) -> Margin:
        return MET if (point.budget == _ODD_BUDGET if odd else point.budget % 2 == 0) else ~MET

    def explain(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, M: Fraction) -> str:  # noqa: N803
        values = split(alpha1, c1, alpha2, c2, int(M))
        return ", ".join(f"w({d}) = {float(value):.4f}" for d, value in values.items() if d <= 3)

    return divisors(
        "some divisor in [2, M/2] maximises w over the divisors of M",
        inside,
        lambda point: premise(point) & point.met(strict=False),
        f"(7) and (8), M {'= 9' if odd else 'even'}",
        odd=odd,
        at=({"alpha1": "1/4", "c1": "1/5", "alpha2": "1/4", "c2": "1/100", "M": "9" if odd else "8"},),
        explain=explain,
    )


_ODD_BUDGET = 9
"""The one odd composite budget up to 12, beyond which enumeration takes long."""
_ODD, _EVEN = _interior(odd=True), _interior(odd=False)


def _beats(*, six: bool) -> Predicate:
    """Strict (7) and (8), with (6) or with no constant at all, make the best hybrid better than both."""
    return synchronous(
        "the best hybrid beats both single methods",
        lambda point: point.hybrid_wins,
        lambda point: point.met(strict=True) & (point.six() if six else MET),
        f"(7) and (8) strictly{', (6)' if six else ''}",
        at=({"alpha1": "2/5", "c1": "1/3", "alpha2": "4/5", "c2": "2/5", "M": "4"},),
        explain=words,
    )


CLAIMS: tuple[Claim, ...] = (
    refuted(
        "LR-T4j",
        _FROM_FLOOR,
        instead=_FROM_CEILING,
        fix=lambda: screened(searched(_FROM_CEILING), lambda: async_monotone(0)),
    ),
    repaired("LR-T4k", fix=_two_steps_gain, mutants={"strict": restated("LR-T4k", premise="single < hybrid")}),
    refuted("LR-L5f", _ODD, instead=_EVEN, fix=lambda: screened(searched(_EVEN), one_peak)),
    refuted("LR-Z3", _beats(six=False), instead=_beats(six=True), fix=hybrid_proof),
)
