"""Lookahead Decoding: the exact runs, by hand."""

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
