"""Claims of SPECS about rates for one block: Theorem 3, Corollaries 1 and 2, Definition 5, Equations 8 to 10."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import factorial

from flint import arb

from theory.claims.ledger import Claim, Evidence, Verdict, statement
from theory.claims.proving.balls import point, precision
from theory.claims.proving.deferred import sp
from theory.claims.proving.records import mutant, proved, repaired
from theory.claims.proving.tools import all_of, exhaustive, identity, numeric, refute, screened
from theory.claims.specs import exact
from theory.claims.specs.common_proofs import prove_coverage, prove_density_ratio, prove_gibbs
from theory.claims.specs.formulas import HITS_ITS_MEAN

__all__ = ["CLAIMS", "bounded", "prove_poisson_moment"]

_HALF = Fraction(1, 2)


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


def bounded(
    bound: Callable[[exact.Instance, int], Fraction], what: str, sizes: tuple[int, ...] = (1, 2, 3, 4)
) -> Evidence:
    """Exact chi-square divergences against a bound."""
    return exact.agree(lambda instance, n: instance.divergence(n) <= bound(instance, n), what=what, sizes=sizes)


def prove_poisson_moment(scale: int = 6) -> Evidence:
    """``E[1/N**2] <= 6 / (n**2 (1 - exp(-n)))`` for N ~ Poisson(n) given N > 0."""
    k = sp.Symbol("k", nonnegative=True)
    m = sp.Symbol("N", integer=True, positive=True)
    return all_of(
        lambda: exact.nonnegative(
            scale * (1 + k) ** 2 - (2 + k) * (3 + k), what="1/N^2 <= 6 / ((N + 1)(N + 2)) for N >= 1"
        ),
        identity(
            sp.combsimp(sp.factorial(m + 2) / (sp.factorial(m) * (m + 1) * (m + 2))) - 1,
            "n^N / (N! (N + 1)(N + 2)) = n^(N + 2) / (N + 2)! / n^2, whose sum over N is at most exp(n) / n^2",
        ),
    )


def _verify_mass(constant: Fraction | int = 1) -> Evidence:
    """``exp(-n) n**n / n! >= exp(-1) / sqrt(n)``: n! exp(n) / n**(n + 1/2) is e at n = 1 and falls with n."""
    t, n = sp.symbols("t n", positive=True)
    gap = sp.log((1 + t) / (1 - t)) - 2 * t

    def holds(n: int) -> bool:
        if n == 1:
            return constant <= 1
        with precision(64):
            mass = point(Fraction(n**n, factorial(n))) * arb(n).sqrt()
            return bool(mass > point(Fraction(constant)) * arb(n - 1).exp())

    return all_of(
        exhaustive(holds, {"n": range(1, 41)}, what="n^n sqrt(n) / n! >= exp(n - 1)"),
        identity(sp.diff(gap, t) - 2 * t**2 / (1 - t**2), "log((1 + t)/(1 - t)) - 2 t grows from 0 on [0, 1)"),
        identity(
            ((1 + t) / (1 - t)).subs(t, 1 / (2 * n + 1)) - 1 - 1 / n,
            "with t = 1/(2 n + 1) this says (n + 1/2) log(1 + 1/n) >= 1, so the sequence falls",
        ),
    )


def _factor_sqrt(order: Fraction) -> Evidence:
    """P(N = n) >= n**-order turns a mean bound into one at width n for a factor n**order, printed as sqrt(n)."""
    return refute(
        lambda n: n ** (2 * order) <= n,
        [{"n": 4}, {"n": 9}],
        what=f"a probability of n^(-{order}) gives a bound at width n for a factor sqrt(n)",
        explain=lambda n: f"it gives the factor {n**order}, where sqrt(n) is {float(n) ** 0.5:g}",
    )


def _markov(power: Fraction = Fraction(0)) -> Evidence:
    """Markov's inequality at width n costs the factor 1 / P(N = n), here claimed to be at most 10 n**power.

    The mean may sit on the width n alone, so no smaller factor does.
    """

    def cost(n: Fraction) -> arb:
        width = int(n)
        return (arb(width).exp() - 1) * point(Fraction(factorial(width), width**width))

    def holds(n: Fraction) -> bool:
        with precision(64):
            return not cost(n) > 10 * point(n) ** point(power)

    return refute(
        holds,
        [{"n": n} for n in (3, 16, 100, 400)],
        what="by Markov's inequality a Poisson mean bounds the value at its mean width n for a factor of "
        + ("10" if power == 0 else f"10 n^{power}"),
        explain=lambda n: f"the factor is {float(cost(n).mid()):.3g}",
    )


def _one_prompt(worst: bool = False) -> Evidence:
    """Two prompts, evenly: drafts from the target at the first (C = 1), a rare letter at the second (C > 1)."""
    target, tilt = (_HALF, _HALF), (Fraction(1), Fraction(1))

    def holds(rare: Fraction, n: Fraction) -> bool:
        first = exact.Instance(gen=target, target=target, tilt=tilt)
        second = exact.Instance(gen=(rare, 1 - rare), target=target, tilt=tilt)
        mean = (first.divergence(int(n)) + second.divergence(int(n))) / 2
        return bool(mean**2 * n**3 <= (_covered(second) if worst else _covered(first)) ** 4)

    return refute(
        holds,
        [{"rare": "1/1000", "n": 3}],
        what="the mean over prompts of chi2 is at most C^2 exp(2 beta R) / n^(3/2), "
        + ("C at the worst prompt" if worst else "C at any one prompt"),
    )


def _verify_equation10(power: Fraction = Fraction(3, 2)) -> Evidence:
    """``chi2 <= ((kappa - 1) / n)**2 <= kappa**2 log(n)**2 / n**(3/2)`` with constant one."""

    def holds(instance: exact.Instance, n: int) -> bool:
        with precision(64):
            bound = (point(exact.ratio(instance.weights)) * arb(n).log()) ** 2 / point(Fraction(n)) ** point(power)
            return not point(instance.divergence(n)) > bound

    return all_of(
        exact.agree(holds, what="chi2 <= kappa^2 log(n)^2 / n^(3/2)", sizes=(3, 4)),
        prove_density_ratio,
        exact.decided(power <= 2, what="n^(3/2) <= n^2"),
        lambda: exact.at_least(lambda: arb(3).log() - 1, "log(n)^2 >= 1 for n >= 3"),
    )


def _covered(instance: exact.Instance) -> Fraction:
    return exact.coverage(instance.target, instance.gen) * exact.ratio(instance.tilt)


def _verify_coverage_bound(shrink: Fraction = Fraction(1)) -> Evidence:
    """``chi2 <= ((C exp(beta R) - 1) / n)**2``, and the printed C**2 exp(2 beta R) / n**(3/2) is larger."""
    x, k = sp.symbols("x k", nonnegative=True)
    return all_of(
        bounded(lambda i, n: shrink * (_covered(i) - 1) ** 2 / n**2, "chi2 <= ((C exp(beta R) - 1) / n)^2"),
        prove_coverage,
        prove_density_ratio,
        lambda: exact.nonnegative((1 + x) ** 2 * (1 + k) - x**2, what="(x - 1)^2 / n^2 <= x^2 / n^(3/2) for x, n >= 1"),
    )


def _verify_target(shrink: Fraction = Fraction(1)) -> Evidence:
    """Drafts from the target: kappa = exp(beta R) exactly."""
    own = tuple(exact.Instance(gen=i.target, target=i.target, tilt=i.tilt) for i in exact.INSTANCES)

    def holds(instance: exact.Instance, n: int) -> bool:
        return instance.divergence(n) <= shrink * ((exact.ratio(instance.tilt) - 1) / n) ** 2

    return all_of(exact.agree(holds, what="chi2 <= ((exp(beta R) - 1) / n)^2", instances=own), prove_density_ratio)


def _verify_target_poisson(scale: int = 6) -> Evidence:
    return all_of(_verify_target, partial(prove_poisson_moment, scale), prove_gibbs)


def _verify_draft_poisson(scale: int = 6) -> Evidence:
    return all_of(_verify_coverage_bound, partial(prove_poisson_moment, scale), prove_gibbs)


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


def _verify_constant(constant: Fraction = Fraction(1, 4)) -> Evidence:
    worst, points = _grid_constant()
    what = (
        f"largest n^2 chi2 / (kappa - 1)^2 on {points} exact two-letter points is {float(worst):.6f}, limit {constant}"
    )
    return numeric(worst <= constant, what=what, effort={"points": points})


CLAIMS: tuple[Claim, ...] = (
    proved(
        id="SPECS-X1",
        source="SPECS, a sharpening of Theorem 4 that is not in the paper",
        statement="At every fixed width n, each density ratio pi_n(y) / pi*(y) is within (kappa - 1) / n of one; so "
        "D <= log(1 + chi2) <= ((kappa - 1) / n)^2. The constant one cannot be lowered.",
        expression=statement("specs", "chi_square_bound"),
        assumptions=exact.FIXED_WIDTH,
        verify=_verify_sharp,
        mutants=(
            mutant("faster", "rate 1/n^2", prove_density_ratio, 2),
            mutant("smaller", "(kappa - 1) / (8 n)", _verify_sharp, Fraction(1, 8)),
            mutant("slightly smaller", "0.99 (kappa - 1) / n", _verify_sharp, Fraction(99, 100)),
        ),
        notes="ratio = E[1/X] with X the mean weight of the candidates, the selected one among them; expand 1/X about "
        "one and bound the variance of weights in [m, M] with mean one by (M - 1)(1 - m).",
    ),
    Claim(
        id="SPECS-X2",
        source="SPECS, a sharpening of Theorem 4 that is not in the paper",
        statement="chi2 <= ((kappa - 1) / n)^2 / 4: the smallest constant seen.",
        expression=statement("specs", "chi_square_bound"),
        assumptions="two letters, grid of generators, weights up to 100 and widths up to 13",
        verdict=Verdict.NUMERIC,
        verify=_verify_constant,
        mutants=(mutant("1/8", "constant 1/8", _verify_constant, Fraction(1, 8)),),
        notes="Near equal weights the ratio tends to 1/4 at width one, so no constant below 1/4 can do.",
    ),
    proved(
        id="SPECS-PM",
        source="SPECS, after Theorem 4, Appendix B.2",
        statement="Poisson(n) hits its mean with probability of order 1/sqrt(n): at least exp(-1) / sqrt(n), so a mean "
        "bound becomes a bound at width n for a factor e sqrt(n).",
        assumptions="n >= 1 an integer",
        formula=HITS_ITS_MEAN,
        verify=_verify_mass,
        mutants=(
            mutant("doubled", "2 exp(-1) / sqrt(n)", _verify_mass, 2),
            mutant("slightly more", "1.01 exp(-1) / sqrt(n)", _verify_mass, Fraction(101, 100)),
        ),
        notes="Given N > 0 the probability is larger still.",
    ),
    repaired(
        id="SPECS-PM-order",
        source="SPECS, before Theorem 4, Appendix B.2",
        statement="Since Poisson(n) hits its mean with probability at least of order 1/n, a mean bound becomes a bound "
        "at width n for a factor sqrt(n).",
        assumptions="n >= 3 an integer",
        printed=partial(_factor_sqrt, Fraction(1)),
        correction="The probability is at least of order 1/sqrt(n), as the second mention has it; from 1/n only a "
        "factor n would follow.",
        repair=_verify_mass,
        mutants=(mutant("corrected", "1/sqrt(n), which needs no fix", _factor_sqrt, _HALF),),
    ),
    proved(
        id="SPECS-E10",
        source="SPECS, Equation 10, Appendix B.2",
        statement="At each fixed width n >= 3, D(pi_n | pi*) = O(kappa^2 log(n)^2 / n^(3/2)).",
        expression=statement("specs", "chi_square_bound"),
        assumptions=f"{exact.FIXED_WIDTH}; n >= 3",
        verify=_verify_equation10,
        mutants=(mutant("n^6", "power 6 of n", _verify_equation10, Fraction(6)),),
        notes="Constant one, and far from tight: the true order at a fixed width is 1/n^2 (SPECS-X1).",
    ),
    proved(
        id="SPECS-C1",
        source="SPECS, Corollary 1 (Poisson width), Appendix B.2",
        statement="Drafts from the target, rewards in [0, R]: the Poisson mean of the divergence is O(exp(2 beta R) / "
        "n^2) up to logarithms.",
        expression=statement("specs", "poisson_bound"),
        assumptions=f"{exact.FIXED_WIDTH}; generator = target; n >= 3",
        verify=_verify_target_poisson,
        mutants=(mutant("1", "constant 1 for 6", _verify_target_poisson, 1),),
        notes="Constant 6 / (1 - exp(-3)) < 6.32, no logarithm.",
    ),
    repaired(
        id="SPECS-C1b",
        source="SPECS, Corollary 1 (fixed width), Appendix B.2",
        statement="Drafts from the target: by Markov's inequality on the Poisson mean, of order exp(2 beta R) / n^2, "
        "the divergence is also at each fixed n >= 3 O(exp(2 beta R) / n^2) up to logarithms.",
        expression=statement("specs", "chi_square_bound"),
        assumptions=f"{exact.FIXED_WIDTH}; generator = target; n >= 3",
        printed=_markov,
        correction="The bound holds at each fixed width by SPECS-X1, with constant one and no logarithm. Markov's "
        "inequality costs a factor sqrt(n), so it gives n^(-3/2) only, as Equation 10 and Corollary 2 say.",
        repair=_verify_target,
        mutants=(mutant("factor sqrt(n)", "for a factor 10 sqrt(n), which needs no fix", _markov, _HALF),),
    ),
    proved(
        id="SPECS-C2",
        source="SPECS, Corollary 2, Appendix B.2",
        statement="Drafts from the draft model: Poisson mean O(C^2 exp(2 beta R) / n^2) and, at fixed width, "
        "O(C^2 exp(2 beta R) / n^(3/2)), up to logarithms.",
        expression=statement("specs", "chi_square_bound"),
        assumptions=f"{exact.FIXED_WIDTH}; C = max(t/g) max(g/t) finite; n >= 3",
        verify=_verify_draft_poisson,
        mutants=(mutant("1", "constant 1 for 6", _verify_draft_poisson, 1),),
        notes="Fixed width: ((C exp(beta R) - 1) / n)^2, better than printed by sqrt(n) and a logarithm.",
    ),
    repaired(
        id="SPECS-T3",
        source="SPECS, Theorem 3, Equations 8 and 9 and Remark 1, Appendix B.1",
        statement="One selection among full responses: log(1 + chi2(pi | pi*)) = O(C^2 exp(2 beta R) / n^(3/2)) up to "
        "logarithms, C of Equation 9; the text announces O(1/n^2).",
        expression=statement("specs", "chi_square_bound"),
        assumptions=f"{exact.FIXED_WIDTH}; n >= 3",
        printed=_one_prompt,
        correction="Equation 9 fixes a prompt, Equation 8 averages over prompts: take the largest C. With prompts "
        "averaged, log(1 + E chi2) is meant.",
        repair=_verify_coverage_bound,
        mutants=(mutant("corrected", "C at the worst prompt, which needs no fix", _one_prompt, worst=True),),
        notes="Both rates hold (SPECS-X1); 'Assumption 1' in the statement names the reward-model error, not the "
        "Poisson width, and no Poisson width is needed.",
    ),
    proved(
        id="SPECS-D5",
        source="SPECS, Definition 5 and Equation 9, Appendix B.2",
        statement="The score ratio satisfies phi_max / phi_min <= C exp(beta R), and C >= 1 with C = 1 for equal "
        "models.",
        expression=statement("specs", "exponentiated_score"),
        assumptions="rewards in a range of width R; target and generator positive on the alphabet",
        verify=prove_coverage,
        mutants=(mutant("one-norm", "C is max(t/g) alone", prove_coverage, both=False),),
    ),
)
