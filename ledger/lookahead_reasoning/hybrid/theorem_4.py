"""Lookahead Reasoning, Theorem 4: hybrid speculation under a budget, asynchronous version.

Over min(ceil(1/c1), k1) k2 <= M the ledger proves: every maximiser is a hybrid, for any M >= 16, even or odd; it
also finds how far the stated box can be widened before that fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from flint import arb

from ledger.ledger import Claim, Evidence, Verdict
from ledger.lookahead_reasoning.hybrid.points import (
    SHARP,
    Asynchronous,
    asynchronous,
    hybrids_only,
    speedup,
    theorem_4_box,
)
from ledger.proving.cases import Cases, Predicate, rows, searched, walked
from ledger.proving.deferred import sp
from ledger.proving.formulas import one_of
from ledger.proving.margins import at_least
from ledger.proving.records import proved, refuted
from ledger.proving.tools import Box, all_of, identity, prove_identity, prove_positive, prove_sign, screened

__all__ = ["CLAIMS", "box_points", "distance_to_limit", "prove_deeper_wins", "prove_only_hybrids", "words"]

_TOP, _WIDE = Fraction(4, 5), Fraction(17, 20)


def _stage_time(alpha: Any, c: Any) -> Any:
    """Mean time of a stage of two drafts, in target steps: f(2) = (1 + alpha)/(1 + c alpha (1 - alpha))."""
    return 1 + alpha * c * (1 - alpha)


def box_points(low: str, budgets: tuple[int, ...], top: str = "4/5") -> Iterator[dict[str, str]]:
    """Points just inside the corners of the box, and its middle."""
    bottom, high = str(Fraction(low) + Fraction(1, 1000)), str(Fraction(top) - Fraction(1, 1000))
    for a1, a2, c1, c2, m in itertools.product(
        (high, bottom, "13/20"), (bottom, high), ("1/1000", "33/100", "2/31"), ("199/1000", "1/1000"), budgets
    ):
        yield {"alpha1": a1, "c1": c1, "alpha2": a2, "c2": c2, "M": str(m)}


def _only_hybrids(low: str, budgets: tuple[int, ...], top: str = "4/5") -> Evidence:
    """No single method reaches the maximum, at points inside the box with alpha > low."""
    return searched(
        hybrids_only(theorem_4_box(low, one_of(*budgets), top)),
        *box_points(low, budgets, top),
        text=f"every maximiser is a hybrid for alpha > {low}",
        explain=words,
    )


def words(**values: Fraction) -> str:
    """The three best speedups of a point."""
    return Asynchronous(**values).words()


def prove_only_hybrids(
    low: str, half: int, budgets: tuple[int, ...], *, time: Callable[[Any, Any], Any] = _stage_time
) -> Evidence:
    """Every budget M >= 2 half at once: compare with (2, j) and (j, 2), j = floor(M/2) >= half."""

    def step_side(alpha1: arb, alpha2: arb, c2: arb) -> arb:
        # g(2) > 1/(1 - alpha1**half) >= S1/S2(j), and S1 is the best that step-level only can reach
        return (1 + alpha2) * (1 - alpha1**half) - (1 + c2)

    box: Box = {"alpha1": (low, "4/5"), "alpha2": (low, "4/5"), "c2": (0, "1/5")}
    return screened(
        _only_hybrids(low, budgets),
        lambda: _token_side(low, half, time=time),
        lambda: prove_positive(step_side, box, what="step-level only loses to (j, 2)"),
        _longer_passes,
        distance_to_limit,
        _second_token,
        detail=f"All M >= {2 * half}: j = floor(M/2) >= {half}, (2, j) and (j, 2) fit; for j >= ceil(1/c1) "
        "step-level only is S1 and loses to (ceil(1/c1), 2)",
    )


def _token_side(
    low: str | Fraction, half: int, *, time: Callable[[Any, Any], Any] = _stage_time, top: Fraction = _TOP
) -> Evidence:
    """f(2) > 1/(1 - alpha2**half) >= g(k)/g(j) for j < k <= M, with rates from low to top; `time` must be S2's."""

    def gap(alpha1: arb, c1: arb, alpha2: arb) -> arb:
        slack: arb = (1 + alpha1) * (1 - alpha2**half) - time(alpha1, c1)
        return slack

    box: Box = {"alpha1": (low, top), "alpha2": (low, top), "c1": (0, "1/3")}
    return all_of(
        lambda: _tie_second_draft(time), lambda: prove_positive(gap, box, what="token-level only loses to (2, j)")
    )


