"""Claims of SPECS about rates for one block: Theorem 3, Corollaries 1 and 2, Definition 5, Equations 8 to 10."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import factorial
from typing import Final

from flint import arb

from ledger.ledger import Claim, Evidence
from ledger.proving.balls import point, precision
from ledger.proving.cases import Predicate
from ledger.proving.deferred import sp
from ledger.proving.domains import between, whole
from ledger.proving.margins import Margin, at_most
from ledger.proving.records import Given, proved, repaired, restated
from ledger.proving.tools import all_of, exhaustive, identity
from ledger.specs import exact
from ledger.specs.common_proofs import covered, prove_coverage, prove_density_ratio, prove_gibbs
from ledger.specs.points import in_full, own_drafts, poisson_weights, two_letters

__all__ = ["CLAIMS", "bounded", "poisson_bounded", "prove_poisson_moment"]


def bounded(
    bound: Callable[[exact.Instance, int], Fraction], what: str, sizes: tuple[int, ...] = (1, 2, 3, 4)
) -> Evidence:
    """Exact chi-square divergences against a bound."""
    return exact.agree(lambda instance, n: instance.divergence(n) <= bound(instance, n), what=what, sizes=sizes)


def poisson_bounded(instance: exact.Instance, n: Fraction, bound: Callable[[exact.Instance, Fraction], arb]) -> Margin:
    """Whether the first terms of the mean chi-square divergence over N ~ Poisson(n), N > 0, stay below a bound."""
    with precision(64):
        weights = poisson_weights(n, 4)
        terms = (w * point(instance.divergence(size)) for size, w in enumerate(weights, 1))
        return at_most(sum(terms, arb(0)), bound(instance, n))


def _moment(ratio: Fraction, n: Fraction, constant: Fraction) -> arb:
    return point(constant) * point(ratio - 1) ** 2 / (point(n) ** 2 * (1 - (-point(n)).exp()))


def _poisson(size: str, ratio: Callable[[exact.Instance], Fraction], *, own: bool) -> Predicate:
    """The moment bound of the Poisson mean, where the weights differ by so large a ratio."""

    def holds(instance: exact.Instance, n: Fraction, constant: Fraction) -> Margin:
        return poisson_bounded(instance, n, lambda i, mean: _moment(ratio(i), mean, constant))

    text = f"the first four terms of the Poisson mean of chi2 are at most 6 ({size} - 1)^2 / (n^2 (1 - exp(-n)))"
    return two_letters(text, holds, means=between(3, None, "[)"), own=own, constant=Fraction(6))


def prove_poisson_moment(scale: Fraction | int = 6) -> Evidence:
    """``E[1/N**2] <= 6 / (n**2 (1 - exp(-n)))`` for N ~ Poisson(n) given N > 0."""
    k = sp.Symbol("k", nonnegative=True)
    m = sp.Symbol("N", integer=True, positive=True)
    return all_of(
        exact.nonnegative(
            sp.Rational(str(scale)) * (1 + k) ** 2 - (2 + k) * (3 + k),
            f"1/N^2 <= {scale} / ((N + 1)(N + 2)) for N >= 1",
        ),
        identity(
            sp.combsimp(sp.factorial(m + 2) / (sp.factorial(m) * (m + 1) * (m + 2))) - 1,
            "n^N / (N! (N + 1)(N + 2)) = n^(N + 2) / (N + 2)! / n^2, whose sum over N is at most exp(n) / n^2",
        ),
    )


def _verify_mass(constant: Fraction | int = 1) -> Evidence:
    """``exp(-n) n**n / n! >= exp(-1) / sqrt(n)``: n! exp(n) / n**(n + 1/2) is e at n = 1 and falls with n."""

    def holds(n: int) -> bool:
        if n == 1:
            return constant <= 1
        with precision(64):
            mass = point(Fraction(n**n, factorial(n))) * arb(n).sqrt()
            return bool(mass > point(Fraction(constant)) * arb(n - 1).exp())

    return all_of(
        exhaustive(holds, {"n": range(1, 41)}, what="n^n sqrt(n) / n! >= exp(n - 1)"),
        identity(
            "diff(log((1 + t) / (1 - t)) - 2 * t, t) == 2 * t**2 / (1 - t**2)",
            "log((1 + t)/(1 - t)) - 2 t grows from 0 on [0, 1)",
        ),
        identity(
            "(1 + 1 / (2 * n + 1)) / (1 - 1 / (2 * n + 1)) == 1 + 1 / n",
            "with t = 1/(2 n + 1) this says (n + 1/2) log(1 + 1/n) >= 1, so the sequence falls",
        ),
    )


def _two_prompts(rare: Fraction) -> tuple[exact.Instance, exact.Instance]:
    """Drafts from the target at the first (C = 1), a letter that is drafted rarely at the second (C > 1)."""
    even, flat = (exact.HALF, exact.HALF), (Fraction(1), Fraction(1))
    second = exact.Instance(gen=(rare, 1 - rare), target=even, tilt=flat)
    return exact.Instance(gen=even, target=even, tilt=flat), second


def _mean_divergence(rare: Fraction, n: Fraction) -> Fraction:
    return sum((prompt.divergence(int(n)) for prompt in _two_prompts(rare)), Fraction(0)) / 2


def _one_prompt_for(worst: bool = False) -> Predicate:
    def holds(rare: Fraction, n: Fraction) -> bool:
        first, second = _two_prompts(rare)
        return bool(_mean_divergence(rare, n) ** 2 * n**3 <= _covered(second if worst else first) ** 4)

    def explain(rare: Fraction, n: Fraction) -> str:
        return f"the mean is {float(_mean_divergence(rare, n)):.3g}, the bound with C = 1 is {float(n) ** -1.5:.3g}"

    return Predicate(
        text="the mean over prompts of chi2 is at most C^2 exp(2 beta R) / n^(3/2), "
        + ("C at the worst prompt" if worst else "C at any one prompt")
        + " (two prompts, evenly; flat rewards, target 1/2, 1/2; the second draft gives letter 1 the chance rare)",
        test=holds,
        domain={"rare": between(0, 1), "n": whole(3, 9)},
        at=[{"rare": "1/1000", "n": 3}],
        explain=explain,
    )


_EQUATION_10: Final = "chi2 <= kappa^2 log(n)^2 / n^(3/2)"


def _equation_10(instance: exact.Instance, n: int, *, power: Fraction) -> Margin:
    with precision(64):
        bound = (point(exact.ratio(instance.weights)) * arb(n).log()) ** 2 / point(Fraction(n)) ** point(power)
        return at_most(point(instance.divergence(n)), bound)


def _verify_equation10(power: Fraction) -> Evidence:
    """``chi2 <= ((kappa - 1) / n)**2 <= kappa**2 log(n)**2 / n**(3/2)`` with constant one."""
    return all_of(
        exact.agree(partial(_equation_10, power=power), what=_EQUATION_10, sizes=(3, 4)),
        prove_density_ratio,
        exact.decided(power <= 2, what="n^(3/2) <= n^2"),
        exact.at_least(lambda: arb(3).log() - 1, "log(n)^2 >= 1 for n >= 3"),
    )


def _covered(instance: exact.Instance) -> Fraction:
    return exact.coverage(instance.target, instance.gen) * exact.ratio(instance.tilt)


def _verify_coverage_bound() -> Evidence:
    """``chi2 <= ((C exp(beta R) - 1) / n)**2``, and the printed C**2 exp(2 beta R) / n**(3/2) is larger."""
    return all_of(
        exact.agree(_within_covered, what=_COVERED_BOUND),
        prove_coverage,
        prove_density_ratio,
        exact.nonnegative("(1 + x)**2 * (1 + k) >= x**2", "(x - 1)^2 / n^2 <= x^2 / n^(3/2) for x, n >= 1"),
    )


_OWN_BOUND: Final = "chi2 <= ((exp(beta R) - 1) / n)^2"
_COVERED_BOUND: Final = "chi2 <= ((C exp(beta R) - 1) / n)^2"


def _within_own(instance: exact.Instance, n: int, *, share: Fraction = Fraction(1)) -> Margin:
    return at_most(instance.divergence(n), share * ((exact.ratio(instance.tilt) - 1) / n) ** 2)


def _within_covered(instance: exact.Instance, n: int, *, share: Fraction = Fraction(1)) -> Margin:
    return at_most(instance.divergence(n), share * ((_covered(instance) - 1) / n) ** 2)


def _verify_target() -> Evidence:
    """Drafts from the target: kappa = exp(beta R) exactly."""
    own = tuple(exact.Instance(gen=i.target, target=i.target, tilt=i.tilt) for i in exact.INSTANCES)
    return all_of(exact.agree(_within_own, what=_OWN_BOUND, instances=own), prove_density_ratio)


def _verify_target_poisson(scale: Fraction | int) -> Evidence:
    return all_of(_verify_target, partial(prove_poisson_moment, scale), prove_gibbs)


def _verify_draft_poisson(scale: Fraction | int) -> Evidence:
    return all_of(_verify_coverage_bound, partial(prove_poisson_moment, scale), prove_gibbs)


CLAIMS: tuple[Claim, ...] = (
    proved(
        "SPECS-PM",
        verify=_verify_mass,
        mutants={"doubled": partial(_verify_mass, 2), "slightly more": partial(_verify_mass, Fraction(101, 100))},
    ),
    repaired(
        "SPECS-PM-order",
        fix=_verify_mass,
        mutants={"corrected": restated("SPECS-PM-order", relation="sqrt(n) <= sqrt(n)")},
    ),
    proved(
        "SPECS-E10",
        two_letters(_EQUATION_10, _equation_10, widths=(3, 6), power=Fraction(3, 2)),
        verify=Given(lambda statement: _verify_equation10(statement.numbers["power"])),
        mutants={"n^6": partial(_verify_equation10, Fraction(6))},
    ),
    proved(
        "SPECS-C1",
        _poisson("exp(beta R)", lambda instance: exact.ratio(instance.tilt), own=True),
        verify=Given(lambda statement: _verify_target_poisson(statement.numbers["constant"])),
        mutants={"1": partial(_verify_target_poisson, 1)},
    ),
    repaired(
        "SPECS-C1b",
        instead=own_drafts(_OWN_BOUND, _within_own, share=Fraction(1)),
        fix=in_full("share", "all of the bound is allowed", _verify_target),
        mutants={"factor sqrt(n)": restated("SPECS-C1b", change=("10", "10 * sqrt(n)"))},
    ),
    proved(
        "SPECS-C2",
        _poisson("C exp(beta R)", _covered, own=False),
        verify=Given(lambda statement: _verify_draft_poisson(statement.numbers["constant"])),
        mutants={"1": partial(_verify_draft_poisson, 1)},
    ),
    repaired(
        "SPECS-T3",
        _one_prompt_for(),
        instead=two_letters(_COVERED_BOUND, _within_covered, widths=(3, 5), share=Fraction(1)),
        fix=in_full("share", "all of the bound is allowed", _verify_coverage_bound),
        mutants={"corrected": partial(_one_prompt_for, worst=True)},
    ),
    proved(
        "SPECS-D5",
        two_letters("kappa <= C exp(beta R) and C >= 1", covered, widths=(1, 1)),
        verify=prove_coverage,
        mutants={"one-norm": partial(prove_coverage, both=False)},
    ),
)
