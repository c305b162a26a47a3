"""Claims of Lookahead Decoding that compare its own numbers: quoted percentages and multiples against the tables."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from theory.claims.ledger import Claim, Evidence
from theory.claims.proving.records import mutant, proved, refuted, repaired
from theory.claims.proving.rounding import could_round_to, printed, quotient
from theory.claims.proving.tools import exhaustive, refute
from theory.published.lookahead_decoding import METHODS, TABLE_2, TABLE_4, TABLE_6

__all__ = ["CLAIMS"]

_QUOTED_WORK = {"7B": 120, "13B": 80, "34B": 56}
"""Section 5.5: model of Table 4 -> quoted multiple."""
_SAMPLING_SPEEDUPS = tuple(row.speedup for row in TABLE_2.values())
_DRAFT_MODEL_SPEEDUPS = tuple(
    row[METHODS.index(draft)]
    for row in TABLE_6.values()
    for draft in ("SD 1B", "SD 7B")
    if row[METHODS.index(draft)] != "-"
)


def _good() -> list[tuple[int, int, int]]:
    """W = G, N and the quoted multiple of each model of Table 4."""
    return [(*TABLE_4[model], quoted) for model, quoted in _QUOTED_WORK.items()]


def _table_check(good: bool, what: str) -> Evidence:
    """Evidence for one exact comparison of printed numbers."""
    return exhaustive(lambda _row: good, {"_row": (1,)}, what=what)


def _verify_flops(current: int = 1) -> Evidence:
    """Quoted extra work against (W + G)(N - 1) tokens, `current` of which plain decoding pays too."""

    def extra(window: int, size: int) -> int:
        return 2 * window * (size - 1) - current

    rows = [{"W": w, "N": n, "quoted": x} for w, n, x in _good()]
    return refute(
        lambda W, N, quoted: extra(int(W), int(N)) == quoted,  # noqa: N803
        rows,
        what="the quoted multiple is the work beyond that of one token",
        explain=lambda W, N, quoted: f"{extra(int(W), int(N))} tokens beyond the current one, {quoted} quoted",  # noqa: N803
    )


def _verify_total_flops() -> Evidence:
    good = all(2 * w * (n - 1) == quoted for w, n, quoted in _good())
    return _table_check(good, "120, 80 and 56 are the total (W + G)(N - 1) for Table 4")


def _verify_flash(quoted: str = "1.8") -> Evidence:
    ratio = quotient(printed("1.9"), printed("1.07"))
    return _table_check(could_round_to(ratio, quoted), f"1.9 / 1.07 can round to {quoted}")


def _verify_equal_compression(limits: tuple[str, str] = ("0.3", "0.1")) -> Evidence:
    """Largest relative differences that the printed means allow, against the quoted limits in percent."""
    pairs = (("3.267", "3.259"), ("2.558", "2.557"))
    worst = [quotient(printed(high), printed(low))[1] - 1 for high, low in pairs]
    good = all(100 * gap < Fraction(limit) for gap, limit in zip(worst, limits, strict=True))
    return _table_check(good, "differences of S at most " + ", ".join(f"{float(100 * gap):.3f} %" for gap in worst))


def _verify_sampling_range(low: str = "1.46", high: str = "1.60") -> Evidence:
    values = sorted(map(Fraction, _SAMPLING_SPEEDUPS))
    good = (values[0], values[-1]) == (Fraction(low), Fraction(high))
    return _table_check(good, f"speedups of Table 2 run from {low} to {high}")


def _slower(test: Callable[..., bool], what: str) -> Evidence:
    rows = [{"speedup": x} for x in _DRAFT_MODEL_SPEEDUPS]
    return refute(test, rows, what=what)


CLAIMS: tuple[Claim, ...] = (
    repaired(
        id="LD-N1",
        source="Lookahead Decoding, section 5.5 and Table 4",
        statement="The settings of Table 4 cost 120, 80 and 56 times the work of one token on top of it, per step.",
        assumptions="work proportional to input tokens, attention over the prefix ignored",
        printed=_verify_flops,
        correction="120, 80 and 56 are totals that contain the current token; the extra work is 119, 79 and 55 tokens.",
        repair=_verify_total_flops,
        mutants=(mutant("total", "the current token counted as extra", _verify_flops, current=0),),
    ),
    proved(
        id="LD-N2",
        source="Lookahead Decoding, section 5.2",
        statement="1.9 times against 1.07 times is a gain of 1.8 times.",
        assumptions="numbers rounded as printed",
        verify=_verify_flash,
        mutants=(mutant("1.9", "a gain of 1.9 times", _verify_flash, "1.9"),),
        notes="The ratio can be anything from 1.72 to 1.83, so 1.7 would be as good.",
    ),
    proved(
        id="LD-N3",
        source="Lookahead Decoding, Appendix E",
        statement="Mean S with and without FlashAttention differ by less than 0.3 %, on one and several devices by "
        "less than 0.1 %.",
        assumptions="means 3.267 and 3.259, 2.558 and 2.557, rounded as printed",
        verify=_verify_equal_compression,
        mutants=(
            mutant("0.2 %", "0.2 % with FlashAttention", _verify_equal_compression, ("0.2", "0.1")),
            mutant("0.05 %", "0.05 % over devices", _verify_equal_compression, ("0.3", "0.05")),
        ),
    ),
    proved(
        id="LD-N4",
        source="Lookahead Decoding, section 5.3 and Table 2",
        statement="Summarisation gains 1.46 to 1.60 times.",
        assumptions="values as printed",
        verify=_verify_sampling_range,
        mutants=(mutant("1.50", "from 1.50 times", _verify_sampling_range, low="1.50"),),
    ),
    refuted(
        id="LD-N5",
        source="Lookahead Decoding, Appendix F and Table 6",
        statement="Speculative decoding with the two draft models is always slower than plain decoding.",
        assumptions="values as printed, to one decimal",
        verify=lambda: _slower(lambda speedup: speedup < 1, "every entry is below 1.0"),
        correction="No entry is above 1.0; one (Vicuna-13B with the 1B draft on HumanEval) is 1.0, which the rounding "
        "leaves open.",
        correction_verify=lambda: _table_check(
            all(Fraction(x) <= 1 for x in _DRAFT_MODEL_SPEEDUPS), "no entry is above 1.0"
        ),
        mutants=(mutant("not faster", "at most 1.0", _slower, lambda speedup: speedup <= 1, "no entry is above 1.0"),),
    ),
)
