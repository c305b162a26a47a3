"""Claims of SPECS about its settings: fixed hyperparameters (D.7), share of the large model, accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from theory.claims.ledger import Claim, Evidence
from theory.claims.proving.records import mutant, proved
from theory.claims.proving.tools import exhaustive
from theory.published.specs import BENCHMARKS, FAMILIES, TABLE_1, TABLE_3, TABLE_5, WIDTHS

__all__ = ["CLAIMS"]

_SETTINGS = tuple((family, benchmark, width) for family in FAMILIES for benchmark in BENCHMARKS for width in WIDTHS)
_SPREAD: Mapping[str, int] = {"Qwen2.5": 1250, "Llama3": 100}
"""Pair of models -> factor between the betas of Table 3."""


def _fixed(benchmark: str, width: int, column: int) -> tuple[Fraction, Fraction]:
    """Table 5, Qwen pair: accuracy (column 0) or seconds (1) of the full search and with beta = 2 L."""
    at = 2 * BENCHMARKS.index(benchmark) + column
    cell = TABLE_1["Qwen2.5", benchmark, "SPECS", width]
    full = cell.seconds if column else cell.accuracy
    return Fraction(full), Fraction(TABLE_5[width][at])


def _verify_fixed(share: str = "89/100", slower: str = "6/5") -> Evidence:
    """With beta = 2 L and three thresholds: the share of accuracy kept, and seconds added at most."""

    def holds(benchmark: int, width: int) -> bool:
        accuracy, fixed = _fixed(BENCHMARKS[benchmark], width, 0)
        seconds, fixed_seconds = _fixed(BENCHMARKS[benchmark], width, 1)
        return fixed >= Fraction(share) * accuracy and fixed_seconds <= seconds + Fraction(slower)

    what = f"at least {share} of the accuracy, and at most {slower} s more, in all nine settings"
    return exhaustive(holds, {"benchmark": range(len(BENCHMARKS)), "width": WIDTHS}, what=what)


def _verify_spread(least: Mapping[str, int] = _SPREAD) -> Evidence:
    """Largest over smallest beta that the full search chose for a pair of models."""

    def holds(family: int) -> bool:
        name = FAMILIES[family]
        betas = [TABLE_3[name, benchmark, width][0] for benchmark in BENCHMARKS for width in WIDTHS]
        return max(betas) >= least[name] * min(betas)

    what = " and ".join(f"a factor of {factor} ({family})" for family, factor in least.items())
    return exhaustive(holds, {"family": range(len(FAMILIES))}, what=f"the betas chosen differ by {what}")


def _share(method: str, family: str, benchmark: str, width: int) -> Fraction:
    return Fraction(TABLE_1[family, benchmark, method, width].share)


def _verify_share(easier: str = "MATH500", method: str = "SPECS") -> Evidence:
    """The large model writes a greater share of the steps on every other benchmark than on `easier`."""
    others = [b for b in BENCHMARKS if b != easier]

    def holds(family: int, other: int, width: int) -> bool:
        name = FAMILIES[family]
        return _share(method, name, others[other], width) > _share(method, name, easier, width)

    ranges = {"family": range(len(FAMILIES)), "other": range(len(others)), "width": WIDTHS}
    return exhaustive(holds, ranges, what=f"{method}: a greater share on {' and '.join(others)} than on {easier}")


def _verify_comparable(below: str = "2", fewest: int = 17) -> Evidence:
    """Accuracy of SPECS against beam search with the large model: at most so far below, no lower in `fewest`."""
    cells = [(TABLE_1[f, b, "SPECS", n], TABLE_1[f, b, "BS(B)", n]) for f, b, n in _SETTINGS]
    gaps = [Fraction(own.accuracy) - Fraction(beam.accuracy) for own, beam in cells]
    facts = [gap >= -Fraction(below) for gap in gaps] + [sum(gap >= 0 for gap in gaps) >= fewest]
    what = f"at most {below} points below in all 18 settings, not below in {fewest}"
    return exhaustive(lambda fact: facts[fact], {"fact": range(len(facts))}, what=what)


CLAIMS: tuple[Claim, ...] = (
    proved(
        id="SPECS-COMP",
        source="SPECS, Section 4.2, accuracy against Table 1",
        statement="At equal width SPECS is as accurate as beam search with the large model, or more.",
        assumptions="both pairs, 18 settings; 'comparable' is read as within 2 points",
        verify=_verify_comparable,
        mutants=(
            mutant("never below", "in all 18", _verify_comparable, fewest=18),
            mutant("one point", "within 1 point", _verify_comparable, below="1"),
        ),
        notes="Below in one setting, by 2.0 points: Llama pair, OlympiadBench, width 16.",
    ),
    proved(
        id="SPECS-SHARE",
        source="SPECS, Section 4.2, share of the large model (%B of Table 1)",
        statement="The large model writes a greater share of the steps on AMC23 and OlympiadBench than on MATH500.",
        assumptions="both pairs, each width",
        verify=_verify_share,
        mutants=(mutant("AMC23", "least on AMC23", _verify_share, "AMC23"),),
        notes="RSD has the same order in every setting, so the order does not tell the two methods apart.",
    ),
    proved(
        id="SPECS-D7",
        source="SPECS, Appendix D.7 (performance recovered) against Table 5",
        statement="With beta = 2 L and tau among 0.7, 0.8 and 0.9 most of the performance is recovered.",
        assumptions="Qwen pair; 'most' is read as 89 % of the accuracy, and at most 1.2 s more",
        verify=_verify_fixed,
        mutants=(
            mutant("95 %", "95 % of the accuracy", _verify_fixed, "95/100"),
            mutant("1 s", "at most 1 s more", _verify_fixed, slower="1"),
        ),
        notes="From 0 to 6.1 points are lost, 2.8 in the median; most on AMC23 at width 4, 53.1 for 59.2 %. "
        "L, the token budget of a step, is not printed.",
    ),
    proved(
        id="SPECS-D7b",
        source="SPECS, Table 3 beside Appendix D.7 (comparison derived here)",
        statement="The betas that the full search chose differ by a factor of 1250 (Qwen pair) and 100 (Llama), so "
        "beta = 2 L is not among them throughout.",
        assumptions="Table 3, one L for all benchmarks of a pair",
        verify=_verify_spread,
        mutants=(mutant("2000", "2000 (Qwen pair)", _verify_spread, {"Qwen2.5": 2000, "Llama3": 100}),),
        notes="That 2 L does well all the same says that performance depends little on beta (SPECS-D7).",
    ),
)
