"""What the guarantees of SPECS say about its knobs: threshold, temperature, coverage."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial
from typing import Final

from flint import arb

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import searched
from ledger.proving.deferred import sp
from ledger.proving.margins import Margin, at_least, at_most, every
from ledger.proving.records import proved, repaired, restated
from ledger.proving.tools import all_of, identity, refute
from ledger.specs import exact, st
from ledger.specs.block_tree import Tree, on_trees
from ledger.specs.common_proofs import prove_coverage, prove_density_ratio, prove_gibbs
from ledger.specs.points import in_full, two_blocks, two_letters
from ledger.specs.theorems_1_and_2 import prove_mixture

__all__ = ["CLAIMS"]


_EVERY_THRESHOLD: Final = (
    "1 + chi2 <= (target factor) * (draft factor)^(H - 1), and no draft factor for a high threshold"
)


def _bounded(tree: Tree, n: int, threshold: Fraction, *, covered: bool = True, share: Fraction = Fraction(1)) -> Margin:
    own = 1 + share * ((tree.theta() - 1) / n) ** 2
    late = 1 + share * ((tree.theta() * (tree.block_coverage() if covered else 1) - 1) / n) ** 2
    never = threshold >= tree.theta()
    bound = own**tree.horizon if never else own * late ** (tree.horizon - 1)
    return at_most(1 + tree.divergence(n, threshold), bound)


def _verify_thresholds(covered: bool = True) -> Evidence:
    """The first block is always the target's; with a threshold above all rewards every block is."""
    return all_of(
        on_trees(partial(_bounded, covered=covered), what=_EVERY_THRESHOLD),
        prove_density_ratio,
        prove_coverage,
        prove_mixture,
        detail="Algorithm 1 starts with the target and the factors multiply (Lemma 3 with one bound per block)",
    )


def _first_block(tree: Tree) -> Tree:
    """The first block of a tree as a problem of one block, with the outcome reward of the prefix."""
    return Tree(
        name=f"first block of {tree.name}",
        horizon=1,
        target={(): tree.target[()]},
        draft={(): tree.draft[()]},
        tilt={(y,): tree.value((y,)) for y in range(tree.letters)},
    )


_ONE_BLOCK: Final = "output of one block = selection among drafts of the target"


def _idle(tree: Tree, n: int, threshold: Fraction, *, drafting: bool = False) -> bool:
    block = _first_block(tree)
    alone = exact.selection_law(block.target[()], block.weights((), False), n)
    return block.output(n, threshold, drafting=drafting) == alone


def _verify_one_block(drafting: bool = False) -> Evidence:
    """With one block the draft never gets to generate: neither it nor the threshold changes the output."""
    return all_of(on_trees(partial(_idle, drafting=drafting), what=_ONE_BLOCK), prove_density_ratio)


def _second_block(draft1: Fraction) -> Tree:
    """Two blocks, target (1/2, 1/2), exp(beta r) = 3 when the second block is letter 2."""
    fair = (exact.HALF, exact.HALF)
    prefixes = [(), (0,), (1,)]
    return Tree(
        name=f"draft {draft1}",
        horizon=2,
        target=dict.fromkeys(prefixes, fair),
        draft=dict.fromkeys(prefixes, (draft1, 1 - draft1)),
        tilt={y: Fraction(3 if y[1] else 1) for y in itertools.product(range(2), repeat=2)},
    )


def _verify_monotone(drafts: tuple[Fraction, ...] = (exact.HALF, Fraction(1, 4))) -> Evidence:
    """Threshold below all rewards (draft from block 2 on) against one above all (target throughout), two candidates."""

    def holds(draft1: Fraction) -> bool:
        tree = _second_block(draft1)
        return tree.divergence(2, Fraction(100)) <= tree.divergence(2, Fraction(0))

    return refute(
        holds,
        [{"draft1": d} for d in drafts],
        what="a higher threshold does not raise chi2 (two blocks, target 1/2, 1/2; exp(beta r) = 3 for the second "
        "letter)",
        explain=lambda draft1: "this draft is the optimum of block 2, which selection from the target misses",
    )


