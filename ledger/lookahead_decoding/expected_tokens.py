"""Claims of Lookahead Decoding about expected tokens per step and step compression: equations 4, 5, 7, 8 and 9.

The number of tokens of a step counts the one that the target adds itself, so it runs from 1 to gamma + 1.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial
from typing import Any

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Cases, grid
from ledger.proving.formulas import Formula
from ledger.proving.records import Given, formula_of, proved, refuted, restated
from ledger.proving.tools import all_of, exhaustive, identity, prove_by_induction, prove_equalities

__all__ = ["CLAIMS", "multi"]

_RATES = (Fraction(1, 3), Fraction(1, 2), Fraction(3, 4))


def multi(alpha: Any, gamma: Any, b: Any) -> Any:
    """Equation 5 for a whole number gamma."""
    return gamma + 1 - sum((1 - alpha**i) ** b for i in range(1, gamma + 1))


def _enumerated(alpha: Fraction, gamma: int, b: int) -> Fraction:
    """Expected tokens of a step by walking all patterns of b sequences of gamma independent trials."""
    mean = Fraction(0)
    for pattern in itertools.product((True, False), repeat=gamma * b):
        sequences = [pattern[j * gamma : (j + 1) * gamma] for j in range(b)]
        longest = max(next((i for i, ok in enumerate(each) if not ok), gamma) for each in sequences)
        mean += alpha ** sum(pattern) * (1 - alpha) ** (gamma * b - sum(pattern)) * (1 + longest)
    return mean


def _by_enumeration(statement: Formula, most_bits: int) -> Evidence:
    """The mean by walking all patterns of gamma b <= `most_bits` trials, then by induction on gamma."""

    def holds(rate: int, gamma: int, b: int) -> bool:
        skipped = gamma * b > most_bits or (b > 1 and "b" not in statement.domain)
        return skipped or bool(_enumerated(_RATES[rate], gamma, b) == multi(_RATES[rate], gamma, b))

    ranges = {"rate": range(len(_RATES)), "gamma": range(most_bits + 1), "b": range(1, most_bits + 1)}
    rates = ", ".join(map(str, _RATES))
    return all_of(
        exhaustive(holds, ranges, what=f"closed form = walk over all acceptance patterns (rates {rates})"),
        partial(prove_by_induction, statement, "gamma", 0),
    )


def _ceiling(statement: Formula) -> Evidence:
    """The gap to the ceiling, which is positive, is as stated, and its ratio in gamma is alpha < 1."""
    return all_of(
        partial(prove_equalities, statement),
        identity(
            "alpha**(gamma + 2) / (1 - alpha) == alpha * (alpha**(gamma + 1) / (1 - alpha))",
            "the gap shrinks by alpha per token",
        ),
    )


def _above_tangent() -> Evidence:
    """``x**i`` lies above its tangent at alpha: T_i = x**i - alpha**i - i alpha**(i-1) (x - alpha) >= 0 by induction.

    T_{i+1} = x T_i + i alpha**(i-1) (x - alpha)**2, and T_1 = 0, so T_i is a sum of products of non-negative terms.
    """
    return all_of(
        identity(
            "x**(i + 1) - alpha**(i + 1) - (i + 1) * alpha**i * (x - alpha) == "
            "x * (x**i - alpha**i - i * alpha**(i - 1) * (x - alpha)) + i * alpha**(i - 1) * (x - alpha)**2",
            "T_(i+1) = x T_i + i alpha^(i-1) (x - alpha)^2",
        ),
        detail="Taking the mean over beta in E(beta^i) >= alpha^i gives the bound, with equality for gamma <= 1",
    )


def _excess(gamma: int) -> Fraction:
    """Equation 5 at the mean minus the mean, b = 2, beta in {0, 1}."""
    return Fraction(multi(Fraction(1, 2), gamma, 2) - (1 + multi(Fraction(1), gamma, 2)) / 2)


_NO_DIRECTION = Cases(
    text=f"sign of (formula - truth) at b = 2: {_excess(1)} at gamma = 1, {_excess(8)} at gamma = 8",
    test=lambda gamma: _excess(gamma) > 0 if gamma == 1 else _excess(gamma) < 0,
    cases=grid(gamma=(1, 8)),
    where="gamma = 1 and gamma = 8",
)


_ONE_TOKEN = restated("LD-E4-mean", domain="gamma in 1", x="1", gamma="1")
"""Equations 4 and 5 are exact for one sequence of one token."""
_ANY_DEPENDENCE = Cases(
    text="max of b indicators <= indicator of their union <= min(1, sum); take means at each prefix length i",
    test=lambda events: max(events) <= int(any(events)) <= min(1, sum(events)),
    cases=lambda: ({"events": each} for b in range(1, 9) for each in itertools.product((0, 1), repeat=b)),
    where="every pattern of b <= 8 events",
)


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LD-E4",
        verify=Given(partial(_by_enumeration, most_bits=6)),
        mutants={
            "exponent gamma": restated("LD-E4", change=("single(alpha, gamma)", "single(alpha, gamma - 1)")),
            "last probability": restated("LD-E4", change=("* alpha**gamma", "* alpha**(gamma + 1)")),
        },
    ),
    refuted("LD-E4-mean", fix=_above_tangent, mutants={"gamma = 1": _ONE_TOKEN}),
    refuted("LD-E5-mean", instead=_NO_DIRECTION, mutants={"b = 1, gamma = 1": _ONE_TOKEN}),
    proved(
        "LD-E4-ceiling",
        verify=Given(_ceiling),
        mutants={"doubled": restated("LD-E4-ceiling", change=("== 1 /", "== 2 /"))},
    ),
    proved(
        "LD-E5",
        verify=Given(partial(_by_enumeration, most_bits=8)),
        mutants={
            name: restated("LD-E5", change=("multi(alpha, gamma, b)", f"gamma + 1 - {total}"))
            for name, total in (
                ("first term", "Sum((1 - alpha**i)**b, i, 0, gamma - 1)"),
                ("exponents swapped", "Sum((1 - alpha**b)**i, i, 1, gamma)"),
            )
        },
    ),
    proved(
        "LD-E5-one",
        verify=Given(partial(prove_by_induction, index="gamma")),
        mutants={"b = 2": restated("LD-E5-one", change=("gamma, 1)", "gamma, 2)"))},
    ),
    refuted(
        "LD-E5-dependence",
        instead=_ANY_DEPENDENCE,
        mutants={"independent sequences": restated("LD-E5-dependence", relation=formula_of("LD-E5").relation)},
    ),
    proved(
        "LD-E7",
        verify=Given(prove_equalities),
        mutants={
            "lost steps": restated("LD-E7", change=("(f - 1 + E)", "E")),
            "one step too many": restated("LD-E7", change=("(f - 1 + E)", "(f + E)")),
        },
    ),
)
