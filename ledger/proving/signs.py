"""Rational functions of nonnegative variables that no coefficient makes negative."""

from __future__ import annotations

import itertools

from ledger.ledger import Evidence, Verdict
from ledger.proving.combine import counterexample
from ledger.proving.deferred import sp

__all__ = ["nonnegative"]


def nonnegative(expression: sp.Expr, *, what: str) -> Evidence:
    """Prove that a rational function of nonnegative variables is nonnegative: no coefficient has a minus sign.

    ``false`` where an integer point of a small grid shows a negative value, ``open`` when neither happens.
    """
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
