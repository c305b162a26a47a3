"""SPECS, Appendix C.2: the divergence of the averaged law is not the average of the divergences."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from flint import arb

from ledger.ledger import Claim, Evidence
from ledger.proving.balls import point, precision
from ledger.proving.cases import Predicate, searched
from ledger.proving.deferred import sp
from ledger.proving.domains import between
from ledger.proving.records import refuted
from ledger.proving.tools import all_of, identity
from ledger.specs import exact
from ledger.specs.points import poisson_weights, two_letters

__all__ = ["CLAIMS"]

_HALF = Fraction(1, 2)


def _apart(gen1: Fraction, weight2: Fraction, n: Fraction) -> arb:
    """What widths 1 and 2 alone put between the two sides of the first display of C.2."""
    gen, weights = (gen1, 1 - gen1), (Fraction(1), weight2)
    star = exact.tilted(gen, weights)
    one, two = (exact.selection_law(gen, weights, width) for width in (1, 2))
    first, second = poisson_weights(n, 2)
    apart = sum(((a - b) ** 2 / s for a, b, s in zip(one, two, star, strict=True)), Fraction(0))
    return first * second * point(apart)


def _display(poisson: bool = True) -> Predicate:
    """1 + chi2 of the averaged law (printed) against 1 + the average of chi2, which is what the integrals add up to.

    N ~ Poisson(n) given N > 0. The average exceeds chi2 of the averaged law by the sum over letters y of the variance
    of pi_N(y) over pi*(y); two widths a, b alone give at least p_a p_b (pi_a(y) - pi_b(y))**2 of each variance.
    """

    def holds(gen1: Fraction, weight2: Fraction, n: Fraction) -> bool:
        with precision(64):
            return not _apart(gen1, weight2, n) > 0 if poisson else not _apart(gen1, weight2, n) < 0

    sides = "equals" if poisson else "is at most"
    return Predicate(
        text=f"chi2 of the law averaged over N ~ Poisson(n), N > 0, {sides} the average of chi2 (generator gen1, 1 - "
        "gen1; weights 1, weight2)",
        test=holds,
        domain={"gen1": between(0, 1), "weight2": between(0, None), "n": between(0, None)},
    )


def _verify_display(poisson: bool = True) -> Evidence:
    def explain(**at: Fraction) -> str:
        with precision(64):
            return f"widths 1 and 2 alone put at least {float(_apart(**at).mid()):.2g} between the two sides"

    points = ({"gen1": _HALF, "weight2": weight, "n": 3} for weight in (1, 2))
    return searched(_display(poisson), *points, explain=explain)


_MIXED = "chi2 of a mixture of widths <= mixture of chi2"


def _fix_display() -> Evidence:
    a, b, t = sp.symbols("a b t", nonnegative=True)
    u = 1 / (1 + t)
    gap = u * a**2 + (1 - u) * b**2 - (u * a + (1 - u) * b) ** 2
    return all_of(
        identity(gap - u * (1 - u) * (a - b) ** 2, "mean of squares - square of mean = u (1 - u)(a - b)^2"),
        partial(exact.agree, _convex, what=_MIXED, sizes=(1, 2, 3)),
        detail="The sum of the two integrals is 1 + E[chi2(pi_N | pi*)], at least 1 + chi2 of the averaged law",
    )


def _convex(instance: exact.Instance, n: int) -> bool:
    laws = [instance.selected(k) for k in (n, n + 1)]
    mixed = tuple((a + b) / 2 for a, b in zip(*laws, strict=True))
    return exact.chi_square(mixed, instance.optimum) * 2 <= sum(
        (exact.chi_square(x, instance.optimum) for x in laws), Fraction(0)
    )


CLAIMS: tuple[Claim, ...] = (
    refuted(
        "SPECS-C2d",
        formula=_display(),
        correction_formula=two_letters(_MIXED, _convex, widths=(1, 3)),
        verify=_verify_display,
        correction_verify=_fix_display,
        mutants={"weak": partial(_verify_display, poisson=False)},
    ),
)
