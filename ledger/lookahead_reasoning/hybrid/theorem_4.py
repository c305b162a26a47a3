"""Lookahead Reasoning, Theorem 4: hybrid speculation under a budget, asynchronous version.

Over min(ceil(1/c1), k1) k2 <= M the ledger proves: every maximiser is a hybrid, for any M >= 16, even or odd; it
also finds how far the stated box can be widened before that fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from flint import arb

from ledger.ledger import Claim, Evidence, Verdict
from ledger.lookahead_reasoning.forms import saturated_printed
from ledger.lookahead_reasoning.hybrid.points import (
    SHARP,
    Asynchronous,
    asynchronous,
    hybrids_only,
    speedup,
    theorem_4_box,
)
from ledger.proving.cases import Cases, Predicate, rows, walked
from ledger.proving.combine import argued, exact_step
from ledger.proving.deferred import sp
from ledger.proving.domains import closed
from ledger.proving.formulas import one_of
from ledger.proving.margins import at_least
from ledger.proving.records import Given, proved, refuted
from ledger.proving.search.falsifier import falsified
from ledger.proving.tools import all_of, identity, prove_identity, prove_positive, prove_sign, sign

__all__ = ["CLAIMS", "distance_to_limit", "prove_deeper_wins", "prove_only_hybrids", "words"]

_TOP = Fraction(4, 5)


def _stage_time(alpha: Any, c: Any) -> Any:
    """Mean time of a stage of two drafts, in target steps: f(2) = (1 + alpha)/(1 + c alpha (1 - alpha))."""
    return 1 + alpha * c * (1 - alpha)


def words(**values: Fraction) -> str:
    """The three best speedups of a point."""
    return Asynchronous(**values).words()


def _high(statement: Predicate, name: str) -> Fraction:
    """The upper end of a range."""
    return closed(statement.domain, name)[name][1]


def _half(statement: Predicate) -> int:
    """Half of the smallest budget: both (2, j) and (j, 2) fit."""
    return int(min(statement.domain["M"].listed)) // 2


def prove_only_hybrids(statement: Predicate, *, time: Callable[[Any, Any], Any] = _stage_time) -> Evidence:
    """Every budget from the smallest on: compare with (2, j) and (j, 2), j = floor(M/2) >= half of the smallest."""
    half = _half(statement)
    slowest = _high(statement, "c2")

    def step_side(alpha1: arb, alpha2: arb, c2: arb) -> arb:
        # g(2) > 1/(1 - alpha1**half) >= S1/S2(j), and S1 is the best that step-level only can reach
        return (1 + alpha2) * (1 - alpha1**half) - (1 + c2)

    return argued(
        lambda: _token_side(statement, time=time),
        lambda: prove_positive(
            step_side, closed(statement.domain, "alpha1", "alpha2", "c2"), what="step-level only loses to (j, 2)"
        ),
        _longer_passes,
        distance_to_limit,
        lambda: _second_token(slowest, statement.domain["alpha2"].low),
        detail=f"All M >= {2 * half}: j = floor(M/2) >= {half}, (2, j) and (j, 2) fit; for j >= ceil(1/c1) "
        "step-level only is S1 and loses to (ceil(1/c1), 2)",
    )


def _token_side(statement: Predicate, *, time: Callable[[Any, Any], Any] = _stage_time) -> Evidence:
    """f(2) > 1/(1 - alpha2**half) >= g(k)/g(j) for j < k <= M; `time` must be S2's."""
    half = _half(statement)

    def gap(alpha1: arb, c1: arb, alpha2: arb) -> arb:
        slack: arb = (1 + alpha1) * (1 - alpha2**half) - time(alpha1, c1)
        return slack

    box = closed(statement.domain, "alpha1", "alpha2", "c1")
    return all_of(
        lambda: _tie_second_draft(time), lambda: prove_positive(gap, box, what="token-level only loses to (2, j)")
    )


def _tie_second_draft(time: Callable[[Any, Any], Any]) -> Evidence:
    """The speedup of two drafts is that of the statement S2."""
    a, c = sp.symbols("alpha1 c1", positive=True)
    return prove_identity(saturated_printed(a, c, 2) - (1 + a) / time(a, c), what="f(2) is S2 at two drafts")


def prove_deeper_wins(what: str) -> Evidence:
    """S1/S2(j) - 1 = q (1-alpha)(1-c1 j)/((1-q)(1-alpha+c1 alpha)) < 0 with q = alpha**j, for c1 j = 1 + s > 1."""
    beyond = "-q * (1 - alpha1) * (1 - (1 + s)) / ((1 - q) * (1 - alpha1 + (1 + s) / j * alpha1))"
    return prove_sign(beyond, unit=("alpha1", "q"), what=what)


