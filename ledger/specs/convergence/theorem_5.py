"""Claims of SPECS about its lower bound: Theorem 5, Equations 22 and 23, Appendix C.3.

Two letters: y0 with reward 0 and target probability theta / (1 + theta), y1 with reward R and 1 / (1 + theta), where
theta = exp(beta R); the optimum is (1/2, 1/2).
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Final

from flint import arb

from ledger.ledger import Claim, Evidence
from ledger.proving.balls import point, precision
from ledger.proving.cases import Predicate, searched
from ledger.proving.deferred import sp
from ledger.proving.domains import between, whole
from ledger.proving.margins import Margin, at_least, at_most
from ledger.proving.records import Given, proved, proved_with_fix, refuted, repaired, restated
from ledger.proving.tools import all_of, identity, prove_positive, screened, with_fix
from ledger.specs import st
from ledger.specs.exact import HALF, decided, nonnegative, selection_law, tilted
from ledger.specs.exact import at_least as positive

__all__ = ["CLAIMS"]
_CONSTANT: Final = Fraction(50)
"""Constant of the lower bound that is proved here."""


def _law(theta: Fraction, n: int) -> tuple[Fraction, ...]:
    return selection_law((theta / (1 + theta), 1 / (1 + theta)), (Fraction(1), theta), n)


def _verify_transform(swapped: bool = False) -> Evidence:
    """The optimum is uniform and the transform is ``(theta exp(-s) + exp(-s theta)) / (1 + theta)``."""
    th, s = st.theta, st.s
    gens = (th / (1 + th), 1 / (1 + th))
    weights = (th, sp.Integer(1)) if swapped else (sp.Integer(1), th)
    printed = (th * sp.exp(-s) + sp.exp(-s * th)) / (1 + th)
    return all_of(
        identity(st.optimum(0, gens, weights) - sp.Rational(1, 2), "the optimum is (1/2, 1/2)"),
        identity(st.laplace(gens, weights) - printed, "Equation 22"),
    )


def _fix_equation23() -> Evidence:
    b, c, d = sp.symbols("b c d", nonnegative=True)
    low, high = 1 / (2 + b + c), 1 / (2 + b)  # exp(-n) and exp(-1), both at most 1/2
    rho = 1 + d
    left = ((1 - high) / 2 + (high - low) / 2 * rho) / (1 - low)
    return all_of(
        nonnegative(left - (sp.Rational(1, 2) + (high - low) / 2 * (rho - 1)), "the line before is at least it")
    )


def _slope(u: arb) -> arb:
    """Derivative of `_excess` in u = 1/theta."""
    z = (u + u * u) / 2
    return -(1 - z).log() / (u * u) - (1 / u - 1) * (point(HALF) + u) / (1 - z) + 1 / (3 - u)


def _fix_power() -> Evidence:
    """At n = theta: F(u) = (1/u - 1) log(1 - (u + u**2)/2) - log((3 - u)/4) <= 0; for larger n by convexity in x."""
    u, d = sp.symbols("u d", positive=True)
    below = 1 / (1 + d)
    z_of_u = (u + u**2) / 2
    excess = (1 / u - 1) * sp.log(1 - z_of_u) - sp.log((3 - u) / 4)
    slope = -sp.log(1 - z_of_u) / u**2 - (1 / u - 1) * (sp.Rational(1, 2) + u) / (1 - z_of_u) + 1 / (3 - u)
    return all_of(
        identity(
            "theta * (1 + theta) / (2 * theta * n) / 2 == (1 + theta) / (4 * n)", "the right side is 1 - theta x / 2"
        ),
        identity(sp.simplify(sp.diff(excess, u) - slope), "F'"),
        lambda: decided(excess.subs(u, sp.Rational(1, 2)) == 0, what="F(1/2) = 0 (theta = 2, equality)"),
        lambda: prove_positive(_slope, {"u": ("3/10", "1/2")}, what="F' > 0, so F < 0 for 2 < theta <= 10/3"),
        identity((1 / u - 1) * z_of_u - (1 - u**2) / 2, "F <= -(1 - u^2)/2 - log((3 - u)/4) on (0, 1)"),
        nonnegative(below + 1 / (3 - below), "that bound grows with u on (0, 1)"),
        positive(
            lambda: point(Fraction(91, 200)) + point(Fraction(27, 40)).log(),
            "it is negative at u = 3/10, so F < 0 below",
        ),
        detail="log(1 - z) <= -z gives the bound for small u; both sides are 1 at x = 0 and the left one is convex",
    )


def _distance(theta: Fraction, n: int) -> tuple[arb, arb]:
    """Enclosure of the Poisson mean of pi_N(y0) - 1/2: its first 14 terms, and the mass left over."""
    total, mass, left = arb(0), (-arb(n)).exp(), 1 - (-arb(n)).exp()
    for size in range(1, 15):
        mass = mass * n / size
        left -= mass
        total += mass * point(_law(theta, size)[0] - HALF)
    scale = 1 - (-arb(n)).exp()
    return (total - left / 2) / scale, (total + left / 2) / scale


def _far(constant: Fraction = _CONSTANT) -> Predicate:
    def holds(theta: Fraction, n: Fraction, constant: Fraction) -> Margin:
        with precision(64):
            return at_most(point(theta / (constant * n)), _distance(theta, int(n))[1])

    return Predicate(
        text=f"pi_bar(y0) - 1/2 >= theta / ({constant} n)",
        test=holds,
        domain={"theta": between(2, 8, "[]"), "n": whole(3, 8)},
        premise=lambda theta, n, **_: at_least(n, theta),
        given="n >= theta",
        numbers={"constant": constant},
    )


def _verify_distance(constant: Fraction) -> Evidence:
    """``pi_bar(y0) - 1/2 >= theta / (constant n)`` for n >= max(theta, 3), theta >= 2."""
    slope = "diff((theta * t + t**theta) / (1 + theta), t) == (theta + theta * t**(theta - 1)) / (1 + theta)"
    x = "(1 + theta) / (2 * theta * n)"
    search = searched(_far(constant), *[{"theta": th, "n": k} for th, k in ((2, 3), (3, 3), (2, 5))])
    return screened(
        search,
        identity(slope, "g', which grows with t"),
        identity(
            f"theta / (1 + theta) * (1 - {x}) + (1 - theta * {x}) / (1 + theta) == 1 - 1 / n",
            "g(1 - x) >= 1 - 1/n by Bernoulli's inequality",
        ),
        _fix_power,
        _fix_equation23,
        nonnegative("(a + b) / a >= (a + b + 1) / (a + 1)", "A / (A - b) falls in A, and A = 2 theta/(1+theta) < 2"),
        lambda: prove_positive(
            lambda n: point(constant) * ((-arb(1)).exp() - (-n).exp()) - 16 + 4 / n,
            {"n": (3, 4)},
            what=f"{constant} (exp(-1) - exp(-n)) >= 16 - 2 theta / n, as theta >= 2",
        ),
        positive(
            lambda: point(constant) * ((-arb(1)).exp() - (-arb(4)).exp()) - 16,
            f"{constant} (exp(-1) - exp(-n)) > 16 for n >= 4",
        ),
    )


def _trivial(theta: Fraction, n: Fraction) -> bool:
    """Whether the output differs from the optimum."""
    law = _law(theta, int(n))
    return law != tilted((theta / (1 + theta), 1 / (1 + theta)), (Fraction(1), theta))


_PRINTED_BOUND: Final = Predicate(
    text="the divergence is at least a positive multiple of theta^2 / n^2 for n >= theta = exp(beta R)",
    test=_trivial,
    domain={"theta": between(1, None, "[)"), "n": whole(1)},
    premise=lambda theta, n: n >= theta,
    given="n >= theta",
    explain=lambda theta, n: "with R = 0 every candidate scores alike and the output is the optimum",
)


def _verify_theorem5(printed_theta: int = 1, constant: Fraction = _CONSTANT) -> Evidence:
    """As printed it includes R = 0, where nothing is left to bound; theta >= 2 gives theta**2 / (1250 n**2)."""
    return with_fix(
        partial(searched, _PRINTED_BOUND, {"theta": 3, "n": 3}, {"theta": printed_theta, "n": 3}),
        partial(_fix_theorem5, constant),
    )


def _fix_theorem5(constant: Fraction = _CONSTANT) -> Evidence:
    return all_of(
        _verify_transform,
        partial(_verify_distance, constant),
        lambda: decided(
            2 / constant**2 >= Fraction(1, 1250), what=f"2 (theta / ({constant} n))^2 >= theta^2 / (1250 n^2)"
        ),
        detail="Pinsker's inequality and convexity of the divergence are quoted",
    )


CLAIMS: tuple[Claim, ...] = (
    proved("SPECS-E22", verify=_verify_transform, mutants={"swapped": partial(_verify_transform, swapped=True)}),
    repaired(
        "SPECS-E23",
        fix=_fix_equation23,
        mutants={"factor": restated("SPECS-E23", change=("/ 2 * (rho - 1)", "/ 2 * (rho - 1) / (1 - a**3)"))},
    ),
    refuted("SPECS-T5a", fix=_fix_power, mutants={"at-most": restated("SPECS-T5a", change=(">=", "<="))}),
    proved(
        "SPECS-T5b",
        _far(),
        verify=Given(lambda statement: _verify_distance(statement.numbers["constant"])),
        mutants={name: partial(_verify_distance, 1 / Fraction(name)) for name in ("1/2", "1/45")},
    ),
    proved_with_fix(
        "SPECS-T5",
        _PRINTED_BOUND,
        verify=_verify_theorem5,
        fix=_fix_theorem5,
        mutants={
            "1/2": partial(_verify_theorem5, constant=Fraction(2)),
            "theta-3": partial(_verify_theorem5, printed_theta=3),
        },
    ),
)