def _tie_second_draft(time: Callable[[Any, Any], Any]) -> Evidence:
    """The speedup of two drafts is that of the statement S2."""
    from ledger.lookahead_reasoning import statements as st

    two = st.f_async_saturated().subs(st.K1, 2)
    return prove_identity(two - (1 + st.ALPHA1) / time(st.ALPHA1, st.C1), what="f(2) is S2 at two drafts")


def prove_deeper_wins(what: str) -> Evidence:
    """S1/S2(j) - 1 = q (1-alpha)(1-c1 j)/((1-q)(1-alpha+c1 alpha)) < 0 with q = alpha**j, for c1 j = 1 + s > 1."""
    a, c, q, j, s = sp.symbols("alpha1 c1 q j s", positive=True)
    beyond = -q * (1 - a) * (1 - c * j) / ((1 - q) * (1 - a + c * a))
    return prove_sign(beyond.subs(c, (1 + s) / j), unit=("alpha1", "q"), what=what)


def _longer_passes() -> Evidence:
    """g(j + m)/g(j) < 1/(1 - alpha**j): a longer pass costs more, and 1 - alpha**(j+m) < 1."""
    c, j, m, q, t = sp.symbols("c j m q t", positive=True)
    times = (1 - c + c * (j + m)) / (1 - c + c * j) - 1
    return all_of(
        lambda: prove_sign(times, unit=("c",), what="a pass over j + m tokens takes longer than one over j"),
        lambda: prove_sign(1 / (1 - q) - (1 - q * t) / (1 - q), unit=("q", "t"), what="1 - alpha**(j+m) < 1"),
    )


def distance_to_limit() -> Evidence:
    """1 < S1/S2(j) = 1 + q (1-alpha)(1-c1 j)/((1-q)(1-alpha+c1 alpha)) < 1/(1-q), q = alpha**j, for 0 < c1 j < 1."""
    a, c, q, j, s = sp.symbols("alpha1 c1 q j s", positive=True)
    below = 1 - a + c * a * (1 - q) - c * j * q * (1 - a)
    extra = q * (1 - a) * (1 - c * j) / ((1 - q) * (1 - a + c * a))
    gap = 1 / (1 - q) - (1 + extra)
    return all_of(
        identity(below / ((1 - q) * (1 - a + c * a)) - 1 - extra, "S1/S2(j)"),
        lambda: prove_sign(extra.subs(c, s / j), unit=("alpha1", "q", "s"), what="S1/S2(j) > 1"),
        lambda: prove_sign(gap.subs(c, s / j), unit=("alpha1", "q", "s"), what="1/(1-q) - S1/S2(j) > 0"),
    )


def _second_token() -> Evidence:
    """g(2) > 1 and f(2) > 1 in the box, as alpha > c."""
    a, s = sp.symbols("alpha s", positive=True)
    return prove_sign((1 + a) / (1 + s * a) - 1, unit=("alpha", "s"), what="g(2) > 1 for c = s alpha < alpha")


def _even_step_side(low: Fraction, largest: Fraction) -> Evidence:
    """(1 + alpha2)/(1 + c2) >= 1 + q for alpha2 > low, c2 < 1/5, q = alpha1**(M/2) <= largest: signed slacks."""
    s, t, q = sp.symbols("s t q", positive=True)
    top = sp.Rational(largest.numerator, largest.denominator)
    bottom = sp.Rational(low.numerator, low.denominator)
    # alpha2 = low + s, c2 = 1/5 - t, and q = top - r with r >= 0
    gap = (1 + bottom + s) - (sp.Rational(6, 5) - t) * (1 + q)
    shown = s + t * (1 + q) + sp.Rational(6, 5) * (top - q) + (1 + bottom - sp.Rational(6, 5) * (1 + top))
    margin = 1 + bottom - sp.Rational(6, 5) * (1 + top)
    verdict = Verdict.PROVED if margin >= 0 else Verdict.OPEN
    constant = Evidence(verdict=verdict, method="exact", detail=f"the constant {margin} is not negative")
    return all_of(identity(gap - shown, "g(2) against 1 + q in terms that are not negative"), constant)


