"""The closed forms of Lookahead Reasoning as the ledger states them, by the names of the numeric functions."""

from fractions import Fraction
from functools import cache
from typing import Final

import sympy as sp

from ledger.lookahead_reasoning import forms
from ledger.proving.reading import read

STATEMENTS: Final = {
    "any_of": "1 - (1 - alpha1)**width",
    "best_of_speedup": "1 / (c1 + select_cost + (1 - alpha1)**width)",
    "expected_accepted_steps": "accepted(alpha1)",
    "expected_accepted_steps_limited": "alpha1 * (1 - alpha1**limit) / (1 - alpha1)",
    "expected_tokens": "(1 - alpha**(gamma + 1)) / (1 - alpha)",
    "f_async": "f_async(alpha1, c1, k1)",
    "f_async_saturated": "saturated_printed(alpha1, c1, k1)",
    "f_async_unsaturated": "unsaturated(alpha1, c1)",
    "f_sync": "speedup(alpha1, c1, k1)",
    "g": "speedup(alpha2, c2, k2)",
    "graded_speedup": "1 / (c1 + score_cost + 1 - alpha1)",
    "h_async": "f_async(alpha1, c1, k1) * speedup(alpha2, c2, k2)",
    "h_sync": "speedup(alpha1, c1, k1) * speedup(alpha2, c2, k2)",
    "lambert_optimum": "lambert_optimum(alpha2, c2)",
    "parallel_dim_async": "Min(ceiling(1 / c1), k1) * k2",
    "parallel_dim_f_async": "Min(ceiling(1 / c1), k1)",
    "parallel_dim_f_sync": "k1",
    "parallel_dim_sync": "k1 * k2",
    "saturation_depth": "ceiling(1 / c1)",
    "walltime_leviathan_2023": "drafted(alpha, c, gamma)",
}
"""Name of the numeric function, with its mode where it has one, to its statement. Symbols are the arguments' names."""


@cache
def stated(name: str) -> sp.Expr:
    """Return the statement of a numeric function; those of ConfSpec end with the fallback."""
    if name in STATEMENTS:
        return read(STATEMENTS[name], "lookahead_reasoning")
    alpha, c, k, width, gate, judge, escalation = sp.symbols(
        "alpha1 c1 k1 width gate_cost judge_cost escalation", positive=True
    )
    p, fallback = 1 - (1 - alpha) ** width, name.rpartition("_")[2]
    if "pipeline" in name:
        return forms.confspec_pipeline_speedup(p, c, k, fallback)
    return forms.confspec_speedup(p, c, k, gate + (1 - (1 - escalation) ** width) * judge, fallback)


def evaluated(name: str, *, digits: int = 50, **values: Fraction | float | str) -> sp.Expr:
    """Return a statement at a point to so many digits; a float is taken as the exact binary number that it is."""
    expression = stated(name)
    exact = {s: sp.Rational(str(Fraction(values[s.name]))) for s in expression.free_symbols}
    return sp.N(expression.subs(exact), digits)
