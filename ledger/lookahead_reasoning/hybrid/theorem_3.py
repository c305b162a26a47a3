"""Lookahead Reasoning, Theorem 3: hybrid speculation under a budget, synchronous version.

(6): min of r_i = (1 + alpha_i)/(1 + c_i) exceeds 1.157.  (7): r_1 >= D_2(M).  (8): r_2 >= D_1(M).  D_i(M) is the ratio
g(M)/g(M/2) of level i, so (7) says h(2, M/2) >= h(1, M).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence
from ledger.lookahead_reasoning.hybrid.lemmas_2_and_3 import unimodal_proof
from ledger.lookahead_reasoning.hybrid.lemmas_5_and_6 import below_peak, one_peak, pair_grid
from ledger.lookahead_reasoning.hybrid.points import SIX, Synchronous, speedup, synchronous, words
from ledger.lookahead_reasoning.hybrid.theorem_3_steps import (
    index_argument,
    peak_identity,
    threshold_at_two,
    threshold_falls,
)
from ledger.proving.cases import Cases, Predicate, rows, searched, walked
from ledger.proving.combine import exact_step
from ledger.proving.formulas import whole
from ledger.proving.margins import Margin, above, at_least, exactly_when
from ledger.proving.records import Given, proved, proved_with_fix, refuted, repaired
from ledger.proving.tools import all_of, screened, with_fix

__all__ = ["CLAIMS", "hybrid_proof"]

_NO_SIX = {"alpha1": "2/5", "c1": "1/3", "alpha2": "4/5", "c2": "2/5", "M": "4"}
_BELOW_SIX = {"alpha1": "5/14", "c1": "9/50", "alpha2": "30/31", "c2": "1/75", "M": "50"}
"""min r = 1.1501, (7) and (8) hold strictly, and token-level speculation, at its peak of 49, is better than both
levels."""
_TIE = {"alpha1": "16/25", "c1": "1/5", "alpha2": "4/5", "c2": "1/9", "M": "4"}
_NEAR_TWO = {"alpha1": "999/1000", "c1": "1/1000", "alpha2": "999/1000", "c2": "1/1000", "M": "4"}
_ODD = {"alpha1": "4/9", "c1": "1/5", "alpha2": "9/16", "c2": "1/20", "M": "5"}


_GRID = tuple(pair_grid((4, 6, 8, 12)))


def _one_of_two(scale: str) -> Evidence:
    """(7) or (8) holds, with their right sides scaled."""
    factor = Fraction(scale)

    def either(point: Synchronous) -> Margin:
        return at_least(point.r1, factor * point.d2) | at_least(point.r2, factor * point.d1)

    statement = synchronous(
        "at least one of (7) and (8) holds",
        either,
        Synchronous.six,
        "(6)",
        numbers={"six": SIX},
        at=(_NEAR_TWO, *_GRID),
        explain=words,
    )
    return screened(
        searched(statement),
        threshold_at_two,
        threshold_falls,
        detail="If r1 >= r2 then r1 >= r2 = D2(2) > D2(M); otherwise r2 > r1 = D1(2) > D1(M)",
    )


def _wins(*, strict: bool, six: Fraction = SIX) -> Predicate:
    def premise(point: Synchronous, six: Fraction) -> Margin:
        return point.met(strict=strict) & point.six(six)

    given = f"(7) and (8){' strictly' if strict else ''}, min r > {float(six)}"
    text, at = "the best hybrid beats both single methods", (_NO_SIX, _TIE, *_GRID)
    return synchronous(
        text, lambda point: point.hybrid_wins, premise, given, numbers={"six": six}, at=at, explain=words
    )


_WINS_PRINTED, _WINS = _wins(strict=False), _wins(strict=True)


def hybrid_proof(statement: Predicate = _WINS) -> Evidence:
    """The repaired Theorem 3: strict (7) and (8), and (6) with a constant that Lemma 6 must then bound."""
    longer = replace(statement, domain={**statement.domain, "M": whole(4, 50, 2)}, at=(_BELOW_SIX, *statement.at))
    return screened(
        searched(longer),
        threshold_falls,
        unimodal_proof,
        peak_identity,
        lambda: below_peak(statement.numbers["six"]),
        index_argument,
        detail="Against token-level only: for M <= gamma* g rises up to M and (7) gives h(2, M/2) > g(M); for even "
        "M > gamma*, h(2, j) > g(gamma*) by (6). Step-level only is the mirror image",
    )


def _single(*, swap: bool, claim: str = "fails") -> Predicate:
    """If (7) (swapped: (8)) fails, token-level (step-level) only is strictly best over k1 k2 <= M; (6) is not used."""

    def best(point: Synchronous) -> Margin:
        mine, other = (point.step_only, point.second) if swap else (point.token_only, point.first)
        # from 2 on: at length 1 there is no speculation, which belongs to either method
        return above(mine, max(point.hybrid, *(speedup(*other, k) for k in range(2, point.budget + 1))))

    def failing(point: Synchronous) -> Margin:
        met = at_least(point.r2, point.d1) if swap else at_least(point.r1, point.d2)
        return ~met if claim == "fails" else met

    return synchronous(
        "the single method beats all that speculates on the other level",
        best,
        failing,
        f"{'(8)' if swap else '(7)'} {claim}",
        at=(_NO_SIX, *_GRID),
        explain=words,
    )


_TOKEN_ONLY, _STEP_ONLY = _single(swap=False), _single(swap=True)


def _single_wins(printed: Predicate) -> Evidence:
    return screened(
        searched(printed),
        threshold_falls,
        one_peak,
        detail="It then fails at every smaller budget, since D falls, so Lemma 5 gives h(k1, k2) < h(1, k1 k2)",
    )


def _equivalent(*, strict: bool) -> Predicate:
    return synchronous(
        f"the best hybrid beats both single methods exactly when (7) and (8) hold{' strictly' if strict else ''}",
        lambda point: exactly_when(point.hybrid_wins, point.met(strict=strict)),
        Synchronous.six,
        "(6)",
        numbers={"six": SIX},
        at=(_TIE, *_GRID),
        explain=words,
    )


def _fails_without(point: dict[str, str], text: str, met: Callable[[Synchronous], Margin]) -> Cases:
    """A point that meets the other hypotheses and at which no hybrid wins: the one left out is needed."""
    return Cases(
        text=f"{text}, and no hybrid wins",
        test=lambda **at: met(Synchronous(**at)) & ~Synchronous(**at).hybrid_wins,
        cases=rows({name: Fraction(value) for name, value in point.items()}),
        where="the point " + ", ".join(f"{name} = {value}" for name, value in point.items()),
    )


def _six_and_strict(point: Synchronous) -> Margin:
    return point.six() & point.met(strict=True)


_SIX_NEEDED = _fails_without(_NO_SIX, "(7) and (8) hold strictly", partial(Synchronous.met, strict=True))
_SIX_OF_11 = _fails_without(
    _NO_SIX,
    "(6) with 1.1 and strict (7) and (8) hold",
    lambda point: point.six(Fraction(11, 10)) & point.met(strict=True),
)
_EVEN_NEEDED = _fails_without(_ODD, "(6) and strict (7) and (8) hold", _six_and_strict)
_EVEN_FAILS = _fails_without({**_ODD, "M": "6"}, "(6) and strict (7) and (8) hold", _six_and_strict)


def _always_seven(margin: int) -> Predicate:
    """(6) implies (7) whenever M >= gamma2* + margin, gamma2* the integer maximiser of g."""
    special = {"alpha1": "9/20", "c1": "1/4", "alpha2": "1/2", "c2": "1/26", "M": "4"}

    def explain(**values: Fraction) -> str:
        point = Synchronous(**values)
        return f"gamma2* = {point.token_peak}, r1 = {point.r1} (> 1.157), D2(M) = {point.d2}"

    return synchronous(
        "(7) holds",
        lambda point: at_least(point.r1, point.d2),
        lambda point, six, margin: point.six(six) & at_least(point.budget, point.token_peak + margin),
        f"(6), M >= gamma2*{f' + {margin}' if margin else ''}",
        numbers={"six": SIX, "margin": Fraction(margin)},
        at=(special, *_GRID),
        explain=explain,
    )


def _always_seven_proof(statement: Predicate) -> Evidence:
    """M >= gamma2* + 1 > x, the real maximiser, so D2(M) < D2(x) = F(y) < 1.157 < r1."""
    six, margin = statement.numbers["six"], statement.numbers["margin"]
    return screened(
        searched(statement),
        lambda: exact_step(margin >= 1, "M exceeds the real maximiser"),
        threshold_falls,
        unimodal_proof,
        peak_identity,
        lambda: below_peak(six),
    )


def _equivalence_proof(statement: Predicate) -> Evidence:
    """Strict conditions: the 'if' is the repaired theorem; otherwise Lemma 5's single peak gives the converse."""
    wins = _wins(strict=True, six=statement.numbers["six"])
    return screened(searched(statement), lambda: hybrid_proof(wins), one_peak)


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-T3a",
        verify=lambda: _one_of_two("1"),
        mutants={"half more": partial(_one_of_two, "3/2"), "one percent more": partial(_one_of_two, "1.01")},
    ),
    proved_with_fix(
        "LR-T3b",
        _WINS_PRINTED,
        instead=_WINS,
        verify=lambda: with_fix(lambda: searched(_WINS_PRINTED), hybrid_proof),
        fix=Given(hybrid_proof),
        mutants={
            "1.15 in (6)": partial(hybrid_proof, _wins(strict=True, six=Fraction("1.15"))),
            "1.156 in (6)": partial(hybrid_proof, _wins(strict=True, six=Fraction("1.156"))),
            "weaker (6)": partial(searched, _wins(strict=True, six=Fraction("1.04"))),
            "corrected": partial(with_fix, lambda: searched(_WINS), hybrid_proof),
        },
    ),
    proved(
        "LR-T3c",
        _TOKEN_ONLY,
        verify=lambda: _single_wins(_TOKEN_ONLY),
        mutants={"holds": partial(_single_wins, _single(swap=False, claim="holds"))},
    ),
    proved(
        "LR-T3d",
        _STEP_ONLY,
        verify=lambda: _single_wins(_STEP_ONLY),
        mutants={"holds": partial(_single_wins, _single(swap=True, claim="holds"))},
    ),
    proved(
        "LR-T3e",
        _SIX_NEEDED,
        verify=lambda: all_of(lambda: walked(_SIX_NEEDED), hybrid_proof),
        mutants={"weaker need": _SIX_OF_11},
    ),
    proved(
        "LR-T3f",
        _EVEN_NEEDED,
        verify=lambda: all_of(lambda: walked(_EVEN_NEEDED), hybrid_proof),
        mutants={"even": _EVEN_FAILS},
    ),
    refuted("LR-T3h", _always_seven(0), instead=_always_seven(1), fix=Given(_always_seven_proof)),
    repaired("LR-Z2", _equivalent(strict=False), instead=_equivalent(strict=True), fix=Given(_equivalence_proof)),
)
