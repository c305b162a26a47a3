"""Points at which a false statement fails first: corners, edges, ties between variables, and the inside.

A proof of a false statement is most often wrong next to an end of a range, where two variables meet, or where a real
variable meets a fraction of a whole one, as a cost does that is just below one part in n.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Final

from ledger.proving.deferred import sp
from ledger.proving.domains import Domain
from ledger.proving.reading import read

__all__ = ["EXTREME", "along", "corners", "inside", "scattered", "tied"]

EXTREME: Final = Fraction(1, 10**300)
"""The smallest distance from an end that is tried."""
_DISTANCES: Final = tuple(Fraction(1, 10**power) for power in (1, 2, 3, 4, 6, 9))
"""How near to an end a value is drawn, as a share of the width of its range."""
_TOWARDS: Final = (1, 2, 4, 8, 20, 60, 300)
"""Powers of a tenth at which a curve is tried."""
_APART: Final = (Fraction(0), *(sign * Fraction(1, 10**power) for power in (2, 4, 8) for sign in (1, -1)))
"""How far two tied values are from each other, as a share."""

Drawn = dict[str, Fraction]


def corners(domain: Domain, distance: Fraction, most: int, rng: random.Random) -> Iterator[Drawn]:
    """All joint corners at a distance from the ends, or ``most`` of them drawn at random."""
    ends = [values.ends_near(distance) for values in domain.values()]
    count = 1
    for each in ends:
        count *= len(each)
    if count <= most:
        yield from (dict(zip(domain, corner, strict=True)) for corner in itertools.product(*ends))
        return
    for _ in range(most):
        yield {name: rng.choice(each) for name, each in zip(domain, ends, strict=True)}


def scattered(
    domain: Domain, n: int, rng: random.Random, distances: tuple[Fraction, ...] = _DISTANCES
) -> Iterator[Drawn]:
    """Points of which each variable is near an end, at a distance of its own, or inside."""
    for _ in range(n):
        yield {
            name: rng.choice(values.ends_near(rng.choice(distances))) if rng.random() < 0.6 else values.drawn(rng)
            for name, values in domain.items()
        }


def inside(domain: Domain, n: int, rng: random.Random) -> Iterator[Drawn]:
    """Points of the middle of all ranges."""
    for _ in range(n):
        yield {name: values.drawn(rng) for name, values in domain.items()}


def along(domain: Domain, curves: Iterable[str]) -> Iterator[Drawn]:
    """Points of curves ``x = t, y = 1 - t**2``, as t falls, where they lie in the domain."""
    t = sp.Symbol("t", positive=True)
    for curve in curves:
        placed = {name: read(text) for name, text in (part.split(" = ") for part in curve.split(", "))}
        for power in _TOWARDS:
            at = {name: value.subs(t, sp.Rational(1, 10**power)) for name, value in placed.items()}
            point = {name: Fraction(int(at[name].p), int(at[name].q)) for name in domain}
            if all(point[name] in values for name, values in domain.items()):
                yield point


def tied(domain: Domain, n: int, rng: random.Random) -> Iterator[Drawn]:
    """Points at which one real variable equals another, its complement, its inverse, or a fraction of a whole number.

    Exactly or nearly: all are edges that premises and statements have. Each pair of real variables is equal first.
    """
    real = [name for name, values in domain.items() if values.real]
    if not real or len(domain) < 2:
        return
    for one, other in itertools.combinations(real, 2):
        point = next(inside(domain, 1, rng))
        if point[other] in domain[one]:
            yield {**point, one: point[other]}
    for _ in range(n):
        point = next(scattered(domain, 1, rng))
        for name in rng.sample(real, rng.randint(1, len(real))):
            other = rng.choice([each for each in domain if each != name])
            value = _tie(point[other], rng) * (1 + rng.choice(_APART))
            if value in domain[name]:
                point[name] = value
        yield point


def _tie(value: Fraction, rng: random.Random) -> Fraction:
    """A value with which another one often meets."""
    forms = [value, 1 - value]
    if value:
        forms += [1 / value, 1 / value, rng.randint(1, 3) / value]
    return rng.choice(forms)
