"""Lookahead Reasoning, Theorem 4: the steps of its proof that stand by themselves, and its use in the introduction."""

from __future__ import annotations

from fractions import Fraction

from ledger.ledger import Claim, Evidence
from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.hybrid.points import hybrids_only, speedup, theorem_4_box
from ledger.lookahead_reasoning.hybrid.theorem_4 import prove_deeper_wins, prove_only_hybrids, words
from ledger.proving.cases import Predicate, searched
from ledger.proving.formulas import between, one_of, whole
from ledger.proving.margins import Margin, above, below
from ledger.proving.records import Given, refuted, repaired, restated
from ledger.proving.tools import prove_box, screened

__all__ = ["CLAIMS"]


_BUDGET = 16


def _long_drafts(alpha2: Fraction, c2: Fraction, **_others: Fraction) -> Margin:
    """gamma2* > M = 16, looked for up to 32."""
    values = [speedup(alpha2, c2, n) for n in range(1, 2 * _BUDGET)]
    return above(max(values[_BUDGET:]), max(values[:_BUDGET]))


def _halves(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, gamma2: Fraction) -> Margin:
    """g(k) < f(2) g(k/2)."""
    k = int(gamma2)
    return below(speedup(alpha2, c2, k), exact.f_async(alpha1, c1, 2) * speedup(alpha2, c2, k // 2))


def _halving_from(start: int) -> Predicate:
    """For even k from start on, up to M = 16 < gamma2*, the premise of the case."""
    return Predicate(
        text="h(1, gamma2) < h(2, gamma2/2)",
        test=_halves,
        domain={
            **{name: values for name, values in theorem_4_box("0.52", one_of(_BUDGET)).items() if name != "M"},
            "gamma2": whole(start, _BUDGET, 2),
        },
        premise=_long_drafts,
        given="M = 16 < gamma2*",
        at=[
            {"alpha1": "53/100", "c1": "33/100", "alpha2": "79/100", "c2": "1/200", "gamma2": str(k)}
            for k in range(start, _BUDGET + 1, 2)
        ],
    )


def _case_split(first: str) -> Predicate:
    def covered(c1: Fraction, M: Fraction) -> bool:  # noqa: N803
        top = exact.ceil_inverse(c1)
        end = exact.floor_inverse(c1) if first == "floor" else top
        return end >= M or top < M < 2 * top or 2 * top <= M

    return Predicate(
        text=f"the cases M <= {first}(1/c1), ceil < M < 2 ceil, M >= 2 ceil cover every M",
        test=covered,
        domain={"c1": between(0, "1/3"), "M": whole(16, None, 2)},
        at=[{"c1": c, "M": str(m)} for c in ("2/31", "1/16", "1/10", "3/50", "1/4") for m in (16, 18, 20)],
    )


_SPLIT_FLOOR, _SPLIT = _case_split("floor"), _case_split("ceil")


def _case_split_proof() -> Evidence:
    """With one threshold N = ceil(1/c1) the cases are M <= N, N < M < 2N, M >= 2N; in the middle S1 <= S2(M)."""
    return screened(
        searched(_SPLIT), lambda: prove_deeper_wins("S2(M) > S1 for M > 1/c1"), lambda: prove_only_hybrids(_IN_THE_BOX)
    )


_UNIT = between(0, 1)
_ANYWHERE = hybrids_only(
    {"alpha1": _UNIT, "c1": _UNIT, "alpha2": _UNIT, "c2": _UNIT, "M": whole(4, 16, 2)},
    at=({"alpha1": "1/10", "c1": "1/4", "alpha2": "4/5", "c2": "1/100", "M": "4"},),
    explain=words,
)
"""LR-S9: combining is the only way to the peak, anywhere in (0, 1)**4."""
_IN_THE_BOX = hybrids_only(theorem_4_box("0.52", one_of(16)))


CLAIMS: tuple[Claim, ...] = (
    refuted(
        "LR-T4f",
        fix=Given(prove_box),
        mutants={"corrected": restated("LR-T4f", change=("c1)", "c1 * alpha1 * (1 - alpha1))"))},
    ),
    repaired("LR-T4g", _halving_from(2), instead=_halving_from(_BUDGET), fix=lambda: prove_only_hybrids(_IN_THE_BOX)),
    repaired("LR-T4h", _SPLIT_FLOOR, instead=_SPLIT, fix=_case_split_proof),
    refuted("LR-S9", _ANYWHERE, instead=_IN_THE_BOX, fix=Given(prove_only_hybrids)),
)
