"""Lookahead Reasoning, Lemmas 5 and 6: how h splits over the divisors of a budget, and the function F of y."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

from flint import arb

from ledger.ledger import Claim, Evidence, Verdict
from ledger.lookahead_reasoning.forms import peak_function
from ledger.lookahead_reasoning.hybrid.lemma_4 import falls_in_x
from ledger.lookahead_reasoning.hybrid.points import Synchronous, divisors, split
from ledger.proving.balls import log_ratio, point, precision
from ledger.proving.cases import Cases, Predicate, rows, searched, walked
from ledger.proving.deferred import sp
from ledger.proving.formulas import Formula
from ledger.proving.margins import Margin, above, at_least, below, every
from ledger.proving.records import Given, formula_of, proved, refuted, repaired, restated
from ledger.proving.tools import all_of, identity, prove_equalities, prove_positive, refute, rounds_to, screened, sign

__all__ = ["CLAIMS", "below_peak", "one_peak", "pair_grid"]

_ALPHAS = ("1/5", "1/2", "4/5", "9/10")
_COSTS = ("1/27", "1/9", "1/3", "1/2")


def pair_grid(
    budgets: tuple[int, ...], alphas: tuple[str, ...] = _ALPHAS, costs: tuple[str, ...] = _COSTS
) -> Iterator[dict[str, str]]:
    """Parameters of both levels, and the budget."""
    for a1, a2, c1, c2, m in itertools.product(alphas, alphas, costs, costs, budgets):
        yield {"alpha1": a1, "c1": c1, "alpha2": a2, "c2": c2, "M": str(m)}


_INTERIOR_ODD, _INTERIOR = (
    divisors(
        "some divisor in [2, M/2] maximises w over the divisors of M",
        lambda point, values: at_least(
            max((value for d, value in values.items() if 2 <= d <= point.budget // 2), default=Fraction(0)),
            max(values.values()),
        ),
        lambda point: point.met(strict=False),
        "(7) and (8)" + ("" if odd else ", M even"),
        odd=odd,
        at=tuple(pair_grid(budgets, ("1/4", "16/25", "1/25"), ("1/10", "1/5", "1/3"))),
    )
    for odd, budgets in ((True, (4, 5, 6)), (False, (4, 6, 8, 12)))
)


def _corner(*, swap: bool, claim: str = "fails") -> Predicate:
    """If (7) (swapped: (8)) fails, the corner gamma = 1 (swapped: M) is the unique maximiser over the divisors."""

    def unique(point: Synchronous, values: Mapping[int, Fraction]) -> Margin:
        corner = point.budget if swap else 1
        return every(above(values[corner], value) for d, value in values.items() if d != corner)

    def failing(point: Synchronous) -> Margin:
        met = at_least(point.r2, point.d1) if swap else at_least(point.r1, point.d2)
        return ~met if claim == "fails" else met

    name = "(8)" if swap else "(7)"
    text, grid = "the corner is the unique maximiser over the divisors", tuple(pair_grid((4, 6, 8, 12)))
    return divisors(text, unique, failing, f"{name} {claim}", at=grid)


_TOKEN_CORNER, _STEP_CORNER = _corner(swap=False), _corner(swap=True)


def one_peak() -> Evidence:
    """Gamma w'/w falls strictly on the reals, so the sign of w' changes at most once, from plus to minus."""
    slopes = formula_of("LR-L5a")
    return all_of(lambda: _slopes(slopes), falls_in_x, detail="gamma w'(gamma)/w(gamma) falls strictly in gamma")


def _slopes(displayed: Formula) -> Evidence:
    """The logarithmic derivative and the cost terms as displayed, whose derivative in gamma is positive."""
    rise = "diff(1 - (1 - c1) / (1 - c1 + c1 * gamma) - c2 * M / ((1 - c2) * gamma + c2 * M), gamma)"
    return all_of(lambda: prove_equalities(displayed), sign(rise, "the cost terms rise in gamma", unit=("c1", "c2")))


def _concave(*, of_log_slope: bool) -> Predicate:
    """The claim that w' falls: chord slopes of w over the divisors fall (of_log_slope: w rises, then falls)."""

    def shaped(_point: Synchronous, values: Mapping[int, Fraction]) -> Margin:
        if of_log_slope:
            heights = list(values.values())
            return every(
                ~(below(y, x) & above(z, y)) for x, y, z in zip(heights, heights[1:], heights[2:], strict=False)
            )
        steps = itertools.pairwise(values.items())
        slopes = [(later - here) / (b - a) for (a, here), (b, later) in steps]
        return every(above(here, later) for here, later in itertools.pairwise(slopes))

    def explain(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, M: Fraction) -> str:  # noqa: N803
        shown = ", ".join(f"w({d}) = {float(v):.4f}" for d, v in split(alpha1, c1, alpha2, c2, int(M)).items())
        return f"{shown}: two chord slopes do not fall"

    what = "w rises, then falls" if of_log_slope else "w'(gamma) falls strictly on [1, M]"
    grid = tuple(pair_grid((8, 12), ("1/2", "4/5"), ("1/5", "1/3")))
    return divisors(what, shaped, None, "", at=grid, explain=explain)


_RISES_THEN_FALLS = _concave(of_log_slope=True)


def _f_ball(y: arb) -> arb:
    """F(y) = 2 - y - (1 - y)**2 L with L = log(1 - y)/(-y), which has no singularity at y = 0."""
    return 2 - y - (1 - y) ** 2 * log_ratio(1 - y)


_REGULAR = "2 - y - (1 - y)**2 * -log(1 - y) / y"
"""F without its singularity at 0, so F <= 2 - y."""


