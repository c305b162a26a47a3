"""Claims of SPECS about its ablations: Tables 2 and 6."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Cases, grid, rows
from ledger.proving.once import once
from ledger.proving.records import proved, refuted
from ledger.specs.exact import decided
from ledger.specs.measurements.cells import CELLS, accuracy, main_accuracy, seconds
from theory.published.specs import BENCHMARKS, TABLE_1, TABLE_2, TABLE_6, WIDTHS

__all__ = ["CLAIMS"]

_SMALL_START, _LARGE_RSD = "SPECS (start with small model)", "RSD (start with large model)"
_PLAIN_SCORE = "SPECS (with no log-likelihood term in score)"


def _no_target(method: str = "No Target") -> Cases:
    """Accuracies of Table 2 above those of BS(S) in Table 1."""
    found = [
        {"ablation": accuracy(TABLE_2, method, b, n), "small": main_accuracy("BS(S)", b, n), "width": n}
        for b, n in CELLS
    ]
    return Cases(
        text=f"{method} is more accurate than beam search with the small model",
        test=lambda ablation, small, width: ablation > small,
        cases=rows(*found),
        where="nine settings of the Qwen pair",
        explain=lambda ablation, small, width: f"{float(ablation)} against {float(small)} % (MATH500, width {width})",
    )


def _fix_no_target() -> Evidence:
    ahead = [accuracy(TABLE_2, "No Target", b, n) - main_accuracy("BS(S)", b, n) for b, n in CELLS]
    good = sum(gap > 0 for gap in ahead) == 7 and max(ahead) > 16 and min(ahead) == Fraction(-3, 2)
    return decided(good, what="ahead in 7 of 9 settings, by at most 16.1 points", method="exact enumeration")


@once
def _as_fast(more: Fraction = Fraction(1, 3)) -> Cases:
    """Seconds of Table 2 against those of BS(S) in Table 1."""
    found = [
        {
            "ablation": seconds(TABLE_2, "No Target", b, n),
            "small": Fraction(TABLE_1["Qwen2.5", b, "BS(S)", n].seconds),
            "width": n,
        }
        for b, n in CELLS
    ]
    return Cases(
        text=f"without the target SPECS takes at most {float(100 * more):.0f} % longer than beam search with the small "
        "model",
        test=lambda ablation, small, width: ablation <= (1 + more) * small,
        cases=rows(*found),
        where="nine settings of the Qwen pair",
        explain=lambda ablation, small, width: f"{float(ablation)} against {float(small)} s (width {width})",
    )


def _fix_as_fast() -> Evidence:
    slow = [case for case in _as_fast().cases() if not _as_fast().holds(case)]
    return decided(
        len(slow) == 1 and round(float(slow[0]["ablation"] / slow[0]["small"]), 2) == 1.65,
        what="in one of 9 settings, by 65 %",
        method="exact enumeration",
    )


def _worse_at_random(points: str = "5") -> Cases:
    return Cases(
        text=f"random switching is at least {points} points less accurate than SPECS",
        test=lambda benchmark, width: (
            accuracy(TABLE_2, "SPECS", benchmark, width) - accuracy(TABLE_2, "Random Switch", benchmark, width)
            >= Fraction(points)
        ),
        cases=grid(benchmark=BENCHMARKS, width=WIDTHS),
        where="nine settings of Table 2",
    )


def _variant(better: str, worse: str) -> Cases:
    """One row of Table 6 is more accurate than another at every width and benchmark."""
    found = [
        {"first": accuracy(TABLE_6, better, b, n), "second": accuracy(TABLE_6, worse, b, n), "width": n}
        for b, n in CELLS
    ]
    return Cases(
        text=f"{better} is more accurate than {worse}",
        test=lambda first, second, width: first > second,
        cases=rows(*found),
        where="nine settings of Table 6",
        explain=lambda first, second, width: f"{float(first)} against {float(second)} % at width {width}",
    )


def _fix_small_start() -> Evidence:
    ahead = [accuracy(TABLE_6, _SMALL_START, b, n) > accuracy(TABLE_6, "RSD", b, n) for b, n in CELLS]
    return decided(sum(ahead) == 8, what="more accurate than RSD in 8 of 9 settings", method="exact enumeration")


def _others(worse: tuple[str, ...] = (_LARGE_RSD, _PLAIN_SCORE)) -> Cases:
    return Cases(
        text=f"SPECS is more accurate than {' and '.join(worse)}",
        test=lambda benchmark, width, other: (
            accuracy(TABLE_6, "SPECS", benchmark, width) > accuracy(TABLE_6, other, benchmark, width)
        ),
        cases=grid(benchmark=BENCHMARKS, width=WIDTHS, other=worse),
        where="nine settings of Table 6",
    )


CLAIMS: tuple[Claim, ...] = (
    refuted(
        "SPECS-NOTARGET",
        formula=_no_target(),
        correction_verify=_fix_no_target,
        mutants={"SPECS": partial(_no_target, "SPECS")},
    ),
    refuted(
        "SPECS-NOTARGET-s",
        formula=_as_fast(),
        correction_verify=_fix_as_fast,
        mutants={"two thirds": partial(_as_fast, Fraction(2, 3))},
    ),
    proved("SPECS-RANDOM", formula=_worse_at_random(), mutants={"6": partial(_worse_at_random, "6")}),
    refuted(
        "SPECS-D8",
        formula=_variant(_SMALL_START, "RSD"),
        correction_verify=_fix_small_start,
        mutants={"other RSD": partial(_variant, _SMALL_START, _LARGE_RSD)},
    ),
    proved("SPECS-D8b", formula=_others(), mutants={"RSD": partial(_others, ("RSD",))}),
)
