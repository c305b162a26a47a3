"""SPECS on finite alphabets: against exact enumeration, against the ledger's statements at 50 digits, and its laws."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.specs import statements as stmt
from ledger.specs.block_tree import TREES, Tree
from ledger.specs.exact import INSTANCES, Law, selection_law
from theory.errors import ParameterError
from theory.specs import bounds
from theory.specs import selection as specs
from theory.specs.laws import coverage_coefficient, kl_divergence


def floats(law: Law) -> list[float]:
    return [float(x) for x in law]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("instance", INSTANCES, ids=range(len(INSTANCES)))
def test_selection_against_exact_enumeration(instance, n: int) -> None:  # type: ignore[no-untyped-def]
    exact = floats(selection_law(instance.gen, instance.weights, n))
    got = specs.soft_selection_distribution(floats(instance.gen), floats(instance.weights), n)
    np.testing.assert_allclose(got, exact, rtol=1e-13)  # measured 7e-16


@pytest.mark.parametrize(("rare", "weight", "n"), [(0.5, 1e-6, 3), (0.01, 1e-200, 5), (1e-9, 1e3, 7), (0.3, 1e-12, 40)])
def test_selection_with_scores_far_apart(rare: float, weight: float, n: int) -> None:
    p = Fraction(rare)
    exact = floats(selection_law((1 - p, p), (Fraction(1), Fraction(weight)), n))
    np.testing.assert_allclose(specs.soft_selection_distribution([1 - rare, rare], [1, weight], n), exact, rtol=1e-13)


def _at_50_digits(expression: sp.Expr, values: dict[sp.Symbol, sp.Expr]) -> mpmath.mpf:
    """An integral over s > 0 of the ledger's statement, in panels, at 50 digits."""
    integral = next(iter(expression.atoms(sp.Integral)))
    factor = sp.N((expression / integral).subs(values), 60)
    integrand = sp.lambdify(stmt.s, integral.function.subs(values), "mpmath")
    with mpmath.workdps(60):
        panels = [0, *[mpmath.mpf(2) ** k for k in range(-6, 8)], mpmath.inf]
        return mpmath.mpf(str(factor)) * mpmath.quad(integrand, panels)


def test_selection_against_the_ledger_at_50_digits() -> None:
    gens, weights = stmt.letters(3)
    values = dict(
        zip((*gens, *weights, stmt.n), map(sp.Rational, ["1/2", "1/3", "1/6", "1", "2", "1/4", "6"]), strict=True)
    )
    gen, w = [1 / 2, 1 / 3, 1 / 6], [1.0, 2.0, 0.25]
    law = specs.soft_selection_distribution(gen, w, 6)
    for y in range(3):
        exact = _at_50_digits(stmt.selection(y, gens, weights), values)
        assert abs(mpmath.mpf(float(law[y])) / exact - 1) < 1e-13


def test_optimum_and_weights_against_the_ledger_at_50_digits() -> None:
    gens, tilts = stmt.letters(2)
    values = {
        gens[0]: sp.Rational(1, 5),
        gens[1]: sp.Rational(4, 5),
        tilts[0]: sp.Rational(7, 3),
        tilts[1]: sp.Rational(1, 9),
    }
    got = specs.optimal_distribution([0.2, 0.8], [7 / 3, 1 / 9])
    for y in range(2):
        assert float(got[y]) == pytest.approx(float(sp.N(stmt.optimum(y, gens, tilts).subs(values), 50)), rel=1e-15)
    score = stmt.exponentiated_score()
    phi = [
        sp.N(score.subs({stmt.target: t, stmt.gen: g, stmt.beta: 3, stmt.r: r}), 50)
        for t, g, r in ((sp.Rational(1, 5), sp.Rational(1, 2), 1), (sp.Rational(4, 5), sp.Rational(1, 2), 0))
    ]
    weights = specs.selection_weights([0.2, 0.8], [0.5, 0.5], [1.0, 0.0], 3.0)
    assert float(weights[0] / weights[1]) == pytest.approx(float(phi[0] / phi[1]), rel=1e-14)