def _even_proof(
    low: Fraction, half: int, budgets: tuple[int, ...], *, power: Fraction | None = None, tried: str = "4/5"
) -> Evidence:
    """Even M >= 2 half with the sharper ratio S2(2j)/S2(j) < 1 + q, and S1 <= S2(2j) once 2 j >= 1/c1.

    A power allows rates up to 17/20 with alpha1**half <= power; points are then tried up to another end than 4/5.
    """
    from ledger.lookahead_reasoning.hybrid.lemma_1 import halving_identity

    c, q, s = sp.symbols("c1 q s", positive=True)
    share = q / (1 + q)
    rest = (1 - s) * share / (1 + c)  # bracket 1 - s < 1, denominator 1 + c > 1 (c > 0 stands for the partial sums)

    return screened(
        _only_hybrids(str(low), budgets, tried),
        halving_identity,
        lambda: prove_sign((1 - rest) - 1 / (1 + q), unit=("q", "s"), what="S2(j)/S2(2j) > 1/(1+q)"),
        lambda: prove_deeper_wins("S1 < S2 of a depth beyond 1/c1"),
        lambda: _even_step_side(low, _TOP**half if power is None else power),
        lambda: _token_side(low, half, top=_TOP if power is None else _WIDE),
        _longer_passes,
        _second_token,
    )


def _corner(low: Fraction) -> Evidence:
    """At alpha1 = 4/5, c1 = 0, alpha2 = low, c2 = 1/5, M = 16 step-level only beats all hybrids but (8, 2), which ties.

    Every speedup of the second level rises with alpha2, so below `low` all hybrids lose there, and by continuity inside
    the box nearby.
    """
    f = {k: speedup(_TOP, Fraction(0), k) for k in range(1, 17)}
    g = {k: speedup(low, Fraction(1, 5), k) for k in range(1, 9)}
    hybrids = {(i, j): f[i] * g[j] for i in range(2, 9) for j in range(2, 9) if i * j <= 16}
    best = max(hybrids, key=lambda pair: hybrids[pair])
    ties = best == (8, 2) and hybrids[best] == f[16] and sum(value == f[16] for value in hybrids.values()) == 1
    corner = {"alpha1": str(_TOP), "c1": "0", "alpha2": str(low), "c2": "1/5", "M": "16"}
    return Evidence(
        verdict=Verdict.PROVED if ties else Verdict.FALSE,
        method="exact",
        counterexample=None if ties else corner,
        detail=f"at the corner alpha1 = 4/5, c1 = 0, alpha2 = {low}, c2 = 1/5, M = 16 the best hybrid is {best}, "
        f"{'equal to' if ties else 'not equal to'} step-level only",
        effort={"points": len(hybrids)},
    )


def _sharp(low: Fraction) -> Evidence:
    """The claim of the sharp lower end."""
    return all_of(lambda: _corner(low), lambda: _even_proof(low, 8, (16, 18)))


def _budgets_below_16(fails_at: tuple[int, ...]) -> Evidence:
    """Theorem 4 for M >= 14 and M = 12, and its failure at the listed budgets."""

    def fails(budget: int) -> Evidence:
        search = _only_hybrids("0.52", (budget,))
        verdict = Verdict.PROVED if search.verdict is Verdict.FALSE else Verdict.FALSE
        at = (
            None if search.counterexample is None else ", ".join(f"{k} = {v}" for k, v in search.counterexample.items())
        )
        counter = {"M": str(budget)} if verdict is Verdict.FALSE else None
        text = f"at M = {budget} a single method wins at {at}" if at else f"no failure found at M = {budget}"
        return Evidence(verdict=verdict, method="exact counterexample", detail=text, counterexample=counter)

    return all_of(
        lambda: prove_only_hybrids("0.52", 7, (14, 15)),
        lambda: _even_proof(Fraction(13, 25), 6, (12,)),
        *[lambda budget=budget: fails(budget) for budget in fails_at],
    )


def _upper_end(power: Fraction, fails_at: str) -> Evidence:
    """Even M >= 16 while alpha1**8 <= power, and a failure at alpha1 = fails_at."""
    return all_of(
        lambda: walked(_past_the_end(fails_at)),
        lambda: _even_proof(Fraction(13, 25), 8, (16, 18), power=power, tried="8477/10000"),
    )


