"""Exact arithmetic for the SPECS claims: selection laws on finite alphabets, logarithms of rationals, block trees.

A model is a tuple of rationals, an exponentiated reward ``exp(beta r)`` is a rational too, so every law, every density
ratio and every chi-square divergence below is a `Fraction`. Entropies are rational combinations of logarithms of primes
(`Logs`), which are linearly independent over the rationals: equality of two of them is decided, not estimated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import factorial, prod

from flint import arb, fmpz

from ledger.ledger import Evidence, Verdict
from ledger.proving.balls import point, precision
from ledger.proving.combine import counterexample, exact_step
from ledger.proving.margins import Margin
from ledger.proving.symbolic import nonnegative

__all__ = [
    "HALF",
    "INSTANCES",
    "Instance",
    "Law",
    "Logs",
    "agree",
    "at_least",
    "chance",
    "chi_square",
    "counts",
    "coverage",
    "decided",
    "enumerated",
    "exhibited",
    "kl",
    "laplace_product",
    "log",
    "nonnegative",
    "objective",
    "policies",
    "ratio",
    "selection_law",
    "selection_law_by_sequences",
    "tilted",
]

Law = tuple[Fraction, ...]
HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A finite alphabet: what the generator draws, what the target would draw, and the exponentiated rewards."""

    gen: Law
    target: Law
    tilt: Law
    """``exp(beta r(y))`` per letter."""

    @property
    def weights(self) -> Law:
        """Exponentiated scores, Definition 5 of the paper."""
        return tuple(t / g * e for g, t, e in zip(self.gen, self.target, self.tilt, strict=True))

    @property
    def optimum(self) -> Law:
        """The tilted target, Equation 3."""
        return tilted(self.target, self.tilt)

    def selected(self, n: int) -> Law:
        """The law of the letter that is selected at width n."""
        return selection_law(self.gen, self.weights, n)

    def divergence(self, n: int) -> Fraction:
        """Chi-square divergence of that law from the optimum."""
        return chi_square(self.selected(n), self.optimum)

    def named(self, **more: object) -> dict[str, str]:
        """The instance as a printable counterexample."""
        shown = {
            f"{name}{i + 1}": str(x)
            for name, law in (("gen", self.gen), ("target", self.target), ("tilt", self.tilt))
            for i, x in enumerate(law)
        }
        return shown | {name: str(value) for name, value in more.items()}


def _law(text: str) -> Law:
    return tuple(Fraction(x) for x in text.split())


INSTANCES: tuple[Instance, ...] = tuple(
    Instance(gen=_law(g), target=_law(t), tilt=_law(e))
    for g, t, e in (
        ("1/2 1/2", "1/2 1/2", "1 2"),
        ("2/3 1/3", "2/3 1/3", "1 4"),
        ("1/2 1/2", "1/4 3/4", "1 3"),
        ("9/10 1/10", "1/10 9/10", "2 1"),
        ("1/2 1/3 1/6", "1/2 1/3 1/6", "1 2 5"),
        ("1/6 1/2 1/3", "1/2 1/4 1/4", "3 1 2"),
    )
)
"""Small and readable, with and without a separate draft model, with rare heavy and rare light letters."""