BOUND_POINTS = [(1, 1, "1/2", "1", "1"), (4, 3, "2", "1", "5/2"), (64, 10, "1/10", "3", "7"), (3, 2, "9", "2", "1")]


@pytest.mark.parametrize(("n", "horizon", "beta", "width", "cover"), BOUND_POINTS)
def test_bounds_against_the_ledger_at_50_digits(n: int, horizon: int, beta: str, width: str, cover: str) -> None:
    values = {
        stmt.n: sp.Integer(n),
        stmt.H: sp.Integer(horizon),
        stmt.beta: sp.Rational(beta),
        stmt.R: sp.Rational(width),
        stmt.C: sp.Rational(cover),
        stmt.eps: sp.Rational(1, 8),
    }
    arguments = (n, horizon, float(sp.Rational(beta)), float(width), float(sp.Rational(cover)))
    for value, statement in (
        (bounds.kl_bound(*arguments), stmt.kl_bound()),
        (bounds.kl_bound(*arguments, 0.125), stmt.kl_bound_misspecified()),
        (bounds.kl_bound_printed(*arguments), stmt.kl_bound_printed()),
    ):
        assert float(value) == pytest.approx(float(sp.N(statement.subs(values), 50)), rel=1e-13)


def test_one_block_bound_against_the_ledger_at_50_digits() -> None:
    for kappa, n in itertools.product(("1", "5/4", "100"), (1, 3, 50)):
        values = {stmt.kappa: sp.Rational(kappa), stmt.n: sp.Integer(n)}
        chi = float(sp.N(sp.log(1 + stmt.chi_square_bound().subs(values)), 50))
        assert float(bounds.kl_bound(n, 1, 0.0, 0.0, float(sp.Rational(kappa)))) == pytest.approx(chi, rel=1e-14)


def _level(model, t: int) -> np.ndarray:  # type: ignore[no-untyped-def,type-arg]
    prefixes = sorted(u for u in model if len(u) == t)
    return np.array([floats(model[u]) for u in prefixes]).reshape((2,) * (t + 1))


@pytest.mark.parametrize("tree", TREES, ids=lambda t: t.name)
@pytest.mark.parametrize("threshold", [Fraction(1, 2), Fraction(101, 100), Fraction(100)])
def test_several_blocks_against_every_draw_of_the_algorithm(tree: Tree, threshold: Fraction) -> None:
    beta, n = 2.0, 2
    shape = (2,) * tree.horizon
    reward = np.log([float(tree.tilt[y]) for y in tree.responses()]).reshape(shape) / beta
    target, draft = ([_level(m, t) for t in range(tree.horizon)] for m in (tree.target, tree.draft))
    got = specs.specs_output_distribution(target, draft, reward, beta, n, float(np.log(float(threshold))) / beta)
    np.testing.assert_allclose(got.ravel(), floats(tree.output(n, threshold)), rtol=1e-13)
    divergence = kl_divergence(got.ravel(), floats(tree.optimum()))
    width = float(np.ptp(reward))
    assert divergence <= float(bounds.kl_bound(n, tree.horizon, beta, width, float(tree.block_coverage())))


laws = st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3).map(lambda x: (np.array(x) / np.sum(x)).tolist())
rewards = st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3)


@given(laws, laws, rewards, st.floats(0.0, 20.0), st.integers(1, 500))
@settings(max_examples=60, deadline=None)
def test_bound_chain(target: list[float], gen: list[float], reward: list[float], beta: float, n: int) -> None:
    weights = specs.selection_weights(target, gen, reward, beta)
    kappa = float(weights.max() / weights.min())
    exact = specs.selection_kl(target, gen, reward, beta, n)
    assert exact <= float(bounds.kl_bound(n, 1, 0.0, 0.0, kappa)) + 1e-12
    assert exact <= np.log(kappa) + 1e-12
    cover = coverage_coefficient(target, gen)
    full = float(bounds.kl_bound(n, 1, beta, float(np.ptp(reward)), cover))
    assert exact <= full + 1e-12
    assert full <= float(bounds.kl_bound_printed(n, 1, beta, float(np.ptp(reward)), cover)) * (1 + 1e-12)


