"""ConfSpec's functions against the ledger's statements at 50 digits, and their refusals."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from ledger.confspec import forms
from theory import cascade

EPS = np.finfo(np.float64).eps
_RATES = (0.0, 1e-12, 1e-3, 0.1159, 0.5, 0.9, 1 - 1e-9, 1.0)

rates = st.floats(0.0, 1.0, allow_subnormal=False)


def _exactly(value: float) -> sp.Rational:
    """The float as the rational that it is."""
    return sp.Rational(*float(value).as_integer_ratio())


def _close(got: object, exact: sp.Expr, units: int) -> bool:
    """Relative agreement with 50 digits; exact where the statement is 0."""
    value = sp.N(exact, 50)
    error = abs(_exactly(float(got)) - value)  # type: ignore[arg-type]
    return bool(error <= units * EPS * abs(value))


@pytest.mark.parametrize("rate", _RATES)
def test_cost_against_statement(rate: float) -> None:
    exact = forms.expected_verification_cost(_exactly(8.7), _exactly(45.9), _exactly(rate))
    assert _close(cascade.expected_verification_cost(rate, 8.7, 45.9), exact, 4)


@pytest.mark.parametrize(("draft", "target"), [(8.7, 45.9), (1.0, 1.0 + 2**-40), (2.0, 1.0), (1e-300, 1e300)])
def test_break_even_against_statement(draft: float, target: float) -> None:
    exact = forms.break_even_escalation(_exactly(draft), _exactly(target))
    assert _close(cascade.break_even_escalation(draft, target), exact, 4)


@pytest.mark.parametrize("rate", _RATES)
@pytest.mark.parametrize("n", [0, 1, 2, 30, 1000])
def test_loss_bound_against_statement(rate: float, n: int) -> None:
    exact = forms.accuracy_loss_bound(_exactly(rate), n)
    assert _close(cascade.accuracy_loss_bound(rate, n), exact, 8)


@pytest.mark.parametrize("rate", _RATES)
@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_steps_against_statements(rate: float, k: int) -> None:
    a = sp.Symbol("a")  # given its value after the sum is written out: 0**0 is 1
    verified, lines = (
        form(a, sp.Integer(k)).doit().subs(a, _exactly(rate))
        for form in (forms.verified_steps, forms.committed_as_printed)
    )
    assert _close(cascade.verified_steps(rate, k), verified, 16)
    assert _close(cascade.committed_steps(rate, k), lines, 16)
    assert _close(cascade.committed_steps(rate, k, "text"), verified, 16)
    assert _close(cascade.committed_steps(rate, k, "reuse"), verified, 16)


@given(rates, st.integers(1, 1000))
def test_tolerable_disagreement_inverts_the_bound(loss: float, n: int) -> None:
    d = float(cascade.tolerable_disagreement(loss, n))
    assert float(cascade.accuracy_loss_bound(d, n)) == pytest.approx(loss, rel=1e-9, abs=1e-300)


def test_arrays_broadcast() -> None:
    assert cascade.committed_steps([[0.2], [0.8]], [1, 2, 3]).shape == (2, 3)
    assert cascade.accuracy_loss_bound([0.1, 0.2], [[1], [2]]).shape == (2, 2)


test_bad_input_names_the_parameter = refused(
    lambda call: call(),
    (lambda: cascade.expected_verification_cost(1.5, 1.0, 2.0), "^escalation="),
    (lambda: cascade.expected_verification_cost(0.5, 0.0, 2.0), "^draft_cost="),
    (lambda: cascade.break_even_escalation(1.0, float("inf")), "^target_cost="),
    (lambda: cascade.accuracy_loss_bound(0.1, -1), "^n_decisions="),
    (lambda: cascade.tolerable_disagreement(0.1, 0), "^n_decisions="),
    (lambda: cascade.verified_steps(float("nan"), 2), "^alpha1="),
    (lambda: cascade.verified_steps(0.5, 0), "^k1="),
    (lambda: cascade.committed_steps(0.5, 2, "none"), "^fallback="),  # type: ignore[arg-type]
)
