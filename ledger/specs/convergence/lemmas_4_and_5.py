"""Claims of SPECS about Lemmas 4 and 5: Poisson counts, and the law averaged over them."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import factorial
from typing import Final

from flint import arb

from ledger.ledger import Claim, Evidence
from ledger.proving.balls import point, precision
from ledger.proving.cases import Predicate
from ledger.proving.deferred import sp
from ledger.proving.domains import between
from ledger.proving.margins import Margin, at_most
from ledger.proving.records import proved, refuted, restated
from ledger.proving.tools import all_of, identity
from ledger.specs import exact, st
from ledger.specs.points import poisson_weights, two_letters

__all__ = ["CLAIMS", "prove_lemma_5"]


def _apart(gen1: Fraction, weight2: Fraction, n: Fraction) -> arb:
    """What the terms of widths 1 and 2 put between the two sides of the first display of C.2."""
    gen, weights = (gen1, 1 - gen1), (Fraction(1), weight2)
    star = exact.tilted(gen, weights)
    one, two = (exact.selection_law(gen, weights, width) for width in (1, 2))
    first, second = poisson_weights(n, 2)
    apart = sum(((a - b) ** 2 / s for a, b, s in zip(one, two, star, strict=True)), Fraction(0))
    return first * second * point(apart)


def _display(poisson: bool = True) -> Predicate:
    """1 + chi2 of the averaged law (printed) against 1 + the average of chi2, which is what the integrals add up to.

    N ~ Poisson(n) given N > 0. The average exceeds chi2 of the averaged law by the sum over letters y of the variance
    of pi_N(y) over pi*(y); two widths a, b give at least p_a p_b (pi_a(y) - pi_b(y))**2 of each variance.
    """

    def holds(gen1: Fraction, weight2: Fraction, n: Fraction) -> bool:
        with precision(64):
            return not _apart(gen1, weight2, n) > 0 if poisson else not _apart(gen1, weight2, n) < 0

    def explain(**at: Fraction) -> str:
        with precision(64):
            return f"the terms of widths 1 and 2 put at least {float(_apart(**at).mid()):.2g} between the two sides"

    sides = "equals" if poisson else "is at most"
    return Predicate(
        text=f"chi2 of the law averaged over N ~ Poisson(n), N > 0, {sides} the average of chi2 (generator gen1, 1 - "
        "gen1; weights 1, weight2)",
        test=holds,
        domain={"gen1": between(0, 1), "weight2": between(0, None), "n": between(0, None)},
        at=[{"gen1": exact.HALF, "weight2": weight, "n": 3} for weight in (1, 2)],
        explain=explain,
    )


_MIXED = "chi2 of a mixture of widths <= mixture of chi2"


def _fix_display() -> Evidence:
    gap = "u * a**2 + (1 - u) * b**2 - (u * a + (1 - u) * b)**2 == u * (1 - u) * (a - b)**2"
    return all_of(
        identity(gap, "mean of squares - square of mean = u (1 - u)(a - b)^2"),
        partial(exact.agree, _convex, what=_MIXED, sizes=(1, 2, 3)),
        detail="The sum of the two integrals is 1 + E[chi2(pi_N | pi*)], at least 1 + chi2 of the averaged law",
    )


def _convex(instance: exact.Instance, n: int) -> Margin:
    laws = [instance.selected(k) for k in (n, n + 1)]
    mixed = tuple((a + b) / 2 for a, b in zip(*laws, strict=True))
    return at_most(
        exact.chi_square(mixed, instance.optimum) * 2,
        sum((exact.chi_square(x, instance.optimum) for x in laws), Fraction(0)),
    )


def _exchange() -> Evidence:
    """Exchange of labels and the integral of an exponential, for all counts and weights."""
    c, k = sp.symbols("c k", integer=True, positive=True)
    a, s = sp.symbols("a s", positive=True)
    swapped = (c * sp.factorial(k) / sp.factorial(c)) / (k * sp.factorial(k - 1) / sp.factorial(c - 1))
    return all_of(
        identity(sp.combsimp(swapped) - 1, "multinomial(k; c) c_y = k multinomial(k - 1; c - e_y)"),
        identity(sp.integrate(sp.exp(-s * a), (s, 0, sp.oo)) - 1 / a, "integral of exp(-s A) is 1/A"),
        detail="Tonelli (all terms are positive) is quoted",
    )


_COUNTED: Final = "Equation 13 = Definition 4"
_TILTED: Final = "gen phi, normalised, is the tilted target"
_LEMMA_4: Final = "Lemma 4, coefficient of exp(-n) n^k / k!"
_LEMMA_5: Final = "Lemma 5, coefficient of exp(-n) n^k"
_WHOLE: Final = "the law sums to one"


def _counted(instance: exact.Instance, n: int, *, shift: int = 0) -> bool:
    return instance.selected(n + shift) == exact.selection_law_by_sequences(instance.gen, instance.weights, n)


def _tilts(instance: exact.Instance, _n: int, *, power: int = 1) -> bool:
    return exact.tilted(instance.gen, tuple(w**power for w in instance.weights)) == instance.optimum


def _sums_to_one(instance: exact.Instance, n: int, *, lost: Fraction = Fraction(0)) -> bool:
    return sum(instance.selected(n)) == 1 - lost**n


def _verify_counts(shift: int = 0) -> Evidence:
    """The law by counts, E[N_y phi_y / sum | N], is the law by indices of Definition 4."""
    return all_of(exact.agree(partial(_counted, shift=shift), what=_COUNTED), _exchange)


def _verify_optimum_laplace(power: int = 1) -> Evidence:
    """``pi* = gen phi / (-Phi'(0))``."""
    gens, weights = st.letters(3)
    slope = -sp.diff(st.laplace(gens, weights), st.s).subs(st.s, 0)
    return all_of(
        exact.agree(partial(_tilts, power=power), what=_TILTED, sizes=(1,)),
        identity(gens[0] * weights[0] / slope - st.optimum(0, gens, weights), "-Phi'(0) is the normaliser"),
    )


def _lemma_4(instance: exact.Instance, k: int, *, power_shift: int = 1, with_weight: bool = True) -> bool:
    law = exact.selection_law_by_sequences(instance.gen, instance.weights, k)
    return all(
        law[y]
        == k * g * (w if with_weight else 1) * exact.laplace_product(instance.gen, instance.weights, k - power_shift, w)
        for y, (g, w) in enumerate(zip(instance.gen, instance.weights, strict=True))
    )


def _verify_lemma4(power_shift: int = 1, with_weight: bool = True) -> Evidence:
    """Coefficient k: ``pi_k(y) = k g_y w_y integral Phi**(k - 1) exp(-s w_y)``."""
    printed = partial(_lemma_4, power_shift=power_shift, with_weight=with_weight)
    return all_of(exact.agree(printed, what=_LEMMA_4), _exchange)


def _verify_total(lost: Fraction = Fraction(0)) -> Evidence:
    """Sum over letters: ``k Phi**(k-1) sum_y g w exp(-s w) = -d/ds Phi**k``, whose integral is 1 - Phi(infinity)**k."""
    gens, weights = st.letters(2)
    k = sp.Symbol("k", positive=True)
    phi = st.laplace(gens, weights)
    density = k * phi ** (k - 1) * sum(g * w * sp.exp(-st.s * w) for g, w in zip(gens, weights, strict=True))

    return all_of(
        exact.agree(partial(_sums_to_one, lost=lost), what=_WHOLE),
        identity(sp.simplify(sp.diff(phi**k, st.s) + density), "the integrand is -d/ds Phi^k"),
        lambda: exact.decided(
            sp.limit(sp.exp(-st.s * weights[0]), st.s, sp.oo) == 0, what="Phi vanishes at infinity for phi > 0"
        ),
        identity(phi.subs(st.s, 0) - sum(gens), "Phi(0) is the total mass"),
    )


def _lemma_5(instance: exact.Instance, n: int, *, linear: bool = True) -> bool:
    law = exact.selection_law_by_sequences(instance.gen, instance.weights, n)
    first = Fraction(1, factorial(n - 1)) if linear else Fraction(0)
    both = first + (Fraction(1, factorial(n - 2)) if n > 1 else 0)
    return all(
        p * p == factorial(n) * both * (w * g * exact.laplace_product(instance.gen, instance.weights, n - 1, w)) ** 2
        for g, w, p in zip(instance.gen, instance.weights, law, strict=True)
    )


def prove_lemma_5(linear: bool = True) -> Evidence:
    """Coefficient k: ``pi_k(y)**2 / k! = (w g)**2 (1/(k-1)! + 1/(k-2)!) (integral Phi**(k-1) exp(-s w))**2``."""
    k = sp.Symbol("k", integer=True, positive=True)
    total = (1 / sp.factorial(k - 1) + 1 / sp.factorial(k - 2)) * sp.factorial(k)
    return all_of(
        exact.agree(partial(_lemma_5, linear=linear), what=_LEMMA_5),
        identity(sp.combsimp(total) - k**2, "k! (1/(k-1)! + 1/(k-2)!) = k^2, from the terms n and n^2"),
        _exchange,
    )


def _fix_truncated() -> Evidence:
    a, b = sp.symbols("a b", integer=True, nonnegative=True)
    n, p, q = sp.symbols("n p q", positive=True)
    joint = sp.exp(-n * (p + q)) * n ** (a + b) / sp.factorial(a + b) * sp.binomial(a + b, a) * p**a * q**b
    apart = sp.exp(-n * p) * (n * p) ** a / sp.factorial(a) * sp.exp(-n * q) * (n * q) ** b / sp.factorial(b)
    share = sp.gammasimp(sp.simplify((joint / apart).rewrite(sp.gamma)))
    return all_of(
        identity(sp.simplify(share) - 1, "Poisson splitting for N_0, not conditioned on N_0 > 0 (p + q = 1)"),
        detail="The proof may use it, because N_y = 0 when N_0 = 0",
    )


def _of_first_letter(name: str) -> sp.Basic:
    """A closed form of the `statements` for the first of two letters."""
    form: sp.Basic = getattr(st, name)(0, *st.letters(2))
    return form


CLAIMS: tuple[Claim, ...] = (
    refuted(
        "SPECS-C2d",
        _display(),
        instead=two_letters(_MIXED, _convex, widths=(1, 3)),
        fix=_fix_display,
        mutants={"weak": partial(_display, poisson=False)},
    ),
    proved(
        "SPECS-E13",
        two_letters(_COUNTED, _counted),
        verify=_verify_counts,
        mutants={"width": partial(_verify_counts, 1)},
    ),
    proved(
        "SPECS-E14",
        two_letters(_TILTED, _tilts, widths=(1, 1)),
        verify=_verify_optimum_laplace,
        mutants={"squared": partial(_verify_optimum_laplace, 2)},
    ),
    proved(
        "SPECS-L4",
        two_letters(_LEMMA_4, _lemma_4),
        expression=partial(_of_first_letter, "poisson_selection"),
        verify=_verify_lemma4,
        mutants={"power": partial(_verify_lemma4, 0), "no-weight": partial(_verify_lemma4, 1, False)},
    ),
    refuted(
        "SPECS-L4b",
        instead=two_letters(_LEMMA_4, _lemma_4),
        fix=_verify_lemma4,
        mutants={"kept": restated("SPECS-L4b", change=("== gen1", "== gen1 * phi1"))},
    ),
    proved(
        "SPECS-L4c",
        two_letters(_WHOLE, _sums_to_one),
        verify=_verify_total,
        mutants={"zero-weight": partial(_verify_total, exact.HALF**2)},
    ),
    proved(
        "SPECS-L5",
        two_letters(_LEMMA_5, _lemma_5),
        expression=partial(_of_first_letter, "selection_second_moment"),
        verify=prove_lemma_5,
        mutants={"no-linear": partial(prove_lemma_5, linear=False)},
    ),
    refuted("SPECS-L5b", fix=_fix_truncated, mutants={"untruncated": restated("SPECS-L5b", relation="q * q == q**2")}),
)
