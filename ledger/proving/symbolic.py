"""Symbolic proofs: identities, signs that can be read off positive coefficients, and signs by repeated derivatives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import partial

from ledger.ledger import Evidence, Verdict
from ledger.proving.balls import Rational
from ledger.proving.combine import counterexample, refutation
from ledger.proving.deferred import sp
from ledger.proving.reading import read

__all__ = [
    "as_expression",
    "descent",
    "identity",
    "nonnegative",
    "prove_descent",
    "prove_identity",
    "prove_sign",
    "sign",
]


def as_expression(given: sp.Expr | str) -> sp.Expr:
    """What `reading.read` makes of a text; of a relation, its left or greater side minus the other one."""
    built = read(given) if isinstance(given, str) else given
    if isinstance(built, sp.Eq):
        return built.lhs - built.rhs
    return built.gts - built.lts if isinstance(built, sp.Rel) else built


def prove_identity(
    given: sp.Expr | str, *, what: str, samples: Iterable[Mapping[str, Rational | str]] = ()
) -> Evidence:
    """Prove that an expression is identically zero, or two sides equal as text, or find a rational point where not.

    Rational functions (also of powers ``a**n`` with symbolic n) are decided by reduction to a common denominator,
    others by sympy's simplification. ``samples`` (symbol name -> rational) are tried before: the first at which the
    difference is certainly not zero (exactly, or enclosed away from zero at 50 digits) refutes it.
    """
    difference = as_expression(given)
    for sample in [*samples, _default_sample(difference)]:
        symbols = sorted(difference.free_symbols, key=lambda s: str(s.name))
        values = {s: sp.Rational(str(sample[s.name])) for s in symbols if s.name in sample}
        if len(values) == len(symbols) and _certainly_nonzero(difference.subs(values)):
            return refutation(what, {s.name: Fraction(str(v)) for s, v in values.items()}, {"digits": 50})
    reductions: tuple[Callable[[sp.Expr], sp.Expr], ...] = (
        sp.expand,
        lambda e: sp.expand(sp.numer(sp.together(e))),  # decides most quotients, without a common divisor
        lambda e: sp.cancel(sp.together(sp.powsimp(sp.expand(e)))),
        sp.simplify,
    )
    for reduce in reductions:
        if reduce(difference) == 0:
            return Evidence(verdict=Verdict.PROVED, method="symbolic", detail=f"{what} (identity)")
    return Evidence(
        verdict=Verdict.OPEN, method="symbolic", detail=f"{what}: sympy does not reduce the difference to 0"
    )


def _default_sample(expression: sp.Expr) -> dict[str, str]:
    """Distinct rationals in (0, 1) for real symbols, small integers for integer ones."""
    names = sorted(expression.free_symbols, key=lambda s: str(s.name))
    return {s.name: str(3 + i) if s.is_integer else f"{2 * i + 2}/{2 * i + 5}" for i, s in enumerate(names)}


def _certainly_nonzero(value: sp.Expr) -> bool:
    """Exact for rationals; otherwise sympy's guarded 50 digits must be away from 0 by far more than their error."""
    if value.is_Rational:
        return bool(value != 0)
    number = sp.N(value, 50)
    return bool(number.is_number and number.is_finite and abs(number) > sp.Rational(1, 10**30))


def prove_sign(given: sp.Expr | str, *, what: str, unit: Iterable[str] = ()) -> Evidence:
    """Prove that a rational expression is positive for all positive values of its symbols (those in `unit`: in (0, 1)).

    Each symbol x of `unit` is replaced by ``x / (1 + x)``, which maps (0, oo) onto (0, 1); then numerator and
    denominator, expanded, must have coefficients of one sign, so that no cancellation can happen anywhere in the range.
    Give a power such as ``alpha**n`` a symbol of its own. ``false`` comes with a point of a small grid.
    """
    expression = as_expression(given)
    symbols = sorted(expression.free_symbols, key=lambda s: str(s.name))
    unit_names = set(unit)
    for point in _sign_samples(symbols, unit_names):
        value = expression.subs({s: sp.Rational(str(point[s.name])) for s in symbols})
        if value.is_Rational and value <= 0:
            return refutation(what, {s.name: Fraction(str(point[s.name])) for s in symbols}, {})
    mapped = expression.subs({s: s / (1 + s) for s in symbols if s.name in unit_names}, simultaneous=True)
    top, bottom = sp.fraction(sp.cancel(sp.together(mapped)))
    signs = [_one_sign(sp.Poly(part, *symbols)) for part in (top, bottom)]
    if 0 not in signs and signs[0] == signs[1]:
        terms = len(sp.Poly(top, *symbols).terms())
        detail = f"{what} ({terms} coefficients of one sign)"
        return Evidence(verdict=Verdict.PROVED, method="symbolic", detail=detail, effort={"terms": terms})
    return Evidence(verdict=Verdict.OPEN, method="symbolic", detail=f"{what}: coefficients of both signs remain")


