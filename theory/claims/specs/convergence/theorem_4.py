"""Claims of SPECS inside the proof of Theorem 4: Lemmas 6 and 7, Equation 21, Appendix C.2, and the theorem itself."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from flint import arb

from theory.claims.ledger import Claim, Evidence, statement
from theory.claims.proving.balls import point, precision
from theory.claims.proving.deferred import sp
from theory.claims.proving.records import mutant, proved, refuted
from theory.claims.proving.tools import all_of, identity, prove_descent, refute
from theory.claims.specs import exact
from theory.claims.specs.common_proofs import prove_density_ratio, prove_gibbs
from theory.claims.specs.convergence.corollaries import bounded, prove_poisson_moment
from theory.claims.specs.formulas import TWO_INTEGRALS

__all__ = ["CLAIMS"]

_HALF = Fraction(1, 2)


def _log2_dominates(scale: Fraction, constant: Fraction) -> Evidence:
    """``6 / (1 - exp(-n)) <= constant * log(n)**2`` from n = 3 on: the left side falls with n, the right side grows."""

    def gap() -> arb:
        return point(constant) * arb(3).log() ** 2 - point(scale) / (1 - (-arb(3)).exp())

    return exact.at_least(gap, f"{scale} / (1 - exp(-n)) <= {constant} log(n)^2 at n = 3, and beyond it by monotony")


def _poisson_mean(instance: exact.Instance, n: int, terms: int = 5) -> arb:
    """Lower bound of the mean divergence over N ~ Poisson(n) given N > 0: its first terms."""
    total, mass = arb(0), (-arb(n)).exp()
    for size in range(1, terms + 1):
        mass = mass * n / size
        total += mass * exact.kl(instance.selected(size), instance.optimum).ball()
    return total / (1 - (-arb(n)).exp())


def _verify_theorem4(constant: Fraction = Fraction(21, 4)) -> Evidence:
    """Mean divergence <= constant * (kappa log n / n)**2 for n >= 3; screened by partial sums of the mean."""

    def holds(instance: exact.Instance, n: int) -> bool:
        with precision(64):
            bound = point(constant) * (point(exact.ratio(instance.weights)) * arb(n).log() / n) ** 2
            return not _poisson_mean(instance, n) > bound

    return all_of(
        exact.agree(holds, what="partial sums of the Poisson mean stay below the bound", sizes=(3, 4)),
        prove_density_ratio,
        prove_poisson_moment,
        prove_gibbs,
        lambda: _log2_dominates(Fraction(6), constant),
        detail="D <= log(1 + chi2) <= chi2 <= ((kappa - 1) / N)^2, averaged over N",
    )


def _verify_chain(final: int = 8) -> Evidence:
    """Appendix C.2 after Lemmas 6 and 7: ``log(1 + E chi2) <= 8 p**2 kappa**2 = 128 (kappa log n / n)**2``."""
    x, u = sp.symbols("x u", positive=True)
    return all_of(
        lambda: prove_descent(sp.exp(u) - 1 - u, u, what="z <= exp(z) - 1", order=2),
        lambda: exact.at_least(
            lambda: 4 * 16 * arb(3).log() ** 2 - 4, "4 kappa / n^2 <= 4 p^2 kappa^2, as log n >= 1, kappa >= 1"
        ),
        identity(sp.exp(2 * x) - (1 + 2 * (sp.exp(x) - 1)) - (sp.exp(x) - 1) ** 2, "1 + 2 (exp(x) - 1) <= exp(2 x)"),
        exact.decided(final * 16 == 128, what="2 * 4 p^2 kappa^2 = 128 (kappa log n / n)^2 with p = 4 log(n) / n"),
    )


def _verify_display(poisson: bool = True) -> Evidence:
    """1 + chi2 of the averaged law (printed) against 1 + the average of chi2, which is what the integrals add up to.

    N ~ Poisson(n) given N > 0. The average exceeds chi2 of the averaged law by the sum over letters y of the variance
    of pi_N(y) over pi*(y); two widths a, b alone give at least p_a p_b (pi_a(y) - pi_b(y))**2 of each variance.
    """

    def gap(gen1: Fraction, weight2: Fraction, n: Fraction) -> arb:
        gen, weights = (gen1, 1 - gen1), (Fraction(1), weight2)
        star = exact.tilted(gen, weights)
        one, two = (exact.selection_law(gen, weights, width) for width in (1, 2))
        mass = point(n) / (point(n).exp() - 1), point(n) ** 2 / 2 / (point(n).exp() - 1)
        apart = sum(((a - b) ** 2 / s for a, b, s in zip(one, two, star, strict=True)), Fraction(0))
        return mass[0] * mass[1] * point(apart)

    def holds(gen1: Fraction, weight2: Fraction, n: Fraction) -> bool:
        with precision(64):
            return not gap(gen1, weight2, n) > 0 if poisson else not gap(gen1, weight2, n) < 0

    def explain(**at: Fraction) -> str:
        with precision(64):
            return f"widths 1 and 2 alone put at least {float(gap(**at).mid()):.2g} between the two sides"

    points: list[dict[str, Fraction | int | str]] = [
        {"gen1": _HALF, "weight2": 1, "n": 3},
        {"gen1": _HALF, "weight2": 2, "n": 3},
    ]
    sides = "equals" if poisson else "is at most"
    what = f"chi2 of the law averaged over N ~ Poisson(n), N > 0, {sides} the average of chi2"
    return refute(holds, points, what=what, explain=explain)


def _fix_display() -> Evidence:
    a, b, t = sp.symbols("a b t", nonnegative=True)
    u = 1 / (1 + t)
    gap = u * a**2 + (1 - u) * b**2 - (u * a + (1 - u) * b) ** 2
    return all_of(
        identity(gap - u * (1 - u) * (a - b) ** 2, "mean of squares - square of mean = u (1 - u)(a - b)^2"),
        partial(exact.agree, _convex_holds, what="chi2 of a mixture of widths <= mixture of chi2", sizes=(1, 2, 3)),
        detail="The sum of the two integrals is 1 + E[chi2(pi_N | pi*)], at least 1 + chi2 of the averaged law",
    )


def _convex_holds(instance: exact.Instance, n: int) -> bool:
    laws = [instance.selected(k) for k in (n, n + 1)]
    mixed = tuple((a + b) / 2 for a, b in zip(*laws, strict=True))
    return exact.chi_square(mixed, instance.optimum) * 2 <= sum(
        (exact.chi_square(x, instance.optimum) for x in laws), Fraction(0)
    )


def _verify_minimum(constant: Fraction = Fraction(3, 2)) -> Evidence:
    """The best width up to n is at least as good as width floor(n) >= 3 n / 4."""
    return all_of(
        bounded(
            lambda i, n: constant * (exact.ratio(i.weights) - 1) ** 2 / n**2,
            "chi2 at width n <= 3/2 ((kappa - 1) / n)^2",
        ),
        prove_density_ratio,
        lambda: exact.at_least(
            lambda: point(constant) * arb(3).log() ** 2 - point(Fraction(16, 9)),
            "(n / floor(n))^2 <= 16/9 <= 3/2 log(3)^2",
        ),
    )


def _verify_lemma6(scale: int = 1) -> Evidence:
    """``I_0 <= I_0 + I_1 = 1 + E chi2 <= 1 + 6 (kappa - 1)**2 / (n**2 (1 - exp(-n))) <= exp(p**2 (kappa - 1)**2)``."""
    u = sp.Symbol("u", positive=True)
    return all_of(
        prove_density_ratio,
        prove_poisson_moment,
        lambda: prove_descent(sp.exp(u) - 1 - u, u, what="1 + z <= exp(z)", order=2),
        lambda: _log2_dominates(Fraction(6 * scale), Fraction(16)),
        detail="n^2 p_n^2 = 16 log(n)^2; the integrand of I_1 is positive",
    )


def _verify_lemma6_step(largest: Fraction = Fraction(7, 10), denominator: int = 2) -> Evidence:
    """The last line of the proof needs ``1 / (2 (1 - p)**2) <= 1`` for every p up to 1/sqrt(2) (7/10 lies below)."""

    def holds(p: Fraction) -> bool:
        return 1 / (denominator * (1 - p) ** 2) <= 1

    return refute(
        holds,
        [{"p": p} for p in (Fraction(1, 4), _HALF, largest) if p <= largest],
        what="1 / (2 (1 - p)^2) <= 1 for p <= 1/sqrt(2)",
        explain=lambda p: f"the factor is {1 / (denominator * (1 - p) ** 2)}",
    )


def _fix_lemma6_step() -> Evidence:
    """Popoviciu's bound on the variance halves the factor: ``1 / (4 (1 - p)**2) <= 1`` for p <= 1/2."""
    a = sp.Symbol("a", nonnegative=True)
    low, high, mu = sp.symbols("m M mu", positive=True)
    p = sp.Rational(1, 2) / (1 + a)
    return all_of(
        identity(
            (high - low) ** 2 / 4 - (high - mu) * (mu - low) - ((high + low) / 2 - mu) ** 2,
            "var <= (M - mu)(mu - m) <= (M - m)^2 / 4",
        ),
        lambda: exact.nonnegative(1 - 1 / (4 * (1 - p) ** 2), what="1 / (4 (1 - p)^2) <= 1 for 0 <= p <= 1/2"),
        lambda: exact.at_least(
            lambda: 1 - 1 / (2 * (1 - _p(55)) ** 2), "the printed factor is at most 1 from n = 55 on"
        ),
        lambda: exact.at_least(lambda: 1 / (2 * (1 - _p(54)) ** 2) - 1, "but not at n = 54"),
        lambda: exact.at_least(lambda: point(_HALF) - _p(27), "p_n <= 1/2 from n = 27 on"),
        lambda: exact.at_least(lambda: arb(2).rsqrt() - _p(16), "p_n <= 1/sqrt(2) from n = 16 on"),
        lambda: exact.at_least(lambda: 4 - 1 / (4 * (1 - arb(2).rsqrt()) ** 2), "the repaired factor is below 4 there"),
        detail="log(n) / n falls for n >= 3",
    )


