"""Lookahead Reasoning, Theorem 3: hybrid speculation under a budget, synchronous version.

(6): min of r_i = (1 + alpha_i)/(1 + c_i) exceeds 1.157.  (7): r_1 >= D_2(M).  (8): r_2 >= D_1(M).  D_i(M) is the ratio
g(M)/g(M/2) of level i, so (7) says h(2, M/2) >= h(1, M).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from fractions import Fraction

from theory.claims.ledger import Claim, Evidence, Verdict
from theory.claims.lookahead_reasoning import exact
from theory.claims.lookahead_reasoning.formulas import hybrid as formulas
from theory.claims.lookahead_reasoning.hybrid.lemma_3 import unimodal_proof
from theory.claims.lookahead_reasoning.hybrid.lemma_5 import one_peak, pair_grid, speedup, threshold
from theory.claims.lookahead_reasoning.hybrid.lemma_6 import below_peak
from theory.claims.lookahead_reasoning.hybrid.theorem_3_steps import (
    index_argument,
    peak_identity,
    threshold_at_two,
    threshold_falls,
)
from theory.claims.proving.deferred import sp
from theory.claims.proving.records import mutant, proved, proved_with_fix, refuted, repaired
from theory.claims.proving.tools import all_of, refute, screened, with_fix

__all__ = ["CLAIMS"]

_SIX = Fraction(1157, 1000)
_EVEN = (4, 6, 8, 12)
_NO_SIX = {"alpha1": "2/5", "c1": "1/3", "alpha2": "4/5", "c2": "2/5", "M": "4"}
_BELOW_SIX = {"alpha1": "5/14", "c1": "9/50", "alpha2": "30/31", "c2": "1/75", "M": "50"}
"""min r = 1.1501, (7) and (8) hold strictly, and token-level speculation alone, at its peak of 49, is better."""
_TIE = {"alpha1": "16/25", "c1": "1/5", "alpha2": "4/5", "c2": "1/9", "M": "4"}
_NEAR_TWO = {"alpha1": "999/1000", "c1": "1/1000", "alpha2": "999/1000", "c2": "1/1000", "M": "4"}
_ODD = {"alpha1": "4/9", "c1": "1/5", "alpha2": "9/16", "c2": "1/20", "M": "5"}
_STATED = "0 < alpha_i, c_i < 1, even M >= 4, (6)"


class _Point:
    """One parameter point with its conditions and its best single and hybrid speedups over k1 k2 <= M."""

    def __init__(self, alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, M: Fraction) -> None:  # noqa: N803
        self.first, self.second, self.budget = (alpha1, c1), (alpha2, c2), int(M)
        self.r1, self.r2 = (1 + alpha1) / (1 + c1), (1 + alpha2) / (1 + c2)
        self.d1, self.d2 = threshold(alpha1, c1, self.budget), threshold(alpha2, c2, self.budget)

    def six(self, bound: Fraction = _SIX) -> bool:
        return min(self.r1, self.r2) > bound

    @functools.cached_property
    def token_only(self) -> Fraction:
        return max(speedup(*self.second, k) for k in range(1, self.budget + 1))

    @functools.cached_property
    def step_only(self) -> Fraction:
        return max(speedup(*self.first, k) for k in range(1, self.budget + 1))

    @functools.cached_property
    def hybrid(self) -> Fraction:
        pairs = ((i, j) for i in range(2, self.budget // 2 + 1) for j in range(2, self.budget // i + 1))
        return max(speedup(*self.first, i) * speedup(*self.second, j) for i, j in pairs)

    def met(self, *, strict: bool) -> bool:
        """(7) and (8)."""
        return (self.r1 > self.d2 and self.r2 > self.d1) if strict else (self.r1 >= self.d2 and self.r2 >= self.d1)

    @property
    def hybrid_wins(self) -> bool:
        return self.hybrid > max(self.token_only, self.step_only)

    def words(self) -> str:
        return (
            f"r1 = {self.r1}, D2(M) = {self.d2}, r2 = {self.r2}, D1(M) = {self.d1}; "
            f"token-level only {self.token_only}, step-level only {self.step_only}, best hybrid {self.hybrid}"
        )


@functools.cache
def _at(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, M: Fraction) -> _Point:  # noqa: N803
    """The point, remembered: several claims walk the same grid."""
    return _Point(alpha1, c1, alpha2, c2, M)


def _points(*special: dict[str, str], budgets: tuple[int, ...] = _EVEN) -> Iterator[dict[str, str]]:
    yield from special
    yield from pair_grid(budgets)


def _words(**values: Fraction) -> str:
    return _at(**values).words()


def _one_of_two(scale: str) -> Evidence:
    """(7) or (8) holds, with their right sides scaled."""
    factor = Fraction(scale)

    def holds(**values: Fraction) -> bool:
        p = _at(**values)
        return not p.six() or p.r1 >= factor * p.d2 or p.r2 >= factor * p.d1

    return screened(
        refute(holds, _points(_NEAR_TWO), what="at least one of (7) and (8) holds", explain=_words),
        threshold_at_two,
        threshold_falls,
        detail="If r1 >= r2 then r1 >= r2 = D2(2) > D2(M); otherwise r2 > r1 = D1(2) > D1(M)",
    )


def _hybrid_wins(*, strict: bool, six: Fraction | None = _SIX, special: tuple[dict[str, str], ...] = ()) -> Evidence:
    """With (7), (8) (strict or not) and (6) (or a weaker bound, or none), the best hybrid beats both single methods."""

    def holds(**values: Fraction) -> bool:
        p = _at(**values)
        return not p.met(strict=strict) or (six is not None and not p.six(six)) or p.hybrid_wins

    return refute(
        holds, _points(*special), what="with (7) and (8) the best hybrid beats both single methods", explain=_words
    )


def _hybrid_proof(*special: dict[str, str], six: str = "1.157") -> Evidence:
    """The repaired Theorem 3: strict (7) and (8), and (6) with the constant that Lemma 6 must then bound."""
    return screened(
        _hybrid_wins(strict=True, six=Fraction(six), special=(_BELOW_SIX, *special)),
        threshold_falls,
        unimodal_proof,
        peak_identity,
        lambda: below_peak(six),
        index_argument,
        detail="Against token-level only: for M <= gamma* g rises up to M and (7) gives h(2, M/2) > g(M); for even "
        "M > gamma*, h(2, j) > g(gamma*) by (6). Step-level only is the mirror image",
    )


def _single_wins(*, swap: bool, claim: str = "fails") -> Evidence:
    """If (7) (swapped: (8)) fails, token-level (step-level) only is strictly best over k1 k2 <= M; (6) is not used."""

    def holds(**values: Fraction) -> bool:
        p = _at(**values)
        failing = p.r2 < p.d1 if swap else p.r1 < p.d2
        if failing is not (claim == "fails"):
            return True
        best, other = (p.step_only, p.token_only) if swap else (p.token_only, p.step_only)
        return best > max(p.hybrid, other)

    what = f"if {'(8)' if swap else '(7)'} {claim}, the single method is strictly best"
    return screened(
        refute(holds, _points(_NO_SIX), what=what, explain=_words),
        threshold_falls,
        one_peak,
        detail="It then fails at every smaller budget, since D falls, so Lemma 5 gives h(k1, k2) < h(1, k1 k2)",
    )


def _equivalence(*, strict: bool) -> Evidence:
    """The hybrid beats both single methods iff (7) and (8) hold (strictly)."""

    def holds(**values: Fraction) -> bool:
        p = _at(**values)
        return not p.six() or p.hybrid_wins is p.met(strict=strict)

    return refute(holds, _points(_TIE), what="hybrid strictly best iff (7) and (8)", explain=_words)


def _odd_budget(budgets: tuple[int, ...], *special: dict[str, str]) -> Evidence:
    """Theorem 3 with strict (7), (8) and (6) at these budgets."""

    def holds(**values: Fraction) -> bool:
        p = _at(**values)
        return not (p.six() and p.met(strict=True)) or p.hybrid_wins

    squares = ("1/4", "16/25", "9/16")
    points = [*special, *pair_grid(budgets, squares, ("1/20", "1/5", "1/3"))]
    return refute(holds, points, what="with (6), (7), (8) the best hybrid beats both single methods", explain=_words)


def _needed(without: Evidence, hypothesis: str) -> Evidence:
    """A hypothesis is needed if the statement without it is refuted at a point."""
    if without.verdict is not Verdict.FALSE:
        return Evidence(verdict=Verdict.OPEN, method=without.method, detail=f"no failure without {hypothesis} found")
    return Evidence(
        verdict=Verdict.PROVED,
        method=without.method,
        detail=f"without {hypothesis}: {without.detail}",
        effort=without.effort,
    )


def _always_seven(margin: int) -> Evidence:
    """(6) implies (7) whenever M >= gamma2* + margin, gamma2* the integer maximiser of g."""

    def holds(**values: Fraction) -> bool:
        p = _at(**values)
        peak = exact.argmax_g(*p.second, p.budget + 1)
        return not p.six() or p.budget < peak + margin or p.r1 >= p.d2

    special = {"alpha1": "9/20", "c1": "1/4", "alpha2": "1/2", "c2": "1/26", "M": "4"}
    return refute(
        holds,
        _points(special),
        what=f"(7) holds for M >= gamma2*{f' + {margin}' if margin else ''}",
        explain=lambda **values: (
            f"gamma2* = {exact.argmax_g(values['alpha2'], values['c2'], int(values['M']) + 1)}, "
            f"r1 = {_at(**values).r1} (> 1.157), D2(M) = {_at(**values).d2}"
        ),
    )


def _always_seven_proof() -> Evidence:
    """M >= gamma2* + 1 > x, the real maximiser, so D2(M) < D2(x) = F(y) < 1.157 < r1."""
    return screened(_always_seven(1), threshold_falls, unimodal_proof, peak_identity, lambda: below_peak("1.157"))


def _equivalence_proof() -> Evidence:
    """Strict conditions: the 'if' is the repaired theorem; otherwise Lemma 5's single peak gives the converse."""
    return screened(_equivalence(strict=True), lambda: _hybrid_proof(_TIE), one_peak)


