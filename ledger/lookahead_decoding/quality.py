"""Claims of Lookahead Decoding about its Tables 2, 3, 5 and 6: quality, compression, orders, ranges of speedups."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from ledger.ledger import Claim
from ledger.proving.cases import Cases, grid, rows, searched
from ledger.proving.records import corrected, proved
from theory.published.lookahead_decoding import METHODS, SCORES, TABLE_2, TABLE_3, TABLE_6

__all__ = ["CLAIMS"]


_SUMMARIES = ("CNN", "XSum")
_BENCHMARKS = ("MT-Bench", "HumanEval")


def _rouge(limit: str = "0.07", temperatures: Sequence[str] = ("0.0", "1.0")) -> Cases:
    """Points of Rouge between the two methods, in each printed cell."""
    cells = [(row.plain, row.own) for (_data, temperature), row in TABLE_2.items() if temperature in temperatures]
    scores = [{"plain": x, "own": y} for plain, own in cells for x, y in zip(plain, own, strict=True)]
    return Cases(
        text=f"Rouge differs by at most {limit} points",
        test=lambda plain, own: abs(Fraction(plain) - Fraction(own)) <= Fraction(limit),
        cases=rows(*scores),
        where=f"the {len(scores)} scores of Table 2 at temperature {' and '.join(temperatures)}",
    )


_SAME_ROUGE = Cases(
    text="at temperature 0 the printed Rouge scores are equal",
    test=lambda autoregressive, lookahead: autoregressive == lookahead,
    cases=rows(
        *(
            {"autoregressive": Fraction(x), "lookahead": Fraction(y)}
            for data in _SUMMARIES
            for x, y in zip(TABLE_2[data, "0.0"].plain, TABLE_2[data, "0.0"].own, strict=True)
        )
    ),
    where="the six scores of Table 2 at temperature 0",
)


def _explain_rouge(autoregressive: Fraction, lookahead: Fraction) -> str:
    return f"{float(autoregressive)} against {float(lookahead)}"


def _sampling(factor: str = "1") -> Cases:
    return Cases(
        text=f"sampling gains less than greedy search, by a factor of {factor} at least",
        test=lambda data: (
            Fraction(TABLE_2[data, "1.0"].speedup) * Fraction(factor) < Fraction(TABLE_2[data, "0.0"].speedup)
        ),
        cases=grid(data=_SUMMARIES),
        where="Table 2, both data sets",
    )


def _below_compression(factor: str = "1") -> Cases:
    measured = [(row.speedup, row.compression) for row in TABLE_2.values()]
    measured += [(row.speedup, row.compression) for row in TABLE_3.values()]
    return Cases(
        text=f"the speedup times {factor} is below S",
        test=lambda speedup, compression: Fraction(speedup) * Fraction(factor) < Fraction(compression),
        cases=rows(*({"speedup": speed, "compression": s} for speed, s in measured)),
        where=f"the {len(measured)} rows of Tables 2 and 3",
    )


def _speed(tag: int) -> Fraction:
    return Fraction(TABLE_3[tag].speedup)


def _orders(lookup_below: tuple[int, ...] = ()) -> Cases:
    """Orders that section 5.4 draws from Table 3; a mutant adds settings that prompt lookup is to surpass."""
    balanced = [{"faster": 8, "slower": tag} for tag in (3, 4, 5, 6, 7)]
    prompted = [{"faster": 9, "slower": 8}, {"faster": 6, "slower": 5}]
    lookup = [{"faster": 2, "slower": tag} for tag in (3, 4, *lookup_below)]
    return Cases(
        text="one setting of Table 3 is faster than another",
        test=lambda faster, slower: _speed(faster) > _speed(slower),
        cases=rows(*balanced, *prompted, *lookup),
        where="tags: balanced above W = 1 and G = 1; with prompt above without; prompt lookup above tags 3 and 4",
    )


def _best(limit: str = "1.8") -> Cases:
    """The abstract's largest speedup on MT-Bench against Table 3."""
    return Cases(
        text=f"on MT-Bench no speedup rounds above {limit}",
        test=lambda tag, speed: speed < Fraction(limit) + Fraction(1, 20),
        cases=rows(*({"tag": tag, "speed": _speed(tag)} for tag in (7, 8, 9))),
        where="the last three rows of Table 3",
    )


_BEST_BY_PROMPT = Cases(
    text="1.88 with the prompt as reference, at most 1.78 elsewhere",
    test=lambda tag: _speed(tag) == Fraction("1.88") if tag == 9 else _speed(tag) <= Fraction("1.78"),
    cases=grid(tag=TABLE_3),
    where="the rows of Table 3; tag 9 has the prompt as reference",
)