def _fix_monotone() -> Evidence:
    def holds(tree: Tree, n: int, _threshold: Fraction) -> bool:
        checks = []
        for u, drafting in itertools.product(tree.prefixes(), (False, True)):
            gen = (tree.draft if drafting else tree.target)[u]
            weights = tree.weights(u, drafting)
            value = exact.chi_square(exact.selection_law(gen, weights, n), tree.block_optimum(u))
            checks.append(value <= ((exact.ratio(weights) - 1) / n) ** 2)
        return all(checks)

    return all_of(
        on_trees(holds, what="either generator: chi2 of the block <= ((kappa - 1) / n)^2 with its own kappa"),
        prove_density_ratio,
    )


def _verify_unranked(drafts: tuple[Fraction, ...] = (exact.HALF, Fraction(1, 4))) -> Evidence:
    search = _verify_monotone(drafts)
    return all_of(exact.exhibited(search, what="a problem where the higher threshold is the worse one"), _fix_monotone)


def _verify_no_filter(filtered: bool = True) -> Evidence:
    search = _verify_filter(filtered)
    return all_of(
        exact.exhibited(search, what="a filter by tau breaks the bound on density ratios"), prove_density_ratio
    )


def _verify_filter(filtered: bool = True) -> Evidence:
    """Candidates up to the threshold dropped: the limit of selection is the tilted target given the others."""

    def holds(tilt2: Fraction, n: Fraction) -> bool:
        weights = (Fraction(1), tilt2)
        law = exact.selection_law((exact.HALF, exact.HALF), weights, int(n))
        all_low = exact.HALF ** int(n)
        kept = (all_low, 1 - all_low) if filtered else law
        distance = abs(kept[0] / (1 / (1 + tilt2)) - 1)
        return distance * n <= tilt2 - 1

    return refute(
        holds,
        [{"tilt2": 2, "n": n} for n in (2, 4, 8)],
        what="with candidates at or below tau dropped, ratios stay within (kappa - 1) / n of one (exp(beta r) = 1, "
        "tilt2)",
        explain=lambda tilt2, n: "the low letter keeps only the chance that all candidates are low",
    )


def _verify_cold(target_limit: bool = True) -> Evidence:
    """Beta -> 0: the bound keeps the coverage, the optimum is the target."""
    gens, _weights = st.letters(2)
    tilts = (sp.exp(st.beta * st.r), sp.Integer(1))
    limit = sp.limit(st.optimum(0, gens, tilts), st.beta, 0)
    wanted = gens[0] / sum(gens) if target_limit else sp.Rational(1, 2)
    bound = sp.limit(st.kl_bound(), st.beta, 0)
    return all_of(
        identity(limit - wanted, "the optimum tends to the target"),
        lambda: exact.decided(
            sp.simplify(bound - st.H * sp.log(1 + ((st.C - 1) / st.n) ** 2)) == 0,
            what="the bound tends to H log(1 + ((C - 1) / n)^2)",
        ),
    )


_KEPT: Final = "every letter keeps at least the chance that all n candidates are it"
_CEILING: Final = "pi_n <= kappa pi*"


def _kept(instance: exact.Instance, n: int, *, mass_power: bool = True) -> Margin:
    law = instance.selected(n)
    return every(at_least(p, g**n if mass_power else g) for p, g in zip(law, instance.gen, strict=True))


def _under_ceiling(instance: exact.Instance, n: int) -> Margin:
    law = instance.selected(n)
    return at_most(max(p / q for p, q in zip(law, instance.optimum, strict=True)), exact.ratio(instance.weights))


