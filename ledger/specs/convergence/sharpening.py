"""What holds of one selection at a fixed width, sharper than SPECS states: its rate and constant, and that it falls."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence, Verdict
from ledger.proving.deferred import sp
from ledger.proving.margins import Margin, at_most, every
from ledger.proving.records import Given, proved, record
from ledger.proving.tools import all_of, identity, numeric, refute, screened
from ledger.specs import exact
from ledger.specs.common_proofs import prove_density_ratio, within_ratio
from ledger.specs.points import two_letters

__all__ = ["CLAIMS"]


def _verify_sharp(scale: Fraction = Fraction(1)) -> Evidence:
    """The bound, and that no smaller constant does: one candidate, a rare light letter (gen eps, weight 1 / kappa)."""
    eps, kappa = sp.symbols("epsilon kappa", positive=True)
    mean = eps / kappa + 1 - eps
    light = mean * kappa - 1
    return screened(
        partial(_search_sharp, scale),
        partial(prove_density_ratio, 1, scale),
        lambda: exact.decided(
            sp.simplify(sp.limit(light, eps, 0) - (kappa - 1)) == 0,
            what="at n = 1 a rare light letter comes as close to kappa - 1 as wanted",
        ),
    )


def _search_sharp(scale: Fraction) -> Evidence:
    """Exact density ratios of two letters, one of them rare and light, against ``1 + scale (kappa - 1) / n``."""

    def holds(rare: Fraction, kappa: Fraction, n: Fraction) -> bool:
        gen, weights = (1 - rare, rare), (Fraction(1), 1 / kappa)
        drawn, best = exact.selection_law(gen, weights, int(n)), exact.tilted(gen, weights)
        return all(abs(p / q - 1) <= scale * (kappa - 1) / n for p, q in zip(drawn, best, strict=True))

    points = [
        {"rare": rare, "kappa": kappa, "n": n}
        for rare in (Fraction(1, 2), Fraction(1, 1000), Fraction(999, 1000))
        for kappa in (Fraction(101, 100), Fraction(10), Fraction(1000))
        for n in (1, 2, 5)
    ]
    return refute(holds, points, what="each density ratio is within (kappa - 1) / n of one")


def _within(instance: exact.Instance, n: int, share: Fraction) -> Margin:
    return at_most(instance.divergence(n), share * ((exact.ratio(instance.weights) - 1) / n) ** 2)


def _grid_constant() -> tuple[Fraction, int]:
    """Largest n**2 chi2 / (kappa - 1)**2 over an exact grid of two-letter models."""
    worst, points = Fraction(0), 0
    for weight in (Fraction(101, 100), Fraction(3, 2), Fraction(3), Fraction(10), Fraction(100)):
        for rare in (Fraction(k, 20) for k in range(1, 20)):
            for n in (1, 2, 3, 5, 8, 13):
                gen, weights = (1 - rare, rare), (Fraction(1), weight)
                value = exact.chi_square(exact.selection_law(gen, weights, n), exact.tilted(gen, weights))
                worst, points = max(worst, n * n * value / (weight - 1) ** 2), points + 1
    return worst, points


def _verify_constant(constant: Fraction) -> Evidence:
    worst, points = _grid_constant()
    what = (
        f"largest n^2 chi2 / (kappa - 1)^2 on {points} exact two-letter points is {float(worst):.6f}, limit {constant}"
    )
    return numeric(worst <= constant, what=what, effort={"points": points})


_FALLING = "chi2 at width n + 1 <= chi2 at width n"


def _crosses_once(instance: exact.Instance, n: int) -> bool:
    """The Laplace form of the ratios, both falling with the weight, and their quotient rising with it."""
    weights, best = instance.weights, instance.optimum
    mean = sum((p * w for p, w in zip(instance.gen, weights, strict=True)), Fraction(0))

    def ratios(width: int) -> list[Fraction]:
        drawn = [p / q for p, q in zip(instance.selected(width), best, strict=True)]
        shown = [width * mean * exact.laplace_product(instance.gen, weights, width - 1, w) for w in weights]
        return drawn if drawn == shown else []

    here, later = ratios(n), ratios(n + 1)
    rising = sorted(zip(weights, here, later, strict=False))
    steps = [(a, b) for a, b in itertools.pairwise(rising) if a[0] < b[0]]
    return len(rising) == len(weights) and all(
        a[1] >= b[1] and a[2] >= b[2] and b[2] * a[1] >= a[2] * b[1] for a, b in steps
    )


def _convex_order(instance: exact.Instance, n: int) -> Margin:
    """Every convex divergence falls: the mean of the part above t does, for each t that either ratio takes."""
    best = instance.optimum
    here, later = ([p / q for p, q in zip(instance.selected(k), best, strict=True)] for k in (n, n + 1))

    def beyond(ratios: list[Fraction], t: Fraction) -> Fraction:
        return sum((q * max(r - t, Fraction(0)) for r, q in zip(ratios, best, strict=True)), Fraction(0))

    return every(at_most(beyond(later, t), beyond(here, t)) for t in {*here, *later})


def _verify_falling(share: Fraction = Fraction(1)) -> Evidence:
    """Every convex divergence of pi_n from pi* falls with n: the density ratios cross once.

    The ratio of a letter of weight w (mean one) is ``n * integral of Phi(s)**(n - 1) exp(-s w)``, which falls with w.
    """
    return all_of(
        exact.agree(lambda one, n: one.divergence(n + 1) <= share * one.divergence(n), what=_FALLING),
        exact.agree(_convex_order, what="the ratio at width n + 1 is below that at n in convex order"),
        exact.agree(_crosses_once, what="the ratios are Laplace integrals, fall with the weight, and cross once"),
        identity(
            "(s * x + t * y) / 2 - (s + t) / 2 * (x + y) / 2 == (s - t) * (x - y) / 4",
            "covariance of s and Phi(s), pair by pair: (s - t)(Phi(s) - Phi(t)) / 4 <= 0 as Phi falls",
        ),
        detail="The quotient of the ratios at widths n + 1 and n is (n + 1) / n times the mean of Phi under the "
        "law of s proportional to Phi(s)^(n - 1) exp(-s w); its slope in w is minus the covariance of s and "
        "Phi, so it rises with w. Both ratios have mean one under pi* and fall with w, so they cross once, and "
        "for convex f the mean of f(r_n) - f(r_(n+1)) is at least that of f'(r_(n+1)) (r_n - r_(n+1)), which is "
        "not negative. Differentiation under the integral, the covariance as a mean over pairs, and the tangent of a "
        "convex function are quoted",
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "SPECS-X1",
        two_letters("each density ratio within (kappa - 1) / n of one", within_ratio, scale=Fraction(1)),
        verify=Given(lambda statement: _verify_sharp(statement.numbers["scale"])),
        mutants={
            "faster": partial(prove_density_ratio, 2),
            "smaller": partial(_verify_sharp, Fraction(1, 8)),
            "slightly smaller": partial(_verify_sharp, Fraction(99, 100)),
        },
    ),
    record(
        Verdict.NUMERIC,
        "SPECS-X2",
        two_letters("chi2 <= ((kappa - 1) / n)^2 / 4", _within, share=Fraction(1, 4)),
        verify=Given(lambda statement: _verify_constant(statement.numbers["share"])),
        mutants={"1/8": partial(_verify_constant, Fraction(1, 8))},
    ),
    proved(
        "SPECS-X3",
        two_letters("every convex divergence falls from width n to n + 1", _convex_order, widths=(1, 3)),
        verify=_verify_falling,
        mutants={"half": partial(_verify_falling, Fraction(1, 2))},
    ),
)
