"""Claims of SPECS inside the proof of Theorem 4: Lemmas 6 and 7, Equation 21, Appendix C.2, and the theorem itself."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Final

from flint import arb

from ledger.ledger import Claim, Evidence
from ledger.proving.balls import point, precision
from ledger.proving.deferred import sp
from ledger.proving.domains import between
from ledger.proving.margins import Margin, at_most
from ledger.proving.records import Given, proved, refuted, restated
from ledger.proving.tools import all_of, descent, identity, prove_identity
from ledger.specs import exact
from ledger.specs.common_proofs import prove_density_ratio, prove_gibbs
from ledger.specs.convergence.corollaries import bounded, poisson_bounded, prove_poisson_moment
from ledger.specs.points import own_drafts, two_letters

__all__ = ["CLAIMS"]


def _log2_dominates(scale: Fraction, constant: Fraction) -> Evidence:
    """``6 / (1 - exp(-n)) <= constant * log(n)**2`` from n = 3 on: the left side falls with n, the right side grows."""

    def gap() -> arb:
        return point(constant) * arb(3).log() ** 2 - point(scale) / (1 - (-arb(3)).exp())

    return exact.at_least(gap, f"{scale} / (1 - exp(-n)) <= {constant} log(n)^2 at n = 3, and beyond it by monotony")


_THEOREM_4: Final = "the first four terms of the Poisson mean of chi2 are at most {} (kappa log n / n)^2"


def _order(constant: Fraction, instance: exact.Instance, n: Fraction) -> arb:
    return point(constant) * (point(exact.ratio(instance.weights)) * point(n).log() / point(n)) ** 2


_CONSTANT: Final = Fraction(21, 4)


def _within_order(instance: exact.Instance, n: Fraction, constant: Fraction) -> Margin:
    """For divergences up to log(1 + chi2) as well, which are smaller."""
    return poisson_bounded(instance, n, partial(_order, constant))


def _verify_theorem4(constant: Fraction) -> Evidence:
    """Mean divergence <= constant * (kappa log n / n)**2 for n >= 3; screened by partial sums of the mean."""
    return all_of(
        exact.agree(
            lambda instance, n: _within_order(instance, Fraction(n), constant),
            what=_THEOREM_4.format(constant),
            sizes=(3, 4),
        ),
        prove_density_ratio,
        prove_poisson_moment,
        prove_gibbs,
        lambda: _log2_dominates(Fraction(6), constant),
        detail="D <= log(1 + chi2) <= chi2 <= ((kappa - 1) / N)^2, averaged over N",
    )


def _verify_chain(final: int = 8) -> Evidence:
    """Appendix C.2 after Lemmas 6 and 7: ``log(1 + E chi2) <= 8 p**2 kappa**2 = 128 (kappa log n / n)**2``."""
    return all_of(
        descent("exp(u) - 1 - u", "z <= exp(z) - 1", "u", order=2),
        exact.at_least(
            lambda: 4 * 16 * arb(3).log() ** 2 - 4, "4 kappa / n^2 <= 4 p^2 kappa^2, as log n >= 1, kappa >= 1"
        ),
        identity("exp(2 * x) - (1 + 2 * (exp(x) - 1)) == (exp(x) - 1)**2", "1 + 2 (exp(x) - 1) <= exp(2 x)"),
        exact.decided(final * 16 == 128, what="2 * 4 p^2 kappa^2 = 128 (kappa log n / n)^2 with p = 4 log(n) / n"),
    )


def _best_width(instance: exact.Instance, n: Fraction, constant: Fraction) -> Margin:
    """Width floor(n), where the bound may use n."""
    with precision(64):
        return at_most(point(instance.divergence(int(n))), _order(constant, instance, n))


def _verify_minimum(constant: Fraction) -> Evidence:
    """The best width up to n is at least as good as width floor(n) >= 3 n / 4."""
    return all_of(
        bounded(
            lambda i, n: constant * (exact.ratio(i.weights) - 1) ** 2 / n**2,
            "chi2 at width n <= 3/2 ((kappa - 1) / n)^2",
        ),
        prove_density_ratio,
        exact.at_least(
            lambda: point(constant) * arb(3).log() ** 2 - point(Fraction(16, 9)),
            "(n / floor(n))^2 <= 16/9 <= 3/2 log(3)^2",
        ),
    )


def _verify_lemma6(scale: int = 1) -> Evidence:
    """``I_0 <= I_0 + I_1 = 1 + E chi2 <= 1 + 6 (kappa - 1)**2 / (n**2 (1 - exp(-n))) <= exp(p**2 (kappa - 1)**2)``."""
    return all_of(
        prove_density_ratio,
        prove_poisson_moment,
        descent("exp(u) - 1 - u", "1 + z <= exp(z)", "u", order=2),
        lambda: _log2_dominates(Fraction(6 * scale), Fraction(16)),
        detail="n^2 p_n^2 = 16 log(n)^2; the integrand of I_1 is positive",
    )


def _fix_lemma6_step() -> Evidence:
    """Popoviciu's bound on the variance halves the factor: ``1 / (4 (1 - p)**2) <= 1`` for p <= 1/2."""
    return all_of(
        identity(
            "(M - m)**2 / 4 - (M - mu) * (mu - m) == ((M + m) / 2 - mu)**2", "var <= (M - mu)(mu - m) <= (M - m)^2 / 4"
        ),
        exact.nonnegative("1 / (4 * (1 - 1 / 2 / (1 + a))**2) <= 1", "1 / (4 (1 - p)^2) <= 1 for 0 <= p <= 1/2"),
        exact.at_least(lambda: 1 - 1 / (2 * (1 - _p(55)) ** 2), "the printed factor is at most 1 from n = 55 on"),
        exact.at_least(lambda: 1 / (2 * (1 - _p(54)) ** 2) - 1, "but not at n = 54"),
        exact.at_least(lambda: point(Fraction(1, 2)) - _p(27), "p_n <= 1/2 from n = 27 on"),
        exact.at_least(lambda: arb(2).rsqrt() - _p(16), "p_n <= 1/sqrt(2) from n = 16 on"),
        exact.at_least(lambda: 4 - 1 / (4 * (1 - arb(2).rsqrt()) ** 2), "the repaired factor is below 4 there"),
        detail="log(n) / n falls for n >= 3",
    )


