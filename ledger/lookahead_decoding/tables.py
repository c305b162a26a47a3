"""Claims of Lookahead Decoding about its tables: costs, speedups, quality of the output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from ledger.ledger import Claim
from ledger.proving.cases import Cases, grid, rows
from ledger.proving.records import proved, refuted, repaired
from ledger.proving.rounding import could_round_to, printed, quotient
from theory.published.lookahead_decoding import METHODS, SCORES, TABLE_2, TABLE_3, TABLE_4, TABLE_6

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
        explain=lambda W, N, quoted: f"{2 * W * (N - 1) - 1} tokens beyond the current one, {quoted} quoted",  # noqa: N803
    )


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


_SUMMARIES = ("CNN", "XSum")


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
    explain=lambda autoregressive, lookahead: f"{float(autoregressive)} against {float(lookahead)}",
)


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
        explain=lambda tag, speed: f"row {tag} of Table 3 has {float(speed)}",
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
        cases=grid(data=("MT-Bench", "HumanEval")),
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


CLAIMS: tuple[Claim, ...] = (
    repaired(
        "LD-N1",
        _flops("the quoted multiple is the work beyond that of one token", 1),
        instead=_flops("120, 80 and 56 are the total (W + G)(N - 1) for Table 4", 0),
    ),
    proved("LD-N2", _flash(), mutants={"1.9": _flash("1.9")}),
    proved(
        "LD-N3",
        _equal_compression(),
        mutants={"0.2 %": _equal_compression(flash="0.2"), "0.05 %": _equal_compression(devices="0.05")},
    ),
    proved("LD-N4", _sampling_range(), mutants={"1.50": _sampling_range(low="1.50")}),
    refuted(
        "LD-N5",
        _slower("every entry is below 1.0", lambda speedup: speedup < 1),
        instead=_slower("no entry is above 1.0", lambda speedup: speedup <= 1),
    ),
    proved("LD-N6", _rouge(), mutants={"0.05": _rouge("0.05")}),
    refuted("LD-N7", _SAME_ROUGE, instead=_rouge("0.01", ("0.0",))),
    proved("LD-N8", _sampling(), mutants={"a tenth": _sampling(factor="1.1")}),
    proved("LD-N9", _below_compression(), mutants={"a tenth": _below_compression("1.1")}),
    proved("LD-N10", _orders(), mutants={"every setting": _orders((6,))}),
    refuted("LD-N11", _best(), instead=_BEST_BY_PROMPT),
    proved("LD-N12", _score(), mutants={"0.05": _score("0.05")}),
    proved("LD-N13", _compared(), mutants={"1.2": _compared("1.2"), "second": _compared(second="PGJ 5")}),
    proved("LD-N14", _sizes(), mutants={"13B": _sizes("13B", "7B")}),
    proved("LD-N15", _range(), mutants={"2.0": _range(high="2.0"), "1.6": _range(low="1.6")}),
)
