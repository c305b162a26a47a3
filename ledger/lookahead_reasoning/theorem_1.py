"""Lookahead Reasoning, sections 2 and 3, Theorem 1: the speedup formulas against the cycle model."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence
from ledger.lookahead_reasoning import exact
from ledger.proving.cases import Predicate, grid
from ledger.proving.domains import between, domain_of
from ledger.proving.formulas import Formula
from ledger.proving.records import Given, formula_of, proved, repaired, restated
from ledger.proving.tools import all_of, identity, prove_by_induction, prove_equalities, refute, screened, sign

__all__ = ["CLAIMS"]

_ALPHAS = ("1/2", "1/5", "4/5", "9/10")


def _only_without_draft_cost(c: str) -> Evidence:
    """At a cost c > 0 the speedup stays a fixed distance below 1/(1-alpha): split gamma at 1."""
    cost = Fraction(c)

    def holds(alpha: Fraction, gamma: Fraction) -> bool:
        cap = max(1 - alpha**2, 1 / (1 + cost)) / (1 - alpha)
        # a fixed gap exists only if the cap itself is below the bound
        return cap < 1 / (1 - alpha) and bool(exact.g_background(alpha, cost, int(gamma)) <= cap)

    # for 0 < gamma <= 1 the power alpha**(gamma+1) lies between alpha**2 and alpha: alpha (alpha + (1 - alpha) q)
    short = "(1 - alpha**2) / (1 - alpha) - (1 - alpha * (alpha + (1 - alpha) * q)) / ((1 - alpha) * (1 + c * m))"
    long = "1 / ((1 - alpha) * (1 + c)) - (1 - q) / ((1 - alpha) * (1 + c * (1 + m)))"
    return screened(
        refute(holds, grid(alpha=("1/2", "9/10"), gamma=("0", "1", "2", "8"))(), what=f"a gap remains at c = {c}"),
        sign(short, "gamma = m <= 1: g < (1-alpha**2)/(1-alpha)", unit=("alpha", "q", "m")),
        sign(long, "gamma = 1 + m: g < 1/((1-alpha)(1+c))", unit=("alpha", "q")),
        identity(
            "1 / (1 - alpha) - (1 - alpha**(gamma + 1)) / (1 - alpha) == alpha**(gamma + 1) / (1 - alpha)",
            "at c = 0 the distance to the bound is alpha**(gamma+1)/(1-alpha), which tends to 0 and never is 0",
        ),
    )


def _returns() -> Evidence:
    """Past its peak g falls: Lemma 3 with k = gamma + 1."""
    from ledger.lookahead_reasoning.hybrid.lemmas_2_and_3 import unimodal_proof

    return all_of(partial(prove_equalities, formula_of("LR-S2", "correction_formula")), unimodal_proof)


def _neutral(switch: str) -> Predicate:
    """f(1) = 1 and g(1) = 1, so that k1 = 1 (k2 = 1) leaves token-level (step-level) speculation only."""

    def all_one(alpha: Fraction, c: Fraction) -> bool:
        return bool(exact.f_async(alpha, c, 1, switch=switch) == exact.f_sync(alpha, c, 1) == exact.g(alpha, c, 1) == 1)

    return Predicate(
        text=f"f(1) = g(1) = 1 with the switching point {switch}(1/c1)",
        test=all_one,
        domain={"alpha": between(0, 1), "c": between(0, 1)},
        at=[*grid(alpha=_ALPHAS, c=("2/5", "1/4", "3/5", "9/10"))()],
        explain=lambda alpha, c: f"f_async(1) = {exact.f_async(alpha, c, 1, switch='floor')}",
    )


_AT_ONE = Formula(
    relation="saturated_printed(alpha, c, 1) == 1 and speedup(alpha, c, 1) == 1",
    domain=domain_of("alpha, c in (0, 1)"),
    forms="lookahead_reasoning",
)
"""S2(1) = 1, which is f_async(1) as 1 < ceil(1/c1) for c1 < 1, and f_sync(1) = g(1) = 1."""


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-B1",
        verify=Given(partial(prove_by_induction, index="gamma")),
        mutants={"exponent": restated("LR-B1", relation="cycle(alpha, c, gamma) == drafted(alpha, c, gamma - 1)")},
    ),
    proved(
        "LR-B2",
        # q stands for alpha**(gamma+1), any value in (0, 1)
        verify=partial(
            all_of,
            sign(
                "1 / (1 - alpha) - (1 - q) / ((1 - alpha) * (1 + c * gamma))",
                "1/(1-alpha) - g > 0 for c > 0, gamma > 0",
                unit=("alpha", "q"),
            ),
            sign("1 / (1 - alpha) - (1 - q) / (1 - alpha)", "the same for c gamma = 0", unit=("alpha", "q")),
        ),
        mutants={"smaller": restated("LR-B2", relation="drafted(alpha, c, gamma) < alpha / (1 - alpha)")},
    ),
    proved(
        "LR-B3",
        verify=lambda: _only_without_draft_cost("1/10"),
        mutants={"free drafts": partial(_only_without_draft_cost, "0")},
    ),
    proved(
        "LR-B4",
        verify=Given(partial(prove_by_induction, index="gamma")),
        mutants={"faster": restated("LR-B4", change=("== alpha *", "== alpha**2 *"))},
    ),
    proved(
        "LR-B5",
        verify=_returns,
        mutants={"rises": restated("LR-B5", relation="speedup(alpha, c, x + more) > speedup(alpha, c, x)")},
    ),
    repaired(
        "LR-S1",
        fix=Given(partial(prove_by_induction, index="gamma1")),
        mutants={"corrected": restated("LR-S1", change=("gamma1) ==", "gamma1 + 1) =="))},
    ),
    proved(
        "LR-T1",
        verify=Given(partial(prove_by_induction, index="k")),
        mutants={"one more draft": restated("LR-T1", change=("k - 1", "k"))},
    ),
    repaired(
        "LR-S2", fix=Given(prove_equalities), mutants={"corrected": restated("LR-S2", change=("k2) ==", "k2 + 1) =="))}
    ),
    repaired("LR-S3", _neutral("floor"), instead=_neutral("ceil"), fix=partial(prove_equalities, _AT_ONE)),
)