def below_peak(bound: Fraction | str) -> Evidence:
    """F(y) < bound on (0, 1): balls on [0, 9/10], and F(y) <= 2 - y beyond, as (1-y)**2 L >= 0."""

    def holds(y: Fraction) -> bool:
        return bool(_f_ball(point(y)) < point(bound))

    return screened(
        refute(holds, ({"y": y} for y in ("57/100", "1/2", "1/10", "9/10")), what=f"F(y) < {bound}"),
        lambda: prove_positive(lambda y: point(bound) - _f_ball(y), {"y": (0, "9/10")}, what=f"{bound} - F(y)"),
        lambda: prove_positive(
            lambda y: point(bound) - (2 - y), {"y": ("9/10", 1)}, what=f"{bound} - (2 - y) >= {bound} - F"
        ),
        partial(prove_equalities, restated("LR-L6a", relation=f"peak_function(y) == {_REGULAR}")),
    )


def _peak_concave(which: str = "correction_formula") -> Evidence:
    """F'' < 0: the numerator N, of the corrected display (or of the printed one), vanishes at 0, and N' < 0."""
    return all_of(
        lambda: prove_equalities(formula_of("LR-L6c", which)),
        identity("0 * (2 + 0) + 2 * log(1 - 0)", "N(0) = 0"),
        sign("-diff(y * (2 + y) + 2 * log(1 - y), y)", "-N' > 0 on (0, 1)", unit=("y",)),
    )


def _end_value(at: int, printed: str) -> Cases:
    """The one-sided limit of F' at an end of (0, 1) against a number, 'oo' or '-oo'."""

    def limits() -> Iterator[dict[str, Any]]:
        y = sp.Symbol("y", positive=True)
        yield {"y": at, "limit": sp.limit(sp.diff(peak_function(y), y), y, at, "+" if at == 0 else "-")}

    return Cases(
        text=f"the limit of F' at {at} is {printed}",
        test=lambda y, limit: limit == sp.sympify(printed),
        cases=limits,
        where=f"y to {at} from inside (0, 1)",
    )


def _derivative_ball(y: arb) -> arb:
    return (1 - y**-2) * (1 - y).log() - 1 / y


def _sign_change(low: Fraction, high: Fraction) -> arb:
    """A ball around the zero of F' in [low, high], by 80 certain bisections (F' falls strictly)."""
    for _ in range(80):
        middle = (low + high) / 2
        value = _derivative_ball(point(middle))
        if value > 0:
            low = middle
        elif value < 0:
            high = middle
        else:
            break
    return point(low).union(point(high))


def _peak_digits(y: str, value: str) -> bool:
    """F' changes sign within half a unit of the printed y*, and F there rounds to the printed value."""
    half = Fraction(1, 2 * 10 ** len(y.partition(".")[2]))
    low, high = Fraction(y) - half, Fraction(y) + half
    with precision(192):
        rises, falls = _derivative_ball(point(low)) > 0, _derivative_ball(point(high)) < 0
        at_peak = _f_ball(_sign_change(low, high))
    return bool(rises and falls) and rounds_to(lambda: at_peak, value, "F(y*)", {}).verdict is Verdict.PROVED


def _digits(y: str = "0.5693971022", value: str = "1.1562281731") -> Cases:
    return Cases(
        text="F' changes sign at the printed y*, and F there is the printed value, to the printed digits",
        test=_peak_digits,
        cases=rows({"y": y, "value": value}),
        where="the printed maximum",
    )


_DIGITS = _digits()


def _peak(printed: Cases = _DIGITS) -> Evidence:
    return all_of(walked(printed), _peak_concave)


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-L5a",
        verify=Given(_slopes),
        mutants={"sign": restated("LR-L5a", change=("a(alpha, gamma) - c1", "a(alpha, gamma) + c1"))},
    ),
    refuted(
        "LR-L5b",
        _concave(of_log_slope=False),
        instead=_RISES_THEN_FALLS,
        fix=lambda: screened(searched(_RISES_THEN_FALLS), one_peak),
    ),
    repaired("LR-L5c", _INTERIOR_ODD, instead=_INTERIOR, fix=lambda: screened(searched(_INTERIOR), one_peak)),
    proved(
        "LR-L5d",
        _TOKEN_CORNER,
        verify=lambda: screened(searched(_TOKEN_CORNER), one_peak),
        mutants={"holds": partial(searched, _corner(swap=False, claim="holds"))},
    ),
    proved(
        "LR-L5e",
        _STEP_CORNER,
        verify=lambda: screened(searched(_STEP_CORNER), one_peak),
        mutants={"holds": partial(searched, _corner(swap=True, claim="holds"))},
    ),
    proved("LR-L6a", verify=lambda: below_peak("1.157"), mutants={"1.156": partial(below_peak, "1.156")}),
    proved(
        "LR-L6b", verify=Given(prove_equalities), mutants={"sign": restated("LR-L6b", change=("- 1 / y", "+ 1 / y"))}
    ),
    refuted("LR-L6c", fix=_peak_concave),
    proved("LR-L6d", verify=_peak_concave, mutants={"printed N": partial(_peak_concave, "formula")}),
    refuted("LR-L6e", _end_value(0, "0"), instead=_end_value(0, "1/2")),
    refuted("LR-L6f", _end_value(1, "-oo"), instead=_end_value(1, "-1")),
    proved(
        "LR-L6g",
        _DIGITS,
        verify=_peak,
        mutants={
            "digit of y*": partial(_peak, _digits(y="0.5693971122")),
            "digit of F": partial(_peak, _digits(value="1.1562281732")),
        },
    ),
)
