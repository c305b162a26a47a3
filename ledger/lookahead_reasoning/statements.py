"""The sympy statement of every closed form that the numeric modules of ``theory`` implement.

Symbols carry the names of the numeric functions' arguments: a statement is evaluated by keyword. The numeric functions
are tested against these at 50 digits, so that no formula is retyped in a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, partial
from typing import Final

import sympy as sp

from ledger.lookahead_reasoning.forms import speedup, stationarity
from ledger.proving.reading import read
from theory.errors import ParameterError

__all__ = [
    "ALPHA",
    "ALPHA1",
    "C1",
    "GAMMA",
    "K1",
    "STATEMENTS",
    "C",
    "confspec_pipeline_speedup",
    "confspec_speedup",
    "doubling_ratio",
    "evaluate",
    "expected_accepted_steps",
    "expected_intervals",
    "expected_partial_batch",
    "expected_tokens",
    "f_async",
    "f_async_saturated",
    "f_async_unsaturated",
    "f_sync",
    "g",
    "h",
    "lambert_optimum",
    "parallel_dim",
    "parallel_dim_f",
    "speedup",
    "stationarity",
    "walltime_leviathan_2023",
]

ALPHA, ALPHA1, ALPHA2 = sp.symbols("alpha alpha1 alpha2", positive=True)
C, C1, C2 = sp.symbols("c c1 c2", nonnegative=True)
GAMMA = sp.Symbol("gamma", nonnegative=True, integer=True)
K1, K2 = sp.symbols("k1 k2", positive=True, integer=True)


WIDTH = sp.Symbol("width", positive=True, integer=True)
GATE_COST, JUDGE_COST, ESCALATION = sp.symbols("gate_cost judge_cost escalation", nonnegative=True)


def f_sync() -> sp.Expr:
    """LR Theorem 1: ``k1`` target generations in parallel, ``k1 - 1`` drafts."""
    return speedup(ALPHA1, C1, K1)


def confspec_speedup(fallback: str = "printed") -> sp.Expr:
    """ConfSpec, Algorithm 1: steps committed by an iteration over its time, drafts, target, checks and fresh step.

    X of the k1 drafts pass before the first that fails, P(X >= i) = p**i with p = 1 - (1 - alpha1)**width. The target's
    own step is fresh if no draft passed (``printed``) or not all did (``text``), or it is the compared one (``reuse``);
    as printed nothing is committed beyond X where some passed. The position after the last that passed is checked too.
    """
    p = 1 - (1 - ALPHA1) ** WIDTH
    passed, all_passed = p * (1 - p**K1) / (1 - p), p**K1
    own = {"printed": 1 - p, "text": 1 - all_passed, "reuse": 1 - all_passed}[fallback]
    fresh = {"printed": 1 - p, "text": 1 - all_passed, "reuse": sp.Integer(0)}[fallback]
    checked = (1 - p**K1) / (1 - p)
    check = GATE_COST + (1 - (1 - ESCALATION) ** WIDTH) * JUDGE_COST
    return (passed + own) / (K1 * C1 + 1 + checked * check + fresh)


def g() -> sp.Expr:
    """LR Equation (2): ``k2`` tokens per target pass."""
    return speedup(ALPHA2, C2, K2)


def walltime_leviathan_2023() -> sp.Expr:
    """LR section 2 and Leviathan et al. 2023, Theorem 3.8: ``gamma`` drafted tokens."""
    return (1 - ALPHA ** (GAMMA + 1)) / ((1 - ALPHA) * (1 + C * GAMMA))


def expected_tokens() -> sp.Expr:
    """Leviathan et al. 2023, Equation (1)."""
    return (1 - ALPHA ** (GAMMA + 1)) / (1 - ALPHA)


def f_async_unsaturated() -> sp.Expr:
    """LR Theorem 2, case 1."""
    return 1 / (C1 + (1 - C1) * (1 - ALPHA1))


def f_async_saturated() -> sp.Expr:
    """LR Theorem 2, case 2."""
    bracket = ALPHA1 - ALPHA1 ** (K1 + 1) - K1 * (1 - ALPHA1) * ALPHA1**K1
    return (1 - ALPHA1**K1) / ((1 - ALPHA1) + C1 * bracket)


def f_async() -> sp.Expr:
    """LR appendix B: case 2 below ``ceil(1/c1)``, case 1 from it on."""
    return sp.Piecewise((f_async_saturated(), sp.ceiling(1 / C1) > K1), (f_async_unsaturated(), True))


def confspec_pipeline_speedup(fallback: str = "reuse") -> sp.Expr:
    """ConfSpec, Appendix B: stages of Theorem 2 at acceptance p, each ending with a rejection.

    A stage takes 1/((1 - p) f) and commits 1/(1 - p) steps, the compared one included. ``text``: that one is written
    anew; ``printed``: it is not committed, and only where it is the stage's first, another is written.
    """
    p = 1 - (1 - ALPHA1) ** WIDTH
    passed, none_passed, stage = p / (1 - p), 1 - p, 1 / ((1 - p) * f_async().subs(ALPHA1, p))
    own = {"printed": none_passed, "text": sp.Integer(1), "reuse": sp.Integer(1)}[fallback]
    fresh = {"printed": none_passed, "text": sp.Integer(1), "reuse": sp.Integer(0)}[fallback]
    return (passed + own) / (stage + fresh)


def h(mode: str = "async") -> sp.Expr:
    """LR Equation (4): the product of step-level and token-level speedup."""
    return (f_async() if mode == "async" else f_sync()) * g()


def parallel_dim_f(mode: str = "async") -> sp.Expr:
    """LR Equation (5): targets in flight at step level."""
    return sp.Min(sp.ceiling(1 / C1), K1) if mode == "async" else K1


def doubling_ratio() -> sp.Expr:
    """LR Theorem 3: ``D(k)``, here as a function of (alpha, c, gamma = k), which equals ``g(k) / g(k/2)``."""
    return (1 + ALPHA ** (GAMMA / 2)) * (1 - C + C * GAMMA / 2) / (1 - C + C * GAMMA)


def expected_accepted_steps() -> sp.Expr:
    """LR appendix B.1.1: E[X]."""
    return ALPHA1 / (1 - ALPHA1)


def parallel_dim(mode: str = "async") -> sp.Expr:
    """LR Equation (1): target positions in flight, both levels."""
    return parallel_dim_f(mode) * K2


def expected_intervals() -> sp.Expr:
    """LR appendix C, step 2: E[ceil((X + 1) / k1)]."""
    return 1 / (1 - ALPHA1**K1)


def expected_partial_batch() -> sp.Expr:
    """LR appendix C, step 3: E[X mod k1]."""
    top = ALPHA1 - ALPHA1 ** (K1 + 1) - K1 * (1 - ALPHA1) * ALPHA1**K1
    return top / ((1 - ALPHA1) * (1 - ALPHA1**K1))


def lambert_optimum() -> sp.Expr:
    """The real maximiser of LR Equation (2): the root of `stationarity`, on the lower branch of Lambert's W.

    With L = -log(alpha) and z = 1 + L (x + (1 - c)/c) the root satisfies ``z exp(-z) = exp(-1 - L (1 - c)/c)``, z > 1.
    """
    rate = -sp.log(ALPHA2)
    offset = (1 - C2) / C2
    return (-sp.LambertW(-sp.exp(-1 - rate * offset), -1) - 1) / rate - offset


_TEXTS: Final = {
    # one of `width` independent drafts is accepted
    "any_of": "1 - (1 - alpha1)**width",
    # draft, score, and the target's own step where the score is too low; then the best of `width` drafts
    "graded_speedup": "1 / (c1 + score_cost + 1 - alpha1)",
    "best_of_speedup": "1 / (c1 + select_cost + (1 - alpha1)**width)",
    # E[min(X, limit)]: one for each draft position up to the limit that is reached accepted
    "expected_accepted_steps_limited": "alpha1 * (1 - alpha1**limit) / (1 - alpha1)",
    "saturation_depth": "ceiling(1 / c1)",
}
STATEMENTS: Mapping[str, Callable[[], sp.Basic]] = {
    **{name: partial(read, text) for name, text in _TEXTS.items()},
    "confspec_pipeline_speedup_printed": lambda: confspec_pipeline_speedup("printed"),
    "confspec_pipeline_speedup_reuse": confspec_pipeline_speedup,
    "confspec_pipeline_speedup_text": lambda: confspec_pipeline_speedup("text"),
    "confspec_speedup_printed": confspec_speedup,
    "confspec_speedup_reuse": lambda: confspec_speedup("reuse"),
    "confspec_speedup_text": lambda: confspec_speedup("text"),
    "expected_accepted_steps": expected_accepted_steps,
    "expected_intervals": expected_intervals,
    "expected_partial_batch": expected_partial_batch,
    "expected_tokens": expected_tokens,
    "f_async": f_async,
    "f_async_saturated": f_async_saturated,
    "f_async_unsaturated": f_async_unsaturated,
    "f_sync": f_sync,
    "g": g,
    "h_async": h,
    "h_sync": lambda: h("sync"),
    "lambert_optimum": lambert_optimum,
    "parallel_dim_async": parallel_dim,
    "parallel_dim_sync": lambda: parallel_dim("sync"),
    "parallel_dim_f_async": parallel_dim_f,
    "parallel_dim_f_sync": lambda: parallel_dim_f("sync"),
    "walltime_leviathan_2023": walltime_leviathan_2023,
}
"""Name of the numeric function (with its mode, where it has one) -> builder of its statement."""


@cache
def _built(name: str) -> sp.Expr:
    return STATEMENTS[name]()


def evaluate(name: str, *, digits: int = 50, **values: Fraction | float | str) -> sp.Expr:
    """The named statement at a point, to this many digits.

    Parameters
    ----------
    name : a key of `STATEMENTS`.
    digits : significant decimal digits.
    values : symbol name -> value; a float is taken as the exact binary number that it is.

    Raises
    ------
    ParameterError : unknown statement, or a symbol without a value.

    >>> str(evaluate("g", digits=10, alpha2="1/2", c2="1/4", k2=2))
    '1.200000000'
    """
    if name not in STATEMENTS:
        raise ParameterError("name", name, f"must be one of {', '.join(STATEMENTS)}")
    expression = _built(name)
    missing = sorted(s.name for s in expression.free_symbols if s.name not in values)
    if missing:
        raise ParameterError(missing[0], None, f"must be given for {name}")
    exact = {s: sp.Rational(str(Fraction(values[s.name]))) for s in expression.free_symbols}
    return sp.N(expression.subs(exact), digits)