class Logs:
    """A rational combination of logarithms of primes: the exact value of an entropy with rational probabilities."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[int, Fraction]) -> None:
        self.terms = {prime: c for prime, c in terms.items() if c}

    def __add__(self, other: Logs) -> Logs:
        keys = self.terms.keys() | other.terms.keys()
        return Logs({k: self.terms.get(k, Fraction(0)) + other.terms.get(k, Fraction(0)) for k in keys})

    def __sub__(self, other: Logs) -> Logs:
        return self + other * -1

    def __mul__(self, scale: Fraction | int) -> Logs:
        return Logs({prime: c * scale for prime, c in self.terms.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Logs) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def ball(self) -> arb:
        """An enclosure of the value at the current precision."""
        return sum((point(c) * arb(prime).log() for prime, c in sorted(self.terms.items())), arb(0))

    def positive(self) -> bool:
        """Whether the value is above zero: exact zero is recognised, the rest is decided by a ball."""
        if not self.terms:
            return False
        value = self.ball()
        if not (value > 0 or value < 0):
            raise ArithmeticError("the precision does not separate a non-zero sum of logarithms from zero")
        return bool(value > 0)

    def __str__(self) -> str:
        return " + ".join(f"{c} log {prime}" for prime, c in sorted(self.terms.items())) or "0"


def log(x: Fraction | int) -> Logs:
    """The logarithm of a positive rational."""
    exact = Fraction(x)
    total: dict[int, Fraction] = {}
    for number, sign in ((exact.numerator, 1), (exact.denominator, -1)):
        for prime, power in fmpz(number).factor():
            total[int(prime)] = total.get(int(prime), Fraction(0)) + sign * int(power)
    return Logs(total)


def tilted(law: Sequence[Fraction], weights: Sequence[Fraction]) -> Law:
    """The law proportional to ``law * weights``."""
    mass = [p * w for p, w in zip(law, weights, strict=True)]
    total = sum(mass, Fraction(0))
    return tuple(m / total for m in mass)


def counts(letters: int, n: int) -> Iterator[tuple[int, ...]]:
    """All vectors of `letters` counts that sum to n."""
    if letters == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in counts(letters - 1, n - first):
            yield (first, *rest)


def policies(letters: int, grain: int = 6) -> Iterator[Law]:
    """All laws whose probabilities are multiples of 1/grain."""
    for c in counts(letters, grain):
        yield tuple(Fraction(k, grain) for k in c)


def chance(gen: Sequence[Fraction], c: Sequence[int]) -> Fraction:
    """Probability of the vector of counts `c` among as many i.i.d. draws."""
    ways = factorial(sum(c)) // prod(map(factorial, c))
    return ways * prod((p**k for p, k in zip(gen, c, strict=True)), start=Fraction(1))


def selection_law(gen: Sequence[Fraction], weights: Sequence[Fraction], n: int) -> Law:
    """The law of the candidate that soft selection returns out of n i.i.d. draws, by summing over count vectors."""
    out = [Fraction(0)] * len(gen)
    for c in counts(len(gen), n):
        share = chance(gen, c) / sum((k * w for k, w in zip(c, weights, strict=True)), Fraction(0))
        for y, k in enumerate(c):
            out[y] += share * k * weights[y]
    return tuple(out)


def selection_law_by_sequences(gen: Sequence[Fraction], weights: Sequence[Fraction], n: int) -> Law:
    """The same law read off Definition 4: every ordered draw, every index. Slow, and shares no step with the above."""
    out = [Fraction(0)] * len(gen)
    for draw in itertools.product(range(len(gen)), repeat=n):
        share = prod((gen[y] for y in draw), start=Fraction(1)) / sum((weights[y] for y in draw), Fraction(0))
        for y in draw:
            out[y] += share * weights[y]
    return tuple(out)


def laplace_product(gen: Sequence[Fraction], weights: Sequence[Fraction], power: int, shift: Fraction) -> Fraction:
    """``integral over s > 0 of Phi(s)**power * exp(-s shift)``, by expanding the power into exponentials."""
    terms: dict[Fraction, Fraction] = {shift: Fraction(1)}
    for _ in range(power):
        grown: dict[Fraction, Fraction] = {}
        for rate, coefficient in terms.items():
            for p, w in zip(gen, weights, strict=True):
                grown[rate + w] = grown.get(rate + w, Fraction(0)) + coefficient * p
        terms = grown
    return sum((coefficient / rate for rate, coefficient in terms.items()), Fraction(0))


def chi_square(law: Sequence[Fraction], base: Sequence[Fraction]) -> Fraction:
    """Chi-square divergence of `law` from `base`."""
    return sum((p * p / q for p, q in zip(law, base, strict=True)), Fraction(0)) - 1


def kl(law: Sequence[Fraction], base: Sequence[Fraction]) -> Logs:
    """Kullback-Leibler divergence of `law` from `base`, which is positive where `law` is."""
    return sum((log(p / q) * p for p, q in zip(law, base, strict=True) if p), Logs({}))


def objective(instance: Instance, law: Law) -> Logs:
    """``beta`` times the objective of Equation 2: mean of log tilt minus divergence from the target."""
    reward = sum((log(e) * p for p, e in zip(law, instance.tilt, strict=True)), Logs({}))
    return reward - kl(law, instance.target)


def ratio(weights: Sequence[Fraction]) -> Fraction:
    """Largest over smallest weight."""
    return max(weights) / min(weights)


def coverage(target: Sequence[Fraction], gen: Sequence[Fraction]) -> Fraction:
    """The product of the two sup-norms of density ratios, Equation 9."""
    forward = max(t / g for t, g in zip(target, gen, strict=True))
    return forward * max(g / t for t, g in zip(target, gen, strict=True))


def agree(
    holds: Callable[[Instance, int], Margin | bool],
    *,
    what: str,
    sizes: Iterable[int] = (1, 2, 3, 4),
    instances: Sequence[Instance] = INSTANCES,
) -> Evidence:
    """An exact predicate at every instance and beam width: ``false`` at the first failure.

    Its ``proved`` covers these points only; a claim uses it with the symbolic steps, to tie them to the definitions.
    """
    tried = 0
    for instance, n in itertools.product(instances, tuple(sizes)):
        tried += 1
        if not holds(instance, n):
            detail = f"{what}: fails at n = {n}, {instance.named()}"
            return counterexample(detail, instance.named(n=n), {"points": tried})
    return Evidence(
        verdict=Verdict.PROVED,
        method="exact enumeration",
        detail=f"{what}: exact at {tried} points, as a check of the symbolic steps against the definitions",
        effort={"points": tried},
    )


decided = partial(exact_step, method="symbolic")
"""A step that sympy decides."""
enumerated = partial(exact_step, method="exact enumeration")
"""A decision about cases that were all looked at."""


def exhibited(search: Evidence, *, what: str) -> Evidence:
    """Turn a counterexample that was looked for into the proof that one exists: ``proved``, else ``open``."""
    exists = search.verdict is Verdict.FALSE
    return Evidence(
        verdict=Verdict.PROVED if exists else Verdict.OPEN,
        method=search.method,
        detail=f"{what}: {search.detail}",
        counterexample=search.counterexample if exists else None,
        effort=search.effort,
    )


def at_least(value: Callable[[], arb], what: str) -> Evidence:
    """A number, enclosed at 64 bits, is positive."""
    with precision(64):
        return exact_step(bool(value() > 0), what, "ball arithmetic")
