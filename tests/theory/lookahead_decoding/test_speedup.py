"""Lookahead Decoding's functions against the ledger's statements at 50 digits, their laws and their refusals."""

import mpmath
import numpy as np
import pytest
import sympy as sp
from refusals import refused

from ledger.lookahead_decoding import forms
from theory.lookahead_decoding import speedup as lookahead

EPS = np.finfo(np.float64).eps
_ALPHAS = (0.0, 1e-12, 1e-3, 0.1, 0.425, 0.5, 0.9, 0.999, 1 - 1e-9, 1.0)
_SHAPES = ((0, 1), (1, 1), (1, 7), (4, 15), (4, 1000), (16, 3), (40, 2**20))


def _exactly(value: float) -> sp.Rational:
    """The float as the rational that it is."""
    return sp.Rational(*float(value).as_integer_ratio())


def _stated_multi(alpha: float, gamma: int, b: int) -> mpmath.mpf:
    """Equation 5 of the ledger at 50 digits (working precision above that, because it cancels)."""
    symbols = sp.symbols("alpha b", positive=True)
    form = forms.multi(symbols[0], sp.Integer(gamma), symbols[1]).doit()
    with mpmath.workdps(150):
        evaluate = sp.lambdify(symbols, form, "mpmath")
        return evaluate(mpmath.mpf(alpha), b)


@pytest.mark.parametrize("alpha", _ALPHAS)
@pytest.mark.parametrize(("gamma", "b"), _SHAPES)
def test_multi_against_statement(alpha: float, gamma: int, b: int) -> None:
    """Sum of gamma positive terms, each with condition number <= 1: gamma + 8 units are generous."""
    exact = _stated_multi(alpha, gamma, b)
    got = float(lookahead.expected_tokens_multi(alpha, gamma, b))
    assert abs(mpmath.mpf(got) - exact) <= (gamma + 8) * EPS * exact


@pytest.mark.parametrize("alpha", _ALPHAS[:-1])
@pytest.mark.parametrize("gamma", [0, 1, 4, 40])
def test_single_against_statement(alpha: float, gamma: int) -> None:
    exact = forms.single(_exactly(alpha), gamma)
    got = float(lookahead.expected_tokens_single(alpha, gamma))
    assert abs(got / sp.N(exact, 50) - 1) <= 8 * EPS


@pytest.mark.parametrize("alpha", [0.1, 0.425, 0.9])
@pytest.mark.parametrize(("window", "ngram"), [(1, 1), (7, 5), (15, 5), (30, 10)])
def test_compression_against_statement(alpha: float, window: int, ngram: int) -> None:
    tokens = forms.multi(_exactly(alpha), sp.Integer(ngram - 1), window).doit()
    exact = sp.N(forms.compression(tokens, sp.Rational(3106, 1000)), 50)
    got = float(lookahead.lookahead_compression(alpha, 3.106, window=window, ngram=ngram))
    assert abs(got / exact - 1) <= 32 * EPS


@pytest.mark.parametrize(("w", "n", "g"), [(15, 5, 15), (5, 4, 2), (1, 2, 0)])
def test_step_tokens_against_statement(w: int, n: int, g: int) -> None:
    assert int(lookahead.step_tokens(w, n, g)) == forms.step_tokens(w, n, g)


def test_long_draft_stops_early_without_losing_terms() -> None:
    """At alpha = 1/2 terms beyond 80 vanish: the early stop must not change the sum."""
    short = float(lookahead.expected_tokens_multi(0.5, 300, 4))
    assert float(lookahead.expected_tokens_multi(0.5, lookahead.MAX_DRAFT, 4)) == short


def test_arrays_broadcast() -> None:
    table = lookahead.expected_tokens_multi(np.array([[0.2], [0.8]]), np.array([1, 300, 5]), 3)
    assert table.shape == (2, 3)
    for i, alpha in enumerate((0.2, 0.8)):
        for j, gamma in enumerate((1, 300, 5)):
            alone = float(lookahead.expected_tokens_multi(alpha, gamma, 3))
            assert table[i, j] == pytest.approx(alone, rel=4 * EPS)


test_bad_input_names_the_parameter = refused(
    lambda call: call(),
    (lambda: lookahead.expected_tokens_multi(1.2, 3, 1), "^alpha2="),
    (lambda: lookahead.expected_tokens_multi(float("nan"), 3, 1), "^alpha2="),
    (lambda: lookahead.expected_tokens_multi(0.5, -1, 1), "^gamma="),
    (lambda: lookahead.expected_tokens_multi(0.5, lookahead.MAX_DRAFT + 1, 1), "^gamma="),
    (lambda: lookahead.expected_tokens_multi(0.5, 3, 0), "^n_sequences="),
    (lambda: lookahead.expected_tokens_single(0.5, 2.0), "^gamma="),
    (lambda: lookahead.step_compression(0.5, 2.0), "^tokens="),
    (lambda: lookahead.step_compression(2.0, 0.5), "^steps_per_hit="),
    (lambda: lookahead.lookahead_compression(0.5, 2.0, window=0, ngram=5), "^window="),
    (lambda: lookahead.lookahead_compression(0.5, 2.0, window=5, ngram=0), "^ngram="),
    (lambda: lookahead.step_tokens(5, 1, 5), "^ngram="),
    (lambda: lookahead.step_tokens(5, 5, -1), "^guesses="),
    (lambda: lookahead.expected_tokens_multi([0.5, 0.6], [1, 2, 3], 1), "^shapes="),
)
