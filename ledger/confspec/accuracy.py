"""Claims of ConfSpec about accuracy: what preserving the target's accuracy can and cannot mean."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, Final

from ledger.confspec.forms import accuracy_loss_bound
from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Cases, Predicate, grid, rows
from ledger.proving.domains import between
from ledger.proving.margins import Margin, at_most
from ledger.proving.records import Given, proved, refuted, verified
from ledger.proving.tools import all_of, exhaustive, identity
from theory.published.confspec import CONFIDENT

__all__ = ["CLAIMS"]


def _differs(share: str, agreement: str) -> Fraction:
    """P(cascade decision differs from the target's)."""
    return Fraction(share) * (1 - Fraction(agreement))


def _preserves(agreement: str | None = None) -> Cases:
    """No decision differs, 0 = share (1 - agreement among the confident)."""
    return Cases(
        text="the cascade decides as the target does",
        test=lambda share, agreement: _differs(share, agreement) == 0,
        cases=rows(*[{"share": row[2], "agreement": agreement or row[1]} for row in CONFIDENT.values()]),
        where="both families of Figure 1",
        explain=lambda **row: f"it differs in {float(100 * _differs(**row)):.1f} % of decisions",
    )


def _accuracy_change(rates: tuple[Fraction, ...]) -> Fraction:
    """Worst case: the answer flips as soon as one decision differs; rates[i] = P(decision i differs | none before)."""
    same = Fraction(1)
    for rate in rates:
        same *= 1 - rate
    return 1 - same


def _verify_bound(bound: Callable[[Any, Any], Any] = accuracy_loss_bound) -> Evidence:
    """Coupling: the traces are equal until a decision differs, so accuracies differ by at most P(some differs)."""
    rates = (Fraction(0), Fraction(1, 10), Fraction(1, 4))

    def holds(decisions: int, code: int) -> bool:
        chosen = tuple(rates[code // 3**i % 3] for i in range(decisions))
        most: Fraction = bound(max(chosen, default=Fraction(0)), decisions)
        return _accuracy_change(chosen) <= most <= decisions * max(chosen)

    return all_of(
        lambda: exhaustive(
            holds, {"decisions": range(1, 6), "code": range(3**5)}, what="worst-case traces within the bound"
        ),
        identity(
            "(1 - delta)**n - (1 - delta)**(n + 1) == delta * (1 - delta)**n",
            "one more decision adds delta (1 - delta)^n: reached if none differed before",
        ),
        identity("(1 - x) * (1 - n * x) - (1 - (n + 1) * x) == n * x**2", "(1 - x)^n >= 1 - n x, so <= n delta"),
    )


_CELLS = tuple(itertools.product(("accept", "reject"), repeat=2))
"""(decision of the cascade, decision of the target)."""


def _error_types(*counted: tuple[str, str]) -> Cases:
    """All joint laws of the two decisions in quarters, all 0/1 values of draft step and replacement per cell."""
    laws = [law for law in itertools.product(range(5), repeat=len(_CELLS)) if sum(law) == 4]

    def holds(law: int, draft_right: int, target_right: int) -> bool:
        change, errors = Fraction(0), Fraction(0)
        for cell, (ours, theirs) in enumerate(_CELLS):
            mass = Fraction(laws[law][cell], 4)
            right = {"accept": draft_right >> cell & 1, "reject": target_right >> cell & 1}
            change += mass * (right[theirs] - right[ours])
            errors += mass * ((ours, theirs) in counted)
        return change <= errors

    return Cases(
        text=f"accuracy lost at one decision <= P({', '.join('/'.join(cell) for cell in counted)}), cascade/target",
        test=holds,
        cases=grid(law=range(len(laws)), draft_right=range(16), target_right=range(16)),
        where="laws in quarters",
        partial=True,
    )


def _tv(p: Fraction, q: Fraction) -> Fraction:
    """Total variation of two laws on {right, wrong}."""
    return abs(p - q)


def _drift(steps: int = 2) -> Predicate:
    """Replacing steps one by one, each by one whose answer law is eps away: the end can be steps * eps away."""
    return Predicate(
        text=f"after {steps} replacements the answer law is still within eps, where each lowers P(right) by eps",
        test=lambda eps, right: _tv(right, right - steps * eps) <= eps,
        domain={"eps": between(0, "1/2"), "right": between(0, 1)},
        premise=lambda eps, right: right >= steps * eps,
        given=f"right >= {steps} eps",
        at=[{"eps": "1/10", "right": "9/10"}],
        explain=lambda eps, right: f"P(right) went from {right} to {right - steps * eps}",
    )


def _errors_add(steps: Fraction, **path: Fraction) -> Margin:
    hops = [_tv(x, y) for x, y in itertools.pairwise(path.values())]
    return at_most(_tv(path["a"], path["d"]), sum(hops)) & at_most(sum(hops), steps * max(hops))


_TRIANGLE: Final = "distance after n replacements <= sum of the n distances <= n eps (triangle)"
_PATHS: Final = Predicate(
    text=f"{_TRIANGLE}, n = 3",
    test=_errors_add,
    domain=dict.fromkeys("abcd", between(0, 1, "[]")),
    numbers={"steps": Fraction(3)},
)


def _verify_triangle(statement: Predicate) -> Evidence:
    """All paths of three replacements over laws on a grid of tenths."""
    ranges = dict.fromkeys("abcd", range(11))
    return exhaustive(
        lambda **at: _errors_add(statement.numbers["steps"], **{name: Fraction(x, 10) for name, x in at.items()}),
        ranges,
        what=_TRIANGLE,
        reach="n = 3 and laws in tenths",
    )


CLAIMS: tuple[Claim, ...] = (
    refuted("CS-P1", _preserves(), fix=_verify_bound, mutants={"perfect gate": partial(_preserves, "1")}),
    proved(
        "CS-P2",
        verify=_verify_bound,
        mutants={
            "d": partial(_verify_bound, lambda d, _n: d),
            "n - 1": partial(_verify_bound, lambda d, m: 1 - (1 - d) ** (m - 1)),
        },
    ),
    verified(
        "CS-P3",
        _error_types(("accept", "reject"), ("reject", "accept")),
        mutants={"accepts only": partial(_error_types, ("accept", "reject"))},
    ),
    refuted(
        "CS-P4", _drift(), instead=_PATHS, fix=Given(_verify_triangle), mutants={"one step": partial(_drift, steps=1)}
    ),
)
