"""Lookahead Reasoning, Theorem 4: the steps of its proof that stand by themselves, and its use in the introduction."""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from theory.claims.ledger import Claim, Evidence
from theory.claims.lookahead_reasoning import exact
from theory.claims.lookahead_reasoning.hybrid.lemma_5 import speedup
from theory.claims.lookahead_reasoning.hybrid.theorem_4 import (
    BOX,
    box_points,
    hybrid_wins,
    prove_deeper_wins,
    prove_only_hybrids,
    words,
)
from theory.claims.proving.records import mutant, refuted, repaired
from theory.claims.proving.tools import prove_positive, refute, screened

__all__ = ["CLAIMS"]


def _easy_ratio(form: str) -> Evidence:
    """The bound r >= 1.157 in the box, r = (1+alpha1)/(1+c1) as printed or the asynchronous f(2)."""

    def ratio(alpha1: Fraction, c1: Fraction) -> Fraction:
        return (1 + alpha1) / (1 + (c1 if form == "sync" else c1 * alpha1 * (1 - alpha1)))

    def holds(alpha1: Fraction, c1: Fraction) -> bool:
        return ratio(alpha1, c1) >= Fraction(1157, 1000)

    points = ({"alpha1": a, "c1": c} for a in ("53/100", "3/5", "79/100") for c in ("33/100", "1/10"))
    name = "(1+alpha1)/(1+c1)" if form == "sync" else "f_async(2)"
    return refute(holds, points, what=f"{name} >= 1.157", explain=lambda alpha1, c1: f"it is {ratio(alpha1, c1)}")


def _async_ratio_proof() -> Evidence:
    """f_async(2) >= 1.4 in the box."""

    def gap(alpha1: arb, c1: arb) -> arb:
        return 5 * (1 + alpha1) - 7 * (1 + c1 * alpha1 * (1 - alpha1))

    return screened(
        _easy_ratio("async"),
        lambda: prove_positive(gap, {"alpha1": ("0.52", "0.8"), "c1": (0, "1/3")}, what="f_async(2) > 7/5"),
    )


def _halving_from(start: int) -> Evidence:
    """g(k) < f(2) g(k/2) for even k from start on, up to M = 16 < gamma2*, the premise of the case."""
    budget = 16

    def holds(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, gamma2: Fraction) -> bool:
        k = int(gamma2)
        if max(range(1, 2 * budget), key=lambda n: speedup(alpha2, c2, n)) <= budget:
            return True  # outside the premise
        return speedup(alpha2, c2, k) < exact.f_async(alpha1, c1, 2) * speedup(alpha2, c2, k // 2)

    points = (
        {"alpha1": "53/100", "c1": "33/100", "alpha2": "79/100", "c2": "1/200", "gamma2": str(k)}
        for k in range(start, budget + 1, 2)
    )
    return refute(
        holds, points, what=f"with M = 16 < gamma2*, h(1, gamma2) < h(2, gamma2/2) for even gamma2 >= {start}"
    )


def _case_split(first: str) -> Evidence:
    """The three cases of Step 2 cover every even M >= 16 (first case M <= floor or ceil of 1/c1)."""

    def holds(c1: Fraction, M: Fraction) -> bool:  # noqa: N803
        top = exact.ceil_inverse(c1)
        end = exact.floor_inverse(c1) if first == "floor" else top
        return end >= M or top < M < 2 * top or 2 * top <= M

    points = ({"c1": c, "M": str(m)} for c in ("2/31", "1/16", "1/10", "3/50", "1/4") for m in (16, 18, 20))
    return refute(holds, points, what=f"the cases M <= {first}(1/c1), ceil < M < 2 ceil, M >= 2 ceil cover every M")


def _case_split_proof() -> Evidence:
    """With one threshold N = ceil(1/c1) the cases are M <= N, N < M < 2N, M >= 2N; in the middle S1 <= S2(M)."""
    return screened(
        _case_split("ceil"),
        lambda: prove_deeper_wins("S2(M) > S1 for M > 1/c1"),
        lambda: prove_only_hybrids("0.52", 8, (16, 18)),
    )


def _unconditional(inside: bool) -> Evidence:
    """Combining is the only way to the peak: anywhere in (0, 1)**4, or inside the box of Theorem 4."""
    outside = {"alpha1": "1/10", "c1": "1/4", "alpha2": "4/5", "c2": "1/100", "M": "4"}
    points = box_points("0.52", (16,)) if inside else [outside]
    return refute(hybrid_wins, points, what="the best hybrid beats both single methods", explain=words)


CLAIMS: tuple[Claim, ...] = (
    refuted(
        id="LR-T4f",
        source="Lookahead Reasoning, Theorem 4, proof, Step 1, case 2",
        statement="In the stated box (1+alpha1)/(1+c1) >= 1.157.",
        assumptions=BOX,
        verify=lambda: _easy_ratio("sync"),
        correction="The asynchronous ratio is f(2)/f(1) = (1+alpha1)/(1 + c1 alpha1 (1-alpha1)), which exceeds 1.4 "
        "in the box; (1+alpha1)/(1+c1) belongs to the synchronous version and sinks to 1.14.",
        correction_verify=_async_ratio_proof,
        mutants=(mutant("corrected", "f_async(2)", _easy_ratio, "async"),),
    ),
    repaired(
        id="LR-T4g",
        source="Lookahead Reasoning, Theorem 4, proof, Step 1, case 3",
        statement="If M < gamma2*, h(1, gamma2) < h(2, gamma2/2) for every gamma2 <= M, by Lemma 1.",
        assumptions=f"{BOX}, even M >= 16",
        printed=lambda: _halving_from(2),
        correction="Lemma 1 covers gamma2 = M >= 16 only, which suffices because g rises up to M: h(1, gamma2) <= "
        "h(1, M) < h(2, M/2). For short lengths one more token can be worth more than one more step.",
        repair=lambda: prove_only_hybrids("0.52", 8, (16, 18)),
        mutants=(mutant("corrected", "gamma2 >= 16, which needs no fix", _halving_from, 16),),
    ),
    repaired(
        id="LR-T4h",
        source="Lookahead Reasoning, Theorem 4, proof, Step 2, cases",
        statement="The cases M <= floor(1/c1), ceil(1/c1) < M < 2 ceil(1/c1) and M >= 2 ceil(1/c1) cover every budget.",
        assumptions="0 < c1 < 1/3, even M >= 16",
        printed=lambda: _case_split("floor"),
        correction="The first case is M <= ceil(1/c1). In the second, f_async(M) is S1 and Lemma 1 speaks of S2(M); "
        "S2(M) > S1 for M > 1/c1 closes the gap.",
        repair=_case_split_proof,
        mutants=(mutant("corrected", "ceil in the first case, which needs no fix", _case_split, "ceil"),),
    ),
    refuted(
        id="LR-S9",
        source="Lookahead Reasoning, Section 1 and Section 3.3, only by combining",
        statement="Under a compute limit the peak speedup is achieved only by combining both levels of speculation.",
        assumptions="none stated in the introduction",
        verify=lambda: _unconditional(inside=False),
        correction="It is so in the box of Theorem 4. Where the draft's steps are rarely accepted, token-level "
        "speculation alone is best (Theorem 3: when (7) fails), and the other way round.",
        correction_verify=lambda: prove_only_hybrids("0.52", 8, (16, 18)),
        mutants=(mutant("box", "in the box of Theorem 4", _unconditional, inside=True),),
    ),
)