def _p(n: int) -> arb:
    """The paper's ``p_n = log(n**4) / n``."""
    return 4 * arb(n).log() / n


def _verify_bounded(below: bool = True) -> Evidence:
    """One letter, weight one: Phi = exp(-s), f(s) = log(-Phi'(s)) = -s. At least -bound (printed), or at most bound."""
    return refute(
        lambda bound, s: -s >= -bound if below else -s <= bound,
        [{"bound": 10, "s": 11}],
        what="f(s) = log(-Phi'(s)) is bounded in size, for Phi = exp(-s)",
        explain=lambda bound, s: f"f({s}) = {-s}; the same happens for every bound",
    )


def _pair_identity(half: int = 2) -> Evidence:
    """``Phi''' Phi' - Phi''**2 = E[w w' (w - w')**2 exp(-u (w + w'))] / 2``, pair by pair."""
    a, b = sp.symbols("w v", positive=True)
    pair = (a**3 * b + a * b**3) / 2 - a**2 * b**2
    return all_of(identity(pair - a * b * (a - b) ** 2 / half, "symmetrised pair of Phi''' Phi' - Phi''^2"))


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
        _slope_bound,
    )


def _second_log_derivative() -> Evidence:
    x = sp.Symbol("x")
    phi = sp.Function("Phi")(x)
    second = sp.diff(sp.log(-sp.diff(phi, x)), x, 2)
    d1, d2, d3 = (sp.diff(phi, x, k) for k in (1, 2, 3))
    return exact.decided(
        sp.simplify(second - (d3 * d1 - d2**2) / d1**2) == 0, what="f'' = (Phi''' Phi' - Phi''^2) / Phi'^2"
    )