def _longer_passes() -> Evidence:
    longer = "(1 - c + c * (j + m)) / (1 - c + c * j) > 1"
    return all_of(
        sign(longer, "a pass over j + m tokens takes longer than one over j", unit=("c",)),
        sign("1 / (1 - q) > (1 - q * t) / (1 - q)", "1 - alpha**(j+m) < 1", unit=("q", "t")),
    )


def distance_to_limit() -> Evidence:
    """1 < S1/S2(j) = 1 + q (1-alpha)(1-c1 j)/((1-q)(1-alpha+c1 alpha)) < 1/(1-q), q = alpha**j, for 0 < c1 j < 1."""
    extra = "q * (1 - alpha1) * (1 - s) / ((1 - q) * (1 - alpha1 + s / j * alpha1))"  # c1 j = s
    below = "1 - alpha1 + s / j * alpha1 * (1 - q) - s * q * (1 - alpha1)"
    return all_of(
        identity(f"({below}) / ((1 - q) * (1 - alpha1 + s / j * alpha1)) == 1 + {extra}", "S1/S2(j)"),
        sign(extra, "S1/S2(j) > 1", unit=("alpha1", "q", "s")),
        sign(f"1 / (1 - q) > 1 + {extra}", "1/(1-q) - S1/S2(j) > 0", unit=("alpha1", "q", "s")),
    )


def _second_token(cost: Fraction, rate: Fraction) -> Evidence:
    """g(2) > 1 and f(2) > 1 in the box, as alpha > c."""
    gain = "(1 + alpha) / (1 + s * alpha) > 1"
    return all_of(
        exact_step(cost <= rate, f"no cost exceeds {cost} <= {rate}, which every rate exceeds"),
        sign(gain, "g(2) > 1 for c = s alpha < alpha", unit=("alpha", "s")),
    )


def _even_step_side(statement: Predicate) -> Evidence:
    """(1 + alpha2)/(1 + c2) >= 1 + q for q = alpha1**(M/2) up to its value at the upper end: signed slacks."""
    low, cost = statement.domain["alpha2"].low, _high(statement, "c2")
    largest = _high(statement, "alpha1") ** _half(statement)
    # alpha2 = low + s, 1 + c2 = most - t, and q <= top
    margin = 1 + low - (1 + cost) * (1 + largest)
    return all_of(
        identity(
            "1 + low + s - (most - t) * (1 + q) == s + t * (1 + q) + most * (top - q) + (1 + low - most * (1 + top))",
            "g(2) against 1 + q in terms that are not negative",
        ),
        exact_step(margin >= 0, f"the constant {margin} is not negative"),
    )


