"""Claims of SPECS about its definitions and divergences: Definitions 1 to 4, Lemma 2, Equation 11, coverage."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Final

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Predicate
from ledger.proving.deferred import sp
from ledger.proving.domains import between, whole
from ledger.proving.margins import Margin, at_most
from ledger.proving.records import proved, refuted
from ledger.proving.tools import all_of, identity, prove_identity
from ledger.specs.block_tree import TREES, Tree, on_trees
from ledger.specs.common_proofs import prove_gibbs, prove_regret
from ledger.specs.exact import (
    Instance,
    Logs,
    agree,
    chi_square,
    decided,
    enumerated,
    kl,
    log,
    nonnegative,
    selection_law,
    tilted,
)
from ledger.specs.points import two_blocks, two_letters

__all__ = ["CLAIMS", "prove_block_range"]

_HALF = Fraction(1, 2)


def _direction(swapped: bool = False) -> Predicate:
    def holds(star1: Fraction, pi1: Fraction) -> bool:
        star, policy = (star1, 1 - star1), (pi1, 1 - pi1)
        reverse, forward = kl(policy, star), kl(star, policy)
        return (forward - reverse if swapped else reverse - forward).positive()

    return Predicate(
        text="reverse divergence punishes too little mass on a letter (pi1 instead of star1) more than forward "
        "divergence does",
        test=holds,
        domain={"star1": between(0, 1), "pi1": between(0, 1)},
        premise=lambda star1, pi1: pi1 < star1,
        given="pi1 < star1",
        at=[{"star1": _HALF, "pi1": Fraction(1, 100)}],
        explain=lambda star1, pi1: "reverse is 0.64, forward is 1.61",
    )


def _fix_direction() -> Evidence:
    x, q = sp.symbols("x q", positive=True)
    forward = q * sp.log(q / x)
    return all_of(
        decided(sp.limit(forward, x, 0, "+") == sp.oo, what="the letter's share of forward grows without bound"),
        decided(sp.limit(x * sp.log(x / q), x, 0, "+") == 0, what="the letter's share of reverse vanishes"),
        prove_gibbs,
        detail="reverse divergence is at most log(1 / min pi*), however little mass a letter gets",
    )


def _jensen(strict: bool = True) -> Predicate:
    """``D <= log(1 + chi2)``: strict as printed, or with equality allowed."""

    def holds(tilt2: Fraction, pi1: Fraction) -> bool:
        star, policy = tilted((_HALF, _HALF), (Fraction(1), tilt2)), (pi1, 1 - pi1)
        gap = log(1 + chi_square(policy, star)) - kl(policy, star)
        return gap.positive() or (not strict and gap == Logs({}))

    return Predicate(
        text="log(1 + chi2) is strictly larger than the divergence (target 1/2, 1/2; exp(beta r) = 1, tilt2)",
        test=holds,
        domain={"tilt2": between(0, None), "pi1": between(0, 1)},
        at=[{"tilt2": 3, "pi1": _HALF}, {"tilt2": 1, "pi1": _HALF}],
        explain=lambda tilt2, pi1: "both are 0 when the rewards are constant",
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


_ONE = Fraction(1)
_PRODUCT: Final = "product of block laws = tilted target"
_WIDTH: Final = "width of the process reward after a prefix <= width of the outcome reward"
_COVERAGES: Final = "C_block <= C_seq"


def _telescopes(tree: Tree, _n: int, _threshold: Fraction, *, combine: str = "mean") -> bool:
    largest = None if combine == "mean" else lambda _law, below: max(below)
    product = []
    for y in tree.responses():
        mass = _ONE
        for t in range(tree.horizon):
            step = tree.value(y[: t + 1], largest) / tree.value(y[:t], largest)
            mass *= tree.target[y[:t]][y[t]] * step
        product.append(mass)
    return tuple(product) == tree.optimum()


def _verify_telescoping(combine: str = "mean") -> Evidence:
    """``product of target * exp(beta A) = target(y) exp(beta (r - V(empty)))``, and each factor is normalised."""
    v0, vt, nxt = sp.symbols("V0 Vt Vn", positive=True)
    return all_of(
        on_trees(partial(_telescopes, combine=combine), what=_PRODUCT, sizes=(1,)),
        identity((vt / v0) * (nxt / vt) - nxt / v0, "one more block multiplies by V_(t+1) / V_t"),
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


def _range(width: bool = False) -> Predicate:
    def holds(tilt2: Fraction) -> bool:
        values = tuple(e / ((1 + tilt2) / 2) for e in (_ONE, tilt2))
        return max(values) / min(values) <= tilt2 if width else min(values) >= 1

    return Predicate(
        text="the idealized process reward has range [0, R] (one block, target 1/2, 1/2, exp(beta r) = 1, tilt2)",
        test=holds,
        domain={"tilt2": between(1, None, "[)")},
        at=[{"tilt2": 1}, {"tilt2": 3}],
        explain=lambda tilt2: "exp(beta r_PRM) is 1/2 for the first letter: a negative reward",
    )


def _no_wider(tree: Tree, _n: int, _threshold: Fraction) -> Margin:
    spread = [max(tree.block_tilt(u)) / min(tree.block_tilt(u)) for u in tree.prefixes()]
    return at_most(max(spread), tree.theta())


def prove_block_range() -> Evidence:
    """exp(beta V) is a mean of tilts in [1, theta], so exp(beta A) after a prefix varies by a factor theta at most."""
    a, b = sp.symbols("a b", nonnegative=True)
    low = sp.Integer(1)
    return all_of(
        on_trees(_no_wider, what=_WIDTH, sizes=(1,)),
        lambda: nonnegative((low + a) * (low + b) - (low + a), what="V in [1, theta] on both sides of the ratio"),
        detail="A mean one of exp(beta A) that never falls below one is one throughout, so range [0, R] allows only "
        "A = 0",
    )


def _collapse(shifted: bool = False) -> Predicate:
    def holds(tilt2: Fraction) -> bool:
        mean = (1 + tilt2) / 2
        values = tuple(e / mean for e in (_ONE, tilt2))
        wanted = (_ONE / mean, tilt2 / mean) if shifted else (_ONE, tilt2)
        return values == wanted

    return Predicate(
        text="with one block the idealized process reward is the outcome reward (target 1/2, 1/2; exp(beta r) = 1, "
        "tilt2)",
        test=holds,
        domain={"tilt2": between(1, None)},
        at=[{"tilt2": 3}],
        explain=lambda tilt2: "exp(beta r_PRM) = (1/2, 3/2), exp(beta r) = (1, 3)",
    )


_COMMON_FACTOR: Final = "a common factor does not change the selection law"


def _unmoved(instance: Instance, n: int) -> bool:
    larger = tuple(5 * w for w in instance.weights)
    return instance.selected(n) == selection_law(instance.gen, larger, n)


def _fix_collapse() -> Evidence:
    g, h, w, v, c = sp.symbols("g h w v c", positive=True)
    shifted = g * c * w / (g * c * w + h * c * v) - g * w / (g * w + h * v)
    return all_of(
        identity(shifted, "a common factor of the weights cancels"),
        agree(_unmoved, what=_COMMON_FACTOR),
        detail="r_PRM = r - V(x, empty), a constant per prompt that selection and optimum do not see; a fixed "
        "threshold tau does",
    )


def _duplicates(by_value: bool = True) -> Predicate:
    """A draw with repeated letters: chance of the value of candidate 1 against its weight share."""

    def holds(copies: Fraction, others: Fraction) -> bool:
        total = copies + others
        share = 1 / total
        return (copies / total if by_value else share) == share

    return Predicate(
        text="P(Y* = Y_1) = exp(S_1) / sum of exp(S_j), equal scores, where so many 'copies' of Y_1 and 'others' are "
        "drawn",
        test=holds,
        domain={"copies": whole(1), "others": whole(0)},
        at=[{"copies": 1, "others": 1}, {"copies": 2, "others": 0}],
        explain=lambda copies, others: (
            "both candidates are the same response: it is returned for sure, not with chance 1/2"
        ),
    )


def _fix_duplicates() -> Evidence:
    n1, w1, rest = sp.symbols("N_y w rest", positive=True)
    return all_of(
        identity(n1 * (w1 / (n1 * w1 + rest)) - n1 * w1 / (n1 * w1 + rest), "sum over equal candidates"),
        detail="The index i is drawn with that probability; the response y with N_y times it",
    )


def _minimum(maximum: bool = False) -> Predicate:
    """Beta times the one-block objective at the optimum is log Z; at the target it is the mean of log tilt."""

    def holds(tilt2: Fraction) -> bool:
        best, plain = log((1 + tilt2) / 2), log(tilt2) * _HALF
        gap = best - plain if maximum else plain - best
        return not (gap * -1).positive()

    return Predicate(
        text="the optimum minimises E[r] - D(. | target) / beta (target 1/2, 1/2; exp(beta r) = 1, tilt2)",
        test=holds,
        domain={"tilt2": between(1, None, "[)")},
        at=[{"tilt2": 1}, {"tilt2": 4}],
        explain=lambda tilt2: "log(5/2) at the optimum, log 2 at the target itself",
    )


def _verify_last_line(both: bool = True) -> Evidence:
    """``t exp(b (A - V)) / sum t exp(b (A - V))`` does not see V."""
    t, u, a, b, v = sp.symbols("t u a b v", positive=True)
    below = (t * a + u * b) / v if both else t * a + u * b
    return prove_identity((t * a / v) / below - t * a / (t * a + u * b), what="the extra V cancels")


def _relaxed(tree: Tree, _n: int, _threshold: Fraction, *, reverse: bool = False) -> Margin:
    block, sequence = tree.block_coverage(), tree.sequence_coverage()
    return at_most(sequence, block) if reverse else at_most(block, sequence)


def _verify_coverages(reverse: bool = False) -> Evidence:
    x, a, b, c, d = sp.symbols("x a b c d", nonnegative=True)
    ratio_here = 1 + x
    return all_of(
        on_trees(partial(_relaxed, reverse=reverse), what=_COVERAGES, sizes=(1,)),
        lambda: nonnegative(
            ratio_here * (1 + a) * (1 + c) * (1 + b) * (1 + d) / ratio_here - (1 + a) * (1 + b),
            what="extend a prefix of ratio x by its worst block and then by ratios >= 1: x A (1/x) B >= A B",
        ),
        lambda: enumerated(
            TREES[0].sequence_coverage() == TREES[0].block_coverage() ** 2,
            what="two independent blocks: C_seq = C_block^2",
        ),
    )


_EXTRA_VALUE: Final = Predicate(
    text="t a/v / (t a/v + u b/v) = t a / (t a + u b)",
    test=lambda t, u, a, b, v: t * a / v / (t * a / v + u * b / v) == t * a / (t * a + u * b),
    domain=dict.fromkeys(("t", "u", "a", "b", "v"), between(0, None)),
)


CLAIMS: tuple[Claim, ...] = (
    refuted("SPECS-L1b", _direction(), fix=_fix_direction, mutants={"swapped": partial(_direction, True)}),
    refuted("SPECS-R2", _jensen(), fix=_fix_jensen, mutants={"weak": partial(_jensen, strict=False)}),
    proved("SPECS-D1", verify=_verify_terminal, mutants={"beta^2": partial(_verify_terminal, 2)}),
    refuted(
        "SPECS-D2",
        _range(),
        instead=two_blocks(_WIDTH, _no_wider),
        fix=prove_block_range,
        mutants={"width": partial(_range, width=True)},
    ),
    refuted(
        "SPECS-D3",
        _collapse(),
        instead=two_letters(_COMMON_FACTOR, _unmoved),
        fix=_fix_collapse,
        mutants={"shifted": partial(_collapse, shifted=True)},
    ),
    refuted("SPECS-D4", _duplicates(), fix=_fix_duplicates, mutants={"index": partial(_duplicates, False)}),
    proved(
        "SPECS-L2",
        two_blocks(_PRODUCT, _telescopes),
        verify=_verify_telescoping,
        mutants={"largest": partial(_verify_telescoping, "max")},
    ),
    refuted(
        "SPECS-L2b",
        _minimum(),
        fix=lambda: all_of(prove_regret, prove_gibbs, detail="It is the maximiser, by Lemma 1 with the block reward"),
        mutants={"max": partial(_minimum, maximum=True)},
    ),
    proved(
        "SPECS-L2c", _EXTRA_VALUE, verify=_verify_last_line, mutants={"one-side": partial(_verify_last_line, False)}
    ),
    proved(
        "SPECS-C",
        two_blocks(_COVERAGES, _relaxed),
        verify=_verify_coverages,
        mutants={"reverse": partial(_verify_coverages, reverse=True)},
    ),
)
