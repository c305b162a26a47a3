"""Lookahead Decoding's functions beyond the ledger's statements (`test_numeric_functions`): long drafts, refusals."""

import mpmath
import numpy as np
import pytest
from refusals import refused

from ledger.lookahead_decoding import forms
from theory.lookahead_decoding import speedup as lookahead

EPS = np.finfo(np.float64).eps


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.999, 1.0])
def test_long_drafts_of_many_sequences_lose_no_term(alpha: float) -> None:
    """Terms beyond some hundreds or thousands vanish, and the sum stops early; all together, with others' shapes."""
    gamma, b = np.array([0, 300, 3_000]), 2**20
    with mpmath.workdps(30):
        terms = [1 - (1 - mpmath.mpf(alpha) ** i) ** b for i in range(1, 3_001)]
        exact = [float(1 + mpmath.fsum(terms[:n])) for n in gamma]
    assert lookahead.expected_tokens_multi([[alpha]], gamma, b) == pytest.approx(np.array([exact]), rel=8 * EPS)
    if alpha < 0.999:
        assert lookahead.expected_tokens_multi(alpha, lookahead.MAX_DRAFT, b) == pytest.approx(exact[-1], rel=8 * EPS)


def test_step_tokens_are_those_of_the_statement() -> None:
    assert int(lookahead.step_tokens(15, 5, 2)) == forms.step_tokens(15, 5, 2)


test_bad_input_names_the_parameter = refused(
    lambda call: call(),
    (lambda: lookahead.expected_tokens_multi(1.2, 3, 1), "^alpha2="),
    (lambda: lookahead.expected_tokens_multi(float("nan"), 3, 1), "^alpha2="),
    (lambda: lookahead.expected_tokens_multi(0.5, -1, 1), "^gamma="),
    (lambda: lookahead.expected_tokens_multi(0.5, lookahead.MAX_DRAFT + 1, 1), "^gamma="),
    (lambda: lookahead.expected_tokens_multi(0.5, 3, 0), "^n_sequences="),
    (lambda: lookahead.lookahead_compression(0.5, 0.5, window=5, ngram=5), "^steps_per_hit="),
    (lambda: lookahead.lookahead_compression(0.5, 2.0, window=0, ngram=5), "^window="),
    (lambda: lookahead.lookahead_compression(0.5, 2.0, window=5, ngram=0), "^ngram="),
    (lambda: lookahead.step_tokens(5, 1, 5), "^ngram="),
    (lambda: lookahead.step_tokens(5, 5, -1), "^guesses="),
    (lambda: lookahead.expected_tokens_multi([0.5, 0.6], [1, 2, 3], 1), "^shapes="),
)
