"""Claims of Lookahead Decoding about expected tokens per step and step compression: equations 4, 5, 7, 8 and 9.

The number of tokens of a step counts the one that the target adds itself, so it runs from 1 to gamma + 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from ledger.ledger import Claim, Evidence
from ledger.lookahead_decoding import forms
from ledger.lookahead_decoding.forms import single
from ledger.proving.cases import Cases, Predicate, grid, searched
from ledger.proving.deferred import sp
from ledger.proving.formulas import between, one_of, whole
from ledger.proving.margins import Margin, at_most
from ledger.proving.records import proved, refuted
from ledger.proving.tools import all_of, exhaustive, identity

__all__ = ["CLAIMS", "multi"]

_RATES = (Fraction(1, 3), Fraction(1, 2), Fraction(3, 4))
_HALF = Fraction(1, 2)

Closed = Callable[[Any, Any], Any]
"""(alpha, gamma) -> expected tokens."""
ClosedMulti = Callable[[Any, Any, Any], Any]
"""(alpha, gamma, b) -> expected tokens; gamma is an integer."""


def multi(alpha: Any, gamma: Any, b: Any) -> Any:
    """Equation 5 for a whole number gamma."""
    return gamma + 1 - sum((1 - alpha**i) ** b for i in range(1, gamma + 1))


def _symbols() -> tuple[sp.Symbol, sp.Symbol]:
    """Acceptance, and a whole length."""
    return sp.Symbol("alpha", positive=True), sp.Symbol("gamma", integer=True, nonnegative=True)


def _longest_prefix(passed: tuple[bool, ...]) -> int:
    """Tokens passed before the first failure."""
    return next((i for i, ok in enumerate(passed) if not ok), len(passed))


def _outcomes(alpha: Fraction, gamma: int, b: int) -> Iterator[tuple[Fraction, int]]:
    """Every pattern of b sequences of gamma independent trials: (probability, tokens emitted)."""
    for pattern in itertools.product((True, False), repeat=gamma * b):
        hits = sum(pattern)
        tokens = 1 + max(_longest_prefix(pattern[j * gamma : (j + 1) * gamma]) for j in range(b))
        yield alpha**hits * (1 - alpha) ** (gamma * b - hits), tokens


def _enumerated(alpha: Fraction, gamma: int, b: int) -> Fraction:
    """Expected tokens of a step by walking all 2**(gamma b) patterns."""
    return sum((p * tokens for p, tokens in _outcomes(alpha, gamma, b)), Fraction(0))


def _matches_enumeration(closed: ClosedMulti, most_bits: int, *, single: bool = False) -> Evidence:
    """The closed form against the walk, for every (gamma, b) with gamma b <= most_bits and three acceptance rates."""

    def holds(rate: int, gamma: int, b: int) -> bool:
        if gamma * b > most_bits or (single and b > 1):
            return True
        return bool(_enumerated(_RATES[rate], gamma, b) == closed(_RATES[rate], gamma, b))

    ranges = {"rate": range(len(_RATES)), "gamma": range(most_bits + 1), "b": range(1, most_bits + 1)}
    rates = ", ".join(map(str, _RATES))
    return exhaustive(holds, ranges, what=f"closed form = walk over all acceptance patterns (rates {rates})")


def _verify_single(closed: Closed = single, last_exponent: int = 0) -> Evidence:
    """Induction on gamma: both sides are 1 at gamma = 0 and grow by alpha**(gamma + 1)."""
    alpha, gamma = _symbols()

    def last(g: Any) -> Any:
        return (g + 1) * alpha ** (g + last_exponent)

    growth = (gamma + 1) * (1 - alpha) * alpha**gamma + last(gamma + 1) - last(gamma)
    return all_of(
        _matches_enumeration(lambda x, g, _b: closed(x, g), 6, single=True),
        identity(closed(alpha, gamma) - single(alpha, gamma), "this form is the ledger's statement"),
        identity(closed(alpha, 0) - 1, "one token at gamma = 0"),
        identity(growth - alpha ** (gamma + 1), "growth of the mean of the printed distribution"),
        identity(closed(alpha, gamma + 1) - closed(alpha, gamma) - alpha ** (gamma + 1), "growth of the closed form"),
    )


def _truth(x: Fraction, gamma: int, b: int) -> Any:
    """The mean over beta in {0, x}, each with probability 1/2."""
    return (multi(Fraction(0), gamma, b) + multi(x, gamma, b)) * _HALF


def _mixture(*, b: int, longest: int = 12, equality: bool = True) -> Predicate:
    """The formula at E(beta) against the truth; a mutant knows short drafts only, the correction a bound."""

    def pooled(x: Fraction, gamma: Fraction, b: Fraction) -> Margin | bool:
        formula, truth = multi(x / 2, int(gamma), int(b)), _truth(x, int(gamma), int(b))
        return bool(formula == truth) if equality else at_most(formula, truth)

    return Predicate(
        text="the formula at the mean acceptance rate is "
        + ("the mean" if equality else "at most the mean")
        + " (beta is 0 or x, evenly)",
        test=pooled,
        domain={"x": between(0, 1, "(]"), "gamma": whole(1, longest), "b": one_of(b)},
    )


def _explain_mixture(x: Fraction, gamma: Fraction, b: Fraction) -> str:
    formula = multi(x / 2, int(gamma), int(b))
    return f"a true mean of {_truth(x, int(gamma), int(b))} tokens against {formula} from the formula"


def _search_mixture(printed: Predicate, gamma: int) -> Evidence:
    (b,) = printed.domain["b"].listed
    points = [{"x": x, "gamma": gamma, "b": b} for x in (Fraction(1), _HALF)]
    return searched(printed, *points, explain=_explain_mixture)


_MIXED_ONE, _MIXED_TWO = _mixture(b=1), _mixture(b=2)
_BELOW_MEAN = _mixture(b=1, equality=False)


def _verify_jensen(coefficient: int = 1) -> Evidence:
    """``x**i`` lies above its tangent at alpha: T_i = x**i - alpha**i - i alpha**(i-1) (x - alpha) >= 0 by induction.

    T_{i+1} = x T_i + i alpha**(i-1) (x - alpha)**2, and T_1 = 0, so T_i is a sum of products of non-negative terms.
    """
    x, alpha = sp.symbols("x alpha", positive=True)
    i = sp.Symbol("i", integer=True, positive=True)

    def above(j: Any) -> Any:
        return x**j - alpha**j - j * alpha ** (j - 1) * (x - alpha)

    step = above(i + 1) - x * above(i) - coefficient * i * alpha ** (i - 1) * (x - alpha) ** 2
    return all_of(
        identity(above(sp.Integer(1)), "T_1 = 0"),
        identity(step, "T_(i+1) = x T_i + i alpha^(i-1) (x - alpha)^2"),
        detail="Taking the mean over beta in E(beta^i) >= alpha^i gives the bound, with equality for gamma <= 1",
    )


def _excess(gamma: int) -> Fraction:
    """Equation 5 at the mean minus the truth, b = 2, beta in {0, 1}."""
    return Fraction(multi(_HALF, gamma, 2) - _truth(Fraction(1), gamma, 2))


_NO_DIRECTION = Cases(
    text=f"sign of (formula - truth) at b = 2: {_excess(1)} at gamma = 1, {_excess(8)} at gamma = 8",
    test=lambda gamma: _excess(gamma) > 0 if gamma == 1 else _excess(gamma) < 0,
    cases=grid(gamma=(1, 8)),
    where="gamma = 1 and gamma = 8",
)


def _verify_ceiling(numerator: int = 1) -> Evidence:
    """1/(1 - alpha) - E = alpha**(gamma + 1) / (1 - alpha): positive, and its ratio in gamma is alpha < 1."""
    alpha, gamma = _symbols()
    ceiling = numerator / (1 - alpha)
    gap = alpha ** (gamma + 1) / (1 - alpha)
    return all_of(
        identity(ceiling - single(alpha, gamma) - gap, "ceiling - E = alpha^(gamma+1) / (1 - alpha) > 0"),
        identity(gap.subs(gamma, gamma + 1) - alpha * gap, "the gap shrinks by alpha per token"),
    )


def _verify_multi(closed: ClosedMulti = multi) -> Evidence:
    """Enumeration, and Abel summation by induction on gamma with p_gamma, p_(gamma+1) as free symbols."""
    alpha, g = _symbols()

    def is_statement(gamma: int, b: int) -> bool:
        return bool(sp.expand(forms.multi(alpha, sp.Integer(gamma), b).doit() - closed(alpha, gamma, b)) == 0)

    p, q = sp.symbols("p_gamma p_next", positive=True)
    growth = (g + 1) * (q - p) + (g + 2) * (1 - q) - (g + 1) * (1 - p)
    return all_of(
        _matches_enumeration(closed, 8),
        lambda: exhaustive(
            is_statement, {"gamma": range(5), "b": range(1, 5)}, what="this form is the ledger's statement"
        ),
        identity(growth - (1 - q), "one more token adds 1 - p_(gamma+1) to the mean, as in Eq. 5"),
    )


def _verify_one_sequence(b: int = 1) -> Evidence:
    """Equation 5 at b = 1 starts at 1 and grows by 1 - (1 - alpha**(gamma+1))**b, Equation 4 by alpha**(gamma+1)."""
    alpha, gamma = _symbols()
    growth = 1 - (1 - alpha ** (gamma + 1)) ** b
    return all_of(
        identity(growth - alpha ** (gamma + 1), f"growth of Eq. 5 at b = {b} against Eq. 4"),
        identity(multi(alpha, 0, b) - single(alpha, 0), "both are 1 at gamma = 0"),
    )


def _copies(*, copies: bool = True) -> Predicate:
    """B copies of one sequence pass or fail together: the mean is that of one sequence."""

    def as_printed(alpha: Fraction, gamma: Fraction, b: Fraction) -> bool:
        truth = _enumerated(alpha, int(gamma), 1 if copies else int(b))
        return bool(multi(alpha, int(gamma), int(b)) == truth)

    return Predicate(
        text="equal acceptance rates suffice (the sequences are equal)",
        test=as_printed,
        domain={"alpha": between(0, 1), "gamma": whole(1, 3), "b": whole(2, 3)},
        at=[{"alpha": _HALF, "gamma": g, "b": b} for g, b in ((1, 2), (2, 2))],
        explain=lambda alpha, gamma, b: (
            f"{_enumerated(alpha, int(gamma), 1)} tokens against {multi(alpha, int(gamma), int(b))}"
        ),
    )


_COPIES = _copies()


_ANY_DEPENDENCE = Cases(
    text="max of b indicators <= indicator of their union <= min(1, sum); take means at each prefix length i",
    test=lambda events: max(events) <= int(any(events)) <= min(1, sum(events)),
    cases=lambda: ({"events": each} for b in range(1, 9) for each in itertools.product((0, 1), repeat=b)),
    where="every pattern of b <= 8 events",
)


def _verify_compression(form: Callable[[Any, Any], Any] = forms.compression) -> Evidence:
    """Cycle view: f - 1 steps with 1 token and one with E. Random view: each step is useful with probability 1/f."""
    f, tokens = sp.symbols("f E", positive=True)
    printed = form(tokens, f)
    useful = 1 / f
    return all_of(
        identity(printed - (useful * tokens + (1 - useful) * 1), "S = mean tokens per step at rate 1/f"),
        identity(printed.subs(tokens, 1) - 1, "S = 1 when useful steps emit one token"),
        identity(printed.subs(f, 1) - tokens, "S = E when every step is useful"),
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LD-E4",
        verify=_verify_single,
        mutants={
            "exponent gamma": partial(_verify_single, lambda x, g: (1 - x**g) / (1 - x)),
            "last probability": partial(_verify_single, last_exponent=1),
        },
    ),
    refuted(
        "LD-E4-mean",
        _MIXED_ONE,
        verify=partial(_search_mixture, _MIXED_ONE, 2),
        instead=_BELOW_MEAN,
        fix=_verify_jensen,
        mutants={"gamma = 1": partial(_search_mixture, _mixture(b=1, longest=1), 1)},
    ),
    refuted(
        "LD-E5-mean",
        _MIXED_TWO,
        verify=partial(_search_mixture, _MIXED_TWO, 1),
        instead=_NO_DIRECTION,
        mutants={"b = 1, gamma = 1": partial(_search_mixture, _mixture(b=1, longest=1), 1)},
    ),
    proved("LD-E4-ceiling", verify=_verify_ceiling, mutants={"doubled": partial(_verify_ceiling, numerator=2)}),
    proved(
        "LD-E5",
        verify=_verify_multi,
        mutants={
            "first term": partial(_verify_multi, lambda x, g, b: g + 1 - sum((1 - x**i) ** b for i in range(g))),
            "exponents swapped": partial(
                _verify_multi, lambda x, g, b: g + 1 - sum((1 - x**b) ** i for i in range(1, g + 1))
            ),
        },
    ),
    proved("LD-E5-one", verify=_verify_one_sequence, mutants={"b = 2": partial(_verify_one_sequence, b=2)}),
    refuted(
        "LD-E5-dependence", _COPIES, instead=_ANY_DEPENDENCE, mutants={"independent sequences": _copies(copies=False)}
    ),
    proved(
        "LD-E7",
        verify=_verify_compression,
        mutants={
            "lost steps": partial(_verify_compression, lambda e, f: e / f),
            "one step too many": partial(_verify_compression, lambda e, f: (f + e) / f),
        },
    ),
)