def _score(at_least: str = "0") -> Cases:
    return Cases(
        text=f"the score of MT-Bench is not below by {at_least} or more",
        test=lambda own, plain: Fraction(own) - Fraction(plain) >= Fraction(at_least),
        cases=rows(dict(zip(("own", "plain"), SCORES, strict=True))),
        where="Table 5",
    )


def _gain(method: str, row: tuple[str, str]) -> Fraction:
    return Fraction(TABLE_6[row][METHODS.index(method)])


def _compared(least_pgj: str = "1.1", second: str = "LD") -> Cases:
    """PJ below 1, PGJ from 1.1 to 1.2, Medusa largest and `second` next."""
    rest = [each for each in METHODS if each not in {"Medusa", second} and not each.startswith("SD")]

    def ranked(row: tuple[str, str]) -> bool:
        gauss_seidel = [_gain("PGJ 5", row), _gain("PGJ 16", row)]
        runner_up = _gain(second, row)
        return (
            _gain("PJ", row) < 1
            and all(Fraction(least_pgj) <= x <= Fraction("1.2") for x in gauss_seidel)
            and all(_gain("Medusa", row) > runner_up > _gain(name, row) for name in rest)
        )

    return Cases(
        text=f"Jacobi slower, Gauss-Seidel-Jacobi from {least_pgj} to 1.2, Medusa first, {second} second",
        test=ranked,
        cases=grid(row=TABLE_6),
        where="the rows of Table 6",
    )


def _sizes(larger: str = "7B", smaller: str = "13B") -> Cases:
    return Cases(
        text=f"Lookahead Decoding gains more for {larger} than for {smaller}",
        test=lambda data: _gain("LD", (larger, data)) > _gain("LD", (smaller, data)),
        cases=grid(data=_BENCHMARKS),
        where="Table 6, both data sets",
    )


def _range(low: str = "1.4", high: str = "2.3") -> Cases:
    """Printed greedy speedups with the settings of Table 4, against the range read off Figure 5."""
    summaries = [Fraction(TABLE_2[data, "0.0"].speedup) for data in _SUMMARIES]
    return Cases(
        text=f"speedups from {low} to {high}",
        test=lambda speedup: Fraction(low) <= speedup <= Fraction(high),
        cases=grid(speedup=[*(_gain("LD", row) for row in TABLE_6), _speed(8), *summaries]),
        where="the greedy speedups of Tables 2, 3 and 6 for balanced branches without prompt",
    )


_ROUGE, _GREEDY_ROUGE, _SAMPLING, _BELOW = _rouge(), _rouge("0.01", ("0.0",)), _sampling(), _below_compression()
_ORDERS, _BEST, _SCORE, _COMPARED, _SIZES, _RANGE = _orders(), _best(), _score(), _compared(), _sizes(), _range()


CLAIMS: tuple[Claim, ...] = (
    proved("LD-N6", formula=_ROUGE, mutants={"0.05": _rouge("0.05")}),
    corrected(
        "LD-N7",
        formula=_SAME_ROUGE,
        verify=partial(searched, _SAME_ROUGE, explain=_explain_rouge),
        correction_formula=_GREEDY_ROUGE,
        holds={"0.01": _GREEDY_ROUGE},
    ),
    proved("LD-N8", formula=_SAMPLING, mutants={"a tenth": _sampling(factor="1.1")}),
    proved("LD-N9", formula=_BELOW, mutants={"a tenth": _below_compression("1.1")}),
    proved("LD-N10", formula=_ORDERS, mutants={"every setting": _orders((6,))}),
    corrected(
        "LD-N11",
        formula=_BEST,
        verify=partial(searched, _BEST, explain=lambda tag, speed: f"row {tag} of Table 3 has {float(speed)}"),
        correction_formula=_BEST_BY_PROMPT,
        holds={"1.88": _BEST_BY_PROMPT},
    ),
    proved("LD-N12", formula=_SCORE, mutants={"0.05": _score("0.05")}),
    proved("LD-N13", formula=_COMPARED, mutants={"1.2": _compared("1.2"), "second": _compared(second="PGJ 5")}),
    proved("LD-N14", formula=_SIZES, mutants={"13B": _sizes("13B", "7B")}),
    proved("LD-N15", formula=_RANGE, mutants={"2.0": _range(high="2.0"), "1.6": _range(low="1.6")}),
)
