"""The papers' closed forms over any field: exact on fractions, rigorous on balls, symbolic on sympy expressions.

The ledger's exact counterexamples and branch-and-bound proofs use these; `forms` holds the sympy forms as printed,
and a test compares the two. Lengths are integers >= 1, and every sum is a Horner sum, so alpha = 1 is no exception.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ledger.proving.balls import geometric_sum

__all__ = [
    "argmax_g",
    "ceil_inverse",
    "doubling_ratio",
    "f_async",
    "f_saturated",
    "f_sync",
    "f_unsaturated",
    "floor_inverse",
    "g",
    "g_background",
    "geometric_sum",
    "stage_steps",
    "stage_time",
]

# "number" is Fraction, arb or sympy expression: the three share +, -, *, / and integer powers but no base class.
Number = Any


def g(alpha: Number, c: Number, k: int) -> Number:
    """``(1 - alpha**k) / ((1 - alpha)(1 - c + c k))``: LR Eq. (2) and (3), k passes of the target in parallel."""
    return geometric_sum(alpha, k) / (1 - c + c * k)


f_sync = g
"""LR Theorem 1 is the same function of (alpha1, c1, k1)."""


def g_background(alpha: Number, c: Number, gamma: int) -> Number:
    """``(1 - alpha**(gamma+1)) / ((1 - alpha)(1 + c gamma))``: LR section 2, gamma drafted tokens."""
    return geometric_sum(alpha, gamma + 1) / (1 + c * gamma)


def f_unsaturated(alpha: Number, c: Number) -> Number:
    """``1 / (c + (1 - c)(1 - alpha))``: S1, drafting never waits."""
    return 1 / (c + (1 - c) * (1 - alpha))


def f_saturated(alpha: Number, c: Number, k: int) -> Number:
    """S2 of LR Theorem 2, divided through by 1 - alpha: depth limit k.

    ``A / (1 + c (alpha A - k alpha**k))`` with ``A = 1 + alpha + ... + alpha**(k-1)``.
    """
    total = geometric_sum(alpha, k)
    return total / (1 + c * (alpha * total - k * alpha**k))


def f_async(alpha: Fraction, c: Fraction, k: int, *, switch: str = "ceil") -> Fraction:
    """S2 below the switching point, S1 from it on: ``ceil(1/c)`` in the appendix, ``floor(1/c)`` in the main text."""
    limit = ceil_inverse(c) if switch == "ceil" else floor_inverse(c)
    value: Fraction = f_unsaturated(alpha, c) if k >= limit else f_saturated(alpha, c, k)
    return value


def ceil_inverse(c: Fraction) -> int:
    """``ceil(1 / c)``, exact."""
    top, bottom = c.as_integer_ratio()
    return -(-bottom // top)


def floor_inverse(c: Fraction) -> int:
    """``floor(1 / c)``, exact."""
    top, bottom = c.as_integer_ratio()
    return bottom // top


def doubling_ratio(alpha: Number, c: Number, half: int) -> Number:
    """``D(2 half) = (1 + alpha**half)(1 - c + c half) / (1 - c + 2 c half) = g(2 half) / g(half)``, LR Theorem 3."""
    return (1 + alpha**half) * (1 - c + c * half) / (1 - c + 2 * c * half)


def argmax_g(alpha: Fraction, c: Fraction, limit: int) -> int:
    """The smallest maximiser of g over 1..limit."""
    return max(range(1, limit + 1), key=lambda k: (g(alpha, c, k), -k))


def stage_steps(c: Fraction, gamma: int, count: int) -> list[Fraction]:
    """Start times of target generations 0..count-1 of one draft stage, in units of T, by the rules of LR B.1.1.

    Draft j and target j start together, once draft j - 1 has ended and fewer than gamma targets run.
    """
    starts: list[Fraction] = []
    for j in range(count):
        drafted = starts[j - 1] + c if j else Fraction(0)
        free = starts[j - gamma] + 1 if j >= gamma else Fraction(0)
        starts.append(max(drafted, free))
    return starts


def stage_time(c: Fraction, gamma: int, accepted: int) -> Fraction:
    """Wall time of a stage whose first rejection is draft number `accepted`, in units of T, from the timeline."""
    return stage_steps(c, gamma, accepted + 1)[-1] + 1
