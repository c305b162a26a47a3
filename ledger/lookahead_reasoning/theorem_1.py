"""Lookahead Reasoning, sections 2 and 3, Theorem 1: the speedup formulas against the cycle model."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence
from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.forms import drafted, saturated_printed, speedup
from ledger.proving.cases import Predicate, grid, searched
from ledger.proving.deferred import sp
from ledger.proving.domains import between
from ledger.proving.formulas import Formula
from ledger.proving.records import formula_of, proved, repaired, restated
from ledger.proving.tools import all_of, identity, prove_identity, prove_sign, refute, screened

__all__ = ["CLAIMS"]

_ALPHAS = ("1/2", "1/5", "4/5", "9/10")
_COSTS = ("2/5", "1/2", "1/4", "1/3", "3/5", "1/10", "5/6")

Closed = Callable[..., Fraction]


def _cycle_speedup(alpha: Fraction, c: Fraction, drafts: int) -> Fraction:
    """Algorithm 1, enumerated: first rejection at draft j emits j + 1 steps, no rejection emits drafts + 1."""
    emitted = sum(((j + 1) * alpha**j * (1 - alpha) for j in range(drafts)), (drafts + 1) * alpha**drafts)
    return emitted / (1 + c * drafts)


def _cycle_model(closed: Closed, extra: int, what: str) -> Evidence:
    """The closed form in k equals the cycle model with ``k - 1 + extra`` drafts: exact grid, then induction on k."""

    def holds(alpha: Fraction, c: Fraction, k: Fraction) -> bool:
        return closed(alpha, c, int(k)) == _cycle_speedup(alpha, c, int(k) - 1 + extra)

    points = grid(alpha=_ALPHAS, c=_COSTS, k=range(1, 10))()
    a = sp.Symbol("alpha", positive=True)
    k = sp.Symbol("k", positive=True, integer=True)

    def emitted(n: sp.Expr) -> sp.Expr:
        return (1 - a**n) / (1 - a)

    # one more draft turns the outcome "all k - 1 accepted" (k steps) into rejected (k steps) or accepted (k + 1 steps)
    gain = k * a ** (k - 1) * (1 - a) + (k + 1) * a**k - k * a ** (k - 1)
    return screened(
        refute(holds, points, what=what),
        identity(emitted(k + 1) - emitted(k) - gain, "one more draft adds alpha**k expected steps"),
        identity(emitted(sp.Integer(1)) - 1, "no draft emits one step"),
        detail="Induction on the number of drafts; a cycle lasts c per draft plus one target step",
    )


def _k1_is_gamma1(printed: Formula, offset: int) -> Evidence:
    def explain(alpha: Fraction, c: Fraction, gamma1: Fraction) -> str:
        formula = exact.f_sync(alpha, c, int(gamma1) + offset)
        return f"the cycle gives {_cycle_speedup(alpha, c, int(gamma1))}, the formula {formula}"

    points = grid(alpha=_ALPHAS, c=("1/4", "1/2"), gamma1=range(1, 6))()
    what = f"Algorithm 1 with gamma1 drafts has the speedup f_sync(gamma1{f' + {offset}' if offset else ''})"
    return searched(printed, *points, explain=explain, text=what)


def _bound() -> Evidence:
    a, c, q = sp.symbols("alpha c q", positive=True)
    n = sp.Symbol("gamma", positive=True)
    # q stands for alpha**(gamma+1), any value in (0, 1)
    gap = 1 / (1 - a) - (1 - q) / ((1 - a) * (1 + c * n))
    at_zero = 1 / (1 - a) - (1 - q) / (1 - a)
    return all_of(
        lambda: prove_sign(gap, unit=("alpha", "q"), what="1/(1-alpha) - g > 0 for c > 0, gamma > 0"),
        lambda: prove_sign(at_zero, unit=("alpha", "q"), what="the same for c gamma = 0"),
    )


def _only_without_draft_cost(c: str) -> Evidence:
    """At a cost c > 0 the speedup stays a fixed distance below 1/(1-alpha): split gamma at 1."""
    cost = Fraction(c)

    def holds(alpha: Fraction, gamma: Fraction) -> bool:
        cap = max(1 - alpha**2, 1 / (1 + cost)) / (1 - alpha)
        # a fixed gap exists only if the cap itself is below the bound
        return cap < 1 / (1 - alpha) and bool(exact.g_background(alpha, cost, int(gamma)) <= cap)

    a, x, q, n = sp.symbols("alpha c q m", positive=True)
    # for 0 < gamma <= 1 the power alpha**(gamma+1) lies between alpha**2 and alpha: alpha (alpha + (1 - alpha) q)
    short = (1 - a**2) / (1 - a) - (1 - a * (a + (1 - a) * q)) / ((1 - a) * (1 + x * n))
    long = 1 / ((1 - a) * (1 + x)) - (1 - q) / ((1 - a) * (1 + x * (1 + n)))
    return screened(
        refute(holds, grid(alpha=("1/2", "9/10"), gamma=("0", "1", "2", "8"))(), what=f"a gap remains at c = {c}"),
        lambda: prove_sign(short, unit=("alpha", "q", "m"), what="gamma = m <= 1: g < (1-alpha**2)/(1-alpha)"),
        lambda: prove_sign(long, unit=("alpha", "q"), what="gamma = 1 + m: g < 1/((1-alpha)(1+c))"),
        _limit_without_cost,
    )


def _limit_without_cost() -> Evidence:
    """1/(1-alpha) minus g at c = 0 is alpha**(gamma+1)/(1-alpha), which tends to 0 and never is 0."""
    a = sp.Symbol("alpha", positive=True)
    n = sp.Symbol("gamma", positive=True)
    gap = 1 / (1 - a) - (1 - a ** (n + 1)) / (1 - a) - a ** (n + 1) / (1 - a)
    return prove_identity(gap, what="at c = 0 the distance to the bound is alpha**(gamma+1)/(1-alpha)")


def _additional_tokens(printed: Formula, offset: int) -> Evidence:
    return searched(
        printed,
        *grid(alpha=_ALPHAS, c=("0", "1/5"), k2=range(1, 7))(),
        text=f"k2 additional tokens per target pass have the speedup g(k2{f' + {offset}' if offset else ''})",
        explain=lambda alpha, c, k2: (
            f"a draft of length {k2} gives {exact.g_background(alpha, c, int(k2))}, the formula "
            f"{exact.g(alpha, c, int(k2) + offset)}"
        ),
    )


def _additional_tokens_identity() -> Evidence:
    """Token-level g of section 3.3 at gamma + 1 is g of section 2 at gamma, for all real gamma."""
    a, c, gamma = sp.symbols("alpha c gamma", positive=True)
    return prove_identity(
        sp.expand_power_base(speedup(a, c, gamma + 1) - drafted(a, c, gamma)),
        what="g of section 3.3 at k2 = gamma + 1 is g of section 2 at gamma",
    )


def _neutral_identity() -> Evidence:
    a, c = sp.symbols("alpha c", positive=True)
    return all_of(
        identity(saturated_printed(a, c, 1) - 1, "S2(1) = 1 (1 < ceil(1/c1) for c1 < 1)"),
        identity(speedup(a, c, 1) - 1, "f_sync(1) = g(1) = 1"),
    )


def _whole_sequence(ratio_power: int) -> Evidence:
    """P(all gamma drafts accepted) falls by the factor alpha**ratio_power per draft, from the enumerated cycle."""

    def holds(alpha: Fraction, gamma: Fraction) -> bool:
        # the chance that a cycle emits gamma + 1 tokens, from the law of the first rejection
        here, longer = (1 - sum((alpha**j * (1 - alpha) for j in range(int(gamma) + i)), Fraction(0)) for i in (0, 1))
        return longer == here * alpha**ratio_power

    a, n = sp.symbols("alpha gamma", positive=True)
    return screened(
        refute(holds, grid(alpha=_ALPHAS, gamma=range(0, 9))(), what="the chance of full acceptance is geometric"),
        identity(a ** (n + 1) - a * a**n, "alpha**(gamma+1) = alpha alpha**gamma"),
        identity((1 - a**n) / (1 - a) * (1 - a) - (1 - a**n), "P(a rejection among gamma) = 1 - alpha**gamma"),
    )


def _returns() -> Evidence:
    """Past its peak g falls: Lemma 3 with k = gamma + 1."""
    from ledger.lookahead_reasoning.hybrid.lemmas_2_and_3 import unimodal_proof

    return all_of(_additional_tokens_identity, unimodal_proof)


def _neutral(switch: str) -> Predicate:
    """f(1) = 1 and g(1) = 1, so that k1 = 1 (k2 = 1) leaves token-level (step-level) speculation only."""

    def all_one(alpha: Fraction, c: Fraction) -> bool:
        return bool(exact.f_async(alpha, c, 1, switch=switch) == exact.f_sync(alpha, c, 1) == exact.g(alpha, c, 1) == 1)

    return Predicate(
        text=f"f(1) = g(1) = 1 with the switching point {switch}(1/c1)",
        test=all_one,
        domain={"alpha": between(0, 1), "c": between(0, 1)},
        at=[*grid(alpha=_ALPHAS, c=("2/5", "1/4", "3/5", "9/10"))()],
        explain=lambda alpha, c: f"f_async(1) = {exact.f_async(alpha, c, 1, switch='floor')}",
    )


_NEUTRAL_FLOOR, _NEUTRAL = _neutral("floor"), _neutral("ceil")
"""LR-S3 as printed, and its correction."""


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-B1",
        verify=lambda: _cycle_model(
            lambda a, c, k: exact.g_background(a, c, k - 1), 0, "g equals the enumerated cycle"
        ),
        mutants={
            "exponent": partial(
                _cycle_model,
                lambda a, c, k: exact.geometric_sum(a, k - 1) / (1 + c * (k - 1)),
                0,
                "g without the bonus token",
            )
        },
    ),
    proved(
        "LR-B2",
        verify=_bound,
        mutants={"smaller": restated("LR-B2", relation="drafted(alpha, c, gamma) < alpha / (1 - alpha)")},
    ),
    proved(
        "LR-B3",
        verify=lambda: _only_without_draft_cost("1/10"),
        mutants={"free drafts": partial(_only_without_draft_cost, "0")},
    ),
    proved("LR-B4", verify=lambda: _whole_sequence(1), mutants={"faster": partial(_whole_sequence, 2)}),
    proved(
        "LR-B5",
        verify=_returns,
        mutants={"rises": restated("LR-B5", relation="speedup(alpha, c, x + more) > speedup(alpha, c, x)")},
    ),
    repaired(
        "LR-S1",
        printed=lambda: _k1_is_gamma1(formula_of("LR-S1"), 0),
        fix=lambda: _cycle_model(exact.f_sync, 0, "f_sync with k1 - 1 drafts"),
        mutants={"corrected": partial(_k1_is_gamma1, formula_of("LR-S1", "correction_formula"), 1)},
    ),
    proved(
        "LR-T1",
        verify=lambda: _cycle_model(exact.f_sync, 0, "f_sync equals the enumerated cycle"),
        mutants={"one more draft": partial(_cycle_model, exact.f_sync, 1, "f_sync with k drafts")},
    ),
    repaired(
        "LR-S2",
        printed=lambda: _additional_tokens(formula_of("LR-S2"), 0),
        fix=_additional_tokens_identity,
        mutants={"corrected": partial(_additional_tokens, formula_of("LR-S2", "correction_formula"), 1)},
    ),
    repaired("LR-S3", _NEUTRAL_FLOOR, instead=_NEUTRAL, fix=_neutral_identity, mutants={"corrected": _NEUTRAL}),
)