def _p(n: int) -> arb:
    """The paper's ``p_n = log(n**4) / n``."""
    return 4 * arb(n).log() / n


def _pair_identity(half: int = 2) -> Evidence:
    """``Phi''' Phi' - Phi''**2 = E[w w' (w - w')**2 exp(-u (w + w'))] / 2``, pair by pair."""
    pair = f"(w**3 * v + w * v**3) / 2 - w**2 * v**2 == w * v * (w - v)**2 / {half}"
    return prove_identity(pair, what="symmetrised pair of Phi''' Phi' - Phi''^2")


def _verify_equation21(half: int = 2) -> Evidence:
    """The cross difference of f as a double integral of f'', and f'' as a variance over the tilted law."""
    x, y = sp.symbols("x y", nonnegative=True)
    f = sp.Function("f")
    difference = f(x + y) + f(0) - f(x) - f(y)
    mixed = sp.diff(difference, x, y).doit()
    second = sp.diff(f(x), x, 2).subs(x, x + y).doit()
    return all_of(
        partial(_pair_identity, half),
        lambda: exact.decided(difference.subs(x, 0) == 0, what="no difference at s1 = 0 (and, by symmetry, s2 = 0)"),
        lambda: exact.decided(sp.simplify(mixed - second) == 0, what="mixed derivative is f''(s1 + s2)"),
        _second_log_derivative,
        exact.nonnegative("(m + a) * e >= m * e", "-Phi'(u) >= phi_min Phi(u), letter by letter"),
    )


