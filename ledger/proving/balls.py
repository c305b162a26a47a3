"""Ball arithmetic helpers: enclosures from rationals, removable singularities, readable rationals.

Everything here returns an enclosure that certainly contains the true value (python-flint's Arb does the rounding).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, Protocol, TypeVar

from flint import arb, ctx, fmpq

__all__ = [
    "Rational",
    "ball",
    "expm1_ratio",
    "geometric_sum",
    "log_ratio",
    "point",
    "power",
    "power_gap",
    "precision",
    "simplest_between",
]

Rational = Fraction | int


class _Ring(Protocol):
    """Anything with + and *: Fraction, arb, sympy."""

    def __add__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...


_R = TypeVar("_R", bound=_Ring)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work at this many bits, then restore the previous setting (flint keeps one global context)."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def point(value: Rational | str) -> arb:
    """The tightest ball around one rational."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def ball(low: Rational | str, high: Rational | str) -> arb:
    """A ball that contains the closed interval from `low` to `high`."""
    return point(low).union(point(high))


def geometric_sum(ratio: _R, terms: int) -> _R | int:
    """``1 + r + ... + r**(terms - 1)`` by Horner: ``(1 - r**n) / (1 - r)`` without its singularity at r = 1."""
    total: Any = 0
    for _ in range(terms):
        total = total * ratio + 1
    return total  # type: ignore[no-any-return]


def expm1_ratio(u: arb) -> arb:
    """``(exp(u) - 1) / u``, 1 at u = 0, over a whole ball; increasing in u, so the endpoints enclose it."""
    return _expm1_ratio_at(u.lower()).union(_expm1_ratio_at(u.upper()))


def log_ratio(x: arb) -> arb:
    """``log(x) / (x - 1)``, 1 at x = 1, for x > 0 over a whole ball; decreasing in x, so the endpoints enclose it."""
    return _log_ratio_at(x.lower()).union(_log_ratio_at(x.upper()))


def power(base: arb, exponent: arb) -> arb:
    """``base ** exponent`` for a certainly positive base, tight over a box.

    The logarithm, ``exponent * log(base)``, is bilinear in its two factors, so the four corners enclose it.
    """
    return _hull([(b.log() * x).exp() for b in _ends(base) for x in _ends(exponent)])


def power_gap(base: arb, exponent: arb) -> arb:
    """``(1 - base ** x) / (1 - base)`` for base > 0 and x >= 0, with value x at base 1, tight over a box.

    It is the mean of ``x t ** (x - 1)`` over t between base and 1: increasing in x, and monotone in the base for each x
    (decreasing for x <= 1, increasing for x >= 1), so the extremes lie at corners.
    """
    return _hull([_exact_power_gap(b, x) for b in _ends(base) for x in _ends(exponent)])


def simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """The rational of smallest denominator strictly inside (low, high), by the continued fraction of the bounds.

    >>> str(simplest_between(Fraction(31, 100), Fraction(35, 100)))
    '1/3'
    """
    if low < 0 < high:
        return Fraction(0)
    if high <= 0:
        return -simplest_between(-high, -low)
    whole = low.numerator // low.denominator
    if whole + 1 < high:
        return Fraction(whole + 1)
    rest = low - whole
    above = None if rest == 0 else 1 / rest
    below = 1 / (high - whole)
    inner = Fraction(below.numerator // below.denominator + 1) if above is None else simplest_between(below, above)
    return whole + 1 / inner


def _hull(values: list[arb]) -> arb:
    """The smallest ball around all of them."""
    enclosure = values[0]
    for value in values[1:]:
        enclosure = enclosure.union(value)
    return enclosure


def _ends(x: arb) -> tuple[arb, ...]:
    return (x,) if x.is_exact() else (x.lower(), x.upper())


def _exact_power_gap(base: arb, exponent: arb) -> arb:
    """(1 - e^{x log b}) / (1 - b) = x * [(e^u - 1) / u] * [log b / (b - 1)] with u = x log b: no cancellation."""
    return exponent * expm1_ratio(exponent * base.log()) * log_ratio(base)


def _expm1_ratio_at(u: arb) -> arb:
    if u == 0:
        return arb(1)
    if abs(u) < arb("0.01"):
        total, term = arb(0), arb(1)
        for k in range(1, 16):
            total += term / k
            term = term * u / k
        # the tail is at most twice its first term, as |u| / k < 1/2
        return total + arb(0, (2 * abs(term)).upper())
    return u.expm1() / u


def _log_ratio_at(x: arb) -> arb:
    z = x - 1
    if z == 0:
        return arb(1)
    return z.log1p() / z
