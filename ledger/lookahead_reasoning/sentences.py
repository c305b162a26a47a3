"""Lookahead Reasoning: figures and a model's name that the text and the head of Table 1 give otherwise than Table 1."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from ledger.ledger import Claim
from ledger.proving.cases import Cases, rows
from ledger.proving.records import refuted
from ledger.proving.rounding import could_round_to, mean, printed
from theory.published.lookahead_reasoning import DATASETS, PAIRS, TABLE_1

__all__ = ["CLAIMS"]

_DEEPSEEK = TABLE_1[PAIRS[0]]
"""The 1.5B draft and the 32B target of Section 2."""
_DRAFTS = {"DeepSeek-R1-Distill": ("1.5", "1.5"), "Qwen3": ("1.7", "1.5")}
"""Pair -> billions of parameters of the draft in Section 4 and in the head of Table 1."""


def _aligned(fewest: int = 4) -> Cases:
    """Steps of the small model agree with more than half of the target's in at least so many of the 7 cells."""
    rates = _DEEPSEEK["LR acceptance"]
    below = sum(Fraction(rate) <= Fraction(1, 2) for rate in rates)
    return Cases(
        text=f"in at least {fewest} cells of the DeepSeek pair more than 50 % of the steps are accepted",
        test=lambda below, of: of - below >= fewest,
        cases=rows({"below": below, "of": len(rates)}),
        where="the count over Table 1",
    )


def _mean_rate() -> Cases:
    return Cases(
        text="the mean acceptance rate of the DeepSeek pair is 0.489",
        test=lambda rates: could_round_to(mean(rates), "0.489"),
        cases=rows({"rates": _DEEPSEEK["LR acceptance"]}),
        where="seven cells of Table 1",
    )


def _combined(quoted: str) -> Cases:
    cell = _DEEPSEEK["SD+LR speedup"][DATASETS.index("AIME24")]
    return Cases(
        text=f"the combined speedup on AIME24 of Table 1 is about {quoted}",
        test=lambda combined: could_round_to(printed(combined), quoted),
        cases=rows({"combined": cell}),
        where="the DeepSeek pair",
    )


def _one_draft(*pairs: str) -> Cases:
    return Cases(
        text="Section 4 and Table 1 give the draft model one size",
        test=lambda text, table: text == table,
        cases=rows(*({"text": _DRAFTS[pair][0], "table": _DRAFTS[pair][1]} for pair in pairs)),
        where="billions of parameters, " + " and ".join(pairs),
    )


CLAIMS: tuple[Claim, ...] = (
    refuted("LR-P17", _aligned(), instead=_mean_rate(), mutants={"two": partial(_aligned, 2)}),
    refuted("LR-P18", _combined("1.9"), instead=_combined("1.8")),
    refuted("LR-P19", _one_draft(*_DRAFTS), instead=_one_draft(PAIRS[0])),
)
