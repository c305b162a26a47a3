"""Claims of SPECS about the moments behind Theorem 4: Equations 17 to 20."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Final

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Predicate, searched
from ledger.proving.deferred import sp
from ledger.proving.domains import between, whole
from ledger.proving.formulas import Formula
from ledger.proving.records import Given, formula_of, proved, proved_with_fix, refuted, restated
from ledger.proving.tools import all_of, identity, prove_equalities, with_fix
from ledger.specs import exact, st
from ledger.specs.convergence.lemmas_4_and_5 import prove_lemma_5
from ledger.specs.points import two_letters

__all__ = ["CLAIMS"]


def _verify_square(fix: Formula) -> Evidence:
    """The diagonal term is the squared count of the pair (y, y), printed as the squared count of y."""
    return with_fix(partial(searched, formula_of("SPECS-E17")), partial(prove_equalities, fix))


def _verify_moment(extra: int = 1) -> Evidence:
    """``E[exp(-w N) N (N-1) ... (N-k)] = (lam exp(-w))**(k+1) exp(lam (exp(-w) - 1))`` for N ~ Poisson(lam)."""
    j, k = sp.symbols("j k", integer=True, nonnegative=True)
    lam, x = sp.symbols("lambda x", positive=True)
    ratio = sp.factorial(j + k + 1) / sp.factorial(j) / sp.factorial(j + k + 1) * sp.factorial(j)

    def generated(order: int) -> sp.Expr:
        generating = sp.exp(lam * (x - 1))
        return x**order * sp.diff(generating, x, order) - (lam * x) ** (order - 1 + extra) * generating

    return all_of(
        *[identity(generated(m), f"factorial moment of order {m}, x = exp(-w)") for m in (1, 2, 3)],
        identity(sp.combsimp(ratio) - 1, "(j + k + 1) ... (j + 1) / (j + k + 1)! = 1 / j!, any order"),
    )


def _fix_sign() -> Evidence:
    gens, weights = st.letters(2)
    a, b = sp.symbols("a b", positive=True)
    pairs = sum(
        g1 * g2 * sp.exp(-a * w1 - b * w2)
        for g1, w1 in zip(gens, weights, strict=True)
        for g2, w2 in zip(gens, weights, strict=True)
    )
    product = st.laplace(gens, weights, a) * st.laplace(gens, weights, b)
    return all_of(identity(sp.expand(pairs - product), "with both signs minus it factorises"))


_EQUATION_19: Final = "Equation 19, coefficient of exp(-n) n^k / k!"


def _equation_19(instance: exact.Instance, n: int, *, square: int = 2) -> bool:
    mean = sum((a * b for a, b in zip(instance.gen, instance.weights, strict=True)), Fraction(0))
    total = sum(
        (a * b * exact.laplace_product(instance.gen, instance.weights, n - 1, b) ** 2)
        for a, b in zip(instance.gen, instance.weights, strict=True)
    )
    law = exact.selection_law_by_sequences(instance.gen, instance.weights, n)
    return bool(1 + exact.chi_square(law, instance.optimum) == n**square * mean * total)


def _verify_equation19(square: int = 2) -> Evidence:
    """Coefficient k: ``1 + chi2(pi_k | pi*) = k**2 mu sum_y g w (integral Phi**(k-1) exp(-s w))**2``."""
    return all_of(
        exact.agree(partial(_equation_19, square=square), what=_EQUATION_19),
        identity("(k * g * w * I)**2 / (g * w / mu) == k**2 * mu * g * w * I**2", "pi^2 / pi*, letter by letter"),
        prove_lemma_5,
    )


def _missing_one(subtract: bool = False) -> Predicate:
    """Constant weights: the divergence is 0, the printed sum is 1."""

    def holds(gen1: Fraction, n: Fraction) -> bool:
        law = exact.selection_law((gen1, 1 - gen1), (Fraction(1), Fraction(1)), int(n))
        star = (gen1, 1 - gen1)
        total = sum((p * p / q for p, q in zip(law, star, strict=True)), Fraction(0))
        return exact.chi_square(law, star) == total - (1 if subtract else 0)

    return Predicate(
        text="chi2 = sum of pi^2 / pi* (display before Lemma 4), weights constant, generator (gen1, 1 - gen1)",
        test=holds,
        domain={"gen1": between(0, 1), "n": whole(1, 6)},
        at=[{"gen1": Fraction(1, 2), "n": 2}],
        explain=lambda gen1, n: "0 against 1",
    )


def _verify_equation20(linear: int = 1) -> Evidence:
    """The integrand is the mixed derivative of exp(n (u1 u2 - 1)); corners give 1 - exp(-n)."""
    n, u, v = sp.symbols("n u v", positive=True)
    primitive = sp.exp(n * (u * v - 1))
    corners = sum(
        sign * primitive.subs({u: a, v: b}, simultaneous=True)
        for sign, a, b in ((1, 1, 1), (-1, 1, 0), (-1, 0, 1), (1, 0, 0))
    )
    return all_of(
        identity(
            sp.simplify((sp.diff(primitive, u, v) - (n**2 * u * v + linear * n) * primitive) / primitive),
            "mixed derivative",
        ),
        identity(corners - (1 - sp.exp(-n)), "corners"),
        detail="u = Phi(s) maps [0, infinity) onto (0, 1] when all weights are positive",
    )


CLAIMS: tuple[Claim, ...] = (
    proved_with_fix(
        "SPECS-E17",
        verify=partial(_verify_square, formula_of("SPECS-E17", "correction_formula")),
        fix=Given(prove_equalities),
        mutants={"linear": partial(_verify_square, restated("SPECS-E17", change=("(yy + ya)**2", "yy")))},
    ),
    proved("SPECS-E18", verify=_verify_moment, mutants={"order": partial(_verify_moment, 0)}),
    refuted("SPECS-E18b", fix=_fix_sign, mutants={"minus": restated("SPECS-E18b", change=("u1 / u2", "u1 * u2"))}),
    refuted(
        "SPECS-E19a",
        _missing_one(),
        instead=two_letters(_EQUATION_19, _equation_19, widths=(1, 3)),
        fix=_verify_equation19,
        mutants={"minus-one": partial(_missing_one, subtract=True)},
    ),
    proved(
        "SPECS-E19",
        two_letters(_EQUATION_19, _equation_19, widths=(1, 3)),
        verify=_verify_equation19,
        mutants={"cubed": partial(_verify_equation19, 3)},
    ),
    proved("SPECS-E20", verify=_verify_equation20, mutants={"2n": partial(_verify_equation20, 2)}),
)
