"""Claims of Lookahead Decoding about its Tables 2, 3, 5 and 6: quality, compression, orders, ranges of speedups."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from theory.claims.ledger import Claim, Evidence
from theory.claims.proving.records import corrected, mutant, proved
from theory.claims.proving.tools import exhaustive, refute
from theory.published.lookahead_decoding import METHODS, SCORES, TABLE_2, TABLE_3, TABLE_6

__all__ = ["CLAIMS"]


def _every(good: Sequence[bool], what: str) -> Evidence:
    """All printed comparisons, one by one."""
    return exhaustive(lambda row: good[row], {"row": range(len(good))}, what=what)


def _differences(temperatures: Sequence[str]) -> list[Fraction]:
    """Points of Rouge between the two methods, in each printed cell."""
    rows = [(row.plain, row.own) for (_data, temperature), row in TABLE_2.items() if temperature in temperatures]
    return [abs(Fraction(x) - Fraction(y)) for plain, own in rows for x, y in zip(plain, own, strict=True)]


def _verify_rouge(limit: str = "0.07", temperatures: Sequence[str] = ("0.0", "1.0")) -> Evidence:
    good = [gap <= Fraction(limit) for gap in _differences(temperatures)]
    return _every(good, f"Rouge differs by at most {limit} points in {len(good)} cells")


def _verify_greedy_rouge() -> Evidence:
    cells = [
        {"autoregressive": x, "lookahead": y}
        for data in ("CNN", "XSum")
        for x, y in zip(TABLE_2[data, "0.0"].plain, TABLE_2[data, "0.0"].own, strict=True)
    ]
    return refute(
        lambda autoregressive, lookahead: autoregressive == lookahead,
        cells,
        what="at temperature 0 the printed Rouge scores are equal",
        explain=lambda autoregressive, lookahead: f"{float(autoregressive)} against {float(lookahead)}",
    )


def _verify_sampling(factor: str = "1") -> Evidence:
    good = [
        Fraction(TABLE_2[data, "1.0"].speedup) * Fraction(factor) < Fraction(TABLE_2[data, "0.0"].speedup)
        for data in ("CNN", "XSum")
    ]
    return _every(good, f"sampling gains less than greedy search, by a factor of {factor} at least")


def _verify_below_compression(factor: str = "1") -> Evidence:
    rows = [(row.speedup, row.compression) for row in TABLE_2.values()]
    rows += [(row.speedup, row.compression) for row in TABLE_3.values()]
    good = [Fraction(speed) * Fraction(factor) < Fraction(s) for speed, s in rows]
    return _every(good, f"the speedup times {factor} is below S in {len(good)} rows of Tables 2 and 3")


def _speed(tag: int) -> Fraction:
    return Fraction(TABLE_3[tag].speedup)


def _verify_orders(lookup_below: tuple[int, ...] = ()) -> Evidence:
    """Orders that section 5.4 draws from Table 3; a mutant adds settings that prompt lookup is to surpass."""
    good = [_speed(8) > _speed(tag) for tag in (3, 4, 5, 6, 7)]
    good += [_speed(9) > _speed(8), _speed(6) > _speed(5)]
    good += [_speed(2) > _speed(tag) for tag in (3, 4, *lookup_below)]
    return _every(good, "balanced above W = 1 and G = 1; with prompt above without; prompt lookup above tags 3 and 4")


def _verify_best(limit: str = "1.8", tags: Sequence[int] = (7, 8, 9)) -> Evidence:
    """The abstract's largest speedup on MT-Bench against Table 3."""
    return refute(
        lambda tag, speed: speed < Fraction(limit) + Fraction(1, 20),
        [{"tag": tag, "speed": _speed(tag)} for tag in tags],
        what=f"on MT-Bench no speedup rounds above {limit}",
        explain=lambda tag, speed: f"row {tag} of Table 3 has {float(speed)}",
    )


def _fix_best() -> Evidence:
    others = [_speed(tag) <= Fraction("1.78") for tag in TABLE_3 if tag != 9]
    return _every([_speed(9) == Fraction("1.88"), *others], "1.88 with the prompt as reference, at most 1.78 elsewhere")


def _verify_score(at_least: str = "0") -> Evidence:
    own, plain = map(Fraction, SCORES)
    return _every([own - plain >= Fraction(at_least)], f"the score of MT-Bench is not below by {at_least} or more")


def _compared(method: str) -> list[Fraction]:
    return [Fraction(row[METHODS.index(method)]) for row in TABLE_6.values()]


def _verify_compared(least_pgj: str = "1.1", second: str = "LD") -> Evidence:
    """PJ below 1, PGJ from 1.1 to 1.2, Medusa largest and `second` next."""
    rest = [each for each in METHODS if each not in {"Medusa", second} and not each.startswith("SD")]
    good = [x < 1 for x in _compared("PJ")]
    good += [Fraction(least_pgj) <= x <= Fraction("1.2") for name in ("PGJ 5", "PGJ 16") for x in _compared(name)]
    good += [x > y for x, y in zip(_compared("Medusa"), _compared(second), strict=True)]
    good += [x > y for name in rest for x, y in zip(_compared(second), _compared(name), strict=True)]
    return _every(good, f"Jacobi slower, Gauss-Seidel-Jacobi from {least_pgj} to 1.2, Medusa first, {second} second")


def _verify_sizes(larger: str = "7B") -> Evidence:
    other = {"7B": "13B", "13B": "7B"}[larger]
    good = [
        Fraction(TABLE_6[larger, data][0]) > Fraction(TABLE_6[other, data][0]) for data in ("MT-Bench", "HumanEval")
    ]
    return _every(good, f"Lookahead Decoding gains more for {larger} than for {other}")


