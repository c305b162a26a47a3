"""Rational functions of one sign, of both, and undecided ones."""

from __future__ import annotations

import sympy as sp

from ledger.ledger import Verdict
from ledger.proving.symbolic import nonnegative

X, Y = sp.symbols("x y", nonnegative=True)


def test_coefficients_of_one_sign_prove() -> None:
    assert nonnegative((X + Y) ** 2 / (1 + X), what="a square").verdict is Verdict.PROVED
    assert nonnegative(sp.Integer(3), what="a constant").verdict is Verdict.PROVED


def test_a_negative_value_refutes() -> None:
    evidence = nonnegative(X - Y, what="a difference")
    assert evidence.verdict is Verdict.FALSE
    assert evidence.counterexample == {"x": "0", "y": "1"}


def test_what_is_neither_is_open() -> None:
    assert nonnegative((X - Y) ** 2, what="a square with a minus").verdict is Verdict.OPEN
