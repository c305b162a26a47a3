"""Claims of SPECS about its definitions and divergences: Definitions 1 to 4, Lemma 2, Equation 11, coverage."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Final

from ledger.ledger import Claim, Evidence
from ledger.proving.deferred import sp
from ledger.proving.margins import Margin, at_most
from ledger.proving.records import Given, proved, refuted, restated
from ledger.proving.tools import all_of, identity, prove_equalities, prove_identity
from ledger.specs.block_tree import TREES, Tree, on_trees
from ledger.specs.common_proofs import prove_gibbs, prove_regret
from ledger.specs.exact import Instance, agree, chi_square, decided, enumerated, kl, log, nonnegative, selection_law
from ledger.specs.points import two_blocks, two_letters

__all__ = ["CLAIMS", "prove_block_range"]


def _fix_direction() -> Evidence:
    x, q = sp.symbols("x q", positive=True)
    forward = q * sp.log(q / x)
    return all_of(
        decided(sp.limit(forward, x, 0, "+") == sp.oo, what="the letter's share of forward grows without bound"),
        decided(sp.limit(x * sp.log(x / q), x, 0, "+") == 0, what="the letter's share of reverse vanishes"),
        prove_gibbs,
        detail="reverse divergence is at most log(1 / min pi*), however little mass a letter gets",
    )


def _fix_jensen() -> Evidence:
    """Tangent of the logarithm at the mean: ``log x <= log m + x / m - 1``; average it with m = E[x] = 1 + chi2."""

    def holds(instance: Instance, n: int) -> bool:
        law = instance.selected(n)
        return not (kl(law, instance.optimum) - log(1 + chi_square(law, instance.optimum))).positive()

    return all_of(
        agree(holds, what="D <= log(1 + chi2)", sizes=(1, 2)),
        prove_gibbs,
        detail="x = pi / pi* has mean 1 + chi2 under pi, and log x <= log m + x / m - 1",
    )


_PRODUCT: Final = "product of block laws = tilted target"
_WIDTH: Final = "width of the process reward after a prefix <= width of the outcome reward"
_COVERAGES: Final = "C_block <= C_seq"


def _telescopes(tree: Tree, _n: int, _threshold: Fraction, *, combine: str = "mean") -> bool:
    largest = None if combine == "mean" else lambda _law, below: max(below)
    product = []
    for y in tree.responses():
        mass = Fraction(1)
        for t in range(tree.horizon):
            step = tree.value(y[: t + 1], largest) / tree.value(y[:t], largest)
            mass *= tree.target[y[:t]][y[t]] * step
        product.append(mass)
    return tuple(product) == tree.optimum()


def _verify_telescoping(combine: str = "mean") -> Evidence:
    """``product of target * exp(beta A) = target(y) exp(beta (r - V(empty)))``, and each factor is normalised."""
    return all_of(
        on_trees(partial(_telescopes, combine=combine), what=_PRODUCT, sizes=(1,)),
        identity("(vt / v0) * (vn / vt) == vn / v0", "one more block multiplies by V_(t+1) / V_t"),
        lambda: enumerated(
            all(
                sum(p * e for p, e in zip(tree.target[u], tree.block_tilt(u), strict=True)) == 1
                for tree in TREES
                for u in tree.prefixes()
            ),
            what="E_target[exp(beta A)] = 1 at every prefix (V is a log of a mean, tower property)",
        ),
    )


def _verify_terminal(power: int = 1) -> Evidence:
    """At a full response the mean is over one point: ``log(exp(beta r)) / beta = r``."""
    beta = sp.Symbol("beta", positive=True)
    r = sp.Symbol("r", real=True)
    return prove_identity(
        sp.log(sp.exp(beta * r)) / beta**power - r,
        what="V of a full response is its reward",
        samples=[{"beta": 2, "r": 1}],
    )


def _no_wider(tree: Tree, _n: int, _threshold: Fraction) -> Margin:
    spread = [max(tree.block_tilt(u)) / min(tree.block_tilt(u)) for u in tree.prefixes()]
    return at_most(max(spread), tree.theta())


def prove_block_range() -> Evidence:
    """exp(beta V) is a mean of tilts in [1, theta], so exp(beta A) after a prefix varies by a factor theta at most."""
    return all_of(
        on_trees(_no_wider, what=_WIDTH, sizes=(1,)),
        nonnegative("(1 + a) * (1 + b) >= 1 + a", "V in [1, theta] on both sides of the ratio"),
        detail="A mean one of exp(beta A) that never falls below one is one throughout, so range [0, R] allows only "
        "A = 0",
    )


_COMMON_FACTOR: Final = "a common factor does not change the selection law"


def _unmoved(instance: Instance, n: int) -> bool:
    larger = tuple(5 * w for w in instance.weights)
    return instance.selected(n) == selection_law(instance.gen, larger, n)


def _fix_collapse() -> Evidence:
    shifted = "g * c * w / (g * c * w + h * c * v) == g * w / (g * w + h * v)"
    return all_of(
        identity(shifted, "a common factor of the weights cancels"),
        agree(_unmoved, what=_COMMON_FACTOR),
        detail="r_PRM = r - V(x, empty), a constant per prompt that selection and optimum do not see; a fixed "
        "threshold tau does",
    )


def _fix_duplicates() -> Evidence:
    return all_of(
        identity("N * (w / (N * w + rest)) == N * w / (N * w + rest)", "sum over equal candidates"),
        detail="The index i is drawn with that probability; the response y with N_y times it",
    )


def _relaxed(tree: Tree, _n: int, _threshold: Fraction, *, reverse: bool = False) -> Margin:
    block, sequence = tree.block_coverage(), tree.sequence_coverage()
    return at_most(sequence, block) if reverse else at_most(block, sequence)


def _verify_coverages(reverse: bool = False) -> Evidence:
    return all_of(
        on_trees(partial(_relaxed, reverse=reverse), what=_COVERAGES, sizes=(1,)),
        nonnegative(
            "(1 + x) * (1 + a) * (1 + c) * (1 + b) * (1 + d) / (1 + x) >= (1 + a) * (1 + b)",
            "extend a prefix of ratio x by its worst block and then by ratios >= 1: x A (1/x) B >= A B",
        ),
        lambda: enumerated(
            TREES[0].sequence_coverage() == TREES[0].block_coverage() ** 2,
            what="two independent blocks: C_seq = C_block^2",
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    refuted("SPECS-L1b", fix=_fix_direction, mutants={"swapped": restated("SPECS-L1b", change=("<", ">"))}),
    refuted("SPECS-R2", fix=_fix_jensen, mutants={"weak": restated("SPECS-R2", change=("<", "<="))}),
    proved("SPECS-D1", verify=_verify_terminal, mutants={"beta^2": partial(_verify_terminal, 2)}),
    refuted(
        "SPECS-D2",
        instead=two_blocks(_WIDTH, _no_wider),
        fix=prove_block_range,
        mutants={"width": restated("SPECS-D2", relation="(2 * tilt2 / (1 + tilt2)) / (2 / (1 + tilt2)) <= tilt2")},
    ),
    refuted(
        "SPECS-D3",
        instead=two_letters(_COMMON_FACTOR, _unmoved),
        fix=_fix_collapse,
        mutants={"shifted": restated("SPECS-D3", relation="2 * tilt2 / (1 + tilt2) / (2 / (1 + tilt2)) == tilt2")},
    ),
    refuted("SPECS-D4", fix=_fix_duplicates, mutants={"index": restated("SPECS-D4", change=("copies /", "1 /"))}),
    proved(
        "SPECS-L2",
        two_blocks(_PRODUCT, _telescopes),
        verify=_verify_telescoping,
        mutants={"largest": partial(_verify_telescoping, "max")},
    ),
    refuted(
        "SPECS-L2b",
        fix=lambda: all_of(prove_regret, prove_gibbs, detail="It is the maximiser, by Lemma 1 with the block reward"),
        mutants={"max": restated("SPECS-L2b", change=("<=", ">="))},
    ),
    proved(
        "SPECS-L2c",
        verify=Given(prove_equalities),
        mutants={"one-side": restated("SPECS-L2c", change=("(t * a / v + u * b / v)", "(t * a + u * b)"))},
    ),
    proved(
        "SPECS-C",
        two_blocks(_COVERAGES, _relaxed),
        verify=_verify_coverages,
        mutants={"reverse": partial(_verify_coverages, reverse=True)},
    ),
)
