"""Claims of Lookahead Decoding that compare its own numbers: quoted percentages and multiples against the tables."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from ledger.ledger import Claim
from ledger.proving.cases import Cases, rows, searched, walked
from ledger.proving.records import proved, refuted, repaired
from ledger.proving.rounding import could_round_to, printed, quotient
from theory.published.lookahead_decoding import METHODS, TABLE_2, TABLE_4, TABLE_6

__all__ = ["CLAIMS"]

_QUOTED_WORK = {"7B": 120, "13B": 80, "34B": 56}
"""Section 5.5: model of Table 4 -> quoted multiple."""
_SAMPLING_SPEEDUPS = tuple(Fraction(row.speedup) for row in TABLE_2.values())
_DRAFT_MODEL_SPEEDUPS = tuple(
    row[METHODS.index(draft)]
    for row in TABLE_6.values()
    for draft in ("SD 1B", "SD 7B")
    if row[METHODS.index(draft)] != "-"
)


def _flops(text: str, current: int) -> Cases:
    """Quoted work against (W + G)(N - 1) tokens, less `current` of which plain decoding pays too."""
    settings = [(*TABLE_4[model], quoted) for model, quoted in _QUOTED_WORK.items()]
    return Cases(
        text=text,
        test=lambda W, N, quoted: 2 * W * (N - 1) - current == quoted,  # noqa: N803
        cases=rows(*({"W": w, "N": n, "quoted": quoted} for w, n, quoted in settings)),
        where="the three settings of Table 4, W = G",
    )


_EXTRA = _flops("the quoted multiple is the work beyond that of one token", 1)
_TOTAL = _flops("120, 80 and 56 are the total (W + G)(N - 1) for Table 4", 0)


def _explain_flops(W: int, N: int, quoted: int) -> str:  # noqa: N803
    return f"{2 * W * (N - 1) - 1} tokens beyond the current one, {quoted} quoted"


def _flash(quoted: str = "1.8") -> Cases:
    return Cases(
        text=f"the quotient of the two speedups can round to {quoted}",
        test=lambda with_it, without: could_round_to(quotient(printed(with_it), printed(without)), quoted),
        cases=rows({"with_it": "1.9", "without": "1.07"}),
        where="the two speedups of section 5.2",
    )


def _equal_compression(flash: str = "0.3", devices: str = "0.1") -> Cases:
    """Largest relative differences that the printed means allow, against the quoted limits in percent."""

    def within(high: str, low: str, limit: str) -> bool:
        return 100 * (quotient(printed(high), printed(low))[1] - 1) < Fraction(limit)

    return Cases(
        text="the two means of S differ by less than the limit, in percent",
        test=within,
        cases=rows(
            {"high": "3.267", "low": "3.259", "limit": flash}, {"high": "2.558", "low": "2.557", "limit": devices}
        ),
        where="with and without FlashAttention; one and several devices",
    )


def _sampling_range(low: str = "1.46", high: str = "1.60") -> Cases:
    return Cases(
        text=f"speedups of Table 2 run from {low} to {high}",
        test=lambda least, most: (least, most) == (Fraction(low), Fraction(high)),
        cases=rows({"least": min(_SAMPLING_SPEEDUPS), "most": max(_SAMPLING_SPEEDUPS)}),
        where="the least and the greatest speedup of Table 2",
    )


def _slower(text: str, test: Callable[[Fraction], bool]) -> Cases:
    return Cases(
        text=text,
        test=test,
        cases=rows(*({"speedup": Fraction(x)} for x in _DRAFT_MODEL_SPEEDUPS)),
        where="Table 6, both draft models",
    )


_FLASH, _EQUAL_COMPRESSION, _SAMPLING_RANGE = _flash(), _equal_compression(), _sampling_range()
_SLOWER = _slower("every entry is below 1.0", lambda speedup: speedup < 1)
_NOT_FASTER = _slower("no entry is above 1.0", lambda speedup: speedup <= 1)


CLAIMS: tuple[Claim, ...] = (
    repaired(
        "LD-N1",
        formula=_EXTRA,
        printed=partial(searched, _EXTRA, explain=_explain_flops),
        correction_formula=_TOTAL,
        repair=partial(walked, _TOTAL),
        mutants={"total": lambda: searched(_TOTAL)},
    ),
    proved("LD-N2", formula=_FLASH, mutants={"1.9": _flash("1.9")}),
    proved(
        "LD-N3",
        formula=_EQUAL_COMPRESSION,
        mutants={"0.2 %": _equal_compression(flash="0.2"), "0.05 %": _equal_compression(devices="0.05")},
    ),
    proved("LD-N4", formula=_SAMPLING_RANGE, mutants={"1.50": _sampling_range(low="1.50")}),
    refuted("LD-N5", formula=_SLOWER, correction_formula=_NOT_FASTER, mutants={"not faster": _NOT_FASTER}),
)
