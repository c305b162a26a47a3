"""Lookahead Reasoning, Theorem 2 and Appendix C: the asynchronous speedup against the exact timeline, and its means."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence, Verdict
from ledger.lookahead_reasoning import exact, timelines
from ledger.lookahead_reasoning.forms import accepted, partial_batch, saturated_printed, unsaturated
from ledger.proving.cases import searched
from ledger.proving.deferred import sp
from ledger.proving.records import Given, formula_of, proved, refuted, repaired, restated
from ledger.proving.tools import all_of, identity, prove_by_induction, prove_identity, refute, screened, sign

__all__ = ["CLAIMS"]


def _ratio(*, limited: bool) -> Evidence:
    """The closed form is (1 + E[X]) / E[time] by the law of large numbers."""
    a, c = sp.symbols("alpha1 c1", positive=True)
    k = sp.Symbol("k1", positive=True, integer=True)
    if limited:
        closed, time = saturated_printed(a, c, k), 1 / (1 - a**k) + c * partial_batch(a, k)
        what = "S2 = (1 + E[X]) / (E[ceil((X+1)/k1)] + c1 E[X mod k1])"
    else:
        closed, time, what = unsaturated(a, c), 1 + c * accepted(a), "S1 = (1 + E[X]) / (1 + c1 E[X])"
    sample = {"alpha1": "1/2", "c1": "1/4", "k1": "3"}
    return prove_identity(closed - (1 + accepted(a)) / time, what=what, samples=[sample])


def _case_1(rule: str) -> Evidence:
    """From the switching point on, a stage lasts T + c1 T X and the speedup is S1."""
    return screened(
        timelines.check_stage_times(
            timelines.free_time, f"a stage with gamma >= {rule}(1/c1) lasts T + c1 T X", saturated=False, rule=rule
        ),
        timelines.free_induction,
        lambda: _ratio(limited=False),
    )


def _case_2(rule: str, formula: timelines.StageTime = timelines.limited_time, shift: int = 0) -> Evidence:
    """Below the switching point the stage time is the printed one and the speedup is S2 (at depth gamma + shift)."""
    what = f"a stage with gamma < {rule}(1/c1) lasts as printed"
    times = timelines.check_stage_times(formula, what, saturated=True, rule=rule)
    return screened(
        times if times.verdict is Verdict.FALSE else timelines.check_saturated_speedup(shift),
        timelines.limited_induction,
        partial(prove_by_induction, formula_of("LR-C3"), "n", 0),
        partial(prove_by_induction, formula_of("LR-C5"), "k1", 1),
        lambda: _ratio(limited=True),
    )


def _dimension_proof() -> Evidence:
    """With 1/c = N - s, 0 <= s < 1, N = ceil(1/c): starts j and j - n overlap iff n c < 1, true for n <= N - 1 only."""
    return screened(
        searched(timelines.DIMENSION),
        identity("(1 - (N - 1) / (N - s)) * (N - s) == 1 - s", "1 - (N-1) c has the sign of 1 - s"),
        sign("1 - s", "so the target N - 1 drafts back still runs", unit=("s",)),
        identity("(N / (N - s) - 1) * (N - s) == s", "N c - 1 has the sign of s >= 0, so the one N back has ended"),
        timelines.limited_induction,
    )


def _figure_1(drafts: int, accepted: int) -> Evidence:
    """Figure 1: three drafts, the third rejected: done after 2 t + T, where target-only decoding takes 3 T."""

    def holds(c1: Fraction) -> bool:
        return exact.stage_time(c1, drafts, accepted) == 1 + accepted * c1 and accepted + 1 == 3

    points = ({"c1": c} for c in ("1/10", "1/4", "1/3"))
    search = refute(holds, points, what=f"{drafts} drafts, {accepted} accepted: three steps after 2 t + T")
    return search if search.verdict is Verdict.FALSE else all_of(timelines.limited_induction, detail=search.detail)


def _async_beats_sync(margin: str) -> Evidence:
    """f_async(k) > f_sync(k) + margin |f_sync(k) - 1| for integers k >= 2."""
    extra = Fraction(margin)

    def holds(alpha: Fraction, c: Fraction, k: Fraction) -> bool:
        sync = exact.f_sync(alpha, c, int(k))
        return bool(exact.f_async(alpha, c, int(k)) > sync + extra * abs(sync - 1))

    a, c = sp.symbols("alpha c", positive=True)
    k = sp.Symbol("k", positive=True, integer=True)
    grid = itertools.product(("1/2", "1/10", "9/10"), (*timelines.COSTS, "1/1000"), (2, 3, 4, 8, 20))
    points = ({"alpha": alpha, "c": cost, "k": str(n)} for alpha, cost, n in grid)

    def total(n: sp.Expr) -> sp.Expr:
        return (1 - a**n) / (1 - a)

    def limited(n: sp.Expr) -> sp.Expr:
        return (n - 1) - a * total(n) + n * a**n

    def free(n: sp.Expr) -> sp.Expr:
        return (n - 1) - a * total(n) + a**n

    one = sp.Integer(1)
    bridge = (1 + c * (k - 1)) - total(k) * (1 - a + c * a) - (c * free(k) + (1 - c) * a**k)
    return screened(
        refute(holds, points, what="the asynchronous version is faster than the synchronous one at equal depth k >= 2"),
        identity(limited(one), "S2 against sync: the denominators agree at k = 1"),
        identity(limited(k + 1) - limited(k) - (1 - k * a**k * (1 - a)), "and their gap grows by this"),
        _am_gm,
        identity(bridge, "S1 against sync: the gap is c v(k) + (1-c) alpha**k"),
        identity(free(one), "v(1) = 0"),
        identity(free(k + 1) - free(k) - (1 - a**k), "v grows by 1 - alpha**k > 0"),
    )


def _am_gm() -> Evidence:
    """Bound ``k (1 - alpha) alpha**k < 1``: the powers 1..k are each at least alpha**k, their sum is < 1/(1-alpha)."""
    a = sp.Symbol("alpha", positive=True)
    k = sp.Symbol("k", positive=True, integer=True)

    def u(n: sp.Expr) -> sp.Expr:
        return a * (1 - a**n) / (1 - a) - n * a**n

    q = sp.Symbol("q", positive=True)
    return all_of(
        identity(u(sp.Integer(1)), "equality at k = 1"),
        identity(u(k + 1) - u(k) - k * a**k * (1 - a), "the slack grows by k alpha**k (1 - alpha) >= 0"),
        sign(1 - a * (1 - q), "1 - alpha (1 - alpha**k) > 0", unit=("alpha", "q")),
    )


def _not_refuted(evidence: Evidence) -> Evidence:
    """The integer form of a definition: n >= ceil(x) iff n >= x for integers n; the listed cases agree with it."""
    if evidence.verdict is Verdict.FALSE:
        return evidence
    # 1/c1 = N - s with 0 <= s < 1: k1 = N + d gives k1 c1 - 1 of the sign of d + s, k1 = N - 1 of the sign of s - 1
    return all_of(
        identity("N + d - (N - s) == d + s", "k1 >= N is enough"), sign("1 - s", "k1 = N - 1 is not", unit=("s",))
    )


def _interval_probability(exponent_shift: int) -> Evidence:
    tail = f"alpha**(m * k) - alpha**((m + 1) * k + {exponent_shift})"  # P(X >= n) = alpha**n
    sample = {"alpha": "1/2", "m": "1", "k": "2"}
    return all_of(
        identity(
            "alpha**i - alpha**(i + 1) == alpha**i * (1 - alpha)", "P(X >= i) - P(X >= i + 1) = alpha**i (1 - alpha)"
        ),
        identity(f"{tail} == alpha**(m * k) * (1 - alpha**k)", "the interval's probability", samples=[sample]),
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-F1",
        timelines.FIGURE_1,
        verify=lambda: _figure_1(3, 2),
        mutants={"third accepted": partial(_figure_1, 3, 3), "two slots": partial(_figure_1, 2, 2)},
    ),
    refuted(
        "LR-S4",
        timelines.FREE_FLOOR,
        instead=timelines.FREE,
        verify=lambda: _case_1("floor"),
        fix=partial(_case_1, "ceil"),
        mutants={"corrected": partial(_case_1, "ceil")},
    ),
    refuted(
        "LR-S5",
        instead=timelines.LONGER,
        fix=lambda: all_of(lambda: _not_refuted(searched(timelines.LONGER)), timelines.free_induction),
    ),
    repaired(
        "LR-S6",
        fix=Given(lambda statement: all_of(partial(prove_by_induction, statement, "k1"), lambda: _case_2("ceil"))),
        mutants={"corrected": restated("LR-S6", change=("(k + 1)", "(k1 + 1)"))},
    ),
    proved(
        "LR-S7",
        verify=lambda: _async_beats_sync("0"),
        mutants={"margin": partial(_async_beats_sync, "1"), "small margin": partial(_async_beats_sync, "1/100")},
    ),
    proved("LR-T2a", timelines.FREE, verify=lambda: _case_1("ceil"), mutants={"floor": partial(_case_1, "floor")}),
    proved(
        "LR-T2b",
        timelines.LIMITED,
        verify=lambda: _case_2("ceil"),
        mutants={
            "no partial batch": partial(
                _case_2, "ceil", lambda c, gamma, accepted: Fraction(-(-(accepted + 1) // gamma))
            ),
            "shifted": partial(_case_2, "ceil", lambda c, gamma, x: -(-x // gamma) + c * (x % gamma)),
            "one less deep": partial(_case_2, "ceil", shift=-1),
            "at most nine": partial(_case_2, "ceil", lambda c, gamma, x: -(-(x + 1) // gamma) + c * min(x % gamma, 9)),
        },
    ),
    refuted("LR-T2c", instead=timelines.ONE_CASE, fix=lambda: all_of(lambda: _case_1("ceil"), lambda: _case_2("ceil"))),
    refuted("LR-T2d", timelines.DIMENSION_FLOOR, instead=timelines.DIMENSION, fix=_dimension_proof),
    proved(
        "LR-S8",
        timelines.DIMENSION,
        verify=_dimension_proof,
        mutants={"floor": partial(searched, timelines.DIMENSION_FLOOR)},
    ),
    proved(
        "LR-C1",
        verify=Given(partial(prove_by_induction, index="k1")),
        mutants={"doubled": restated("LR-C1", change=("== alpha1", "== 2 * alpha1"))},
    ),
    proved("LR-C2", verify=lambda: _interval_probability(0), mutants={"longer": partial(_interval_probability, 1)}),
    proved(
        "LR-C3",
        verify=Given(partial(prove_by_induction, index="n", start=0)),
        mutants={"squared": restated("LR-C3", change=("== 1 / (1 - alpha1**gamma", "== 1 / (1 - alpha1**(2 * gamma)"))},
    ),
    proved(
        "LR-C4",
        verify=Given(partial(prove_by_induction, index="n", start=0)),
        mutants={"period": restated("LR-C4", change=("m * gamma", "m * (gamma + 1)"))},
    ),
    proved(
        "LR-C5",
        verify=Given(partial(prove_by_induction, index="k1", start=1)),
        mutants={"doubled": restated("LR-C5", change=("== (", "== 2 * ("))},
    ),
)
