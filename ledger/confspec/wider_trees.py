"""Claims of ConfSpec about the width of its draft trees (Table 4), and a sentence that mixes Tables 2 and 3."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import partial
from typing import Final

from ledger.ledger import Claim
from ledger.proving.cases import Cases, rows
from ledger.proving.records import proved, refuted
from theory.published.confspec import BENCHMARKS, PROBLEMS, SAMPLES, accuracies, speedups

__all__ = ["CLAIMS"]

_WIDTHS: Final = ("ConfSpec W=1", "ConfSpec W=2", "ConfSpec W=4")


def _rises(widths: tuple[str, ...] = _WIDTHS, columns: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Cases:
    pairs = itertools.product(itertools.pairwise(widths), columns)
    cells = [(accuracies("4", narrow)[i], accuracies("4", wide)[i]) for (narrow, wide), i in pairs]
    return Cases(
        text="a wider tree is more accurate",
        test=lambda narrow, wide: Fraction(wide) > Fraction(narrow),
        cases=rows(*({"narrow": narrow, "wide": wide} for narrow, wide in cells)),
        where="Table 4",
    )


def _error(row: str, i: int) -> float:
    """The standard error in points of an accuracy, if its samples are independent."""
    p = float(accuracies("4", row)[i]) / 100
    return 100 * math.sqrt(p * (1 - p) / (SAMPLES * PROBLEMS[BENCHMARKS[i]]))


def _within_noise(errors: float = 1.0) -> Cases:
    """The rise of the mean of five against the standard error of such a difference."""
    first, last = _WIDTHS[0], _WIDTHS[-1]
    error = math.sqrt(sum(_error(row, i) ** 2 for row in (first, last) for i in range(5))) / 5
    return Cases(
        text=f"the rise of the mean is less than {errors:g} standard errors ({error:.2f} points each)",
        test=lambda rise: float(rise) < errors * error,
        cases=rows({"rise": Fraction(accuracies("4", last)[5]) - Fraction(accuracies("4", first)[5])}),
        where="the means of Table 4 at widths 1 and 4",
    )


def _quoted(accuracy: str = "82.03", speed: tuple[str, ...] = ("1.68", "1.45", "0.71")) -> Cases:
    means = (accuracies("4", _WIDTHS[0])[5], accuracies("4", _WIDTHS[-1])[5], *(speedups("4", w)[5] for w in _WIDTHS))
    return Cases(
        text="the means quoted are those of the table",
        test=lambda table, text: table == text,
        cases=rows(*({"table": a, "text": b} for a, b in zip(means, ("81.51", accuracy, *speed), strict=True))),
        where="Section 5.3 and Table 4",
    )


def _slower(factor: Fraction = Fraction(1)) -> Cases:
    """Each benchmark is slower by the factor or more at the next wider tree, and below 1 at the widest."""
    pairs = itertools.chain(itertools.pairwise(_WIDTHS), [("Target Model", _WIDTHS[-1])])
    cells = itertools.product(pairs, range(5))
    return Cases(
        text="each benchmark is slower at each wider tree, and than the target at W = 4",
        test=lambda narrow, wide: Fraction(wide) < factor * Fraction(narrow),
        cases=rows(*({"narrow": speedups("4", a)[i], "wide": speedups("4", b)[i]} for (a, b), i in cells)),
        where="Table 4",
    )


def _from(quoted: str) -> Cases:
    """What Table 2 has for the target where SpecReason (s = 7) has 38.33."""
    return Cases(
        text=f"from {quoted} to 38.33 % on AIME24 in Table 2",
        test=lambda target, reason: (target, reason) == (quoted, "38.33"),
        cases=rows(
            {
                "target": accuracies("2 DeepSeek", "Target Model")[0],
                "reason": accuracies("2 DeepSeek", "SpecReason s=7")[0],
            }
        ),
        where="the target and SpecReason at threshold 7",
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "CS-W1",
        _quoted(),
        mutants={"82.00": partial(_quoted, "82.00"), "1.39": partial(_quoted, speed=("1.68", "1.39", "0.71"))},
    ),
    refuted(
        "CS-W2", _rises(), instead=_within_noise(), mutants={"width 4": partial(_rises, (_WIDTHS[0], _WIDTHS[-1]))}
    ),
    proved("CS-W3", _slower(), mutants={"a third": partial(_slower, Fraction(2, 3))}),
    refuted("CS-N16", _from("68.46"), instead=_from("68.54")),
)
