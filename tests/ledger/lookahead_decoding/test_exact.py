"""Lookahead Decoding: the exact runs, by hand."""

from __future__ import annotations

import itertools
from fractions import Fraction

from ledger.lookahead_decoding import exact


def test_sample_verification_by_hand() -> None:
    """P = (1/2, 1/3, 1/6), guesses 1 then 0, N = 2: accept 1 with 1/3; else accept 0 with 3/4; else emit 2."""
    third = (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6))
    sure = (Fraction(1), Fraction(0), Fraction(0))
    law = exact.sample_verification(lambda out: sure if out else third, [(1,), (0,)], 2)
    assert law == {(1, 0): Fraction(1, 3), (0, 0): Fraction(1, 2), (2,): Fraction(1, 6)}


def test_greedy_verification_keeps_only_matching_ngrams() -> None:
    """The target writes 0 1 1: the second n-gram is right to the end, the first only at its second token."""
    run = (0, 1, 1)
    out = exact.greedy_verification(lambda prefix: run[len(prefix)], [(1, 1), (0, 1)], 3)
    assert out == run


def test_every_case_of_the_exact_runs_is_walked() -> None:
    lists = list(exact.gram_lists(2, 2, 3))
    assert len(lists) == 4 + 4**2 + 4**3
    assert any(len(set(grams)) < len(grams) for grams in lists)


def test_model_family_has_zero_masses_and_depends_on_the_prefix() -> None:
    models = list(exact.model_family(3, 5))
    contexts = [(), (0,), (1,), (2,)]
    assert all(sum(model(out)) == 1 for model, out in itertools.product(models, contexts))
    assert any(0 in model(()) for model in models)
    assert any(model((0,)) != model((1,)) for model in models)
