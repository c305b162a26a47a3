"""Lookahead Reasoning: percentages and multiples of the abstract and of Section 4 against Tables 1, 2 and 3."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ledger.ledger import Claim
from ledger.lookahead_reasoning.tables import measured
from ledger.proving.cases import Cases, grid, rows
from ledger.proving.records import proved, refuted
from ledger.proving.rounding import could_round_to, printed
from theory.published.lookahead_reasoning import TABLE_2, TABLE_3, VERIFIERS

__all__ = ["CLAIMS"]

_DATASETS = tuple(TABLE_2)
_QUOTED_DROPS = (
    ("Random", 0, "3.5"),
    ("Random", 1, "11"),
    ("Emb. 0.85", 0, "2"),
    ("Score 9", 0, "5.9"),
    ("Score 9", 1, "12.5"),
)
"""Section 4.3: verifier, data set, points of accuracy lost."""


def _cell(verifier: str, data: int, row: str) -> str:
    return TABLE_2[_DATASETS[data]][row][VERIFIERS.index(verifier)]


def _acceptance(verifier: str, data: int) -> Fraction:
    return Fraction(_cell(verifier, data, "acceptance"))


def _drop(verifier: str, data: int) -> Fraction:
    """Points of accuracy below plain decoding."""
    return Fraction(_cell("target", data, "accuracy")) - Fraction(_cell(verifier, data, "accuracy"))


_DATA = tuple(range(len(_DATASETS)))
_JUDGES = ("LLM-J 7B", "LLM-J 32B")


def _near(exact: Fraction, points: str) -> bool:
    """Two means, each printed to a tenth of a point, leave this difference in the digits quoted."""
    return could_round_to((exact - Fraction(1, 10), exact + Fraction(1, 10)), points)


def _drops(quoted: Sequence[tuple[str, int, str]] = _QUOTED_DROPS) -> Cases:
    """Each quoted loss is what the printed means leave, in the digits quoted."""
    text = ", ".join(f"{points} ({verifier}, {_DATASETS[data]})" for verifier, data, points in quoted)
    return Cases(
        text=f"points of accuracy lost: {text}",
        test=lambda verifier, data, points: _near(_drop(verifier, data), points),
        cases=rows(*(dict(zip(("verifier", "data", "points"), row, strict=True)) for row in quoted)),
        where="the losses quoted in section 4.3",
    )


def _judges(limit: str = "2", judges: Sequence[str] = _JUDGES) -> Cases:
    return Cases(
        text=f"no loss on GSM8K, at most {limit} points on AIME",
        test=lambda judge: _drop(judge, 0) <= 0 and abs(_drop(judge, 1)) <= Fraction(limit),
        cases=grid(judge=judges),
        where=f"Table 2, {' and '.join(judges)}",
    )


def _random(than: Sequence[str] = _JUDGES) -> Cases:
    """Random acceptance accepts no more than these verifiers and loses more accuracy."""
    return Cases(
        text=f"accepts no more, and loses more, than {' and '.join(than)}",
        test=lambda other, data: (
            _acceptance("Random", data) <= _acceptance(other, data) and _drop("Random", data) > _drop(other, data)
        ),
        cases=grid(other=than, data=_DATA),
        where="Table 2, both data sets",
    )


def _scores(others: Sequence[str] = ("Random", *_JUDGES, "Emb. 0.85", "Emb. 0.95")) -> Cases:
    return Cases(
        text=f"scores lose more accuracy than {', '.join(others)}",
        test=lambda score, other, data: _drop(score, data) > _drop(other, data),
        cases=grid(score=("Score 7", "Score 9"), other=others, data=_DATA),
        where="Table 2, both data sets",
    )


_MIRRORED = Cases(
    text="on AIME the threshold 0.95 loses at most 1 point and the threshold 0.85 about 2",
    test=lambda strict, loose: strict <= 1 and _near(loose, "2"),
    cases=rows({"strict": _drop("Emb. 0.95", 1), "loose": _drop("Emb. 0.85", 1)}),
    where="Table 2, AIME",
    explain=lambda strict, loose: f"{float(strict)} points are lost at 0.95, {float(loose)} at 0.85",
)
_ORDER = Cases(
    text="the stricter threshold accepts less and loses less accuracy",
    test=lambda data: (
        _acceptance("Emb. 0.95", data) < _acceptance("Emb. 0.85", data)
        and _drop("Emb. 0.95", data) < _drop("Emb. 0.85", data)
    ),
    cases=grid(data=_DATA),
    where="Table 2, both data sets",
)


def _lost(data: str, judge: str, index: int, narrower: int = 0) -> Fraction:
    """Points of accuracy below a narrower tree, by default W = 1."""
    row = TABLE_3[data, judge]["accuracy"]
    return Fraction(row[narrower]) - Fraction(row[index])


def _widths(*, each_step: bool = False, judge: str = "7B") -> Cases:
    """Accuracy below that of W = 1 (`each_step`: of the next narrower tree) with a judge, most on AIME24."""

    def loses(index: int) -> bool:
        grade, hard = (_lost(data, judge, index, index - 1 if each_step else 0) for data in ("GSM8K", "AIME24"))
        return grade > 0 and hard > 0 and (index < 2 or hard > grade)

    return Cases(
        text=f"with the {judge} judge wider trees are less accurate, from W = 4 on more on AIME24",
        test=loses,
        cases=grid(index=(1, 2, 3)),
        where="Table 3, W = 2, 4 and 8",
    )


def _stronger(slack: str = "0") -> Cases:
    return Cases(
        text="with the 32B judge nothing is lost on GSM8K, and less than with the 7B judge on both data sets",
        test=lambda data, index: (
            _lost(data, "32B", index) < _lost(data, "7B", index)
            and (data == "AIME24" or _lost(data, "32B", index) <= -Fraction(slack))
        ),
        cases=grid(data=("GSM8K", "AIME24"), index=(1, 2, 3)),
        where="Table 3, W = 2, 4 and 8",
    )


def _both_round(token: Fraction, both: Fraction, printed_token: str, printed_both: str) -> bool:
    return could_round_to((token, token), printed_token) and could_round_to((both, both), printed_both)


def _lift(only: str = "") -> Cases:
    """Token-level 1.4, combined 2.1, in the digits quoted, in the cells whose name starts with `only`."""
    cells = [{"token": cell["token"], "both": cell["both"]} for name, cell in measured() if name.startswith(only)]
    return Cases(
        text=f"from 1.4 to 2.1 in {only or 'all 14 cells of Table 1'}",
        test=lambda token, both: _both_round(token, both, "1.4", "2.1"),
        cases=rows(*cells),
        where=only or "the 14 cells of Table 1",
        explain=lambda token, both: f"from {float(token)} to {float(both)}",
    )


def _facts_of_lift(fact: str) -> bool:
    cells = dict(measured())
    best = cells["GSM8K, DeepSeek-R1-Distill"]
    if fact == "best cell":
        return _both_round(best["token"], best["both"], "1.4", "2.1")
    if fact == "only one above 2.05":
        return sum(cell["both"] > printed("2.1")[0] for cell in cells.values()) == 1
    token, both = (sum((cell[key] for cell in cells.values()), Fraction(0)) / len(cells) for key in ("token", "both"))
    return _both_round(token, both, "1.39", "1.62")


_LIFT_ONCE = Cases(
    text="1.39 to 2.11 on GSM8K (DeepSeek), the only one above 2.05; means 1.39 and 1.62",
    test=_facts_of_lift,
    cases=grid(fact=("best cell", "only one above 2.05", "means")),
    where="Table 1",
)


def _most(highest: str = "2.11", lowest: str = "1.32") -> Cases:
    speeds = [cell["both"] for _name, cell in measured()]
    return Cases(
        text=f"combined speedups of Table 1 run from {lowest} to {highest}",
        test=lambda least, greatest: (least, greatest) == (Fraction(lowest), Fraction(highest)),
        cases=rows({"least": min(speeds), "greatest": max(speeds)}),
        where="the least and the greatest of 14 cells",
    )


CLAIMS: tuple[Claim, ...] = (
    refuted("LR-P8", _lift(), instead=_LIFT_ONCE, mutants={"GSM8K": _lift("GSM8K, DeepSeek")}),
    proved("LR-P9", _most(), mutants={"2.10": _most("2.10"), "1.39": _most(lowest="1.39")}),
    proved("LR-P10", _drops(), mutants={"12": _drops((("Random", 1, "12"),)), "6.2": _drops((("Score 9", 0, "6.2"),))}),
    proved("LR-P11", _judges(), mutants={"one": _judges("1"), "embedding": _judges("2", ("Emb. 0.95",))}),
    proved("LR-P12", _random(), mutants={"scores": _random(("Score 9",))}),
    refuted("LR-P13", _MIRRORED, instead=_ORDER),
    proved("LR-P14", _scores(), mutants={"each other": _scores(("Random", "Score 7"))}),
    proved("LR-P15", _widths(), mutants={"each step": _widths(each_step=True), "32B": _widths(judge="32B")}),
    proved("LR-P16", _stronger(), mutants={"gain": _stronger("1/2")}),
)
