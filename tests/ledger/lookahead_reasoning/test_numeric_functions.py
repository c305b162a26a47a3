"""Every closed form in ``theory`` that the ledger states, against the ledger's statement.

The statements are sympy expressions evaluated with 500 digits at the exact value of each float. A difference is an
error of the numeric function and of nothing else: 384 digits cancel in 1 - (1 - (1 - 0.999999))**64, no more elsewhere.
"""

import itertools
import math
import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp
from stated import stated

from theory import cascade, parallelism, speedup, step_methods
from theory.lookahead_decoding import speedup as lookahead

RELATIVE = 2e-15
"""The modules promise 1e-15 against the exact value (measured worst 9e-16); twice that leaves room for libm."""

DIGITS = 500

RATES = (1e-12, 0.015625, 0.3, 0.5, 0.52, 0.8, 0.97, 0.999999)
COSTS = (0.0078125, 0.0625, 0.25, 0.3, 0.4, 0.5, 0.75)
LENGTHS = (1, 2, 3, 5, 8, 64)

NUMERIC: Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "accuracy_loss_bound": (cascade.accuracy_loss_bound, ("disagreement", "n_decisions")),
    "any_of": (step_methods.any_of, ("alpha1", "width")),
    "best_of_speedup": (step_methods.best_of_speedup, ("alpha1", "c1", "width", "select_cost")),
    "break_even_escalation": (cascade.break_even_escalation, ("draft_cost", "target_cost")),
    **{
        f"confspec_speedup_{fallback}": (
            lambda fallback=fallback, **v: step_methods.confspec_speedup(**v, fallback=fallback),
            ("alpha1", "c1", "k1", "gate_cost", "judge_cost", "escalation", "width"),
        )
        for fallback in ("printed", "text", "reuse")
    },
    **{
        f"confspec_pipeline_speedup_{fallback}": (
            lambda fallback=fallback, **v: step_methods.confspec_pipeline_speedup(**v, fallback=fallback),
            ("alpha1", "c1", "k1", "width"),
        )
        for fallback in ("printed", "text", "reuse")
    },
    "graded_speedup": (step_methods.graded_speedup, ("alpha1", "c1", "score_cost")),
    "expected_accepted_steps": (speedup.expected_accepted_steps, ("alpha1",)),
    "expected_accepted_steps_limited": (speedup.expected_accepted_steps, ("alpha1", "limit")),
    "expected_tokens": (speedup.expected_tokens, ("alpha", "gamma")),
    "expected_tokens_multi": (lookahead.expected_tokens_multi, ("alpha2", "gamma", "n_sequences")),
    "expected_verification_cost": (cascade.expected_verification_cost, ("escalation", "draft_cost", "target_cost")),
    "f_async": (speedup.f_async, ("alpha1", "c1", "k1")),
    "f_async_saturated": (speedup.f_async_saturated, ("alpha1", "c1", "k1")),
    "f_async_unsaturated": (speedup.f_async_unsaturated, ("alpha1", "c1")),
    "f_sync": (speedup.f_sync, ("alpha1", "c1", "k1")),
    "g": (speedup.g, ("alpha2", "c2", "k2")),
    "lookahead_compression": (lookahead.lookahead_compression, ("alpha2", "steps_per_hit", "window", "ngram")),
    "parallel_dim_async": (lambda **v: parallelism.parallel_dim(**v, mode="async"), ("c1", "k1", "k2")),
    "parallel_dim_f_async": (lambda **v: parallelism.parallel_dim_f(**v, mode="async"), ("c1", "k1")),
    "parallel_dim_f_sync": (lambda **v: parallelism.parallel_dim_f(**v, c1=0.5, mode="sync"), ("k1",)),
    "parallel_dim_sync": (lambda **v: parallelism.parallel_dim(**v, c1=0.5, mode="sync"), ("k1", "k2")),
    "saturation_depth": (parallelism.saturation_depth, ("c1",)),
    "walltime_leviathan_2023": (speedup.walltime_leviathan_2023, ("alpha", "c", "gamma")),
}


def _axis(name: str) -> tuple[float, ...]:
    if name.startswith("alpha") or name in {"disagreement", "escalation"}:
        return RATES
    return COSTS if name in {"c", "c1", "c2"} or name.endswith("_cost") else LENGTHS


def _points(names: tuple[str, ...]) -> list[dict[str, float]]:
    """Points of the grid of all values."""
    drawn = random.Random(1)
    return [{name: drawn.choice(_axis(name)) for name in names} for _ in range(40)]


@cache
def _compiled(name: str) -> tuple[list[str], Callable[..., Any]]:
    """The symbols of a statement, and the statement as a function of their values: sympy's evaluation takes long."""
    symbols = sorted(stated(name).free_symbols, key=str)
    return list(map(str, symbols)), sp.lambdify(symbols, stated(name), "mpmath")


def _error(got: float, name: str, point: Mapping[str, float]) -> float:
    """By how much a number differs from the named statement at a point, as a share of it, [-]."""
    names, function = _compiled(name)
    with mpmath.workdps(DIGITS):
        values = (point[symbol] for symbol in names)
        exact = function(*(mpmath.mpf(value) if isinstance(value, float) else value for value in values))
        return float(abs(got - exact) / abs(exact)) if exact else abs(got)


@pytest.mark.parametrize("name", sorted(NUMERIC))
def test_numeric_function_equals_its_statement(name: str) -> None:
    function, names = NUMERIC[name]
    for point in _points(names):
        assert _error(float(function(**point)), name, point) <= RELATIVE, point


EXTREMES = {
    "alpha": (
        *(0.0, 5e-324, 1e-310, 1e-100, 1e-16, 1e-5, 0.1, 0.5, math.nextafter(0.5, 1.0), 0.7, 0.729496560983998),
        *(0.99, 0.997209935789211, *(1.0 - 10.0**-n for n in (3, 5, 8, 10, 12, 14, 15)), math.nextafter(1.0, 0.0)),
    ),
    "c": (5e-324, 1e-300, 1e-16, 1e-5, 1 / 49, 0.25, 1 / 3, 0.4, 0.7, 1.0 - 1e-10, 1.0),
    "k": (1, 2, 3, 7, 30, 49, 1000, 10**6),
}
"""Rates, costs and counts over all magnitudes; certain acceptance and free drafts are limits (`test_laws_speedup`)."""
EXACT = (
    *("expected_accepted_steps", "expected_accepted_steps_limited", "expected_tokens", "f_async", "f_async_saturated"),
    *("f_async_unsaturated", "f_sync", "g", "walltime_leviathan_2023"),
)


@pytest.mark.parametrize("name", EXACT)
def test_no_magnitude_costs_digits(name: str) -> None:
    """Measured 4.1e-16, which reads fl(1/49) as 1/49; the rest is for builds of numpy that round otherwise."""
    function, names = NUMERIC[name]
    axes = [EXTREMES["alpha" if of.startswith("alpha") else "c" if of.startswith("c") else "k"] for of in names]
    points = list(itertools.product(*axes))
    found = function(*map(np.array, zip(*points, strict=True)))
    for got, point in zip(found.tolist(), points, strict=True):
        assert _error(got, name, dict(zip(names, point, strict=True))) <= 1e-15, point


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_product_of_both_levels(mode: str) -> None:
    """Within what the tie rule of the optimiser rests on, 8 eps; measured 2.7e-16."""
    points = _points(("alpha1", "c1", "k1", "alpha2", "c2", "k2"))
    for point in points:
        assert _error(float(speedup.h(**point, mode=mode)), f"h_{mode}", point) <= 8 * np.finfo(float).eps, point
