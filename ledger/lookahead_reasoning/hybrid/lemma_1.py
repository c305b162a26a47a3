"""Lookahead Reasoning, Lemma 1: halving a budget between the two levels beats giving it to one."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from flint import arb

from ledger.ledger import Claim, Evidence
from ledger.lookahead_reasoning import exact
from ledger.proving.cases import Cases, Predicate, rows, searched, walked
from ledger.proving.combine import argued, exact_step
from ledger.proving.domains import Domain, between, closed, whole
from ledger.proving.margins import Margin, above, below, every
from ledger.proving.records import Given, formula_of, proved, refuted, repaired, restated
from ledger.proving.tools import Box, all_of, identity, prove_by_induction, prove_positive, screened, sign

__all__ = ["CLAIMS", "halving_identity"]

_RATE, _COST1 = between("1/2", "4/5"), between(0, "1/3")


def _w(alpha1: Fraction, alpha2: Fraction, c1: Fraction, c2: Fraction, budget: int, depth: int) -> Fraction:
    """``w(depth) = f(depth) g(M / depth)`` of Lemma 1, f without its switch."""
    value: Fraction = exact.f_saturated(alpha1, c1, depth) * exact.g(alpha2, c2, budget // depth)
    return value


def _token_only_loses(domain: Domain) -> Evidence:
    """w(2) > w(1) for every even budget from the smallest one on."""
    power = int(domain["M"].low) // 2

    def gain(alpha1: arb, alpha2: arb, c1: arb, t: arb) -> arb:
        # alpha2**(M/2) = t alpha2**power with 0 < t <= 1 for every M >= 2 power
        return (1 + alpha1) - (1 + t * alpha2**power) * (1 + alpha1 * c1 * (1 - alpha1))

    box: Box = {**closed(domain, "alpha1", "alpha2", "c1"), "t": (0, 1)}
    return argued(
        identity(
            "(1 - alpha1**2) / (1 - alpha1 + c1 * (alpha1 - alpha1**3 - 2 * (1 - alpha1) * alpha1**2)) == "
            "(1 + alpha1) / (1 + alpha1 * c1 * (1 - alpha1))",
            "S2(2) as displayed",
        ),
        sign("(1 - c2 + c2 * M) / (1 - c2 + c2 * M / 2) > 1", "the pass-time factor exceeds 1", unit=("c2",)),
        lambda: prove_positive(gain, box, what=f"the rest of w(2)/w(1) exceeds 1 for every M >= {2 * power}"),
    )


def _step_only_loses(domain: Domain) -> Evidence:
    """w(M/2) > w(M): the displayed identity, then bounds for every even budget from the smallest one on."""
    power = int(domain["M"].low) // 2

    def margin(alpha1: arb, alpha2: arb, c2: arb, t: arb) -> arb:
        q = t * alpha1**power
        # w(M/2)/w(M) > (1 + alpha2)/(1 + c2) (1 - q/(1 + q)) = (1 + alpha2)/((1 + c2)(1 + q))
        return (1 + alpha2) - (1 + c2) * (1 + q)

    box: Box = {**closed(domain, "alpha1", "alpha2", "c2"), "t": (0, 1)}
    return argued(
        halving_identity,
        _partial_sums,
        lambda: prove_positive(margin, box, what=f"the bound of w(M/2)/w(M) exceeds 1 for every M >= {2 * power}"),
    )


halving_identity = partial(prove_by_induction, formula_of("LR-L1e"), "n", 1)
"""The displayed form of f(M/2)/f(M), n = M/2."""


def _partial_sums() -> Evidence:
    """(alpha + ... + alpha**n) - n alpha**n > 0 for n >= 2, by induction with a symbol for alpha**n."""
    return all_of(
        sign("alpha1 + alpha1**2 - 2 * alpha1**2", "the sum exceeds n alpha**n at n = 2", unit=("alpha1",)),
        identity(
            "alpha1**(n + 1) - (n + 1) * alpha1**(n + 1) + n * alpha1**n == n * alpha1**n * (1 - alpha1)",
            "the gap grows by n alpha**n (1 - alpha)",
        ),
        sign("n * q * (1 - alpha1)", "which is positive", unit=("alpha1", "q")),
    )


def _first_factor(alpha1: Fraction, alpha2: Fraction, c1: Fraction, budget: int) -> Fraction:
    """The expression whose monotonicity the proof of Lemma 1 uses."""
    return (1 + alpha1) / ((1 + alpha2 ** (budget // 2)) * (1 + alpha1 * c1 * (1 - alpha1)))


def _monotone(direction_in_budget: int) -> Predicate:
    """The displayed expression falls in c1 and alpha2, rises in alpha1, and moves with M in the claimed direction."""

    def moves(alpha1: Fraction, alpha2: Fraction, c1: Fraction, M: Fraction) -> Margin:  # noqa: N803
        here, step = _first_factor(alpha1, alpha2, c1, int(M)), Fraction(1, 100)
        wanted = above if direction_in_budget > 0 else below
        return every(
            (
                wanted(_first_factor(alpha1, alpha2, c1, int(M) + 2), here),
                above(_first_factor(alpha1 + step, alpha2, c1, int(M)), here),
                below(_first_factor(alpha1, alpha2 + step, c1, int(M)), here),
                below(_first_factor(alpha1, alpha2, c1 + step, int(M)), here),
            )
        )

    return Predicate(
        text=f"the bound falls in c1 and alpha2, rises in alpha1 and {'rises' if direction_in_budget > 0 else 'falls'} "
        "in M",
        at=[{"alpha1": a, "alpha2": a, "c1": c, "M": "16"} for a in ("3/5", "3/4") for c in ("1/4", "1/10")],
        explain=lambda alpha1, alpha2, c1, M: (  # noqa: N803
            f"{float(_first_factor(alpha1, alpha2, c1, int(M))):.4f} at M = {M}, "
            f"{float(_first_factor(alpha1, alpha2, c1, int(M) + 2)):.4f} at M = {M + 2}"
        ),
        test=moves,
        domain={"alpha1": _RATE, "alpha2": _RATE, "c1": _COST1, "M": whole(16, 40, 2)},
    )


_FALLS_IN_BUDGET, _RISES_IN_BUDGET = _monotone(-1), _monotone(1)


def _monotone_proof() -> Evidence:
    """The four directions, the power alpha2**(M/2) as a symbol q that falls with M and rises with alpha2."""
    value = "(1 + alpha1) / ((1 + q) * (1 + alpha1 * c1 * (1 - alpha1)))"
    high = value.replace("alpha1", "((1 + alpha1) / 2)")
    parts = all_of(
        sign(f"-diff({value}, c1)", "falls in c1", unit=("alpha1", "q")),
        sign(f"-diff({value}, q)", "falls in alpha2**(M/2)", unit=("alpha1", "c1", "q")),
        sign(f"diff({high}, alpha1)", "rises in alpha1 > 1/2", unit=("alpha1", "c1", "q")),
    )
    return screened(searched(_RISES_IN_BUDGET), parts)


def _bounds_from(low: Fraction) -> tuple[Fraction, Fraction]:
    """Both displayed bounds, with `low` for the lower end of alpha."""
    top = Fraction(4, 5) ** 8
    first = (1 + low) / ((1 + top) * (1 + low * Fraction(1, 3) * (1 - low)))
    return first, (1 + low) / Fraction(6, 5) * (1 - top / (1 + top))


def _ratios(**point: Fraction) -> tuple[Fraction, Fraction]:
    """w(2)/w(1) and w(8)/w(16) at M = 16."""
    one, two, eight, whole_budget = (_w(**point, budget=16, depth=depth) for depth in (1, 2, 8, 16))
    return two / one, eight / whole_budget


def _bounded(low: Fraction) -> Predicate:
    first, second = _bounds_from(low)

    def exceed(**point: Fraction) -> Margin:
        two, half = _ratios(**point)
        return above(two, first) & above(first, 1) & above(half, second) & above(second, 1)

    def explain(**point: Fraction) -> str:
        two, half = _ratios(**point)
        return (
            f"the ratios {float(two):.4f}, {float(half):.4f} against the bounds {float(first):.4f}, {float(second):.4f}"
        )

    return Predicate(
        text=f"the displayed bounds, with alpha = {float(low)}, at M = 16",
        test=exceed,
        domain={"alpha1": _RATE, "alpha2": _RATE, "c1": _COST1, "c2": between(0, "1/5")},
        explain=explain,
    )


_BOUNDS_052, _BOUNDS = _bounded(Fraction(13, 25)), _bounded(Fraction(1, 2))


def _bound_below(printed: Predicate, alpha_low: str) -> Evidence:
    """Both displayed bounds of Lemma 1, with the lower end of alpha set to `alpha_low`."""
    first, second = _bounds_from(Fraction(alpha_low))
    near = {"alpha1": "501/1000", "alpha2": "799/1000", "c1": "33/100", "c2": "1/1000"}
    far = {"alpha1": "799/1000", "alpha2": "501/1000", "c1": "1/1000", "c2": "199/1000"}

    # both bounds are the values of monotone functions at a corner of the closed box
    return screened(
        searched(printed, near, far),
        exact_step(min(first, second) > 1, f"the bounds {float(first):.4f}, {float(second):.4f} exceed 1"),
        _monotone_proof,
        _second_monotone,
    )


def _second_monotone() -> Evidence:
    value = "(1 + alpha2) / ((1 + c2) * (1 + q))"
    return all_of(
        sign(f"diff({value}, alpha2)", "rises in alpha2"),
        sign(f"-diff({value}, c2)", "falls in c2"),
        sign(f"-diff({value}, q)", "falls in alpha1**(M/2)"),
    )


_CORNERS = {
    2: {"alpha1": "51/100", "alpha2": "799/1000", "c1": "33/100", "c2": "1/1000"},
    1: {"alpha1": "799/1000", "alpha2": "501/1000", "c1": "1/1000", "c2": "199/1000"},
}
"""Depth of the hybrid, 2, or tokens left to it, 1 standing for M/2 steps -> a point where it is ahead by least."""


def _turns(first: int, second: int) -> Cases:
    """Next to its corner w(2) > w(1) holds at M = first and not at first - 2, w(M/2) > w(M) so with second."""
    starts = {2: first, 1: second}

    def turns(part: int, M: int) -> bool:  # noqa: N803
        at = {name: Fraction(value) for name, value in _CORNERS[part].items()}
        hybrid, single = (2, 1) if part == 2 else (M // 2, M)
        wins = _w(**at, budget=M, depth=hybrid) > _w(**at, budget=M, depth=single)
        return wins is (starts[part] <= M)

    return Cases(
        text=f"next to the corner w(2) > w(1) from M = {first} on, and w(M/2) > w(M) from M = {second} on",
        test=turns,
        cases=rows(*({"part": part, "M": start - less} for part, start in starts.items() for less in (2, 0))),
        where="each part at its first budget and at the one before",
    )


def _budgets(first: int, second: int) -> Evidence:
    """The first part from M = first on and not two below, the second from M = second on and not two below."""
    return all_of(
        lambda: walked(_turns(first, second)),
        lambda: _token_only_loses({**formula_of("LR-L1a").domain, "M": whole(first, None, 2)}),
        lambda: _step_only_loses({**formula_of("LR-L1b").domain, "M": whole(second, None, 2)}),
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-L1a",
        verify=Given(lambda statement: _token_only_loses(statement.domain)),
        mutants={"small budget": restated("LR-L1a", domain="M in 2, 4, ...")},
    ),
    proved(
        "LR-L1b",
        verify=Given(lambda statement: _step_only_loses(statement.domain)),
        mutants={"small budget": restated("LR-L1b", domain="M in 4, 6, ...")},
    ),
    refuted("LR-L1c", _FALLS_IN_BUDGET, instead=_RISES_IN_BUDGET, fix=_monotone_proof),
    repaired(
        "LR-L1d",
        _BOUNDS_052,
        instead=_BOUNDS,
        printed=lambda: _bound_below(_BOUNDS_052, "13/25"),
        fix=lambda: _bound_below(_BOUNDS, "1/2"),
        mutants={"corrected": partial(_bound_below, _BOUNDS, "1/2")},
    ),
    proved(
        "LR-L1e",
        verify=Given(lambda statement: all_of(partial(prove_by_induction, statement, "n", 1), _partial_sums)),
        mutants={"sign": restated("LR-L1e", change=("== 1 - (1", "== 1 + (1"))},
    ),
    proved(
        "LR-L1f",
        verify=lambda: _budgets(10, 14),
        mutants={
            "twelve": partial(_budgets, 10, 12),
            "eight": partial(_budgets, 8, 14),
            "sixteen": partial(_budgets, 10, 16),
        },
    ),
)
