"""Lookahead Reasoning, sentences of Sections 3 and 4 that counting or the paper's own tables confirm or refute."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from theory.claims.ledger import Claim, Evidence, Verdict
from theory.claims.lookahead_reasoning import exact
from theory.claims.proving.deferred import sp
from theory.claims.proving.records import corrected, mutant, proved, refuted, repaired
from theory.claims.proving.tools import counterexample, prove_identity, refute
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


def _each_cell(holds: Callable[[Mapping[str, Fraction]], bool], what: str) -> Evidence:
    """A statement about every cell of Table 1: false with the first cell that fails, proved otherwise."""
    failing = [(name, cell) for name, cell in measured() if not holds(cell)]
    if not failing:
        return _table(f"{what}: holds in all 14 cells of Table 1")
    name, cell = failing[0]
    shown = ", ".join(f"{key} {float(value)}" for key, value in cell.items())
    detail = f"{what}: fails in {len(failing)} of 14 cells of Table 1, first {name} ({shown})"
    return counterexample(detail, cell)


def _table(detail: str) -> Evidence:
    """Exact arithmetic on printed numbers confirms the sentence."""
    return Evidence(verdict=Verdict.PROVED, method="exact", detail=detail)


def _share(low: str, high: str, at_least: int) -> Evidence:
    """At least so many of the 14 acceptance rates lie strictly between low and high."""
    rates = _row(_ACCEPTANCE)
    inside = sum(Fraction(low) < rate < Fraction(high) for rate in rates)
    detail = f"{inside} of {len(rates)} acceptance rates of Table 1 lie in ({low}, {high}); needed: {at_least}"
    if inside >= at_least:
        return _table(detail)
    return counterexample(detail, {"inside": inside, "of": len(rates)})


def _multiply(low: str) -> Evidence:
    """The measured combined speedup is `low` to 1 times the product of the single ones, up to rounding."""

    def holds(cell: Mapping[str, Fraction]) -> bool:
        smallest = (cell["step"] - _HALF_UNIT) * (cell["token"] - _HALF_UNIT)
        largest = (cell["step"] + _HALF_UNIT) * (cell["token"] + _HALF_UNIT)
        return Fraction(low) * smallest <= cell["both"] + _HALF_UNIT and cell["both"] - _HALF_UNIT <= largest

    share = "the product of the single ones" if low == "1" else f"{low} to 1 times the product of the single ones"
    return _each_cell(holds, f"the combined speedup is {share}, up to rounding")


def _combined(target_factor: str, draft_factor: str) -> Evidence:
    """Synchronous cycle with target steps `target_factor` and draft steps `draft_factor` times faster."""
    fast_target, fast_draft = Fraction(target_factor), Fraction(draft_factor)

    def holds(alpha1: Fraction, c1: Fraction, k1: Fraction) -> bool:
        depth = int(k1)
        time = (depth - 1) * c1 / fast_draft + 1 / fast_target
        return bool(exact.geometric_sum(alpha1, depth) / time == exact.f_sync(alpha1, c1, depth) * fast_target)

    points = ({"alpha1": "1/2", "c1": "1/4", "k1": str(k)} for k in (2, 3))
    what = f"h = f g with target steps {target_factor} times as fast and draft steps {draft_factor} times"

    def explain(alpha1: Fraction, c1: Fraction, k1: Fraction) -> str:
        time = (int(k1) - 1) * c1 / fast_draft + 1 / fast_target
        product = exact.f_sync(alpha1, c1, int(k1)) * fast_target
        return f"the cycle gives {exact.geometric_sum(alpha1, int(k1)) / time}, the product {product}"

    return refute(holds, points, what=what, explain=explain)


def _same_factor() -> Evidence:
    """One factor for both models divides every time of a cycle or stage, so c1 stays and the speedups multiply."""
    steps, c, k, g = sp.symbols("steps c1 k1 g", positive=True)
    sped_up = steps / ((k - 1) * c / g + 1 / g)
    return prove_identity(sped_up - g * steps / ((k - 1) * c + 1), what="one factor g for draft and target: h = f g")


def _range(cells: tuple[str, ...], low: str, high: str, what: str) -> Evidence:
    """The smallest and largest entries of a row are the printed ones."""
    values = _row(cells)
    if (min(values), max(values)) == (Fraction(low), Fraction(high)):
        return _table(f"{what}: from {low} to {high}")
    detail = f"{what}: from {float(min(values))} to {float(max(values))}, not from {low} to {high}"
    return counterexample(detail, {"min": min(values), "max": max(values)})


def _accuracy(low: str, high: str) -> Evidence:
    """Accuracy differences, in points, between LR and the target alone."""
    pairs = zip(_percent("LR accuracy"), _percent("target accuracy"), strict=True)
    gains = tuple(str(ours - target) for ours, target in pairs)
    return _range(gains, low, high, "accuracy against the target alone, points")


def _tree(factor: str) -> Evidence:
    """Acceptance rises with W, by the factor or more at every doubling; speedup does not rise beyond W = 2."""
    for tree in TABLE_3.values():
        for here, wider in itertools.pairwise(_row(tree["acceptance"])):
            if not wider > here * Fraction(factor):
                detail = f"acceptance goes from {float(here)} to {float(wider)}"
                return counterexample(detail, {"narrow": here, "wide": wider})
        values = _row(tree["speedup"])
        if max(values[2:]) > values[1]:
            return counterexample("speedup rises beyond W = 2", None)
    return _table("all four rows of Table 3: acceptance rises with W, speedup is largest at W <= 2")


def _tree_targets(*, one_per_depth: bool) -> Evidence:
    """Target continuations that must run in parallel for a tree of width W and depth gamma."""

    def needed(width: int, depth: int) -> int:
        return sum(width**j for j in range(depth))  # distinct draft prefixes before each position

    def holds(width: Fraction, gamma: Fraction) -> bool:
        claimed = gamma if one_per_depth else exact.geometric_sum(width, int(gamma))
        return bool(needed(int(width), int(gamma)) == claimed)

    return refute(
        holds,
        ({"width": str(w), "gamma": str(n)} for w in (1, 2, 3) for n in (1, 2, 3)),
        what="one target continuation per position serves a draft tree"
        if one_per_depth
        else "W**j continuations per position",
        explain=lambda width, gamma: f"{needed(int(width), int(gamma))} different prefixes each need a continuation",
    )


def _tree_proof() -> Evidence:
    """W**j prefixes before position j: each prefix of length j - 1 has W children."""
    w = sp.Symbol("W", positive=True)
    j = sp.Symbol("j", positive=True, integer=True)
    step = prove_identity(w * w**j - w ** (j + 1), what="each of the W**j prefixes has W children")
    checked = _tree_targets(one_per_depth=False)
    return checked if checked.verdict is Verdict.FALSE else step


CLAIMS: tuple[Claim, ...] = (
    refuted(
        id="LR-P1",
        source="Lookahead Reasoning, Section 3.3, conditions of the theorem",
        statement="Acceptance rates between 0.52 and 0.8 are common in the paper's experiments.",
        assumptions="step-level acceptance of Table 1; common: in at least half of its 14 cells",
        verify=lambda: _share("0.52", "0.8", 7),
        correction="3 of the 14 step acceptance rates of Table 1 lie in (0.52, 0.8); they run from 0.30 to 0.63. "
        "With the sharp limit of LR-T4d, 0.4014, the theorem covers 9 of the 14.",
        correction_verify=lambda: _share("0.401326592", "0.8", 9),
        mutants=(mutant("three", "at least 3 cells", _share, "0.52", "0.8", 3),),
        notes="The token-level rate alpha2 of the n-gram drafts is not reported.",
    ),
    corrected(
        id="LR-P2",
        source="Lookahead Reasoning, Section 3.3, combined speedup, against Table 1",
        statement="The speedups of step-level and token-level speculation multiply: the measured combined speedup "
        "is the product of the two measured alone, up to rounding.",
        assumptions="Table 1: rows LR, SD, SD+LR; each entry exact to half a unit of its last digit",
        verify=lambda: _multiply("1"),
        correction="In all 14 cells the product is an upper estimate; measured values are 0.87 to 0.99 of it (1.36 "
        "x 1.53 = 2.08 against 1.82 on AIME24).",
        holds=mutant("looser", "at least 0.87 of the product", _multiply, "0.87"),
        notes="Only Qwen3 on GPQA agrees within rounding. See LR-S10 for when the model itself multiplies.",
    ),
    repaired(
        id="LR-S10",
        source="Lookahead Reasoning, Section 3.3, combined speedup",
        statement="The combined speedup is h(k1, k2) = f(k1) g(k2), with c1 measured without token-level speculation.",
        assumptions="constant step times; token-level speculation may speed up draft and target by different factors",
        printed=lambda: _combined("2", "1"),
        correction="It holds when draft and target steps become faster by the same factor g. Otherwise c1 changes to "
        "c1 g_target / g_draft, and the speedup is g_target f(k1) at the new c1.",
        repair=_same_factor,
        mutants=(mutant("same factor", "both models twice as fast, which needs no fix", _combined, "2", "2"),),
        notes="Random step lengths break it as well: the longest of several parallel steps counts, not the mean.",
    ),
    proved(
        id="LR-P3",
        source="Lookahead Reasoning, Section 4.1, combination against single methods",
        statement="The combination is faster than token-level speculation alone (and than step-level alone) "
        "everywhere.",
        assumptions="Table 1, both model pairs",
        verify=lambda: _each_cell(lambda cell: cell["both"] > max(cell["step"], cell["token"]), "faster than both"),
        mutants=(
            mutant(
                "a tenth",
                "faster by at least a tenth",
                _each_cell,
                lambda cell: cell["both"] >= Fraction(11, 10) * max(cell["step"], cell["token"]),
                "a tenth faster",
            ),
        ),
        notes="A statement about the printed means; their standard errors are not reported.",
    ),
    refuted(
        id="LR-P4",
        source="Lookahead Reasoning, Section 4.1, acceptance rates",
        statement="Step acceptance rates are often above 50 % and reach 63 %.",
        assumptions="Table 1; often: in at least half of its 14 cells",
        verify=lambda: _share("0.50", "0.64", 7),
        correction="Above 50 % in 3 of the 14 cells; the maximum, 63 %, is right.",
        correction_verify=lambda: _range(_ACCEPTANCE, "0.30", "0.63", "acceptance rates"),
        mutants=(mutant("three", "in at least 3 cells", _share, "0.50", "0.64", 3),),
    ),
    proved(
        id="LR-P5",
        source="Lookahead Reasoning, Section 4.1, speedups",
        statement="Step-level speculation alone speeds up by 1.04 to 1.71.",
        assumptions="Table 1",
        verify=lambda: _range(_STEP, "1.04", "1.71", "speedup of LR alone"),
        mutants=(mutant("low", "from 1.05", _range, _STEP, "1.05", "1.71", "speedup of LR alone"),),
    ),
    proved(
        id="LR-P6",
        source="Lookahead Reasoning, Section 4.1, accuracy",
        statement="Accuracy stays between 1.0 points above and 2.1 points below the target's.",
        assumptions="Table 1 without MT-Bench, which has another scale",
        verify=lambda: _accuracy("-2.1", "1.0"),
        mutants=(mutant("two", "at most 2.0 points below", _accuracy, "-2.0", "1.0"),),
        notes="Differences of means; most are smaller than the printed standard deviations.",
    ),
    proved(
        id="LR-P7",
        source="Lookahead Reasoning, Section 4.3, tree width",
        statement="A wider tree always raises acceptance, but speedup does not improve beyond W = 2.",
        assumptions="Table 3",
        verify=lambda: _tree("1"),
        mutants=(mutant("a tenth", "by a tenth per doubling", _tree, "11/10"),),
    ),
    refuted(
        id="LR-Z1",
        source="Lookahead Reasoning, Chinese summary, multi-branch drafting",
        statement="In a draft tree of width W the target generates a single continuation per position.",
        assumptions="continuations run in parallel, before it is known which branch will be accepted; W >= 2, depth "
        ">= 2",
        verify=lambda: _tree_targets(one_per_depth=True),
        correction="Position j has W**j different draft prefixes, so a parallel target needs W**j continuations there, "
        "1 + W + ... + W**(gamma-1) in all; the paper's text says that they grow exponentially.",
        correction_verify=_tree_proof,
        mutants=(mutant("corrected", "W**j per position", _tree_targets, one_per_depth=False),),
        notes="One continuation per position suffices only when each position waits for the verdict on the one before.",
    ),
)
