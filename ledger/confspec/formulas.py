"""ConfSpec: claims that are inequalities, as formulas with their domains."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from ledger.proving.deferred import sp
from ledger.proving.formulas import Formula, between, equal, less, whole

if TYPE_CHECKING:
    import sympy

__all__ = ["BATCH", "CHEAPER", "COMMITTED", "COMMITTED_LESS", "DIFFERING", "MEAN_COST"]


def _differing() -> sympy.Basic:
    d, n = sp.symbols("d n", positive=True)
    return 1 - (1 - d) ** n <= n * d


def _cheaper() -> sympy.Basic:
    draft, target, escalated = sp.symbols("c_d c_t e", positive=True)
    return draft + escalated * target < target


def _committed() -> sympy.Basic:
    """Means over m accepted drafts of k: max(m, 1) as printed, min(m + 1, k) after the text."""
    a, k, m, j = sp.symbols("a k m j", positive=True)
    all_of_k = k * a**k
    printed = (1 - a) + sp.Sum(m * a**m * (1 - a), (m, 1, k - 1)) + all_of_k
    text = sp.Sum(m * a ** (m - 1) * (1 - a), (m, 1, k)) + all_of_k
    return sp.And(
        equal(printed, sp.Sum(a**j, (j, 1, k)) + 1 - a), equal(text, sp.Sum(a ** (j - 1), (j, 1, k))), evaluate=False
    )


def _committed_less() -> sympy.Basic:
    """Steps verified less steps committed, as printed."""
    a, k, j = sp.symbols("a k j", positive=True)
    verified = sp.Sum(a ** (j - 1), (j, 1, k))
    return equal(verified - (sp.Sum(a**j, (j, 1, k)) + 1 - a), a - a**k)


def _mean_cost() -> sympy.Basic:
    draft, target, escalated = sp.symbols("c_d c_t e", positive=True)
    return equal((1 - escalated) * draft + escalated * (draft + target), draft + escalated * target)


def _batch() -> sympy.Basic:
    """Time of a batch of n independent checks, between the mean per check and that of a sure escalation."""
    draft, target, escalated, n = sp.symbols("c_d c_t e n", positive=True)
    time = draft + (1 - (1 - escalated) ** n) * target
    return sp.And(less(draft + escalated * target, time), less(time, draft + target), evaluate=False)


def _few_escalated() -> sympy.Basic:
    draft, target, escalated = sp.symbols("c_d c_t e", positive=True)
    return escalated < 1 - draft / target


DIFFERING: Final = Formula(relation=_differing, domain={"d": between(0, 1), "n": whole(1, 400)}, sharp=Fraction(1, 100))
_DEPTHS: Final = {"a": between(0, 1), "k": whole(2, 40)}
_COSTS: Final = {"c_d": between(0, 10), "c_t": between(0, 10), "e": between(0, 1)}
COMMITTED: Final = Formula(relation=_committed, domain=_DEPTHS, sharp=Fraction(1, 100))
COMMITTED_LESS: Final = Formula(relation=_committed_less, domain=_DEPTHS, sharp=Fraction(1, 100))
MEAN_COST: Final = Formula(relation=_mean_cost, domain=_COSTS, sharp=Fraction(1, 100))
BATCH: Final = Formula(relation=_batch, domain={**_COSTS, "n": whole(2, 40)}, sharp=Fraction(1, 100))
CHEAPER: Final = Formula(
    relation=_cheaper,
    domain={"c_d": between(0, 10), "c_t": between(0, 10), "e": between(0, 1)},
    premise=_few_escalated,
    sharp=Fraction(1, 100),
)