def _slope_bound() -> Evidence:
    a, low, e = sp.symbols("a m e", nonnegative=True)
    return exact.nonnegative((low + a) * e - low * e, what="-Phi'(u) >= phi_min Phi(u), letter by letter")


def _verify_lemma7(constant: Fraction = Fraction(4)) -> Evidence:
    """``(n**2 + n) / (1 - exp(-n)) <= 4 n**2``, ``exp(-log n**4) = n**-4`` and ``E[w] E[1/w] <= kappa``."""
    w = sp.Symbol("w", positive=True)
    s1, s2 = sp.symbols("s1 s2", positive=True)
    a, b, low = sp.symbols("a b m", nonnegative=True)

    def holds(instance: exact.Instance, _n: int) -> bool:
        mean = sum((g * x for g, x in zip(instance.gen, instance.weights, strict=True)), Fraction(0))
        inverse = sum((g / x for g, x in zip(instance.gen, instance.weights, strict=True)), Fraction(0))
        return bool(mean * inverse <= exact.ratio(instance.weights))

    return all_of(
        lambda: exact.at_least(
            lambda: point(constant) - 2 / (1 - (-arb(1)).exp()),
            f"(1 + 1/n) / (1 - exp(-n)) < {constant} at n = 1, and beyond it as both factors fall",
        ),
        identity(
            sp.integrate(sp.integrate(w * sp.exp(-(s1 + s2) * w), (s1, 0, sp.oo)), (s2, 0, sp.oo)) - 1 / w,
            "double integral of w exp(-(s1 + s2) w) is 1/w",
        ),
        lambda: exact.nonnegative((low + a) - (low + a) / (1 + b), what="w / w' <= M / m"),
        exact.agree(holds, what="E[w] E[1/w] <= kappa", sizes=(1,)),
        detail="On R_1 the smaller of Phi, Phi' is at most 1 - p_n, so n (1 - Phi Phi') >= log n^4",
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        id="SPECS-E21",
        source="SPECS, Equation 21, Appendix C.1",
        statement="f(s1 + s2) + f(0) - f(s1) - f(s2) is the double integral of f'', f = log(-Phi'), and f'' is half "
        "the mean of (phi - phi')^2 over two draws of a tilted law.",
        assumptions="finite alphabet, positive weights",
        verify=_verify_equation21,
        mutants=(mutant("whole", "without the half", _verify_equation21, 1),),
        notes="In the display after it the denominator E[phi exp(-u phi)]^2 stands for Phi'(u1) Phi'(u2).",
    ),
    refuted(
        id="SPECS-L6a",
        source="SPECS, proof of Lemma 6, Appendix C.1",
        statement="f = log(-Phi') is bounded, smooth and convex.",
        assumptions="s >= 0",
        verify=_verify_bounded,
        correction="It is smooth and convex, with slope between -phi_max and -phi_min, so it falls without bound.",
        correction_verify=_verify_equation21,
        mutants=(mutant("above", "bounded above", _verify_bounded, below=False),),
        notes="Boundedness is not used.",
    ),
    refuted(
        id="SPECS-L6b",
        source="SPECS, last step of the proof of Lemma 6, Appendix C.1",
        statement="For p_n <= 1/sqrt(2) the factor 1 / (2 (1 - p_n)^2) is at most one.",
        assumptions="0 <= p_n <= 1/sqrt(2)",
        verify=_verify_lemma6_step,
        correction="It is for p_n <= 1 - 1/sqrt(2) (n >= 55). With Popoviciu's variance bound the factor becomes "
        "1 / (4 (1 - p_n)^2), at most one for p_n <= 1/2 (n >= 27).",
        correction_verify=_fix_lemma6_step,
        mutants=(mutant("1/4", "p up to 1/4 only", _verify_lemma6_step, Fraction(1, 4)),),
        notes="At p = 1/sqrt(2) the factor is 3 + 2 sqrt(2) = 5.83; p^2 <= 1/2 was taken for (1 - p)^2 >= 1/2.",
    ),
    proved(
        id="SPECS-L6",
        source="SPECS, Lemma 6, Appendix C.1",
        statement="I_0 <= exp(p_n^2 (kappa - 1)^2) when p_n = 4 log(n) / n <= 1/sqrt(2).",
        assumptions=f"{exact.FIXED_WIDTH}; n >= 3",
        verify=_verify_lemma6,
        mutants=(mutant("quarter", "p_n^2 / 4", _verify_lemma6, 4),),
        notes="The printed proof stops short (SPECS-L6b). Repaired: I_0 is at most I_0 + I_1 = 1 + E chi2, which "
        "SPECS-X1 bounds by less than the claim, for every n >= 3.",
    ),
    proved(
        id="SPECS-L7",
        source="SPECS, Lemma 7, Appendix C.1",
        statement="I_1 <= 4 kappa / n^2.",
        assumptions=f"{exact.FIXED_WIDTH}; n >= 1",
        verify=_verify_lemma7,
        mutants=(mutant("3", "constant 3", _verify_lemma7, Fraction(3)),),
        notes="One line prints E[phi] E[1/phi] = kappa where at most is meant. From n = 3 on the constant 1.41 does.",
    ),
    proved(
        id="SPECS-T4",
        source="SPECS, Theorem 4, Appendices B.2 and C",
        statement="For n >= 3 the mean of D(pi_N | pi*) over N ~ Poisson(n), N > 0, is O((kappa log n / n)^2).",
        expression=statement("specs", "poisson_bound"),
        assumptions=f"{exact.FIXED_WIDTH}; n >= 3 real",
        verify=_verify_theorem4,
        mutants=(mutant("1/100", "constant 1/100", _verify_theorem4, Fraction(1, 100)),),
        notes="Hidden constant 21/4 for all n >= 3; without the logarithm, 6 (kappa - 1)^2 / (n^2 (1 - exp(-n))). The "
        "printed proof needs p_n = 4 log(n) / n <= 1/2, that is n >= 27, and leaves 3 <= n <= 26 open; the sharpening "
        "SPECS-X1 covers every n.",
    ),
    proved(
        id="SPECS-T4b",
        source="SPECS, proof of Theorem 4, Appendix C.2",
        statement="The two integral bounds combine to log(1 + E chi2) <= 8 p_n^2 kappa^2 = 128 (kappa log n / n)^2.",
        assumptions="Lemmas 6 and 7; n >= 3, kappa >= 1",
        formula=TWO_INTEGRALS,
        verify=_verify_chain,
        mutants=(mutant("halved", "4 p_n^2 kappa^2", _verify_chain, 4),),
        notes="The factor 4 in the exponent also absorbs the repaired constant of Lemma 6, 1 / (4 (1 - p)^2) <= 2.92 "
        "for p <= 1/sqrt(2), so the printed route gives Theorem 4 with constant 128 for n >= 16.",
    ),
    refuted(
        id="SPECS-C2d",
        source="SPECS, first display of Appendix C.2",
        statement="I_0 + I_1 = 1 + chi2(pi_bar | pi*), with pi_bar the law averaged over N ~ Poisson(n), N > 0.",
        assumptions=exact.FIXED_WIDTH,
        verify=_verify_display,
        correction="I_0 + I_1 = 1 + E[chi2(pi_N | pi*)], which is at least 1 + chi2(pi_bar | pi*).",
        correction_verify=_fix_display,
        mutants=(mutant("weak", "at most, not equal", _verify_display, poisson=False),),
        notes="The next display of the paper uses the right quantity.",
    ),
    proved(
        id="SPECS-T4c",
        source="SPECS, corollary after Theorem 4, Appendix B.2",
        statement="The best width up to n >= 3 has divergence O((kappa log n / n)^2).",
        assumptions=f"{exact.FIXED_WIDTH}; n >= 3 real",
        verify=_verify_minimum,
        mutants=(mutant("1/100", "constant 1/100", _verify_minimum, Fraction(1, 100)),),
        notes="Constant 3/2; no minimum is needed, the width floor(n) does.",
    ),
)