def _sign_samples(symbols: list[sp.Symbol], unit: set[str]) -> Iterable[dict[str, str]]:
    """A few corners and a middle of the range."""
    for inner, outer in (("1/2", "1"), ("1/10", "1/10"), ("9/10", "10"), ("1/10", "10"), ("9/10", "1/10")):
        yield {s.name: inner if s.name in unit else outer for s in symbols}
    for chosen in symbols:
        yield {s.name: ("9/10" if s is chosen else "1/10") for s in symbols}
        yield {s.name: ("1/10" if s is chosen else "9/10") for s in symbols}


def _one_sign(poly: sp.Poly) -> int:
    """1 or -1 when every coefficient has that sign, 0 otherwise."""
    coefficients = poly.coeffs()
    if all(c > 0 for c in coefficients):
        return 1
    return -1 if all(c < 0 for c in coefficients) else 0


def prove_descent(given: sp.Expr | str, variable: sp.Symbol | str, *, what: str, order: int) -> Evidence:
    """Prove ``expression > 0`` for every ``variable > 0`` by derivatives.

    The expression and its first ``order - 1`` derivatives vanish at 0, the derivative of this order is positive (sympy
    decides that from the assumptions of its symbols), so each lower one is positive by integration.
    """
    expression = as_expression(given)
    if isinstance(variable, str):
        variable = sp.Symbol(variable, positive=True)
    for sample in ("1/10", "1", "5"):
        number = sp.N(expression.subs(variable, sp.Rational(sample)), 50)
        if number.is_number and number < -sp.Rational(1, 10**30):
            return refutation(what, {variable.name: Fraction(sample)}, {"digits": 50})
    step = expression
    for _ in range(order):
        if sp.simplify(sp.limit(step, variable, 0)) != 0:
            return Evidence(verdict=Verdict.OPEN, method="symbolic", detail=f"{what}: a lower derivative is not 0 at 0")
        step = sp.simplify(sp.diff(step, variable))
    if not step.is_positive:
        return Evidence(
            verdict=Verdict.OPEN, method="symbolic", detail=f"{what}: sympy does not see the sign of {step}"
        )
    detail = f"{what} (from 0 by {order} derivative{'s' if order > 1 else ''}, the last one {step} > 0)"
    return Evidence(verdict=Verdict.PROVED, method="symbolic", detail=detail, effort={"order": order})


def prove_nonnegative(given: sp.Expr | str, *, what: str) -> Evidence:
    """Prove that a rational function of nonnegative variables is nonnegative: no coefficient has a minus sign.

    ``false`` where an integer point of a small grid shows a negative value, ``open`` when neither happens.
    """
    expression = as_expression(given)
    symbols = sorted(expression.free_symbols, key=lambda s: str(s.name))
    top, bottom = sp.fraction(sp.cancel(sp.together(expression)))
    signs = [c for part in (top, bottom) for c in (sp.Poly(part, *symbols).coeffs() if symbols else [part])]
    if all(c >= 0 for c in signs) or all(c <= 0 for c in signs):
        return Evidence(
            verdict=Verdict.PROVED,
            method="symbolic",
            detail=f"{what}: all {len(signs)} coefficients have one sign",
            effort={"coefficients": len(signs)},
        )
    for values in itertools.product((0, 1, 2, 5), repeat=len(symbols)):
        at = dict(zip(symbols, values, strict=True))
        if bottom.subs(at) != 0 and expression.subs(at) < 0:
            shown = {str(s.name): str(v) for s, v in at.items()}
            return counterexample(f"{what}: negative at {shown}", shown)
    return Evidence(verdict=Verdict.OPEN, method="symbolic", detail=f"{what}: coefficients of both signs")


def _later(prove: Callable[..., Evidence]) -> Callable[..., Callable[[], Evidence]]:
    return lambda given, what, *more, **options: partial(prove, given, *more, what=what, **options)


identity, sign = _later(prove_identity), _later(prove_sign)
descent, nonnegative = _later(prove_descent), _later(prove_nonnegative)
"""Parts of a proof, ``identity(given, what)``: called when the parts before them are proved."""
