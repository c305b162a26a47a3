"""Claims of SPECS about its integral formulas: Lemmas 4 and 5, Equations 13 to 20.

A Poisson mean ``sum_k exp(-n) n**k / k! * a_k`` determines its coefficients, so each formula is an identity between
rationals for every width k: an integral of exponentials on one side, a sum over draws on the other. The general step is
always the same exchange of labels, ``k! / (c! ...) * c = k * (k - 1)! / ((c - 1)! ...)``, and ``1/A`` is the integral
of ``exp(-s A)``.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import factorial
from typing import TYPE_CHECKING

from theory.claims.ledger import Claim, Evidence, Mutant, Verdict
from theory.claims.proving.tools import all_of, prove_identity, refute, with_fix
from theory.claims.specs.exact import (
    Instance,
    agree,
    chi_square,
    decided,
    laplace_product,
    selection_law,
    selection_law_by_sequences,
    tilted,
)

if TYPE_CHECKING:
    import sympy

__all__ = ["CLAIMS"]

_HALF = Fraction(1, 2)
_FINITE = "finite alphabet; generator probabilities and weights positive; n > 0"


def _lemma4_expression() -> sympy.Basic:
    from theory.claims.specs import statements as st

    return st.poisson_selection(0, *st.letters(2))


def _lemma5_expression() -> sympy.Basic:
    from theory.claims.specs import statements as st

    return st.selection_second_moment(0, *st.letters(2))


def _exchange() -> Evidence:
    """Exchange of labels and the integral of an exponential, for all counts and weights."""
    import sympy as sp

    c, k = sp.symbols("c k", integer=True, positive=True)
    a, s = sp.symbols("a s", positive=True)
    swapped = (c * sp.factorial(k) / sp.factorial(c)) / (k * sp.factorial(k - 1) / sp.factorial(c - 1))
    return all_of(
        lambda: prove_identity(sp.combsimp(swapped) - 1, what="multinomial(k; c) c_y = k multinomial(k - 1; c - e_y)"),
        lambda: prove_identity(
            sp.integrate(sp.exp(-s * a), (s, 0, sp.oo)) - 1 / a, what="integral of exp(-s A) is 1/A"
        ),
        detail="Tonelli (all terms are positive) is quoted",
    )


def _verify_counts(shift: int = 0) -> Evidence:
    """The law by counts, E[N_y phi_y / sum | N], is the law by indices of Definition 4."""

    def holds(instance: Instance, n: int) -> bool:
        by_counts = selection_law(instance.gen, instance.weights, n + shift)
        return by_counts == selection_law_by_sequences(instance.gen, instance.weights, n)

    return all_of(agree(holds, what="Equation 13 = Definition 4"), _exchange)


def _verify_optimum_laplace(power: int = 1) -> Evidence:
    """``pi* = gen phi / (-Phi'(0))``."""
    import sympy as sp

    from theory.claims.specs import statements as st

    gens, weights = st.letters(3)
    slope = -sp.diff(st.laplace(gens, weights), st.s).subs(st.s, 0)
    return all_of(
        agree(
            lambda i, _n: tilted(i.gen, tuple(w**power for w in i.weights)) == i.optimum,
            what="gen phi, normalised, is the tilted target",
            sizes=(1,),
        ),
        lambda: prove_identity(
            gens[0] * weights[0] / slope - st.optimum(0, gens, weights), what="-Phi'(0) is the normaliser"
        ),
    )


def _verify_lemma4(power_shift: int = 1, with_weight: bool = True) -> Evidence:
    """Coefficient k: ``pi_k(y) = k g_y w_y integral Phi**(k - 1) exp(-s w_y)``."""

    def holds(instance: Instance, k: int) -> bool:
        law = selection_law_by_sequences(instance.gen, instance.weights, k)
        return all(
            law[y]
            == k * g * (w if with_weight else 1) * laplace_product(instance.gen, instance.weights, k - power_shift, w)
            for y, (g, w) in enumerate(zip(instance.gen, instance.weights, strict=True))
        )

    return all_of(agree(holds, what="Lemma 4, coefficient of exp(-n) n^k / k!"), _exchange)


def _verify_psi(with_weight: bool = False) -> Evidence:
    """Psi at s = 0 and n -> first order: E[N_y phi_y] = n g phi (defined) against n g (last line of the proof)."""
    return refute(
        lambda gen1, phi1: gen1 * phi1 == gen1 * (phi1 if with_weight else 1),
        [{"gen1": _HALF, "phi1": 2}],
        what="Psi_y(0) / n, defined with the factor phi_y, is g_y as in the last line of the proof",
        explain=lambda gen1, phi1: f"it is {gen1 * phi1}",
    )


def _verify_total(lost: Fraction = Fraction(0)) -> Evidence:
    """Sum over letters: ``k Phi**(k-1) sum_y g w exp(-s w) = -d/ds Phi**k``, whose integral is 1 - Phi(infinity)**k."""
    import sympy as sp

    from theory.claims.specs import statements as st

    gens, weights = st.letters(2)
    k = sp.Symbol("k", positive=True)
    phi = st.laplace(gens, weights)
    density = k * phi ** (k - 1) * sum(g * w * sp.exp(-st.s * w) for g, w in zip(gens, weights, strict=True))

    def holds(instance: Instance, n: int) -> bool:
        return sum(selection_law(instance.gen, instance.weights, n)) == 1 - lost**n

    return all_of(
        agree(holds, what="the law sums to one"),
        lambda: prove_identity(sp.simplify(sp.diff(phi**k, st.s) + density), what="the integrand is -d/ds Phi^k"),
        lambda: decided(
            sp.limit(sp.exp(-st.s * weights[0]), st.s, sp.oo) == 0, what="Phi vanishes at infinity for phi > 0"
        ),
        lambda: prove_identity(phi.subs(st.s, 0) - sum(gens), what="Phi(0) is the total mass"),
    )


def _verify_lemma5(linear: bool = True) -> Evidence:
    """Coefficient k: ``pi_k(y)**2 / k! = (w g)**2 (1/(k-1)! + 1/(k-2)!) (integral Phi**(k-1) exp(-s w))**2``."""
    import sympy as sp

    k = sp.Symbol("k", integer=True, positive=True)

    def holds(instance: Instance, n: int) -> bool:
        law = selection_law_by_sequences(instance.gen, instance.weights, n)
        first = Fraction(1, factorial(n - 1)) if linear else Fraction(0)
        both = first + (Fraction(1, factorial(n - 2)) if n > 1 else 0)
        parts = zip(instance.gen, instance.weights, law, strict=True)
        return all(
            p * p == factorial(n) * both * (w * g * laplace_product(instance.gen, instance.weights, n - 1, w)) ** 2
            for g, w, p in parts
        )

    total = (1 / sp.factorial(k - 1) + 1 / sp.factorial(k - 2)) * sp.factorial(k)
    return all_of(
        agree(holds, what="Lemma 5, coefficient of exp(-n) n^k"),
        lambda: prove_identity(
            sp.combsimp(total) - k**2, what="k! (1/(k-1)! + 1/(k-2)!) = k^2, from the terms n and n^2"
        ),
        _exchange,
    )


def _verify_truncated(truncated: bool = True) -> Evidence:
    """Counts of two equally likely letters, q = exp(-n/2): P(both 0) against the product of the chances."""

    def holds(q: Fraction) -> bool:
        if not truncated:
            return q * q == q**2
        alone = (q - q**2) / (1 - q**2)
        return alone * alone == 0

    return refute(
        holds,
        [{"q": _HALF}],
        what="counts of letters among N > 0 Poisson draws are independent",
        explain=lambda q: "each letter is missing with chance 1/3, both never",
    )


def _fix_truncated() -> Evidence:
    import sympy as sp

    a, b = sp.symbols("a b", integer=True, nonnegative=True)
    n, p, q = sp.symbols("n p q", positive=True)
    joint = sp.exp(-n * (p + q)) * n ** (a + b) / sp.factorial(a + b) * sp.binomial(a + b, a) * p**a * q**b
    apart = sp.exp(-n * p) * (n * p) ** a / sp.factorial(a) * sp.exp(-n * q) * (n * q) ** b / sp.factorial(b)
    share = sp.gammasimp(sp.simplify((joint / apart).rewrite(sp.gamma)))
    return all_of(
        lambda: prove_identity(
            sp.simplify(share) - 1, what="Poisson splitting for N_0, not conditioned on N_0 > 0 (p + q = 1)"
        ),
        detail="The proof may use it, because N_y = 0 when N_0 = 0",
    )


def _fix_square(pair: bool = True) -> Evidence:
    import sympy as sp

    yy, x, z = sp.symbols("N_yy N_ya N_ay", nonnegative=True)
    diagonal = yy**2 if pair else yy
    return all_of(
        lambda: prove_identity(
            (yy + x) * (yy + z) - (x * yy + yy * z + x * z) - diagonal, what="the diagonal term is N_yy^2"
        )
    )


def _verify_square(pair: bool = True) -> Evidence:
    """The diagonal term is the squared count of the pair (y, y), printed as the squared count of y."""

    def holds(yy: Fraction, ya: Fraction, ay: Fraction) -> bool:
        return (yy + ya) * (yy + ay) == ya * yy + yy * ay + ya * ay + (yy + ya) ** 2

    return with_fix(
        lambda: refute(
            holds,
            [{"yy": 1, "ya": 1, "ay": 0}],
            what="product of counts = sum over distinct pairs + N_y^2, with counts of the pairs (y,y), (y,a), (a,y)",
            explain=lambda yy, ya, ay: "2 on the left, 1 + 4 on the right",
        ),
        partial(_fix_square, pair),
    )


def _verify_moment(extra: int = 1) -> Evidence:
    """``E[exp(-w N) N (N-1) ... (N-k)] = (lam exp(-w))**(k+1) exp(lam (exp(-w) - 1))`` for N ~ Poisson(lam)."""
    import sympy as sp

    j, k = sp.symbols("j k", integer=True, nonnegative=True)
    lam, x = sp.symbols("lambda x", positive=True)
    ratio = sp.factorial(j + k + 1) / sp.factorial(j) / sp.factorial(j + k + 1) * sp.factorial(j)

    def generated(order: int) -> sympy.Expr:
        generating = sp.exp(lam * (x - 1))
        return x**order * sp.diff(generating, x, order) - (lam * x) ** (order - 1 + extra) * generating

    return all_of(
        *[partial(prove_identity, generated(m), what=f"factorial moment of order {m}, x = exp(-w)") for m in (1, 2, 3)],
        lambda: prove_identity(
            sp.combsimp(ratio) - 1, what="(j + k + 1) ... (j + 1) / (j + k + 1)! = 1 / j!, any order"
        ),
    )


def _verify_sign(flipped: bool = True) -> Evidence:
    """One letter, phi = 1: the printed exponent -s1 phi + s2 phi against the product of the two transforms."""
    return refute(
        lambda u1, u2: (u1 / u2 if flipped else u1 * u2) == u1 * u2,
        [{"u1": _HALF, "u2": Fraction(1, 3)}],
        what="E[exp(-s1 phi + s2 phi')] = Phi(s1) Phi(s2) with u = exp(-s)",
        explain=lambda u1, u2: f"{u1 / u2} against {u1 * u2}",
    )


def _fix_sign() -> Evidence:
    import sympy as sp

    from theory.claims.specs import statements as st

    gens, weights = st.letters(2)
    a, b = sp.symbols("a b", positive=True)
    pairs = sum(
        g1 * g2 * sp.exp(-a * w1 - b * w2)
        for g1, w1 in zip(gens, weights, strict=True)
        for g2, w2 in zip(gens, weights, strict=True)
    )
    product = st.laplace(gens, weights, a) * st.laplace(gens, weights, b)
    return all_of(lambda: prove_identity(sp.expand(pairs - product), what="with both signs minus it factorises"))


def _verify_equation19(square: int = 2) -> Evidence:
    """Coefficient k: ``1 + chi2(pi_k | pi*) = k**2 mu sum_y g w (integral Phi**(k-1) exp(-s w))**2``."""
    import sympy as sp

    g, w, mu, k, part = sp.symbols("g w mu k I", positive=True)

    def holds(instance: Instance, n: int) -> bool:
        mean = sum((a * b for a, b in zip(instance.gen, instance.weights, strict=True)), Fraction(0))
        total = sum(
            (a * b * laplace_product(instance.gen, instance.weights, n - 1, b) ** 2)
            for a, b in zip(instance.gen, instance.weights, strict=True)
        )
        law = selection_law_by_sequences(instance.gen, instance.weights, n)
        return bool(1 + chi_square(law, instance.optimum) == n**square * mean * total)

    return all_of(
        agree(holds, what="Equation 19, coefficient of exp(-n) n^k / k!"),
        lambda: prove_identity(
            (k * g * w * part) ** 2 / (g * w / mu) - k**2 * mu * g * w * part**2, what="pi^2 / pi*, letter by letter"
        ),
        partial(_verify_lemma5),
    )


def _verify_missing_one(subtract: bool = False) -> Evidence:
    """Constant weights: the divergence is 0, the printed sum is 1."""

    def holds(gen1: Fraction, n: Fraction) -> bool:
        law = selection_law((gen1, 1 - gen1), (Fraction(1), Fraction(1)), int(n))
        star = (gen1, 1 - gen1)
        total = sum((p * p / q for p, q in zip(law, star, strict=True)), Fraction(0))
        return chi_square(law, star) == total - (1 if subtract else 0)

    return refute(
        holds,
        [{"gen1": _HALF, "n": 2}],
        what="chi2 = sum of pi^2 / pi* (display before Lemma 4), weights constant",
        explain=lambda gen1, n: "0 against 1",
    )


def _verify_equation20(linear: int = 1) -> Evidence:
    """The integrand is the mixed derivative of exp(n (u1 u2 - 1)); corners give 1 - exp(-n)."""
    import sympy as sp

    n, u, v = sp.symbols("n u v", positive=True)
    primitive = sp.exp(n * (u * v - 1))
    corners = sum(
        sign * primitive.subs({u: a, v: b}, simultaneous=True)
        for sign, a, b in ((1, 1, 1), (-1, 1, 0), (-1, 0, 1), (1, 0, 0))
    )
    return all_of(
        lambda: prove_identity(
            sp.simplify((sp.diff(primitive, u, v) - (n**2 * u * v + linear * n) * primitive) / primitive),
            what="mixed derivative",
        ),
        lambda: prove_identity(corners - (1 - sp.exp(-n)), what="corners"),
        detail="u = Phi(s) maps [0, infinity) onto (0, 1] when all weights are positive",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="SPECS-E13",
        source="SPECS, Definition 4 and Equations 13 and 14, Appendices B.2 and C",
        statement="The law of the selected letter is E[N_y phi_y / sum of weights | N], with N_y the count of y.",
        assumptions=_FINITE,
        verdict=Verdict.PROVED,
        verify=_verify_counts,
        mutants=(Mutant(name="width", what_changed="n + 1 draws", verify=partial(_verify_counts, 1)),),
        notes="Equation 14 mentions N_0 ~ Poisson(n) without using it, and the sum of Definition 4 runs to n, not to "
        "N.",
    ),
    Claim(
        id="SPECS-E14",
        source="SPECS, display after Equation 14, Appendix C",
        statement="pi*(y) = gen(y) phi(y) / (-Phi'(0)).",
        assumptions=_FINITE,
        verdict=Verdict.PROVED,
        verify=_verify_optimum_laplace,
        mutants=(Mutant(name="squared", what_changed="phi squared", verify=partial(_verify_optimum_laplace, 2)),),
    ),
    Claim(
        id="SPECS-L4",
        source="SPECS, Lemma 4 and Equation 15, Appendix C",
        statement="The law at Poisson width is n g_y w_y / (1 - exp(-n)) times the integral of "
        "exp(n (Phi(s) - 1) - s w_y) over s > 0.",
        expression=_lemma4_expression,
        assumptions=_FINITE,
        verdict=Verdict.PROVED,
        verify=_verify_lemma4,
        mutants=(
            Mutant(name="power", what_changed="coefficient k has Phi^k", verify=partial(_verify_lemma4, 0)),
            Mutant(name="no-weight", what_changed="factor w_y left out", verify=partial(_verify_lemma4, 1, False)),
        ),
        notes="The same formula at a fixed width: k g w integral of Phi^(k-1) exp(-s w).",
    ),
    Claim(
        id="SPECS-L4b",
        source="SPECS, proof of Lemma 4, Appendix C",
        statement="Psi_y(s), defined with the factor phi_y, equals n g_y exp(-s phi_y) exp(n (Phi(s) - 1)).",
        assumptions=_FINITE,
        verdict=Verdict.FALSE,
        verify=_verify_psi,
        correction="It equals n g_y phi_y exp(-s phi_y) exp(n (Phi(s) - 1)); the Lemma has the factor again.",
        correction_verify=_verify_lemma4,
        mutants=(Mutant(name="kept", what_changed="factor phi_y kept", verify=partial(_verify_psi, with_weight=True)),),
        notes="The proof then inserts into Equation 16; Equation 15 is meant.",
    ),
    Claim(
        id="SPECS-L4c",
        source="SPECS, check after Lemma 4, Appendix C",
        statement="The law of Lemma 4 sums to one.",
        assumptions=_FINITE,
        verdict=Verdict.PROVED,
        verify=_verify_total,
        mutants=(
            Mutant(
                name="zero-weight",
                what_changed="a letter of weight zero, mass 1/4",
                verify=partial(_verify_total, _HALF**2),
            ),
        ),
        notes="Needs positive weights: a letter of weight zero and mass g leaves 1 - g^k, and with chance g^k no "
        "candidate "
        "can be selected at all.",
    ),
    Claim(
        id="SPECS-L5",
        source="SPECS, Lemma 5 and Equation 16, Appendix C",
        statement="The mean square of pi_N(y) over Poisson widths is w^2 g^2 / (1 - exp(-n)) times the double "
        "integral of "
        "(n + n^2 Phi Phi') exp(-(s1 + s2) w + n (Phi Phi' - 1)).",
        expression=_lemma5_expression,
        assumptions=_FINITE,
        verdict=Verdict.PROVED,
        verify=_verify_lemma5,
        mutants=(
            Mutant(name="no-linear", what_changed="term n left out", verify=partial(_verify_lemma5, linear=False)),
        ),
    ),
    Claim(
        id="SPECS-L5b",
        source="SPECS, proof of Lemma 5, Appendix C",
        statement="Over N > 0 Poisson draws the counts of different letters are independent.",
        assumptions=_FINITE,
        verdict=Verdict.FALSE,
        verify=_verify_truncated,
        correction="They are independent without the condition N > 0; the proof needs only that.",
        correction_verify=_fix_truncated,
        mutants=(
            Mutant(
                name="untruncated", what_changed="N = 0 allowed", verify=partial(_verify_truncated, truncated=False)
            ),
        ),
    ),
    Claim(
        id="SPECS-E17",
        source="SPECS, Equation 17, Appendix C",
        statement="The product of the two counts of y is the sum over distinct pairs plus N_y squared.",
        assumptions="counts of pairs of letters",
        verdict=Verdict.PROVED_WITH_FIX,
        verify=_verify_square,
        correction="The last term is the squared count of the pair (y, y).",
        correction_verify=_fix_square,
        mutants=(Mutant(name="linear", what_changed="N_yy, not squared", verify=partial(_verify_square, pair=False)),),
    ),
    Claim(
        id="SPECS-E18",
        source="SPECS, Equation 18 and the factorial moments, Appendix C",
        statement="E[exp(-w N) N (N-1) ... (N-k)] = (lam exp(-w))^(k+1) exp(lam (exp(-w) - 1)) for N ~ Poisson(lam).",
        assumptions="lam > 0, w real, k >= 0",
        verdict=Verdict.PROVED,
        verify=_verify_moment,
        mutants=(Mutant(name="order", what_changed="power k for k + 1", verify=partial(_verify_moment, 0)),),
    ),
    Claim(
        id="SPECS-E18b",
        source="SPECS, display after Equation 18, Appendix C",
        statement="The mean of exp(-s1 phi + s2 phi') over two draws is Phi(s1) Phi(s2).",
        assumptions=_FINITE,
        verdict=Verdict.FALSE,
        verify=_verify_sign,
        correction="The exponent is -s1 phi - s2 phi'.",
        correction_verify=_fix_sign,
        mutants=(Mutant(name="minus", what_changed="both signs minus", verify=partial(_verify_sign, flipped=False)),),
    ),
    Claim(
        id="SPECS-E19a",
        source="SPECS, display before Lemma 4, Appendix C",
        statement="The mean chi-square divergence is the sum over letters of E[pi_N(y)^2] / pi*(y).",
        assumptions=_FINITE,
        verdict=Verdict.FALSE,
        verify=_verify_missing_one,
        correction="That sum is one plus the divergence (as Appendix C.1 has it).",
        correction_verify=_verify_equation19,
        mutants=(Mutant(name="minus-one", what_changed="sum - 1", verify=partial(_verify_missing_one, subtract=True)),),
    ),
    Claim(
        id="SPECS-E19",
        source="SPECS, Equation 19, Appendix C.1",
        statement="1 + E[chi2(pi_N | pi*)] is the double integral of Lemma 5 with Phi'(0) Phi'(s1 + s2) for g^2 "
        "exp(..).",
        assumptions=_FINITE,
        verdict=Verdict.PROVED,
        verify=_verify_equation19,
        mutants=(Mutant(name="cubed", what_changed="n^3 for n^2", verify=partial(_verify_equation19, 3)),),
        notes="C.1 writes N ~ Poisson(n); N > 0 is meant, as no law exists for N = 0.",
    ),
    Claim(
        id="SPECS-E20",
        source="SPECS, Equation 20, Appendix C.1",
        statement="With Phi'(s1) Phi'(s2) in the integral of Equation 19 it is 1 - exp(-n) exactly.",
        assumptions=_FINITE,
        verdict=Verdict.PROVED,
        verify=_verify_equation20,
        mutants=(Mutant(name="2n", what_changed="n^2 u v + 2 n", verify=partial(_verify_equation20, 2)),),
        notes="The regions are parts of the quadrant s1, s2 >= 0, not of the plane as printed.",
    ),
)