def _either() -> sp.Basic:
    """(7) or (8)."""
    return sp.Or(_condition(1), _condition(2))


def _condition(level: int) -> sp.Basic:
    """(7) or (8) as a relation."""
    from theory.claims.lookahead_reasoning import statements as st

    budget = sp.Symbol("M", positive=True, integer=True)
    (a, c), (b, d) = ((st.ALPHA1, st.C1), (st.ALPHA2, st.C2))[:: 1 if level == 1 else -1]
    right = (1 + b ** (budget / 2)) * (1 - d + d * budget / 2) / (1 - d + d * budget)
    return sp.Ge((1 + a) / (1 + c), right)


CLAIMS: tuple[Claim, ...] = (
    proved(
        id="LR-T3a",
        source="Lookahead Reasoning, Theorem 3, first part, Appendix B.1.2",
        statement="At least one of (7), (1+alpha1)/(1+c1) >= D2(M), and (8), (1+alpha2)/(1+c2) >= D1(M), holds, "
        "where D_i(M) = (1+alpha_i**(M/2))(1-c_i+c_i M/2)/(1-c_i+c_i M).",
        expression=_either,
        assumptions=_STATED,
        formula=formulas.ONE_OF_TWO,
        verify=lambda: _one_of_two("1"),
        mutants=(
            mutant("half more", "3/2 D_i(M) on the right", _one_of_two, "3/2"),
            mutant("one percent more", "1.01 D_i(M) on the right", _one_of_two, "1.01"),
        ),
        notes="Neither (6) nor the parity of M is used.",
    ),
    proved_with_fix(
        id="LR-T3b",
        source="Lookahead Reasoning, Theorem 3, both conditions hold",
        statement="If (7) and (8) both hold, combining both techniques strictly outperforms either one alone, over all "
        "gamma1 gamma2 <= M.",
        assumptions=_STATED,
        verify=lambda: with_fix(lambda: _hybrid_wins(strict=False, special=(_TIE,)), lambda: _hybrid_proof(_TIE)),
        correction="Both conditions must hold strictly (with equality the hybrid may only tie, as in the "
        "counterexample), or 'strictly outperforms' must read 'is at least as good as'.",
        correction_verify=lambda: _hybrid_proof(_TIE),
        mutants=(
            mutant("1.15 in (6)", "the fix is claimed with 1.15 in (6)", _hybrid_proof, _TIE, six="1.15"),
            mutant("1.156 in (6)", "the fix is claimed with 1.156 in (6)", _hybrid_proof, _TIE, six="1.156"),
            mutant(
                "weaker (6)",
                "the fix is claimed with 1.04 in (6)",
                _hybrid_wins,
                strict=True,
                six=Fraction(26, 25),
                special=(_NO_SIX,),
            ),
            mutant(
                "corrected",
                "strict conditions, which need no fix",
                with_fix,
                lambda: _hybrid_wins(strict=True),
                lambda: _hybrid_proof(_TIE),
            ),
        ),
        notes="Repaired argument: the paper halves the integer maximiser gamma2*, which may be odd and is not a "
        "stationary point. Use j = floor(gamma2*/2) + 1 instead: the real maximiser x obeys x/2 < j <= x, so "
        "g(gamma2*)/g(j) <= g(x)/g(x/2) < 1.157, and 2 j <= M for even M > gamma2*. 1.15 "
        "would not do: at alpha1 = 5/14, c1 = 9/50, alpha2 = 30/31, c2 = 1/75 and M = 50 both conditions hold "
        "strictly, and token level alone wins.",
    ),
    proved(
        id="LR-T3c",
        source="Lookahead Reasoning, Theorem 3, (7) fails",
        statement="If (7) fails, token-level speculation alone is the optimal strategy over gamma1 gamma2 <= M.",
        expression=lambda: _condition(1),
        assumptions=_STATED,
        verify=lambda: _single_wins(swap=False),
        mutants=(mutant("holds", "if (7) holds", _single_wins, swap=False, claim="holds"),),
        notes="Neither (6) nor the case split on gamma2* is needed: h(k1, k2) < h(1, k1 k2) for every pair.",
    ),
    proved(
        id="LR-T3d",
        source="Lookahead Reasoning, Theorem 3, (8) fails",
        statement="If (8) fails, step-level speculation alone is the optimal strategy over gamma1 gamma2 <= M.",
        expression=lambda: _condition(2),
        assumptions=_STATED,
        verify=lambda: _single_wins(swap=True),
        mutants=(mutant("holds", "if (8) holds", _single_wins, swap=True, claim="holds"),),
    ),
    proved(
        id="LR-T3e",
        source="Lookahead Reasoning, Theorem 3, need for the constraint (6)",
        statement="The constraint (6) is needed: without it (7) and (8) may hold strictly and yet no hybrid beat "
        "both single methods.",
        assumptions="0 < alpha_i, c_i < 1, even M >= 4, budget gamma1 gamma2 <= M",
        verify=lambda: all_of(
            lambda: _needed(_hybrid_wins(strict=True, six=None, special=(_NO_SIX,)), "(6)"),
            lambda: _hybrid_proof(_NO_SIX),
        ),
        mutants=(
            mutant(
                "weaker need",
                "(6) with 1.1 is claimed not to be enough",
                lambda: _needed(_hybrid_wins(strict=True, six=Fraction(11, 10), special=(_NO_SIX,)), "1.157"),
            ),
        ),
        notes="It is needed for LR-T3b only, because the budget is an inequality: a single method may stop at its "
        "own best length below M, where (7) and (8) say nothing. Over gamma1 gamma2 = M no (6) is needed (Lemma 5).",
    ),
    proved(
        id="LR-T3f",
        source="Lookahead Reasoning, Theorem 3, need for even M",
        statement="Even M is needed: for odd M, (6) and strict (7) and (8) may hold and yet no hybrid beat both "
        "single methods.",
        assumptions="0 < alpha_i, c_i < 1, M >= 4",
        verify=lambda: all_of(lambda: _needed(_odd_budget((5, 7), _ODD), "even M"), lambda: _hybrid_proof(_TIE)),
        mutants=(
            mutant("even", "a failure is claimed at M = 4, 6, 8", lambda: _needed(_odd_budget((4, 6, 8)), "even M")),
        ),
        notes="With odd M the split (2, M/2) that (7) speaks of does not exist. LR-T3a, LR-T3c and LR-T3d hold for "
        "odd M too.",
    ),
    refuted(
        id="LR-T3h",
        source="Lookahead Reasoning, Theorem 3, proof, Step 2, Cases 2 and 3",
        statement="Given (6), (7) always holds when M >= gamma2*, the integer maximiser of g, as D2(M) <= "
        "D2(gamma2*) < 1.157.",
        assumptions=_STATED,
        verify=lambda: _always_seven(0),
        correction="It holds for M >= gamma2* + 1, which lies above the real maximiser. At M = gamma2* D2 may "
        "exceed 1.157: D2(4) = 135/116 at alpha2 = 1/2, c2 = 1/26. Then (7) fails and token-level only is optimal, "
        "as the theorem says.",
        correction_verify=_always_seven_proof,
        mutants=(mutant("corrected", "M >= gamma2* + 1", _always_seven, 1),),
    ),
    repaired(
        id="LR-Z2",
        source="Lookahead Reasoning, Chinese summary, Theorem 3",
        statement="The combination is strictly better than either method alone if and only if (7) and (8) both hold.",
        assumptions=_STATED,
        printed=lambda: _equivalence(strict=False),
        correction="If and only if both hold strictly.",
        repair=_equivalence_proof,
        mutants=(mutant("corrected", "strict conditions, which need no fix", _equivalence, strict=True),),
        notes="The paper states only the 'if'; the converse holds because equality in (7) already makes w fall from "
        "2 on.",
    ),
)
