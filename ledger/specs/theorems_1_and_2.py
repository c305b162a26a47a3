"""Claims of SPECS about several blocks: Lemma 3, Theorems 1 and 2, Equations 5 and 12."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Final

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Predicate
from ledger.proving.deferred import sp
from ledger.proving.domains import between, whole
from ledger.proving.margins import Margin, at_most, every
from ledger.proving.records import proved, refuted, restated
from ledger.proving.tools import all_of, descent, identity
from ledger.specs import st
from ledger.specs.block_tree import Tree, on_trees
from ledger.specs.common_proofs import prove_coverage, prove_density_ratio, prove_gibbs, prove_log_identity
from ledger.specs.definitions import prove_block_range
from ledger.specs.exact import chi_square, nonnegative, selection_law, tilted
from ledger.specs.points import in_full, two_blocks

__all__ = ["CLAIMS", "prove_mixture"]


_LOCAL: Final = "1 + chi2 of the response <= (1 + largest local chi2)^H"
_BOUND: Final = "1 + chi2 of the output <= (1 + ((C exp(beta R) - 1) / n)^2)^H"


def _from_local(tree: Tree, n: int, _threshold: Fraction, *, lost: int = 0, share: Fraction = Fraction(1)) -> Margin:
    laws = [
        (u, selection_law(tree.target[u], tree.weights(u, False), n), tree.block_optimum(u)) for u in tree.prefixes()
    ]
    local = max(1 + share * chi_square(law, star) for _u, law, star in laws)
    conditional = {u: law for u, law, _star in laws}
    whole = tuple(tree.chance(conditional, y) for y in tree.responses())
    return at_most(1 + chi_square(whole, tree.optimum()), local ** (tree.horizon - lost))


def prove_local_to_global(lost: int = 0) -> Evidence:
    """``1 + chi2`` of a chain is the mean over prefixes of the product of local ``1 + chi2``: at most (1 + eps)**H."""
    return all_of(
        on_trees(partial(_from_local, lost=lost), what=_LOCAL),
        identity("(p * a)**2 / (q * b) == p**2 / q * (a**2 / b)", "the last block factors out"),
        nonnegative("1 + a + d >= 1 + a", "1 + local chi2 <= 1 + eps, then H times"),
    )


def _block_bound(*, rewarded: bool = True) -> Callable[[Fraction, Fraction, int], Fraction]:
    """``exp`` of the statement `kl_bound` of one block, from C, ``exp(beta R)`` (or, not `rewarded`, 1) and n."""
    return _compiled_bound(st.kl_bound(), rewarded)


@functools.cache
def _compiled_bound(kl_bound: sp.Expr, rewarded: bool) -> Callable[[Fraction, Fraction, int], Fraction]:
    size = sp.Symbol("x", positive=True)
    block = sp.exp(kl_bound.subs(st.H, 1)).subs(sp.exp(st.beta * st.R), size if rewarded else 1)
    closed: Callable[[Fraction, Fraction, int], Fraction] = sp.lambdify((st.C, size, st.n), block, modules="math")
    return closed


def prove_mixture() -> Evidence:
    """Given the prefix the next block is a mixture of two selection laws, and chi2 is convex."""

    def holds(tree: Tree, n: int, threshold: Fraction) -> bool:
        return tree.output(n, threshold) == tree.output_by_mixture(n, threshold)

    return all_of(
        on_trees(holds, what="every draw of Algorithm 1 = mixture of selection laws given the prefix"),
        identity(
            "(a**2 + t * b**2) / (1 + t) - ((a + t * b) / (1 + t))**2 == t / (1 + t)**2 * (a - b)**2",
            "convexity of the square",
        ),
    )


def _bounded(
    tree: Tree,
    n: int,
    threshold: Fraction,
    *,
    covered: bool = True,
    rewarded: bool = True,
    share: Fraction = Fraction(1),
) -> Margin:
    cover = tree.block_coverage() if covered else Fraction(1)
    local = _block_bound(rewarded=rewarded)(cover, tree.theta(), n) - 1
    return at_most(1 + tree.divergence(n, threshold), (1 + share * local) ** tree.horizon)


def _verify_theorem1(covered: bool = True, *, rewarded: bool = True) -> Evidence:
    """Coverage, density ratio, mixture, chain: ``1 + chi2 <= (1 + ((C exp(beta R) - 1) / n)**2)**H``; then logs."""
    return all_of(
        on_trees(partial(_bounded, covered=covered, rewarded=rewarded), what=_BOUND),
        prove_block_range,
        prove_coverage,
        prove_density_ratio,
        prove_mixture,
        prove_local_to_global,
        prove_gibbs,
        descent("u - log(1 + u)", "log(1 + u) <= u", "u", order=1),
        nonnegative("(1 + x)**2 * (1 + k) >= x**2", "(x - 1)^2 / n^2 <= x^2 / n^(3/2) for x, n >= 1"),
    )


def _measurable(candidates: int = 2) -> Predicate:
    """First block selected is the poor letter: can the draft be on, and can it be off, at the next one."""

    def holds(first: Fraction, width: Fraction) -> bool:
        gen, tilt = (first, 1 - first), (Fraction(1), Fraction(3))
        on = off = Fraction(0)
        for draw in itertools.product(range(2), repeat=int(width)):
            chance = Fraction(1)
            for y in draw:
                chance *= gen[y]
            share = chance * draw.count(0) * tilt[0] / sum(tilt[y] for y in draw)
            if max(draw) == 1:
                on += share
            else:
                off += share
        return on == 0 or off == 0

    return Predicate(
        text="the generator of block 2 is a function of the blocks chosen so far (letter 1 with chance first, 'width' "
        "candidates; exp(beta r) = 1, 3; switch on the second letter)",
        test=holds,
        domain={"first": between(0, 1), "width": whole(1, 6)},
        at=[{"first": Fraction(1, 2), "width": candidates}],
        explain=lambda first, width: "letter 1 chosen: the draft is on with chance 1/8, off with chance 1/4",
    )


def _fix_ratio() -> Evidence:
    return all_of(
        prove_log_identity(
            "log(p / q) == log(p / w) + log(w / q)", "log(pi/pi*) = log(pi/pi_own) + log(pi_own/pi*), per letter"
        ),
        detail="The mean of the last term is at most its largest value: the ratio is pi_own / pi*, not its inverse",
    )


_WRONG_REWARD: Final = "density ratio of the two block optima <= exp(2 beta eps), both ways, for exp(beta eps) = 2"


def _close_optima(tree: Tree, _n: int, _threshold: Fraction, *, factor: int = 2) -> Margin:
    worst, law = Fraction(2), tree.target[()]
    true = tree.block_tilt(())
    star = tilted(law, true)
    mistaken = (
        tilted(law, tuple(e * x for e, x in zip(true, errors, strict=True)))
        for errors in itertools.product((1 / worst, worst), repeat=tree.letters)
    )
    return every(at_most(max(a / b, b / a), worst**factor) for own in mistaken for a, b in zip(star, own, strict=True))


def prove_misspecified(factor: int = 2) -> Evidence:
    """Tilts that differ by a factor in [1/d, d] per letter give optima within d**2 of each other, per block."""
    return all_of(
        on_trees(partial(_close_optima, factor=factor), what=_WRONG_REWARD, sizes=(1,)),
        nonnegative(
            "(1 + d)**2 >= (1 + d) / (1 + a) * ((1 + d) / (1 + b))", "letter factor times normaliser factor <= d^2"
        ),
    )


def _verify_theorem2(factor: int = 2) -> Evidence:
    """SPECS-T1 towards the misspecified optimum, then the ratio of the optima to the power H."""
    return all_of(
        partial(prove_misspecified, factor),
        _fix_ratio,
        prove_density_ratio,
        prove_coverage,
        prove_mixture,
        prove_local_to_global,
        detail="D(pi | pi*) <= H log(1 + ((C exp(beta R) - 1) / n)^2) + 2 beta H eps, R the range of the PRM in use",
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "SPECS-L3",
        two_blocks(_LOCAL, _from_local, share=Fraction(1)),
        verify=in_full("share", "all of the local chi2 is allowed", prove_local_to_global),
        mutants={"H-1": partial(prove_local_to_global, 1)},
    ),
    proved(
        "SPECS-T1",
        two_blocks(_BOUND, _bounded, share=Fraction(1)),
        verify=in_full("share", "all of the local bound is allowed", _verify_theorem1),
        mutants={"no-C": partial(_verify_theorem1, False), "no reward": partial(_verify_theorem1, rewarded=False)},
    ),
    refuted("SPECS-T1b", _measurable(), fix=prove_mixture, mutants={"one": partial(_measurable, 1)}),
    refuted(
        "SPECS-E12",
        fix=_fix_ratio,
        mutants={"inverse": restated("SPECS-E12", change=("star1 / own1, (1 - star1) / (1 - own1)", "own1 / star1"))},
    ),
    proved(
        "SPECS-T2a",
        two_blocks(_WRONG_REWARD, _close_optima),
        verify=prove_misspecified,
        mutants={"one": partial(prove_misspecified, 1)},
    ),
    proved("SPECS-T2", verify=_verify_theorem2, mutants={"one": partial(_verify_theorem2, 1)}),
)
