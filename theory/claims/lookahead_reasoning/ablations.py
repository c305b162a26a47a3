"""Lookahead Reasoning: percentages and multiples of the abstract and of Section 4 against Tables 1, 2 and 3."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from theory.claims.ledger import Claim, Evidence
from theory.claims.lookahead_reasoning.tables import measured
from theory.claims.proving.records import corrected, mutant, proved, refuted
from theory.claims.proving.rounding import could_round_to, printed
from theory.claims.proving.tools import all_of, exhaustive, refute
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
    """Points of accuracy below the target alone."""
    return Fraction(_cell("target", data, "accuracy")) - Fraction(_cell(verifier, data, "accuracy"))


def _verify_drops(quoted: Sequence[tuple[str, int, str]] = _QUOTED_DROPS) -> Evidence:
    """Each quoted loss is what the printed means leave, in the digits quoted."""

    def holds(row: int) -> bool:
        verifier, data, points = quoted[row]
        exact = _drop(verifier, data)
        # two means, each printed to a tenth of a point
        return could_round_to((exact - Fraction(1, 10), exact + Fraction(1, 10)), points)

    text = ", ".join(f"{points} ({verifier}, {_DATASETS[data]})" for verifier, data, points in quoted)
    return exhaustive(holds, {"row": range(len(quoted))}, what=f"points of accuracy lost: {text}")


def _verify_judges(limit: str = "2", judges: Sequence[str] = ("LLM-J 7B", "LLM-J 32B")) -> Evidence:
    """No loss on GSM8K, at most `limit` points on AIME."""
    return all_of(
        exhaustive(lambda judge: _drop(judges[judge], 0) <= 0, {"judge": range(len(judges))}, what="no loss on GSM8K"),
        exhaustive(
            lambda judge: abs(_drop(judges[judge], 1)) <= Fraction(limit),
            {"judge": range(len(judges))},
            what=f"at most {limit} points on AIME",
        ),
    )


def _verify_random(than: Sequence[str] = ("LLM-J 7B", "LLM-J 32B")) -> Evidence:
    """Random acceptance accepts no more than these verifiers and loses more accuracy."""

    def holds(other: int, data: int) -> bool:
        return _acceptance("Random", data) <= _acceptance(than[other], data) and _drop("Random", data) > _drop(
            than[other], data
        )

    ranges = {"other": range(len(than)), "data": range(2)}
    return exhaustive(holds, ranges, what=f"accepts no more, and loses more, than {' and '.join(than)}")


def _verify_scores(others: Sequence[str] = ("Random", "LLM-J 7B", "LLM-J 32B", "Emb. 0.85", "Emb. 0.95")) -> Evidence:
    """Both scores lose more accuracy than every other verifier."""
    scores = ("Score 7", "Score 9")
    return exhaustive(
        lambda score, other, data: _drop(scores[score], data) > _drop(others[other], data),
        {"score": range(2), "other": range(len(others)), "data": range(2)},
        what=f"scores lose more accuracy than {', '.join(others)}",
    )


def _verify_mirrored(data: int = 1) -> Evidence:
    """The threshold 0.95 keeps the target's accuracy, 0.85 loses about 2 points."""
    return refute(
        lambda strict, loose: strict <= 1 and could_round_to((loose - Fraction(1, 10), loose + Fraction(1, 10)), "2"),
        [{"strict": _drop("Emb. 0.95", data), "loose": _drop("Emb. 0.85", data)}],
        what=f"on {_DATASETS[data]} the threshold 0.95 loses at most 1 point and the threshold 0.85 about 2",
        explain=lambda strict, loose: f"{float(strict)} points are lost at 0.95, {float(loose)} at 0.85",
    )


def _fix_mirrored() -> Evidence:
    return exhaustive(
        lambda data: (
            _acceptance("Emb. 0.95", data) < _acceptance("Emb. 0.85", data)
            and _drop("Emb. 0.95", data) < _drop("Emb. 0.85", data)
        ),
        {"data": range(2)},
        what="the stricter threshold accepts less and loses less accuracy",
    )


