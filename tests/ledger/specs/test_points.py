"""Statements of SPECS at points: what a test is given, against laws written down by hand."""

import math
from fractions import Fraction

import pytest

from ledger.specs.block_tree import Tree
from ledger.specs.exact import Instance
from ledger.specs.points import own_drafts, poisson_weights, two_blocks, two_letters

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
