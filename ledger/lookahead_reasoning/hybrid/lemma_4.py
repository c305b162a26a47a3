"""Lookahead Reasoning, Lemma 4: the function a(alpha, x), its monotonicity and its numerical constants."""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from ledger.ledger import Claim, Evidence, Verdict
from ledger.proving.balls import point
from ledger.proving.cases import Cases, rows, walked
from ledger.proving.domains import closed
from ledger.proving.formulas import Formula
from ledger.proving.records import Given, formula_of, proved, refuted, repaired, restated
from ledger.proving.tools import all_of, descent, identity, prove_box, prove_descent, prove_equalities, rounds_to

__all__ = ["CLAIMS", "falls_in_x", "log_above_chord"]


def log_above_chord() -> Evidence:
    """-log(alpha) > 1 - alpha on (0, 1), with alpha = exp(-u)."""
    return prove_descent("u - 1 + exp(-u)", "u", what="-log(alpha) > 1 - alpha, alpha = exp(-u)", order=2)


def _a(alpha: arb, x: arb, factor: arb | None = None) -> arb:
    """``a(alpha, x) = -log(alpha) x alpha**x / (1 - alpha**x)``; `factor` replaces the leading x."""
    power = alpha**x
    return -alpha.log() * (x if factor is None else factor) * power / (1 - power)


def falls_in_x() -> Evidence:
    """Lemma 4 (i): a = u / (exp(u) - 1) with u = -x log(alpha), which falls in u, for every alpha in (0, 1)."""
    return all_of(
        identity("u * exp(-u) / (1 - exp(-u)) == u / (exp(u) - 1)", "a(alpha, x) = u/(exp(u)-1), u = -x log(alpha)"),
        identity(
            "-diff(u / (exp(u) - 1), u) * (exp(u) - 1)**2 == u * exp(u) - exp(u) + 1", "the sign of -(u/(exp(u)-1))'"
        ),
        descent("u * exp(u) - exp(u) + 1", "-(u/(exp(u)-1))' > 0", "u", order=1),
    )


def _rises_in_alpha() -> Evidence:
    """Lemma 4 (ii): the displayed criterion, x (-log alpha) > 1 - alpha**x, holds for every x > 0."""
    return all_of(
        identity(
            "diff(-log(alpha) * x * alpha**x / (1 - alpha**x), alpha) == "
            "x * alpha**(x - 1) * (-x * log(alpha) - (1 - alpha**x)) / (1 - alpha**x)**2",
            "the sign of da/dalpha",
            samples=[{"alpha": "1/2", "x": "2"}],
        ),
        log_above_chord,
        detail="x (-log alpha) = -log(alpha**x) > 1 - alpha**x is the same bound at alpha**x",
    )


def _x_derivative(displayed: Formula) -> Evidence:
    """The displayed f' with its factor, whose simplified numerator is negative."""
    return all_of(
        lambda: prove_equalities(displayed), descent("exp(-u) - 1 + u", "exp(-u) > 1 - u (convexity)", "u", order=2)
    )


def _rounds(alpha: Fraction, x: int, factor: int, printed: str) -> Evidence:
    """``-log(alpha) factor alpha**x / (1 - alpha**x)`` against a printed decimal; a(alpha, x) has x for the factor."""

    def value() -> arb:
        return _a(point(alpha), point(x), point(factor))

    shown = float(alpha)
    name = f"a({shown}, {x})" if factor == x else f"-log({shown}) {factor} {shown}**{x}/(1 - {shown}**{x})"
    return rounds_to(value, printed, name, {})


def _constants(*printed: tuple[Fraction | str, int, int, str]) -> Cases:
    """Printed values as (alpha, x, leading factor, decimal)."""
    names = ("alpha", "x", "factor", "printed")
    return Cases(
        text="the expression rounds to the printed decimal",
        test=lambda **case: _rounds(**case).verdict is Verdict.PROVED,
        cases=rows(*(dict(zip(names, (Fraction(row[0]), *row[1:]), strict=True)) for row in printed)),
        where="the printed constants of part 3",
        explain=lambda **case: _rounds(**case).detail,
    )


def _at_two(statement: Formula, *printed: str) -> Evidence:
    """The rounded ends of a(alpha, 2), and the interval around it."""
    ends = closed(statement.domain, "alpha")["alpha"]
    return all_of(
        lambda: walked(_constants(*((end, 2, 2, value) for end, value in zip(ends, printed, strict=True)))),
        lambda: prove_box(statement),
        _rises_in_alpha,
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-L4a", verify=falls_in_x, mutants={"sign": restated("LR-L4a", relation="a(alpha, x + more) > a(alpha, x)")}
    ),
    proved(
        "LR-L4b",
        verify=Given(_x_derivative),
        mutants={"sign": restated("LR-L4b", change=("+ x * log(alpha) * alpha**x)", "- x * log(alpha) * alpha**x)"))},
    ),
    proved(
        "LR-L4c",
        verify=_rises_in_alpha,
        mutants={"sign": restated("LR-L4c", relation="a(alpha + more * (4/5 - alpha), x) < a(alpha, x)")},
    ),
    refuted(
        "LR-L4d",
        fix=_rises_in_alpha,
        mutants={"corrected": restated("LR-L4d", relation="1 - alpha**x < -x * log(alpha)")},
    ),
    proved(
        "LR-L4e",
        verify=lambda: all_of(falls_in_x, _rises_in_alpha),
        mutants={
            "nine": restated("LR-L4e", domain="x in (9, oo)"),
            "nine and a half": restated("LR-L4e", domain="x in (19/2, oo)"),
        },
    ),
    refuted(
        "LR-L4f",
        _constants(("4/5", 10, 10, "0.26")),
        instead=_constants(("4/5", 10, 10, "0.2684")),
        mutants={"corrected": _constants(("4/5", 10, 10, "0.27"))},
    ),
    repaired(
        "LR-L4g",
        _constants(("4/5", 6, 10, "0.48"), ("4/5", 8, 10, "0.36")),
        instead=_constants(("4/5", 6, 6, "0.48"), ("4/5", 8, 8, "0.36")),
    ),
    proved(
        "LR-L4h",
        verify=Given(lambda statement: _at_two(statement, "0.48", "0.79")),
        mutants={
            "interval": restated("LR-L4h", relation="0.48 < a(alpha, 2) and a(alpha, 2) < 0.79"),
            "third digit": lambda: _at_two(formula_of("LR-L4h"), "0.48", "0.80"),
        },
    ),
)
