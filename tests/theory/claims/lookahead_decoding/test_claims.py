"""The claims of Lookahead Decoding: recorded verdicts are derived again, every mutant is caught, the runs are right."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

from paper_claims import PaperClaims, check_caught, check_verdict

from theory.claims.ledger import Claim, Evidence, Mutant
from theory.claims.lookahead_decoding import exact
from theory.claims.runner import Verification

_PAPER = PaperClaims("lookahead_decoding", prefix="LD-")


@_PAPER.each
def test_recorded_verdict_is_derived_again(claim: Claim, verified: Callable[[str], Verification]) -> None:
    check_verdict(claim, verified)


@_PAPER.each_mutant
def test_mutant_is_caught(claim: Claim, mutant: Mutant, mutated: Callable[[Claim, Mutant], Evidence]) -> None:
    check_caught(claim, mutant, mutated)


def test_ids_are_unique_and_from_this_paper() -> None:
    _PAPER.check_ids()


def test_expressions_are_sympy() -> None:
    import sympy as sp

    built = [claim.expression() for claim in _PAPER.all if claim.expression is not None]
    assert len(built) >= 6
    assert all(isinstance(expression, sp.Basic) for expression in built)


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
