"""SPECS' statements at exact values, and at the points that the paper prints."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.ledger import Verdict
from ledger.specs.block_tree import TREES, Tree, on_trees
from ledger.specs.exact import (
    Instance,
    Logs,
    agree,
    chi_square,
    coverage,
    kl,
    laplace_product,
    log,
    nonnegative,
    selection_law,
    selection_law_by_sequences,
)
from ledger.specs.points import own_drafts, poisson_weights, two_blocks, two_letters

HALF = Fraction(1, 2)
rationals = st.fractions(min_value=Fraction(1, 9), max_value=9, max_denominator=9)


def test_laws_and_divergences_by_hand() -> None:
    # draws 00, 01, 10, 11 with chance 1/4 each; a mixed pair gives letter 2 with chance 3/4
    assert selection_law((HALF, HALF), (Fraction(1), Fraction(3)), 2) == (Fraction(3, 8), Fraction(5, 8))
    assert laplace_product((Fraction(1),), (Fraction(2),), 3, Fraction(2)) == Fraction(1, 8)
    law, base = (HALF, HALF), (Fraction(1, 4), Fraction(3, 4))
    assert chi_square(law, base) == Fraction(1, 3)
    assert kl(law, base) == log(Fraction(4, 3)) * HALF
    assert coverage(law, base) == 3


@given(st.lists(st.tuples(rationals, rationals), min_size=1, max_size=3), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_both_selection_laws_agree_and_sum_to_one(model: list[tuple[Fraction, Fraction]], n: int) -> None:
    total = sum(g for g, _ in model)
    gen, weights = tuple(g / total for g, _ in model), tuple(w for _, w in model)
    law = selection_law(gen, weights, n)
    assert law == selection_law_by_sequences(gen, weights, n)
    assert sum(law) == 1


def test_logs_decide_equality_and_sign() -> None:
    assert log(6) == log(2) + log(3)
    assert log(Fraction(9, 8)).positive()
    assert not log(Fraction(8, 9)).positive()
    assert not Logs({}).positive()
    assert log(12) - log(4) - log(3) == Logs({})
    assert float(log(10).ball()) == pytest.approx(2.302585092994046, rel=1e-15)


def test_nonnegative_proves_refutes_and_admits() -> None:
    import sympy as sp

    a, b = sp.symbols("a b", nonnegative=True)
    assert nonnegative(a * b + 1, "x")().verdict is Verdict.PROVED
    assert nonnegative(a - b, "x")().verdict is Verdict.FALSE
    # true, but not by signs of coefficients: it must not be called proved, nor refuted
    assert nonnegative((a - b) ** 2, "x")().verdict is Verdict.OPEN


def test_agree_reports_the_first_failure() -> None:
    evidence = agree(lambda i, n: n < 3, what="narrow")
    assert evidence.verdict is Verdict.FALSE
    assert evidence.counterexample is not None
    assert evidence.counterexample["n"] == "3"
    assert on_trees(lambda _tree, n, _tau: n < 2, what="narrow").verdict is Verdict.FALSE


@pytest.mark.parametrize("tree", TREES, ids=lambda t: t.name)
def test_tree_of_blocks(tree) -> None:  # type: ignore[no-untyped-def]
    assert sum(tree.output(2, Fraction(1))) == 1
    assert sum(tree.optimum()) == 1
    # a threshold that nothing exceeds never lets the draft generate
    assert {flag for (_y, flag) in tree.states(2, Fraction(100))} == {False}
    # one that everything exceeds does from the second block on
    assert all(flag for (_y, flag), mass in tree.states(2, Fraction(0)).items() if mass)


F = Fraction
POINT = {"gen1": F(1, 4), "target1": F(1, 3), "tilt2": F(5), "n": F(3)}


def test_two_letters_are_the_instance_of_the_point() -> None:
    seen: list[tuple[Instance, int]] = []

    def test(instance: Instance, n: int) -> bool:
        seen.append((instance, n))
        return True

    assert two_letters("all", test).holds(POINT) is True
    assert own_drafts("all", test).holds({name: POINT[name] for name in ("target1", "tilt2", "n")}) is True
    wanted = Instance(gen=(F(1, 4), F(3, 4)), target=(F(1, 3), F(2, 3)), tilt=(F(1), F(5)))
    own = Instance(gen=wanted.target, target=wanted.target, tilt=wanted.tilt)
    assert seen == [(wanted, 3), (own, 3)]
    assert wanted.optimum == (F(1, 11), F(10, 11))


def test_two_blocks_normalise_every_law() -> None:
    trees: list[Tree] = []

    def test(tree: Tree, n: int, threshold: Fraction) -> bool:
        trees.append(tree)
        return n == 2 and threshold == 1

    point = {"target1": F(1, 3), "draft1": F(1, 5), "tilt2": F(2), "tilt3": F(3), "n": F(2), "threshold": F(1)}
    assert two_blocks("all", test).holds(point) is True
    (tree,) = trees
    assert all(sum(law) == 1 for model in (tree.target, tree.draft) for law in model.values())
    assert tree.theta() == 3
    assert sum(tree.optimum()) == 1


@pytest.mark.parametrize("mean", [F(1, 2), F(7)])
def test_poisson_weights_are_those_of_the_law_without_zero(mean: Fraction) -> None:
    weights = [float(w.mid()) for w in poisson_weights(mean, 60)]
    lam = float(mean)
    assert weights[2] == pytest.approx(math.exp(-lam) * lam**3 / 6 / (1 - math.exp(-lam)), rel=1e-12)
    assert sum(weights) == pytest.approx(1, rel=1e-12)
