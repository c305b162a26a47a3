"""Claims of SPECS about its score, the regularised objective and Lemma 1: Equations 1 to 4, 6 and 7."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Final

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Predicate, searched
from ledger.proving.deferred import sp
from ledger.proving.domains import between
from ledger.proving.records import proved, proved_with_fix, refuted, restated
from ledger.proving.tools import all_of, identity, refute, with_fix
from ledger.specs import exact, st
from ledger.specs.common_proofs import prove_density_ratio, prove_gibbs, prove_log_identity, prove_regret, within_ratio
from ledger.specs.points import in_full, two_letters

__all__ = ["CLAIMS"]


def _fix_collapse() -> Evidence:
    return prove_log_identity(st.score().subs(st.gen, st.target) - st.beta * st.r, "score = beta r for equal models")


def _subsample(instance: exact.Instance, draw: tuple[int, ...], threshold: Fraction, *, filtered: bool) -> exact.Law:
    """Algorithm 2 on one draw: the law of the returned letter. ``filtered`` drops tilts up to the threshold from L."""
    kept = [y for y in draw if not filtered or instance.tilt[y] > threshold] or list(draw)
    total = sum((instance.weights[y] for y in kept), Fraction(0))
    return tuple(kept.count(y) * instance.weights[y] / total for y in range(len(instance.gen)))


_SUBSAMPLE: Final = "Algorithm 2 samples from N_y phi_y / sum_j phi_j for every threshold"


def _plain(instance: exact.Instance, n: int, *, filtered: bool = False) -> bool:
    """Algorithm 2 gives letter y the chance ``N_y phi_y / sum``, whatever the threshold, as L is never changed."""
    draw = tuple(i % len(instance.gen) for i in range(n))
    total = sum((instance.weights[y] for y in draw), Fraction(0))
    plain = tuple(draw.count(y) * w / total for y, w in enumerate(instance.weights))
    thresholds = [Fraction(0), *instance.tilt]
    return all(_subsample(instance, draw, x, filtered=filtered) == plain for x in thresholds)


def _verify_subsample(filtered: bool = False) -> Evidence:
    return all_of(
        exact.agree(partial(_plain, filtered=filtered), what=_SUBSAMPLE),
        identity(sp.simplify(sp.exp(st.score()) / st.exponentiated_score()) - 1, "exp(score) is phi of Definition 5"),
    )


def _verify_objective(sign: int = 1) -> Evidence:
    """Definitions 2 and 6 are one objective, and its maximum is log Z / beta."""

    def holds(instance: exact.Instance, _n: int) -> bool:
        partition = sum((t * e for t, e in zip(instance.target, instance.tilt, strict=True)), Fraction(0))
        return exact.objective(instance, instance.optimum) == exact.log(partition) * sign

    return all_of(exact.agree(holds, what="beta L(pi*) = log Z", sizes=(1,)), prove_regret, prove_gibbs)


def _verify_optimum(power: int = 1) -> Evidence:
    """``L(pi*) - L(pi) = D(pi | pi*) / beta >= 0``; on a grid of policies no other one is better."""

    def holds(instance: exact.Instance, _n: int) -> bool:
        candidate = exact.tilted(instance.target, tuple(e**power for e in instance.tilt))
        best = exact.objective(instance, candidate)
        return not any((exact.objective(instance, law) - best).positive() for law in exact.policies(len(instance.gen)))

    return all_of(
        exact.agree(holds, what="no policy on a grid beats the tilted target", sizes=(1,)), prove_regret, prove_gibbs
    )


def _lost_support(gen1: Fraction) -> bool:
    """Equation 4 for target (1/2, 1/2), tilt (1, 2) and a generator that may never draw the second letter."""
    gen, target, tilt = (gen1, 1 - gen1), (exact.HALF, exact.HALF), (Fraction(1), Fraction(2))
    mass = tuple(t if g else Fraction(0) for g, t in zip(gen, target, strict=True))
    return exact.tilted(mass, tilt) == exact.tilted(target, tilt)


_REWEIGHTED: Final = "gen exp(S), normalised, is the optimum"


def _is_optimum(instance: exact.Instance, _n: int) -> bool:
    return exact.tilted(instance.gen, instance.weights) == instance.optimum


def _reweighted(inverse: bool = False) -> Evidence:
    phi = st.exponentiated_score()
    product = st.gen / phi if inverse else st.gen * phi
    return all_of(
        identity(product / (st.target * st.tilt()) - 1, "gen exp(S) = target exp(beta r), per letter"),
        lambda: exact.agree(_is_optimum, what=_REWEIGHTED, sizes=(1,)),
    )


_ANY_SUPPORT: Final = Predicate(
    text="the reweighted generator (gen1, 1 - gen1) is the tilted target (target 1/2, 1/2; exp(beta r) = 1, 2)",
    test=_lost_support,
    domain={"gen1": between(0, 1, "(]")},
    at=[{"gen1": exact.HALF}, {"gen1": 1}],
    explain=lambda gen1: "the second letter is never drawn, but the optimum gives it 2/3",
)


def _verify_reweighting(inverse: bool = False) -> Evidence:
    """As printed it loses the letters that the generator cannot draw; on common support it is an identity."""
    return with_fix(partial(searched, _ANY_SUPPORT), partial(_reweighted, inverse))


def _fix_score_objective() -> Evidence:
    return all_of(
        lambda: prove_log_identity(
            "log(e) - log(pi / t) == log(t * e / g) - log(pi / g)", "beta r - log(pi/t) = S - log(pi/g), per letter"
        ),
        detail="beta times the objective of Equation 2 is E[S] - D(pi | gen), with coefficient one",
    )


def _verify_one_to_one(same: bool = False) -> Evidence:
    """Selection from the target with r against selection from the draft with S, at the same width."""

    def holds(draft1: Fraction, tilt2: Fraction, n: Fraction) -> bool:
        target, tilt = (exact.HALF, exact.HALF), (Fraction(1), tilt2)
        draft = target if same else (draft1, 1 - draft1)
        phi = tuple(t / d * e for t, d, e in zip(target, draft, tilt, strict=True))
        return exact.selection_law(target, tilt, int(n)) == exact.selection_law(draft, phi, int(n))

    return refute(
        holds,
        [{"draft1": Fraction(1, 4), "tilt2": 2, "n": n} for n in (1, 2, 3)],
        what="drawing from the draft and selecting by S gives the law of drawing from the target and selecting by r",
        explain=lambda draft1, tilt2, n: f"with one candidate the outputs are {draft1} and 1/2 for the first letter",
    )


def _verify_correspondence(same: bool = False) -> Evidence:
    """Different at a width, equal in the limit."""
    search = _verify_one_to_one(same)
    return all_of(exact.exhibited(search, what="the outputs differ at a fixed width"), _limit_of_both)


def _limit_of_both() -> Evidence:
    return all_of(
        _reweighted, prove_density_ratio, detail="both tilt to the same law, which each approaches at rate 1/n"
    )


def _unbiased(instance: exact.Instance, n: int, *, with_ratio: bool = True) -> bool:
    phi = instance.weights if with_ratio else instance.tilt
    total = sum((t * e for t, e in zip(instance.target, instance.tilt, strict=True)), Fraction(0))
    mean = Fraction(0)
    for c in exact.counts(len(phi), n):
        mean += exact.chance(instance.gen, c) * sum((k * w for k, w in zip(c, phi, strict=True)), Fraction(0)) / n
    return mean == total


def _verify_partition(with_ratio: bool = True) -> Evidence:
    """``Z = E_gen[exp S] = E_target[exp(beta r)]``; the average over draws is unbiased by linearity."""
    return all_of(
        exact.agree(partial(_unbiased, with_ratio=with_ratio), what="E[Z-hat] = Z, by enumerating the draws"),
        identity(st.gen * st.exponentiated_score() - st.target * st.tilt(), "gen phi = target exp(beta r), per letter"),
    )


def _verify_lemma1_everywhere() -> Evidence:
    def holds(instance: exact.Instance, _n: int) -> bool:
        best = exact.objective(instance, instance.optimum)
        return all(
            best - exact.objective(instance, law) == exact.kl(law, instance.optimum)
            for law in exact.policies(len(instance.gen), 4)
        )

    return exact.agree(holds, what="beta (L(pi*) - L(pi)) = D(pi | pi*)", sizes=(1,))


CLAIMS: tuple[Claim, ...] = (
    refuted("SPECS-E1", fix=_fix_collapse, mutants={"beta-kept": restated("SPECS-E1", change=("== r", "== beta * r"))}),
    proved(
        "SPECS-A2",
        two_letters(_SUBSAMPLE, _plain),
        verify=_verify_subsample,
        mutants={"threshold-used": partial(_verify_subsample, True)},
    ),
    proved("SPECS-E2", verify=_verify_objective, mutants={"sign": partial(_verify_objective, -1)}),
    proved("SPECS-E3", verify=_verify_optimum, mutants={"doubled": partial(_verify_optimum, 2)}),
    proved_with_fix(
        "SPECS-E4",
        _ANY_SUPPORT,
        instead=two_letters(_REWEIGHTED, _is_optimum, widths=(1, 1)),
        verify=_verify_reweighting,
        fix=_reweighted,
        mutants={"inverse": partial(_verify_reweighting, inverse=True)},
    ),
    refuted("SPECS-S31a", fix=_fix_score_objective, mutants={"unit": restated("SPECS-S31a", change=("**beta", ""))}),
    proved(
        "SPECS-S31b",
        two_letters("each density ratio within (kappa - 1) / n of one", within_ratio, scale=Fraction(1)),
        verify=in_full("scale", "all of the bound is allowed", _verify_correspondence),
        mutants={"one-model": partial(_verify_correspondence, same=True)},
    ),
    proved(
        "SPECS-S31c",
        two_letters("E[Z-hat] = Z", _unbiased),
        verify=_verify_partition,
        mutants={"no-ratio": partial(_verify_partition, False)},
    ),
    refuted(
        "SPECS-L1",
        fix=lambda: all_of(prove_regret, _verify_lemma1_everywhere, detail="L(pi*) - L(pi) = D(pi | pi*) / beta"),
        mutants={"divided": restated("SPECS-L1", change=("optimum(t, w))", "optimum(t, w)) / beta"))},
    ),
)
