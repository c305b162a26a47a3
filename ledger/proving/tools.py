"""The proving tools that all claims share; each returns `Evidence` whose verdict it derived itself.

``prove_positive`` covers a whole box by balls, ``refute`` looks for an exact counterexample among candidates,
``exhaustive`` walks integers and closes them with a tail argument. The symbolic tools (``prove_identity``,
``prove_sign``, ``prove_descent``, as parts of a proof ``identity``, ``sign``, ``descent``) live in ``symbolic``, the
ways to combine evidence (``all_of``, ``screened``, ``with_fix``) in ``combine``; both are offered here too. No float
comparison ever leads to ``proved``.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial

from flint import arb

from ledger.ledger import Evidence, Verdict
from ledger.proving.balls import Rational, ball, point, precision, simplest_between
from ledger.proving.cases import Cases, exactly, grid, searched, walked
from ledger.proving.combine import Part, all_of, argued, counterexample, numeric, refutation, screened, with_fix
from ledger.proving.deferred import sp
from ledger.proving.domains import closed
from ledger.proving.formulas import Formula
from ledger.proving.margins import Margin
from ledger.proving.symbolic import descent, identity, prove_descent, prove_identity, prove_sign, sign
from theory.errors import ParameterError

__all__ = [
    "Box",
    "Part",
    "all_of",
    "counterexample",
    "descent",
    "exhaustive",
    "identity",
    "numeric",
    "prove_box",
    "prove_by_induction",
    "prove_descent",
    "prove_equalities",
    "prove_identity",
    "prove_positive",
    "prove_sign",
    "refute",
    "rounds_to",
    "screened",
    "sign",
    "with_fix",
]

Box = Mapping[str, tuple[Rational | str, Rational | str]]
"""Variable -> closed interval; decimals as strings ('0.52'), never floats."""

_BITS = 64
_TINY = Fraction(1, 2**24)
"""Share of each side of the box below which an undecided part is not divided."""
_SECONDS, _BOXES = 60.0, 200_000


def prove_positive(f: Callable[..., arb], box: Box, *, what: str) -> Evidence:
    """Prove ``f > 0`` on the whole closed box by branch and bound in ball arithmetic, or find a point where f < 0.

    ``f`` takes one ball per variable, by name, and returns a ball that contains every value of the function on them. It
    must not vanish on the box: factor out vanishing factors first (`power_gap`, `expm1_ratio`, `log_ratio`).

    The verdict is ``false`` with the simplest rational point of a small box where the ball of f is certainly negative,
    ``open`` with an undecided box after 200,000 boxes or a minute of processor time (not wall time: a busy machine must
    not change a verdict). The box of the lowest bound comes next, so that a point where f is negative, or touches zero,
    is met early: an undecided part with sides of 2^-24 of the box ends the search. The relatively widest side is
    bisected at a dyadic point, so the covering is exact and the run deterministic.
    """
    names = tuple(box)
    sides = {name: (Fraction(low), Fraction(high)) for name, (low, high) in box.items()}
    widths = {name: (high - low) or Fraction(1) for name, (low, high) in sides.items()}
    count, start = 0, time.process_time()
    waiting: list[tuple[float, int, tuple[tuple[Fraction, Fraction], ...]]] = []
    parts = [tuple(sides.values())]
    with precision(_BITS):
        while True:
            for part in parts:
                value = f(**{name: ball(*side) for name, side in zip(names, part, strict=True)})
                count += 1
                if not value > 0:
                    heapq.heappush(waiting, (float(value.lower()), count, part))
            if not waiting:
                where = ", ".join(f"{name} in [{low}, {high}]" for name, (low, high) in box.items())
                detail = f"{what} on all of {where} ({_boxes(count)}, {_BITS} bits)"
                return _covered(Verdict.PROVED, detail, count)
            _, _, part = heapq.heappop(waiting)
            negative_at = _negative_point(f, names, part)
            if negative_at is not None:
                return refutation(what, negative_at, {"boxes": count, "bits": _BITS})
            tiny = all(high - low <= _TINY * width for (low, high), width in zip(part, widths.values(), strict=True))
            if tiny or count >= _BOXES or time.process_time() - start > _SECONDS:
                where = ", ".join(
                    f"{n} in [{float(a):.6g}, {float(b):.6g}]" for n, (a, b) in zip(names, part, strict=True)
                )
                return _covered(Verdict.OPEN, f"{what}: undecided after {_boxes(count)}, for instance {where}", count)
            parts = _halves(part, names, widths)


def prove_box(statement: Formula) -> Evidence:
    """Prove inequalities, joined by ``and``, on the whole closed box of their ranges: see `prove_positive`."""
    box = closed(statement.domain, *statement.domain)
    return argued(*[partial(prove_positive, gap, box, what=statement.text) for gap in statement.gaps()])


def prove_equalities(statement: Formula) -> Evidence:
    """Prove the equalities of a statement, each an identity in its variables: see `prove_identity`.

    Points of the record are tried first. Inequalities that are joined with them are left to other parts of a proof.
    """
    differences = statement.differences()
    return all_of(*[partial(prove_identity, each, what=statement.text, samples=statement.at) for each in differences])


def prove_by_induction(statement: Formula, index: str, start: int | None = None) -> Evidence:
    """Prove the equalities of a statement by induction on a whole number that ends its sums, from its lowest value on.

    The equality at one number is solved for a sum and inserted into that at the next, where every sum has a term more.
    ``start`` begins below the domain. What joins the equalities is left to other parts of a proof.
    """
    n, start = sp.Symbol(index, positive=True), int(statement.domain[index].low) if start is None else start
    parts: list[Part] = []
    for difference in statement.differences():
        here, later = difference, difference.subs(n, n + 1)
        sums = []
        for total in sorted(difference.atoms(sp.Sum), key=str):
            factor, term = total.function.as_independent(*total.variables, as_Add=False)
            ((running, _low, high),) = total.limits
            sums.append(sp.Dummy())
            here = here.subs(total, factor * sums[-1])
            longer = factor.subs(n, n + 1) * (sums[-1] + term.subs(running, high + 1))
            later = later.subs(total.subs(n, n + 1), longer)
            if sp.diff(high, n) != 1 or n in term.free_symbols:
                raise ParameterError(index, str(total), "must end the sum, of which no term depends on it")
        here = sp.numer(sp.together(here))
        known = -here.subs(sums[0], 0) / sp.diff(here, sums[0])
        parts += [
            identity(difference.subs(n, start).doit(), f"{statement.text} at {index} = {start}"),
            identity(later.subs(sums[0], known), f"and at {index} + 1, if at {index}"),
        ]
    return argued(*parts)


def _boxes(count: int) -> str:
    return "1 box" if count == 1 else f"{count} boxes"


def _covered(verdict: Verdict, detail: str, boxes: int) -> Evidence:
    return Evidence(verdict=verdict, method="ball arithmetic", detail=detail, effort={"boxes": boxes, "bits": _BITS})


def _halves(
    part: tuple[tuple[Fraction, Fraction], ...], names: Sequence[str], widths: Mapping[str, Fraction]
) -> list[tuple[tuple[Fraction, Fraction], ...]]:
    """Bisect the side that is widest relative to the original box."""
    i = max(range(len(part)), key=lambda j: (part[j][1] - part[j][0]) / widths[names[j]])
    low, high = part[i]
    middle = (low + high) / 2
    return [(*part[:i], half, *part[i + 1 :]) for half in ((middle, high), (low, middle))]


def _negative_point(
    f: Callable[..., arb], names: Sequence[str], part: Sequence[tuple[Fraction, Fraction]]
) -> dict[str, Fraction] | None:
    """A simple rational point of the part where f is certainly negative, or None."""
    candidate = {
        n: low if low == high else simplest_between(low, high) for n, (low, high) in zip(names, part, strict=True)
    }
    value = f(**{name: point(x) for name, x in candidate.items()})
    return candidate if value < 0 else None


def rounds_to(value: Callable[[], arb], printed: str, what: str, at: dict[str, str]) -> Evidence:
    """Prove in balls of 128 bits that a value rounds to a printed decimal: within half a unit of its last digit."""
    unit = Fraction(1, 10 ** len(printed.partition(".")[2]))
    with precision(128):
        number = value()
        distance = abs(number - point(printed))
        inside, outside = distance < point(unit / 2), distance > point(unit / 2)
    shown = number.str(12, radius=False)
    if inside:
        return Evidence(
            verdict=Verdict.PROVED, method="ball arithmetic", detail=f"{what} = {shown} rounds to {printed}"
        )
    verdict = Verdict.FALSE if outside else Verdict.OPEN
    detail = f"{what} = {shown} does not round to {printed}"
    return Evidence(verdict=verdict, method="ball arithmetic", detail=detail, counterexample=at)


def refute(
    holds: Callable[..., bool],
    candidates: Iterable[Mapping[str, Rational | str]],
    *,
    what: str,
    explain: Callable[..., str] | None = None,
) -> Evidence:
    """Look for a candidate, simplest first, at which a predicate that decides exactly fails: `searched` in words."""
    return searched(Cases(text=what, test=holds, cases=lambda: exactly(candidates), where="", explain=explain))


def exhaustive(
    holds: Callable[..., Margin | bool],
    ranges: Mapping[str, Iterable[int]],
    *,
    what: str,
    tail: Part | None = None,
    reach: str = "",
) -> Evidence:
    """Check an exact predicate at every integer point of a grid, then close the unbounded rest by `tail`: see `walked`.

    ``reach`` names the ranges where cases lie beyond them that no tail covers; without both, they hold every case.
    """
    cases = Cases(text=what, test=holds, cases=grid(**ranges), where=reach, partial=bool(reach))
    return walked(cases, tail=tail)