def _verify_range(low: str = "1.4", high: str = "2.3") -> Evidence:
    """Printed greedy speedups with the settings of Table 4, against the range read off Figure 5."""
    values = [*_compared("LD"), _speed(8), *(Fraction(TABLE_2[data, "0.0"].speedup) for data in ("CNN", "XSum"))]
    return _every([Fraction(low) <= x <= Fraction(high) for x in values], f"speedups from {low} to {high}")


CLAIMS: tuple[Claim, ...] = (
    proved(
        id="LD-N6",
        source="Lookahead Decoding, section 5.3 and Table 2 (quality)",
        statement="Rouge scores are those of autoregressive decoding up to 0.07 points, with and without sampling.",
        assumptions="values as printed; no standard errors are given",
        verify=_verify_rouge,
        mutants=(mutant("0.05", "up to 0.05 points", _verify_rouge, "0.05"),),
        notes="The paper says that quality is preserved; 0.07 is the largest of the twelve printed differences.",
    ),
    corrected(
        id="LD-N7",
        source="Lookahead Decoding, Appendix E and Table 2 (greedy search)",
        statement="At temperature 0 the quality does not change: the Rouge scores are the same.",
        assumptions="Table 2, of four rows per data set the last two are those of temperature 0",
        verify=_verify_greedy_rouge,
        correction="They differ by 0.01 points in the three scores of XSum, and by nothing on CNN/Daily Mail; the "
        "paper puts such differences down to half precision.",
        holds=mutant("0.01", "up to 0.01 points", _verify_rouge, "0.01", ("0.0",)),
    ),
    proved(
        id="LD-N8",
        source="Lookahead Decoding, section 5.3 and Table 2 (sampling)",
        statement="With sampling the speedup is smaller than with greedy search.",
        assumptions="Table 2, both data sets",
        verify=_verify_sampling,
        mutants=(mutant("a tenth", "smaller by a tenth", _verify_sampling, factor="1.1"),),
        notes="S is smaller as well.",
    ),
    proved(
        id="LD-N9",
        source="Lookahead Decoding, Tables 2 and 3, speedup against compression",
        statement="The speedup is below the compression S in every row.",
        assumptions="twelve rows, values as printed",
        verify=_verify_below_compression,
        mutants=(mutant("a tenth", "below S by a tenth", _verify_below_compression, "1.1"),),
        notes="As the model of section 4 wants it: a step with more tokens takes longer. S is 1.07 to 1.13 times the "
        "speedup.",
    ),
    proved(
        id="LD-N10",
        source="Lookahead Decoding, section 5.4 and Table 3",
        statement="Balanced branches are faster than W = 1 and than G = 1; a prompt as reference adds to them; prompt "
        "lookup can be faster than W = 1 with the prompt.",
        assumptions="Table 3; 'can be' is read as in some settings",
        verify=_verify_orders,
        mutants=(mutant("every setting", "prompt lookup faster than tag 6 too", _verify_orders, (6,)),),
        notes="Prompt lookup beats tags 3 and 4 and loses to tag 6 (G = 30), 1.44 against 1.46. Without the prompt, W "
        "= 1 gains 1.04 (tag 5).",
    ),
    corrected(
        id="LD-N11",
        source="Lookahead Decoding, Abstract, against Table 3",
        statement="The speedup on MT-Bench is up to 1.8.",
        assumptions="Table 3, values that round to 1.8 or less",
        verify=_verify_best,
        correction="Up to 1.78 without and 1.88 with the prompt as reference: the abstract says less than the table.",
        holds=mutant("1.88", "1.78 without, 1.88 with the prompt", _fix_best),
    ),
    proved(
        id="LD-N12",
        source="Lookahead Decoding, Appendix E and Table 5",
        statement="With sampling the score of MT-Bench is not below that of autoregressive decoding.",
        assumptions="6.51 and 6.47 as printed; no standard errors are given",
        verify=_verify_score,
        mutants=(mutant("0.05", "above by 0.05", _verify_score, "0.05"),),
    ),
    proved(
        id="LD-N13",
        source="Lookahead Decoding, Appendix F and Table 6 (other methods)",
        statement="Parallel Jacobi decoding is slower than plain decoding, its Gauss-Seidel variant gains 1.1 to 1.2, "
        "Medusa gains most.",
        assumptions="Table 6 as printed; Lookahead Decoding is second in every row",
        verify=_verify_compared,
        mutants=(
            mutant("1.2", "the variant gains at least 1.2", _verify_compared, "1.2"),
            mutant("second", "the variant is second", _verify_compared, second="PGJ 5"),
        ),
    ),
    proved(
        id="LD-N14",
        source="Lookahead Decoding, section 5.1, sizes of models, against Table 6",
        statement="Smaller models gain more.",
        assumptions="Table 6, Vicuna 7B and 13B; the figure that the sentence speaks of prints no numbers",
        verify=_verify_sizes,
        mutants=(mutant("13B", "13B gains more", _verify_sizes, "13B"),),
    ),
    proved(
        id="LD-N15",
        source="Lookahead Decoding, section 5.1 (range) against Tables 2, 3 and 6",
        statement="Speedups run from 1.4 to 2.3.",
        assumptions="greedy speedups that the tables print for balanced branches without prompt; Figure 5, which the "
        "sentence speaks of, prints no numbers",
        verify=_verify_range,
        mutants=(
            mutant("2.0", "to 2.0", _verify_range, high="2.0"),
            mutant("1.6", "from 1.6", _verify_range, low="1.6"),
        ),
        notes="The seven printed values lie from 1.57 to 2.1, so neither end of the range is shown by a table.",
    ),
)