def _second_log_derivative() -> Evidence:
    x = sp.Symbol("x")
    phi = sp.Function("Phi")(x)
    second = sp.diff(sp.log(-sp.diff(phi, x)), x, 2)
    d1, d2, d3 = (sp.diff(phi, x, k) for k in (1, 2, 3))
    return exact.decided(
        sp.simplify(second - (d3 * d1 - d2**2) / d1**2) == 0, what="f'' = (Phi''' Phi' - Phi''^2) / Phi'^2"
    )


def _verify_lemma7(constant: Fraction = Fraction(4)) -> Evidence:
    """``(n**2 + n) / (1 - exp(-n)) <= 4 n**2``, ``exp(-log n**4) = n**-4`` and ``E[w] E[1/w] <= kappa``."""
    w = sp.Symbol("w", positive=True)
    s1, s2 = sp.symbols("s1 s2", positive=True)

    def holds(instance: exact.Instance, _n: int) -> bool:
        mean = sum((g * x for g, x in zip(instance.gen, instance.weights, strict=True)), Fraction(0))
        inverse = sum((g / x for g, x in zip(instance.gen, instance.weights, strict=True)), Fraction(0))
        return bool(mean * inverse <= exact.ratio(instance.weights))

    return all_of(
        exact.at_least(
            lambda: point(constant) - 2 / (1 - (-arb(1)).exp()),
            f"(1 + 1/n) / (1 - exp(-n)) < {constant} at n = 1, and beyond it as both factors fall",
        ),
        identity(
            sp.integrate(sp.integrate(w * sp.exp(-(s1 + s2) * w), (s1, 0, sp.oo)), (s2, 0, sp.oo)) - 1 / w,
            "double integral of w exp(-(s1 + s2) w) is 1/w",
        ),
        exact.nonnegative("m + a >= (m + a) / (1 + b)", "w / w' <= M / m"),
        exact.agree(holds, what="E[w] E[1/w] <= kappa", sizes=(1,)),
        detail="On R_1 the smaller of Phi, Phi' is at most 1 - p_n, so n (1 - Phi Phi') >= log n^4",
    )


CLAIMS: tuple[Claim, ...] = (
    proved("SPECS-E21", verify=_verify_equation21, mutants={"whole": partial(_verify_equation21, 1)}),
    refuted("SPECS-L6a", fix=_verify_equation21, mutants={"above": restated("SPECS-L6a", relation="-s <= bound")}),
    refuted("SPECS-L6b", fix=_fix_lemma6_step, mutants={"1/4": restated("SPECS-L6b", domain="p in [0, 1/4]", p="1/4")}),
    proved("SPECS-L6", verify=_verify_lemma6, mutants={"quarter": partial(_verify_lemma6, 4)}),
    proved("SPECS-L7", verify=_verify_lemma7, mutants={"3": partial(_verify_lemma7, Fraction(3))}),
    proved(
        "SPECS-T4",
        two_letters(_THEOREM_4.format(_CONSTANT), _within_order, means=between(3, None, "[)"), constant=_CONSTANT),
        verify=Given(lambda statement: _verify_theorem4(statement.numbers["constant"])),
        mutants={"1/100": partial(_verify_theorem4, Fraction(1, 100))},
    ),
    proved("SPECS-T4b", verify=_verify_chain, mutants={"halved": partial(_verify_chain, 4)}),
    proved(
        "SPECS-T4c",
        own_drafts(
            "chi2 at width floor(n) <= 3/2 (kappa log n / n)^2",
            _best_width,
            means=between(3, 7, "[)"),
            constant=Fraction(3, 2),
        ),
        verify=Given(lambda statement: _verify_minimum(statement.numbers["constant"])),
        mutants={"1/100": partial(_verify_minimum, Fraction(1, 100))},
    ),
)
