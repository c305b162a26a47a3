"""Lookahead Reasoning, sentences of Sections 3 and 4 that counting or the paper's own tables confirm or refute."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

from ledger.ledger import Claim
from ledger.lookahead_reasoning import exact
from ledger.proving.cases import Cases, grid, rows, walked
from ledger.proving.records import Given, proved, refuted, repaired, restated
from ledger.proving.tools import identity, prove_equalities
from theory.published.lookahead_reasoning import DATASETS, PAIRS, TABLE_1, TABLE_3, both_pairs

__all__ = ["CLAIMS", "measured"]

_ACCEPTANCE = both_pairs("LR acceptance")
_STEP = both_pairs("LR speedup")
_TOKEN = both_pairs("SD speedup")
_BOTH = both_pairs("SD+LR speedup")
_MT_BENCH = DATASETS.index("MT-Bench")
"""Its accuracy is a score, no percentage."""

_HALF_UNIT = Fraction(1, 200)


def _row(cells: tuple[str, ...]) -> list[Fraction]:
    return [Fraction(cell) for cell in cells]


def _percent(row: str) -> list[Fraction]:
    """A row of accuracies, in percent."""
    return [Fraction(cell) for pair in PAIRS for i, cell in enumerate(TABLE_1[pair][row]) if i != _MT_BENCH]


def measured() -> Iterator[tuple[str, Mapping[str, Fraction]]]:
    """Table 1, cell by cell: name, then the measured values."""
    names = [f"{data}, {pair}" for pair in PAIRS for data in DATASETS]
    rows = zip(names, _row(_ACCEPTANCE), _row(_STEP), _row(_TOKEN), _row(_BOTH), strict=True)
    for name, acceptance, step, token, both in rows:
        yield name, {"acceptance": acceptance, "step": step, "token": token, "both": both}


def _each_cell(test: Callable[[Mapping[str, Fraction]], bool], what: str) -> Cases:
    """A statement about every cell of Table 1."""
    return Cases(
        text=what,
        test=lambda **cell: test(cell),
        cases=lambda: (cell for _name, cell in measured()),
        where="the 14 cells of Table 1",
    )


def _share(low: str, high: str, at_least: int) -> Cases:
    """At least so many of the 14 acceptance rates lie strictly between low and high."""
    rates = _row(_ACCEPTANCE)
    inside = sum(Fraction(low) < rate < Fraction(high) for rate in rates)
    return Cases(
        text=f"at least {at_least} acceptance rates of Table 1 lie in ({low}, {high})",
        test=lambda inside, of: inside >= at_least and of == len(rates),
        cases=rows({"inside": inside, "of": len(rates)}),
        where="the count over Table 1",
    )


def _multiply(low: str) -> Cases:
    def within(cell: Mapping[str, Fraction]) -> bool:
        smallest = (cell["step"] - _HALF_UNIT) * (cell["token"] - _HALF_UNIT)
        largest = (cell["step"] + _HALF_UNIT) * (cell["token"] + _HALF_UNIT)
        return Fraction(low) * smallest <= cell["both"] + _HALF_UNIT and cell["both"] - _HALF_UNIT <= largest

    share = "the product of the single ones" if low == "1" else f"{low} to 1 times the product of the single ones"
    return _each_cell(within, f"the combined speedup is {share}, up to rounding")


def _range(cells: Sequence[str | Fraction], low: str, high: str, what: str) -> Cases:
    """The smallest and largest entries of a row are the printed ones."""
    values = [Fraction(cell) for cell in cells]
    return Cases(
        text=f"{what}: from {low} to {high}",
        test=lambda min, max: (min, max) == (Fraction(low), Fraction(high)),
        cases=rows({"min": min(values), "max": max(values)}),
        where="the least and the greatest of 14 cells of Table 1",
    )


def _steps(low: str) -> Cases:
    return _range(_STEP, low, "1.71", "speedup of LR without token-level speculation")


def _accuracy(low: str, high: str) -> Cases:
    pairs = zip(_percent("LR accuracy"), _percent("target accuracy"), strict=True)
    return _range([ours - target for ours, target in pairs], low, high, "accuracy against plain decoding, points")


def _tree(factor: str = "1") -> Cases:
    """Acceptance rises with W, by the factor or more at every doubling; speedup does not rise beyond W = 2."""

    def shaped(data: str, judge: str) -> bool:
        tree = TABLE_3[data, judge]
        rises = all(wider > here * Fraction(factor) for here, wider in itertools.pairwise(_row(tree["acceptance"])))
        speeds = _row(tree["speedup"])
        return rises and max(speeds[2:]) <= speeds[1]

    return Cases(
        text="acceptance rises with W, speedup is largest at W <= 2",
        test=shaped,
        cases=rows(*({"data": data, "judge": judge} for data, judge in TABLE_3)),
        where="the four trees of Table 3",
    )


def _continuations(width: int, depth: int) -> int:
    """Distinct draft prefixes before each position, all of which need the target's continuation."""
    return sum(width**j for j in range(depth))


def _tree_targets(*, one_per_depth: bool) -> Cases:
    """Target continuations that must run in parallel for a tree of width W and depth gamma."""
    return Cases(
        text="one target continuation per position serves a draft tree"
        if one_per_depth
        else "W**j continuations per position",
        test=lambda width, gamma: (
            _continuations(width, gamma) == (gamma if one_per_depth else exact.geometric_sum(width, gamma))
        ),
        cases=grid(width=(1, 2, 3), gamma=(1, 2, 3)),
        where="W <= 3, depth <= 3",
        partial=True,
        explain=lambda width, gamma: f"{_continuations(width, gamma)} different prefixes each need a continuation",
    )


_FASTER = _each_cell(lambda cell: cell["both"] > max(cell["step"], cell["token"]), "faster than both")
_A_TENTH = _each_cell(
    lambda cell: cell["both"] >= Fraction(11, 10) * max(cell["step"], cell["token"]), "a tenth faster"
)
_EVERY_PREFIX = _tree_targets(one_per_depth=False)


CLAIMS: tuple[Claim, ...] = (
    refuted(
        "LR-P1",
        _share("0.52", "0.8", 7),
        instead=_share("0.401326592", "0.8", 9),
        mutants={"three": _share("0.52", "0.8", 3)},
    ),
    refuted("LR-P2", _multiply("1"), instead=_multiply("0.87")),
    repaired(
        "LR-S10",
        fix=Given(prove_equalities),  # one factor divides every time of a cycle or stage, so c1 stays
        mutants={"same factor": restated("LR-S10", change=("c1 / draft", "c1 / target"))},
    ),
    proved("LR-P3", _FASTER, mutants={"a tenth": _A_TENTH}),
    refuted(
        "LR-P4",
        _share("0.50", "0.64", 7),
        instead=_range(_ACCEPTANCE, "0.30", "0.63", "acceptance rates"),
        mutants={"three": _share("0.50", "0.64", 3)},
    ),
    proved("LR-P5", _steps("1.04"), mutants={"low": _steps("1.05")}),
    proved("LR-P6", _accuracy("-2.1", "1.0"), mutants={"two": _accuracy("-2.0", "1.0")}),
    proved("LR-P7", _tree(), mutants={"a tenth": _tree("11/10")}),
    refuted(
        "LR-Z1",
        _tree_targets(one_per_depth=True),
        instead=_EVERY_PREFIX,
        fix=lambda: walked(
            _EVERY_PREFIX, tail=identity("W * W**j == W**(j + 1)", "each of the W**j prefixes has W children")
        ),
    ),
)