def _verify_hot(mass_power: bool = True) -> Evidence:
    """Fixed n, beta -> infinity: the worst letter keeps chance >= g**n, the optimum gives it less and less."""
    h, theta, mass = sp.symbols("h theta a", positive=True)
    worst = 1 / (1 + h * theta)  # the optimum's share of the worst letter, with g = 1 / (1 + h)
    growth = mass * sp.log(mass / worst)
    return all_of(
        exact.agree(partial(_kept, mass_power=mass_power), what=_KEPT),
        lambda: exact.decided(
            sp.limit(growth, theta, sp.oo) == sp.oo, what="a log(a / pi*(worst)) grows without bound"
        ),
        prove_gibbs,
        _ceiling,
        detail="The other letter contributes at least -1/e: x log x >= -1/e is log y <= y - 1 at y = 1 / (e x)",
    )


def _ceiling() -> Evidence:
    """Trivial bound: ``pi_n / pi* = E[1/X] <= kappa``, so D <= log kappa <= beta R + log C whatever n is."""
    return all_of(
        exact.agree(_under_ceiling, what=_CEILING),
        exact.nonnegative("m + a + b >= m + a", "mean weight <= largest weight, so mu / X <= M / m"),
    )


def _verify_vacuous(*settings: tuple[str, int]) -> Evidence:
    """Equation 5 per block with R = C = 1 and hidden constant one against the ceiling beta R."""
    search = searched(
        restated("SPECS-TAB3", domain="beta in (0, oo)", change=(">", "<")), *({"beta": b, "n": n} for b, n in settings)
    )
    return all_of(
        exact.exhibited(search, what="bound above the ceiling"),
        exact.at_least(
            lambda: arb(16).exp() / 64 - 8, "exp(16) / 16^(3/2) > 8: the smallest beta with the largest width"
        ),
        identity(
            "diff(exp(2 * u) / u, u) == exp(2 * u) * (2 * u - 1) / u**2", "exp(2 beta) / beta grows for beta > 1/2"
        ),
        _ceiling,
    )


_POSITIVE: Final = "positive laws have positive weights"


def _positive(instance: exact.Instance, _n: int) -> bool:
    return min(instance.weights) > 0


def _fix_defined() -> Evidence:
    return all_of(
        exact.agree(_positive, what=_POSITIVE, sizes=(1,)),
        exact.nonnegative("a + b", "a sum of positive weights is positive"),
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "SPECS-TAU1",
        two_blocks(_EVERY_THRESHOLD, _bounded, share=Fraction(1)),
        verify=in_full("share", "all of both bounds is allowed", _verify_thresholds),
        mutants={"no-C": partial(_verify_thresholds, covered=False)},
    ),
    proved(
        "SPECS-TAU2",
        two_blocks(_ONE_BLOCK, _idle),
        verify=_verify_one_block,
        mutants={"draft": partial(_verify_one_block, drafting=True)},
    ),
    proved(
        "SPECS-TAU3", verify=_verify_unranked, mutants={"same-model": partial(_verify_unranked, drafts=(exact.HALF,))}
    ),
    proved("SPECS-TAU4", verify=_verify_no_filter, mutants={"ignored": partial(_verify_no_filter, filtered=False)}),
    proved("SPECS-B0", verify=_verify_cold, mutants={"uniform": partial(_verify_cold, False)}),
    proved(
        "SPECS-B1",
        two_letters(f"{_KEPT}, and {_CEILING}", lambda one, n: _kept(one, n) & _under_ceiling(one, n)),
        verify=_verify_hot,
        mutants={"g": partial(_verify_hot, False)},
    ),
    proved(
        "SPECS-TAB3",
        verify=partial(_verify_vacuous, ("8", 8), ("12", 4), ("12", 16)),
        mutants={"beta-1/10": partial(_verify_vacuous, ("1/10", 16))},
    ),
    repaired(
        "SPECS-COV",
        instead=two_letters(_POSITIVE, _positive, widths=(1, 1)),
        fix=_fix_defined,
        mutants={"positive": restated("SPECS-COV", gen1="1/2", target1="1/5")},
    ),
)
