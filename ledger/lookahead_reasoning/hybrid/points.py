"""Lookahead Reasoning, Lemma 5 and Theorems 3 and 4: what holds at a point, exactly, and the statements made of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import isqrt
from types import MappingProxyType
from typing import Any, Final

from ledger.lookahead_reasoning import exact
from ledger.proving.cases import Predicate
from ledger.proving.domains import Domain, Range
from ledger.proving.formulas import between, one_of, whole
from ledger.proving.margins import Margin, above, at_least

__all__ = [
    "SHARP",
    "SIX",
    "Asynchronous",
    "Synchronous",
    "asynchronous",
    "divisors",
    "hybrids_only",
    "speedup",
    "split",
    "synchronous",
    "theorem_4_box",
    "threshold",
    "words",
]

SIX: Final = Fraction(1157, 1000)
"""The constant of (6)."""
_UNIT = between(0, 1)
_TOP = Fraction(4, 5)
_KEPT: Final = 2**15
"""Values that are remembered: the grids visit each of theirs thousands of times, a search few of its own."""
SHARP: Final = Fraction(6, 5) * (1 + _TOP**8) - 1
"""The lower end of alpha at which (8, 2) and step-level only meet at M = 16: 0.401326592."""


@functools.lru_cache(maxsize=_KEPT)
def speedup(alpha: Fraction, c: Fraction, k: int) -> Fraction:
    """Value of g (and f_sync) at an integer."""
    value: Fraction = exact.g(alpha, c, k)
    return value


@functools.lru_cache(maxsize=_KEPT)
def threshold(alpha: Fraction, c: Fraction, budget: int) -> Fraction:
    """D(M) for even M; for odd M, alpha must be a square of a rational (then alpha**(M/2) is rational)."""
    if budget % 2 == 0:
        return exact.doubling_ratio(alpha, c, budget // 2)  # type: ignore[no-any-return]
    root = _square_root(alpha)
    return (1 + root**budget) * (1 - c + c * budget / 2) / (1 - c + c * budget)


def _square_root(value: Fraction) -> Fraction:
    root = Fraction(isqrt(value.numerator), isqrt(value.denominator))
    assert root * root == value  # our own choice of points
    return root


def split(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, budget: int) -> dict[int, Fraction]:
    """The values of w at every divisor gamma of the budget."""
    factors = [d for d in range(1, budget + 1) if budget % d == 0]
    return {d: speedup(alpha1, c1, d) * speedup(alpha2, c2, budget // d) for d in factors}


class Synchronous:
    """One parameter point with its conditions and its best single and hybrid speedups over k1 k2 <= M."""

    def __init__(self, alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, M: Fraction) -> None:  # noqa: N803
        self.first, self.second, self.budget = (alpha1, c1), (alpha2, c2), int(M)
        self.r1, self.r2 = (1 + alpha1) / (1 + c1), (1 + alpha2) / (1 + c2)
        self.d1, self.d2 = threshold(alpha1, c1, self.budget), threshold(alpha2, c2, self.budget)

    def six(self, six: Fraction = SIX) -> Margin:
        """(6), or with another constant."""
        return above(min(self.r1, self.r2), six)

    @functools.cached_property
    def token_only(self) -> Fraction:
        """The best with k1 = 1."""
        return max(speedup(*self.second, k) for k in range(1, self.budget + 1))

    @functools.cached_property
    def step_only(self) -> Fraction:
        """The best with k2 = 1."""
        return max(speedup(*self.first, k) for k in range(1, self.budget + 1))

    @functools.cached_property
    def hybrid(self) -> Fraction:
        """The best with both at least 2; 0 below a budget of 4, where there is none."""
        pairs = ((i, j) for i in range(2, self.budget // 2 + 1) for j in range(2, self.budget // i + 1))
        return max((speedup(*self.first, i) * speedup(*self.second, j) for i, j in pairs), default=Fraction(0))

    @functools.cached_property
    def token_peak(self) -> int:
        """gamma2*, looked for up to M + 1."""
        return exact.argmax_g(*self.second, self.budget + 1)

    def met(self, *, strict: bool) -> Margin:
        """(7) and (8)."""
        compared = above if strict else at_least
        return compared(self.r1, self.d2) & compared(self.r2, self.d1)

    @property
    def hybrid_wins(self) -> Margin:
        """Some hybrid beats both single methods."""
        return above(self.hybrid, max(self.token_only, self.step_only))

    def words(self) -> str:
        """All of it, for a reader."""
        return (
            f"r1 = {self.r1}, D2(M) = {self.d2}, r2 = {self.r2}, D1(M) = {self.d1}; "
            f"token-level only {self.token_only}, step-level only {self.step_only}, best hybrid {self.hybrid}"
        )


def words(**at: Fraction) -> str:
    """What holds at a point of Theorem 3, for a reader."""
    return Synchronous(**at).words()


@functools.lru_cache(maxsize=_KEPT)
def _at(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, M: Fraction) -> Synchronous:  # noqa: N803
    """The point, remembered: a premise and several claims look at the same one."""
    return Synchronous(alpha1, c1, alpha2, c2, M)


_EVEN: Final[Domain] = {"alpha1": _UNIT, "c1": _UNIT, "alpha2": _UNIT, "c2": _UNIT, "M": whole(4, 12, 2)}
"""Theorem 3; budgets beyond twelve take long to enumerate."""
_SQUARES = one_of("1/4", "4/9", "9/16", "16/25", "1/25")
_ANY: Final[Domain] = {**_EVEN, "alpha1": _SQUARES, "alpha2": _SQUARES, "M": whole(4, 12)}
"""Odd budgets as well, for which alpha**(M/2) must be rational."""


def synchronous(
    text: str,
    holds: Callable[[Synchronous], Margin],
    premise: Callable[..., Margin] | None = None,
    given: str = "",
    *,
    odd: bool = False,
    numbers: Mapping[str, Fraction] = MappingProxyType({}),
    at: Sequence[Mapping[str, str]] = (),
    explain: Callable[..., str] | None = None,
) -> Predicate:
    """A statement about a point of Theorem 3, with the numbers of its premise, and where to look for a failure."""
    domain = _ANY if odd else _EVEN

    def point(at: Mapping[str, Fraction]) -> Synchronous:
        return _at(**{name: at[name] for name in domain})

    def assumed(**at: Fraction) -> Margin:
        assert premise is not None
        return premise(point(at), **{name: value for name, value in at.items() if name not in domain})

    return Predicate(
        text=text,
        test=lambda **at: holds(point(at)),
        domain=domain,
        premise=None if premise is None else assumed,
        given=given,
        numbers=numbers,
        at=at,
        explain=explain,
    )


def divisors(
    text: str,
    holds: Callable[[Synchronous, Mapping[int, Fraction]], Margin],
    premise: Callable[[Synchronous], Margin] | None,
    given: str,
    **options: Any,
) -> Predicate:
    """A statement about the values of w at the divisors of the budget (Lemma 5); options are those of `synchronous`."""
    return synchronous(
        text, lambda point: holds(point, split(*point.first, *point.second, point.budget)), premise, given, **options
    )


class Asynchronous:
    """Best token-level only, step-level only and hybrid speedup at one point, over min(ceil(1/c1), k1) k2 <= M."""

    def __init__(self, alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, M: Fraction) -> None:  # noqa: N803
        self.level1, self.level2, self.budget = (alpha1, c1), (alpha2, c2), int(M)
        self.ceiling = exact.ceil_inverse(c1)
        widest = min(self.ceiling, self.budget)
        self.f = {k: exact.f_async(alpha1, c1, k) for k in range(1, widest + 1)}
        self.g = {k: speedup(alpha2, c2, k) for k in range(1, self.budget + 1)}

    @property
    def singles(self) -> tuple[Fraction, Fraction]:
        """Token level only, step level only."""
        return max(self.g.values()), max(self.f.values())

    @property
    def hybrid(self) -> Fraction:
        """The best with both depths at least 2."""
        return max(self.f[i] * self.g[j] for i in self.f for j in self.g if i >= 2 and j >= 2 and i * j <= self.budget)

    @property
    def hybrid_wins(self) -> Margin:
        """Some hybrid beats both single methods."""
        return above(self.hybrid, max(self.singles))

    def words(self) -> str:
        """All three, for a reader."""
        tokens, steps = self.singles
        single = f"token-level only {float(tokens):.5f}, step-level only {float(steps):.5f}"
        return f"{single}, best hybrid {float(self.hybrid):.5f}"


def theorem_4_box(low: str | Fraction, budgets: Range, top: str | Fraction = _TOP) -> Domain:
    """The box of Theorem 4, with another lower or upper end of both acceptance rates."""
    rate = Range(low=Fraction(low), high=Fraction(top))
    return {"alpha1": rate, "c1": between(0, "1/3"), "alpha2": rate, "c2": between(0, "1/5"), "M": budgets}


def asynchronous(
    text: str, holds: Callable[[Asynchronous], Margin | bool], domain: Domain, **options: Any
) -> Predicate:
    """A statement about a point of Theorem 4; options are those of a `Predicate`."""
    return Predicate(text=text, test=lambda **at: holds(Asynchronous(**at)), domain=domain, **options)


def hybrids_only(domain: Domain, **options: Any) -> Predicate:
    """Every maximiser is a hybrid."""
    best = "the best hybrid beats both single methods"
    return asynchronous(best, lambda point: point.hybrid_wins, domain, **options)