def test_wider_beams_come_closer_at_rate_two() -> None:
    values = [specs.selection_kl([0.5, 0.5], [0.5, 0.5], [0.0, 1.0], 2.0, n) for n in (100, 200, 400)]
    assert values[0] > values[1] > values[2]
    # n**2 D tends to a constant; the next order is 1/n, so doubling n leaves less than 4 % at these widths
    assert values[0] / values[1] == pytest.approx(4, rel=0.04)
    assert values[1] / values[2] == pytest.approx(4, rel=0.02)


def test_limits() -> None:
    assert specs.soft_selection_distribution([0.3, 0.7], [1, 9], 1).tolist() == pytest.approx([0.3, 0.7], rel=1e-15)
    assert specs.selection_kl([0.3, 0.7], [0.3, 0.7], [0.0, 1.0], 0.0, 1) == pytest.approx(0, abs=1e-15)
    assert float(bounds.kl_bound(3, 2, 0.0, 1.0, 1.0)) == 0
    assert coverage_coefficient([0.5, 0.5], [0.5, 0.5]) == 1
    assert coverage_coefficient([0.5, 0.5], [1.0, 0.0]) == float("inf")
    assert kl_divergence([0.5, 0.5], [1.0, 0.0]) == float("inf")
    assert kl_divergence([1.0, 0.0], [0.5, 0.5]) == pytest.approx(np.log(2), rel=1e-15)
    np.testing.assert_allclose(
        specs.soft_selection_distribution([0.5, 0.5], [1, 2], 10**12), [1 / 3, 2 / 3], rtol=1e-11
    )


def test_bound_stays_finite_where_its_terms_overflow() -> None:
    # at beta R = 10,000 the exact value is 2 (beta R - log n) up to exp(-10000)
    assert float(bounds.kl_bound(4, 1, 1e4, 1.0, 1.0)) == pytest.approx(2 * (1e4 - np.log(4)), rel=1e-15)
    assert float(bounds.kl_bound_printed(4, 1, 1e4, 1.0, 1.0)) == float("inf")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: specs.soft_selection_distribution([0.5, 0.6], [1, 1], 2), "gen"),
        (lambda: specs.soft_selection_distribution([0.5, 0.5], [1, 0], 2), "weights"),
        (lambda: specs.soft_selection_distribution([0.5, 0.5], [1, float("nan")], 2), "weights"),
        (lambda: specs.soft_selection_distribution([0.5, 0.5], [1, 2, 3], 2), "weights"),
        (lambda: specs.soft_selection_distribution([0.5, 0.5], [1, 2], 0), "n"),
        (lambda: specs.soft_selection_distribution([0.5, 0.5], [1, 2], 2.5), "n"),  # type: ignore[arg-type]
        (lambda: specs.selection_weights([0.5, 0.5], [1.0, 0.0], [0, 1], 1.0), "gen"),
        (lambda: specs.selection_weights([0.5, 0.5], [0.5, 0.5], [0, float("inf")], 1.0), "reward"),
        (lambda: specs.selection_weights([0.5, 0.5], [0.5, 0.5], [0, 1], -1.0), "beta"),
        (lambda: specs.selection_weights([0.5, 0.5], [0.5, 0.5], [0, 1], 1e4), "beta"),
        (lambda: bounds.kl_bound(2, 0, 1.0, 1.0, 1.0), "horizon"),
        (lambda: bounds.kl_bound(2, 1, 1.0, 1.0, 0.9), "coverage"),
        (lambda: bounds.kl_bound([1, 2], 1, [1.0, 1.0, 1.0], 1.0, 1.0), "shapes"),
        (lambda: specs.specs_output_distribution([[0.5, 0.5]], [[0.5, 0.5]], [[0, 1], [1, 0]], 1.0, 2, 0.5), "target"),
    ],
)
def test_bad_input_names_the_argument(call, name: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.name.startswith(name)