def _even_proof(statement: Predicate) -> Evidence:
    """Even budgets with the sharper ratio S2(2j)/S2(j) < 1 + q, and S1 <= S2(2j) once 2 j >= 1/c1."""
    from ledger.lookahead_reasoning.hybrid.lemma_1 import halving_identity

    # bracket 1 - s < 1, denominator 1 + c > 1 (c > 0 stands for the partial sums)
    halved = "1 - (1 - s) * (q / (1 + q)) / (1 + c1) > 1 / (1 + q)"
    even = all(budget % 2 == 0 for budget in statement.domain["M"].listed)
    slowest, least = _high(statement, "c2"), statement.domain["alpha2"].low
    return argued(
        exact_step(even, "the budgets are even"),
        halving_identity,
        sign(halved, "S2(j)/S2(2j) > 1/(1+q)", unit=("q", "s")),
        lambda: prove_deeper_wins("S1 < S2 of a depth beyond 1/c1"),
        lambda: _even_step_side(statement),
        lambda: _token_side(statement),
        _longer_passes,
        lambda: _second_token(slowest, least),
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


def _at(statement: Predicate, *budgets: Fraction | int) -> Predicate:
    """The statement for other budgets."""
    return replace(statement, domain={**statement.domain, "M": one_of(*budgets)})


def _budgets_below_16(statement: Predicate) -> Evidence:
    """Theorem 4 at the budgets of the statement, and from its last run of them on; it fails at the others from 4 on."""
    holds = sorted(statement.domain["M"].listed)
    run = [budget for budget in holds if all(m in holds for m in range(int(budget), int(holds[-1])))]

    def fails(budget: int) -> Evidence:
        wanted = falsified(_at(statement, budget), str(budget)).failing
        at = None if wanted is None else ", ".join(f"{k} = {v}" for k, v in wanted.items())
        text = f"at M = {budget} a single method wins at {at}" if at else f"no failure at M = {budget}"
        verdict = Verdict.FALSE if wanted is None else Verdict.PROVED
        counter = {"M": str(budget)} if wanted is None else None
        return Evidence(verdict=verdict, method="exact counterexample", detail=text, counterexample=counter)

    return all_of(
        lambda: prove_only_hybrids(_at(statement, *run)),
        *[lambda budget=budget: _even_proof(_at(statement, budget)) for budget in holds if budget not in run],
        *[lambda budget=budget: fails(budget) for budget in range(4, int(holds[-1])) if budget not in holds],
    )


def _upper_end(statement: Predicate, fails_at: str = "84779/100000") -> Evidence:
    """Even budgets up to the upper end of both rates, and a failure a little further."""
    return all_of(lambda: walked(_past_the_end(fails_at)), lambda: _even_proof(statement))


def _past_the_end(alpha1: str) -> Cases:
    """Next to the corner c1 = 0, alpha2 = 0.52, c2 = 1/5 at M = 16."""
    at = {"alpha1": alpha1, "c1": "1/100000", "alpha2": "520001/1000000", "c2": "199999/1000000", "M": "16"}
    return Cases(
        text="past the upper end step-level only beats every hybrid",
        test=lambda **point: Asynchronous(**point).singles[1] > Asynchronous(**point).hybrid,
        cases=rows({name: Fraction(value) for name, value in at.items()}),
        where=", ".join(f"{name} = {value}" for name, value in at.items()),
    )


def _two_and_two(**values: Fraction) -> str:
    point = Asynchronous(**values)
    return f"h(2, 2) = {float(point.f[2] * point.g[2]):.4f}, best {float(point.hybrid):.4f}"


_TWO_AND_TWO, _SOME = (
    asynchronous(
        text,
        holds,
        theorem_4_box("0.52", one_of(16)),
        at=({"alpha1": "3/5", "c1": "1/4", "alpha2": "3/5", "c2": "1/10", "M": "16"},),
        explain=_two_and_two,
    )
    for text, holds in (
        ("(2, 2) is a maximiser", lambda point: point.f[2] * point.g[2] == max(point.hybrid, *point.singles)),
        ("some hybrid is a maximiser", lambda point: at_least(point.hybrid, max(point.singles))),
    )
)


def _box(low: str | Fraction, *budgets: int, top: str = "4/5") -> Predicate:
    """Every maximiser is a hybrid, at these budgets and from this lower end of both rates on."""
    return hybrids_only(theorem_4_box(low, one_of(*budgets), top))


_HYBRIDS, _HYBRIDS_ABOVE = _box("0.52", 16, 18, 26), _box("0.52", 16, 18, top="0.8477")


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-T4a",
        _HYBRIDS,
        verify=Given(prove_only_hybrids),
        mutants={
            "lower alpha": _box("0.39", 16, 18),
            "small budget": _box("0.52", 10, 16),
            "free draft": partial(prove_only_hybrids, _HYBRIDS, time=lambda _alpha, _c: 1),
        },
    ),
    refuted("LR-T4b", _TWO_AND_TWO, instead=_HYBRIDS, fix=Given(prove_only_hybrids), mutants={"corrected": _SOME}),
    proved(
        "LR-T4c", _box("0.52", 16, 17, 19), verify=Given(prove_only_hybrids), mutants={"thirteen": _box("0.52", 13, 17)}
    ),
    proved(
        "LR-T4d",
        _box(SHARP, 16, 18),
        verify=Given(
            lambda statement: all_of(partial(_corner, statement.domain["alpha2"].low), partial(_even_proof, statement))
        ),
        mutants={"lower": _box("0.4", 16, 18), "higher": _box("0.41", 16, 18)},
    ),
    proved(
        "LR-T4e", _box("0.52", 12, 14, 15), verify=Given(_budgets_below_16), mutants={"twelve": _box("0.52", 14, 15)}
    ),
    proved(
        "LR-T4i",
        _HYBRIDS_ABOVE,
        verify=Given(_upper_end),
        mutants={
            "higher": _box("0.52", 16, 18, top="0.849"),
            "lower": partial(_upper_end, _HYBRIDS_ABOVE, "8477/10000"),
        },
    ),
)