def _past_the_end(alpha1: str) -> Cases:
    """Next to the corner c1 = 0, alpha2 = 0.52, c2 = 1/5 at M = 16."""
    at = {"alpha1": alpha1, "c1": "1/100000", "alpha2": "520001/1000000", "c2": "199999/1000000", "M": "16"}
    return Cases(
        text="past the upper end step-level only beats every hybrid",
        test=lambda **point: Asynchronous(**point).singles[1] > Asynchronous(**point).hybrid,
        cases=rows({name: Fraction(value) for name, value in at.items()}),
        where=", ".join(f"{name} = {value}" for name, value in at.items()),
    )


_TWO_AND_TWO, _SOME = (
    asynchronous(text, holds, theorem_4_box("0.52", one_of(16)))
    for text, holds in (
        ("(2, 2) is a maximiser", lambda point: point.f[2] * point.g[2] == max(point.hybrid, *point.singles)),
        ("some hybrid is a maximiser", lambda point: at_least(point.hybrid, max(point.singles))),
    )
)
_HYBRIDS = hybrids_only(theorem_4_box("0.52", one_of(16, 18, 26)))
_HYBRIDS_ODD = hybrids_only(theorem_4_box("0.52", one_of(16, 17, 19)))
_HYBRIDS_SHARP = hybrids_only(theorem_4_box(SHARP, one_of(16, 18)))
_HYBRIDS_ABOVE = hybrids_only(theorem_4_box("0.52", one_of(16, 18), "0.8477"))
_HYBRIDS_BELOW = hybrids_only(theorem_4_box("0.52", one_of(12, 14, 15)))


def _every_hybrid_is_best(printed: Predicate) -> Evidence:
    """'If': each feasible (k1, k2) with both >= 2 is a maximiser; corrected: some hybrid is."""

    def explain(**values: Fraction) -> str:
        point = Asynchronous(**values)
        return f"h(2, 2) = {float(point.f[2] * point.g[2]):.4f}, best {float(point.hybrid):.4f}"

    return searched(printed, {"alpha1": "3/5", "c1": "1/4", "alpha2": "3/5", "c2": "1/10", "M": "16"}, explain=explain)


def _no_cost(_alpha: Any, _c: Any) -> int:
    """A stage of two drafts that lasts one target step: a mutant of `_stage_time`."""
    return 1


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-T4a",
        formula=_HYBRIDS,
        verify=lambda: prove_only_hybrids("0.52", 8, (16, 18)),
        mutants={
            "lower alpha": partial(prove_only_hybrids, "0.39", 8, (16, 18)),
            "small budget": partial(prove_only_hybrids, "0.52", 5, (10, 16)),
            "free draft": partial(prove_only_hybrids, "0.52", 8, (16,), time=_no_cost),
        },
    ),
    refuted(
        "LR-T4b",
        formula=_TWO_AND_TWO,
        correction_formula=_HYBRIDS,
        verify=lambda: _every_hybrid_is_best(_TWO_AND_TWO),
        correction_verify=lambda: prove_only_hybrids("0.52", 8, (16, 18)),
        mutants={"corrected": partial(_every_hybrid_is_best, _SOME)},
    ),
    proved(
        "LR-T4c",
        formula=_HYBRIDS_ODD,
        verify=lambda: prove_only_hybrids("0.52", 8, (16, 17, 19)),
        mutants={"thirteen": partial(prove_only_hybrids, "0.52", 6, (13, 17))},
    ),
    proved(
        "LR-T4d",
        formula=_HYBRIDS_SHARP,
        verify=lambda: _sharp(SHARP),
        mutants={"lower": partial(_sharp, Fraction(2, 5)), "higher": partial(_sharp, Fraction(41, 100))},
    ),
    proved(
        "LR-T4e",
        formula=_HYBRIDS_BELOW,
        verify=lambda: _budgets_below_16((13, *range(11, 3, -1))),
        mutants={"twelve": partial(_budgets_below_16, (12,))},
    ),
    proved(
        "LR-T4i",
        formula=_HYBRIDS_ABOVE,
        verify=lambda: _upper_end(Fraction(4, 15), "84779/100000"),
        mutants={
            "higher": partial(_upper_end, Fraction(27, 100), "84779/100000"),
            "lower": partial(_upper_end, Fraction(4, 15), "8477/10000"),
        },
    ),
)