def _verify_widths(*, each_step: bool = False, judge: str = "7B") -> Evidence:
    """Accuracy below that of W = 1 (`each_step`: of the next narrower tree) with a judge, most on AIME24."""

    def lost(data: str, index: int) -> Fraction:
        row = TABLE_3[data, judge]["accuracy"]
        return Fraction(row[index - 1 if each_step else 0]) - Fraction(row[index])

    return all_of(
        exhaustive(
            lambda data, index: lost(("GSM8K", "AIME24")[data], index) > 0,
            {"data": range(2), "index": range(1, 4)},
            what=f"with the {judge} judge wider trees are less accurate",
        ),
        exhaustive(
            lambda index: lost("AIME24", index) > lost("GSM8K", index), {"index": (2, 3)}, what="more on AIME24"
        ),
    )


def _verify_stronger(slack: str = "0") -> Evidence:
    """The 32B judge: never below W = 1 on GSM8K (by a slack), and less lost than with the 7B judge on both."""

    def lost(data: str, judge: str, index: int) -> Fraction:
        row = TABLE_3[data, judge]["accuracy"]
        return Fraction(row[0]) - Fraction(row[index])

    return all_of(
        exhaustive(
            lambda index: lost("GSM8K", "32B", index) <= -Fraction(slack), {"index": range(1, 4)}, what="none on GSM8K"
        ),
        exhaustive(
            lambda data, index: (
                lost(("GSM8K", "AIME24")[data], "32B", index) < lost(("GSM8K", "AIME24")[data], "7B", index)
            ),
            {"data": range(2), "index": range(1, 4)},
            what="less than with the 7B judge",
        ),
    )


def _verify_lift(only: str = "") -> Evidence:
    """Token-level 1.4, combined 2.1, in the digits quoted, in the cells whose name starts with `only`."""
    rows = [(name, cell) for name, cell in measured() if name.startswith(only)]
    return refute(
        lambda token, both: could_round_to((token, token), "1.4") and could_round_to((both, both), "2.1"),
        [{"token": cell["token"], "both": cell["both"]} for _name, cell in rows],
        what=f"from 1.4 to 2.1 in {only or 'all 14 cells of Table 1'}",
        explain=lambda token, both: f"from {float(token)} to {float(both)}",
    )


def _fix_lift() -> Evidence:
    cells = dict(measured())
    best = cells["GSM8K, DeepSeek-R1-Distill"]
    means = [sum((cell[key] for cell in cells.values()), Fraction(0)) / len(cells) for key in ("token", "both")]
    facts = (
        could_round_to((best["token"], best["token"]), "1.4") and could_round_to((best["both"], best["both"]), "2.1"),
        sum(cell["both"] > printed("2.1")[0] for cell in cells.values()) == 1,
        could_round_to((means[0], means[0]), "1.39") and could_round_to((means[1], means[1]), "1.62"),
    )
    what = "1.39 to 2.11 on GSM8K (DeepSeek), alone above 2.05; means 1.39 and 1.62"
    return exhaustive(lambda fact: facts[fact], {"fact": range(len(facts))}, what=what)


def _verify_most(highest: str = "2.11", lowest: str = "1.32") -> Evidence:
    speeds = sorted(cell["both"] for _name, cell in measured())
    facts = (speeds[-1] == Fraction(highest), speeds[0] == Fraction(lowest))
    what = f"combined speedups of Table 1 run from {lowest} to {highest}"
    return exhaustive(lambda fact: facts[fact], {"fact": range(2)}, what=what)


