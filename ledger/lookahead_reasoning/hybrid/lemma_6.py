"""Lookahead Reasoning, Lemma 6: the bound 1.157 and the derivatives behind it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from flint import arb

from ledger.ledger import Claim, Evidence, Verdict
from ledger.lookahead_reasoning.forms import peak_function
from ledger.proving.balls import log_ratio, point, precision
from ledger.proving.cases import Cases, rows, walked
from ledger.proving.deferred import sp
from ledger.proving.records import corrected, proved, refuted
from ledger.proving.tools import (
    all_of,
    identity,
    prove_identity,
    prove_positive,
    prove_sign,
    refute,
    rounds_to,
    screened,
)

__all__ = ["CLAIMS", "below_peak"]


def _f_ball(y: arb) -> arb:
    """F(y) = 2 - y - (1 - y)**2 L with L = log(1 - y)/(-y), which has no singularity at y = 0."""
    return 2 - y - (1 - y) ** 2 * log_ratio(1 - y)


def below_peak(bound: str) -> Evidence:
    """F(y) < bound on (0, 1): balls on [0, 9/10], and F(y) <= 2 - y beyond, as (1-y)**2 L >= 0."""

    def holds(y: Fraction) -> bool:
        return bool(_f_ball(point(y)) < point(bound))

    return screened(
        refute(holds, ({"y": y} for y in ("57/100", "1/2", "1/10", "9/10")), what=f"F(y) < {bound}"),
        lambda: prove_positive(lambda y: point(bound) - _f_ball(y), {"y": (0, "9/10")}, what=f"{bound} - F(y)"),
        lambda: prove_positive(
            lambda y: point(bound) - (2 - y), {"y": ("9/10", 1)}, what=f"{bound} - (2 - y) >= {bound} - F"
        ),
        _regular_form,
    )


def _regular_form() -> Evidence:
    """F(y) = 2 - y - (1-y)**2 (-log(1-y))/y, so F <= 2 - y."""
    y = sp.Symbol("y", positive=True)
    other = 2 - y - (1 - y) ** 2 * (-sp.log(1 - y)) / y
    return prove_identity(peak_function(y) - other, what="F without its singularity at 0")


def _first_derivative(sign: int) -> Evidence:
    """F' = (1 - y**-2) log(1-y) - 1/y."""
    y = sp.Symbol("y", positive=True)
    shown = (1 - y**-2) * sp.log(1 - y) - sign / y
    return prove_identity(sp.diff(peak_function(y), y) - shown, what="F' as displayed", samples=[{"y": "1/2"}])


def _second_derivative(inner: int) -> Evidence:
    """F'' = (y (inner + y) + 2 log(1-y)) / y**3."""
    y = sp.Symbol("y", positive=True)
    shown = (y * (inner + y) + 2 * sp.log(1 - y)) / y**3
    sample = {"y": "1/2"}
    return prove_identity(sp.diff(peak_function(y), y, 2) - shown, what=f"F'' with y({inner} + y)", samples=[sample])


def _concave(inner: int) -> Evidence:
    """F'' < 0: the numerator N vanishes at 0 and N' < 0 on (0, 1)."""
    y = sp.Symbol("y", positive=True)
    n = y * (inner + y) + 2 * sp.log(1 - y)
    return all_of(
        lambda: _second_derivative(inner),
        identity(n.subs(y, 0), "N(0) = 0"),
        lambda: prove_sign(sp.together(-sp.diff(n, y)), unit=("y",), what="-N' > 0 on (0, 1)"),
    )


def _end_value(at: int, printed: str) -> Cases:
    """The one-sided limit of F' at an end of (0, 1) against a number, 'oo' or '-oo'."""

    def limits() -> Iterator[dict[str, Any]]:
        y = sp.Symbol("y", positive=True)
        yield {"y": at, "limit": sp.limit(sp.diff(peak_function(y), y), y, at, "+" if at == 0 else "-")}

    return Cases(
        text=f"the limit of F' at {at} is {printed}",
        test=lambda y, limit: limit == sp.sympify(printed),
        cases=limits,
        where=f"y to {at} from inside (0, 1)",
    )


_AT_ZERO, _AT_ZERO_MENDED = _end_value(0, "0"), _end_value(0, "1/2")
_AT_ONE, _AT_ONE_MENDED = _end_value(1, "-oo"), _end_value(1, "-1")


def _derivative_ball(y: arb) -> arb:
    return (1 - y**-2) * (1 - y).log() - 1 / y


def _sign_change(low: Fraction, high: Fraction) -> arb:
    """A ball around the zero of F' in [low, high], by 80 certain bisections (F' falls strictly)."""
    for _ in range(80):
        middle = (low + high) / 2
        value = _derivative_ball(point(middle))
        if value > 0:
            low = middle
        elif value < 0:
            high = middle
        else:
            break
    return point(low).union(point(high))


def _peak_digits(y: str, value: str) -> bool:
    """F' changes sign within half a unit of the printed y*, and F there rounds to the printed value."""
    half = Fraction(1, 2 * 10 ** len(y.partition(".")[2]))
    low, high = Fraction(y) - half, Fraction(y) + half
    with precision(192):
        rises, falls = _derivative_ball(point(low)) > 0, _derivative_ball(point(high)) < 0
        at_peak = _f_ball(_sign_change(low, high))
    return bool(rises and falls) and rounds_to(lambda: at_peak, value, "F(y*)", {}).verdict is Verdict.PROVED


def _digits(y: str = "0.5693971022", value: str = "1.1562281731") -> Cases:
    return Cases(
        text="F' changes sign at the printed y*, and F there is the printed value, to the printed digits",
        test=_peak_digits,
        cases=rows({"y": y, "value": value}),
        where="the printed maximum",
    )


_DIGITS = _digits()


def _peak(printed: Cases = _DIGITS) -> Evidence:
    return all_of(walked(printed), lambda: _concave(2))


def _symbolic_peak() -> sp.Expr:
    return peak_function(sp.Symbol("y", positive=True))


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-L6a",
        expression=_symbolic_peak,
        verify=lambda: below_peak("1.157"),
        mutants={"1.156": partial(below_peak, "1.156")},
    ),
    proved("LR-L6b", verify=lambda: _first_derivative(1), mutants={"sign": partial(_first_derivative, -1)}),
    refuted(
        "LR-L6c",
        verify=lambda: _second_derivative(1),
        correction_verify=lambda: _concave(2),
        mutants={"corrected": partial(_second_derivative, 2)},
    ),
    proved("LR-L6d", verify=lambda: _concave(2), mutants={"printed N": partial(_concave, 1)}),
    corrected("LR-L6e", formula=_AT_ZERO, correction_formula=_AT_ZERO_MENDED, holds={"corrected": _AT_ZERO_MENDED}),
    corrected("LR-L6f", formula=_AT_ONE, correction_formula=_AT_ONE_MENDED, holds={"corrected": _AT_ONE_MENDED}),
    proved(
        "LR-L6g",
        formula=_DIGITS,
        verify=_peak,
        mutants={
            "digit of y*": partial(_peak, _digits(y="0.5693971122")),
            "digit of F": partial(_peak, _digits(value="1.1562281732")),
        },
    ),
)
