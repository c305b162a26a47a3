"""Claims of SPECS that compare divergences: the remark after Lemma 1, Remarks 1 and 2."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Predicate
from ledger.proving.deferred import sp
from ledger.proving.domains import between
from ledger.proving.records import refuted
from ledger.proving.tools import all_of
from ledger.specs.common_proofs import prove_gibbs
from ledger.specs.exact import Instance, Logs, agree, chi_square, decided, kl, log, tilted

__all__ = ["CLAIMS"]

_HALF = Fraction(1, 2)


def _direction(swapped: bool = False) -> Predicate:
    """A policy that puts too little mass on a letter: which divergence is larger, reverse (printed) or forward."""

    def holds(star1: Fraction, pi1: Fraction) -> bool:
        star, policy = (star1, 1 - star1), (pi1, 1 - pi1)
        reverse, forward = kl(policy, star), kl(star, policy)
        return (forward - reverse if swapped else reverse - forward).positive()

    return Predicate(
        text="reverse divergence punishes too little mass on a letter (pi1 instead of star1) more than forward "
        "divergence does",
        test=holds,
        domain={"star1": between(0, 1), "pi1": between(0, 1)},
        premise=lambda star1, pi1: pi1 < star1,
        given="pi1 < star1",
        at=[{"star1": _HALF, "pi1": Fraction(1, 100)}],
        explain=lambda star1, pi1: "reverse is 0.64, forward is 1.61",
    )


def _fix_direction() -> Evidence:
    """As the policy's mass on a letter goes to zero, forward divergence has no bound, reverse divergence has one."""
    x, q = sp.symbols("x q", positive=True)
    forward = q * sp.log(q / x)
    return all_of(
        decided(sp.limit(forward, x, 0, "+") == sp.oo, what="the letter's share of forward grows without bound"),
        decided(sp.limit(x * sp.log(x / q), x, 0, "+") == 0, what="the letter's share of reverse vanishes"),
        prove_gibbs,
        detail="reverse divergence is at most log(1 / min pi*), however little mass a letter gets",
    )


def _jensen(strict: bool = True) -> Predicate:
    """``D <= log(1 + chi2)``: strict as printed, or with equality allowed."""

    def holds(tilt2: Fraction, pi1: Fraction) -> bool:
        star, policy = tilted((_HALF, _HALF), (Fraction(1), tilt2)), (pi1, 1 - pi1)
        gap = log(1 + chi_square(policy, star)) - kl(policy, star)
        return gap.positive() or (not strict and gap == Logs({}))

    return Predicate(
        text="log(1 + chi2) is strictly larger than the divergence (target 1/2, 1/2; exp(beta r) = 1, tilt2)",
        test=holds,
        domain={"tilt2": between(0, None), "pi1": between(0, 1)},
        at=[{"tilt2": 3, "pi1": _HALF}, {"tilt2": 1, "pi1": _HALF}],
        explain=lambda tilt2, pi1: "both are 0 when the rewards are constant",
    )


def _fix_jensen() -> Evidence:
    """Tangent of the logarithm at the mean: ``log x <= log m + x / m - 1``; average it with m = E[x] = 1 + chi2."""

    def holds(instance: Instance, n: int) -> bool:
        law = instance.selected(n)
        return not (kl(law, instance.optimum) - log(1 + chi_square(law, instance.optimum))).positive()

    return all_of(
        agree(holds, what="D <= log(1 + chi2)", sizes=(1, 2)),
        prove_gibbs,
        detail="x = pi / pi* has mean 1 + chi2 under pi, and log x <= log m + x / m - 1",
    )


CLAIMS: tuple[Claim, ...] = (
    refuted(
        "SPECS-L1b",
        formula=_direction(),
        correction_verify=_fix_direction,
        mutants={"swapped": partial(_direction, True)},
    ),
    refuted(
        "SPECS-R2", formula=_jensen(), correction_verify=_fix_jensen, mutants={"weak": partial(_jensen, strict=False)}
    ),
)