CLAIMS: tuple[Claim, ...] = (
    refuted(
        id="LR-P8",
        source="Lookahead Reasoning, Abstract, speedup across benchmarks, against Table 1",
        statement="Across GSM8K, AIME and other benchmarks the speedup of token-level speculation rises from 1.4 to "
        "2.1.",
        assumptions="Table 1, both pairs of models; 'across' is read as on each",
        verify=_verify_lift,
        correction="On GSM8K with the DeepSeek pair, from 1.39 to 2.11, as Section 1 says; in no other of the 14 cells "
        "does the combination reach 2.05. The means of the 14 cells are 1.39 and 1.62.",
        correction_verify=_fix_lift,
        mutants=(mutant("GSM8K", "GSM8K with the DeepSeek pair", _verify_lift, "GSM8K, DeepSeek"),),
    ),
    proved(
        id="LR-P9",
        source="Lookahead Reasoning, Section 4.1, combined speedup",
        statement="The combined speedup reaches 2.11; its smallest value is 1.32.",
        assumptions="Table 1",
        verify=_verify_most,
        mutants=(
            mutant("2.10", "at most 2.10", _verify_most, "2.10"),
            mutant("1.39", "at least 1.39", _verify_most, lowest="1.39"),
        ),
        notes="The largest value is the paper's; the smallest, Qwen3 on LiveCodeBench, stands in the table only.",
    ),
    proved(
        id="LR-P10",
        source="Lookahead Reasoning, Section 4.3, losses of accuracy by verifier",
        statement="Random acceptance loses about 3.5 points on GSM8K and 11 on AIME, embeddings at 0.85 about 2 on "
        "GSM8K, scores at 9 lose 5.9 and 12.5.",
        assumptions="Table 2; means rounded as printed",
        verify=_verify_drops,
        mutants=(
            mutant("12", "12 on AIME", _verify_drops, (("Random", 1, "12"),)),
            mutant("6.2", "6.2 with scores on GSM8K", _verify_drops, (("Score 9", 0, "6.2"),)),
        ),
        notes="The paper writes per cent and means points.",
    ),
    proved(
        id="LR-P11",
        source="Lookahead Reasoning, Section 4.3, judges",
        statement="A judge of either size loses no accuracy on GSM8K, and at most 1 to 2 points on AIME.",
        assumptions="Table 2, printed means",
        verify=_verify_judges,
        mutants=(
            mutant("one", "at most 1 point", _verify_judges, "1"),
            mutant("embedding", "embeddings at 0.95", _verify_judges, "2", ("Emb. 0.95",)),
        ),
        notes="On AIME 1.6 and 1.8 points, within the printed standard deviations.",
    ),
    proved(
        id="LR-P12",
        source="Lookahead Reasoning, Section 4.3, random acceptance",
        statement="Random acceptance accepts no more steps than the judges, and loses more accuracy.",
        assumptions="Table 2, both data sets",
        verify=_verify_random,
        mutants=(mutant("scores", "than scores at 9", _verify_random, ("Score 9",)),),
    ),
    corrected(
        id="LR-P13",
        source="Lookahead Reasoning, Section 4.3, embeddings on AIME",
        statement="The pattern of GSM8K, where the threshold 0.95 keeps the accuracy and 0.85 loses about 2 points, is "
        "mirrored on AIME.",
        assumptions="Table 2; 'keeps' is read as loses at most 1 point",
        verify=_verify_mirrored,
        correction="What is mirrored is the order: the stricter threshold accepts less and loses less. On AIME it "
        "still loses 4.1 points, and 0.85 loses 6.8.",
        holds=mutant("order", "the order of the two thresholds", _fix_mirrored),
        notes="Both losses are within the printed standard deviations of about 6 points.",
    ),
    proved(
        id="LR-P14",
        source="Lookahead Reasoning, Section 4.3, scores",
        statement="Scores of the target lose more accuracy than any other verifier, at either threshold.",
        assumptions="Table 2, both data sets; random acceptance among the others",
        verify=_verify_scores,
        mutants=(mutant("each other", "than scores at 7 too", _verify_scores, ("Random", "Score 7")),),
    ),
    proved(
        id="LR-P15",
        source="Lookahead Reasoning, Section 4.3, accuracy of wider trees",
        statement="With the 7B judge every wider tree is less accurate than W = 1, more so on AIME24 from W = 4 on.",
        assumptions="Table 3, printed means",
        verify=_verify_widths,
        mutants=(
            mutant("each step", "than the next narrower tree", _verify_widths, each_step=True),
            mutant("32B", "with the 32B judge", _verify_widths, judge="32B"),
        ),
        notes="On GSM8K accuracy rises again from W = 4 to W = 8, 91.1 to 91.5. All differences are below the printed "
        "standard deviations.",
    ),
    proved(
        id="LR-P16",
        source="Lookahead Reasoning, Section 4.3, a stronger judge",
        statement="With the 32B judge wider trees lose nothing on GSM8K, and on both data sets less than with the 7B "
        "judge.",
        assumptions="Table 3, printed means",
        verify=_verify_stronger,
        mutants=(mutant("gain", "they gain half a point on GSM8K", _verify_stronger, "1/2"),),
    ),
)
