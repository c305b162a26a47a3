"""ConfSpec: the exact runs, the printed numbers and their rounding, by hand."""

from fractions import Fraction

import pytest

from ledger.confspec import exact
from ledger.proving.rounding import could_round_to, mean, printed, product, quotient

_HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    ("fallback", "expected"),
    [
        # target (1/2, 1/2), draft always 0: accept 0 with 1/2, then a fresh step or the compared one, which is 1
        ("printed", {(0,): Fraction(3, 4), (1,): Fraction(1, 4)}),
        ("text", {(0,): Fraction(3, 4), (1,): Fraction(1, 4)}),
        ("reuse", {(0,): _HALF, (1,): _HALF}),
    ],
)
def test_one_iteration_by_hand(fallback: exact.Fallback, expected: dict[tuple[int, ...], Fraction]) -> None:
    law = exact.iteration(lambda _s: (_HALF, _HALF), lambda _s: (Fraction(1), Fraction(0)), (), 1, fallback)
    assert law == expected


def test_printed_fallback_commits_nothing_extra_after_a_late_rejection() -> None:
    """Fair coins, two drafts: both pass with 1/4, one with 1/4, none (and then one fresh step) with 1/2."""
    law = exact.iteration(lambda _s: (_HALF, _HALF), lambda _s: (_HALF, _HALF), (), 2, "printed")
    by_length = {n: sum((mass for steps, mass in law.items() if len(steps) == n), Fraction(0)) for n in (1, 2)}
    assert by_length == {1: Fraction(3, 4), 2: Fraction(1, 4)}


def test_rounding_interval_arithmetic() -> None:
    assert printed("1.68") == (Fraction(335, 200), Fraction(337, 200))
    assert mean(["1.0", "2.0"]) == (Fraction(145, 100), Fraction(155, 100))
    assert product(printed("2"), printed("4")) == (Fraction(21, 4), Fraction(45, 4))
    assert quotient(printed("2"), printed("4")) == (Fraction(1, 3), Fraction(5, 7))
    assert could_round_to((Fraction(1, 3), Fraction(1, 2)), "0.3")
    assert not could_round_to((Fraction(9, 25), Fraction(1, 2)), "0.3")
