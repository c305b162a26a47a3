"""Claims of ConfSpec about its schedule and its trees: speed limits, candidates, selection by confidence."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from typing import Final

from ledger.confspec.forms import tree_candidates
from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Cases, Predicate, grid, rows, walked
from ledger.proving.deferred import sp
from ledger.proving.domains import between
from ledger.proving.records import proved, refuted, repaired, verified
from ledger.proving.rounding import printed
from ledger.proving.symbolic import nonnegative
from ledger.proving.tools import all_of, identity
from theory.published.confspec import LATENCY_MS, TABLES, speedups

__all__ = ["CLAIMS"]


def _schedule(serial: bool = True) -> Cases:
    """Largest speedup of the printed order of stages at Table 6 latencies: 5 drafts accepted after one check."""
    draft, target, check = (printed(LATENCY_MS[x]) for x in ("draft step", "target step", "draft verification"))
    largest = max(printed(cell)[0] for cell in speedups("3", "Draft Verification")[:5])
    bound = 5 * target[1] / (5 * draft[0] + target[1] + check[0]) if serial else target[1] / draft[0]
    return Cases(
        text=f"drafting {'before' if serial else 'while'} the target generates allows the speedups of Table 3, at most "
        f"{float(bound):.3f}",
        test=lambda speedup: speedup <= bound,
        cases=rows({"speedup": largest}),
        where="the largest of draft-only verification",
        explain=lambda speedup: f"at least {float(speedup):.3f} reported",
    )


def _pipeline() -> Cases:
    bound = printed(LATENCY_MS["target step"])[0] / printed(LATENCY_MS["draft step"])[1]
    return Cases(
        text=f"every speedup of Table 3 is below t / d >= {float(bound):.2f}, the limit of drafting in parallel",
        test=lambda speedup: Fraction(speedup) < bound,
        cases=rows(*[{"speedup": x} for method in TABLES["3"] for x in speedups("3", method)]),
        where="every entry",
    )


_PIPELINE: Final = _pipeline()


@cache
def _tree(form: Callable[[int, int], int] | None = None) -> Cases:
    """Nodes of the tree counted one by one against W (W^k - 1) / (W - 1), k for W = 1."""

    def stated(w: int, depth: int) -> int:
        return int(tree_candidates(sp.Integer(w), sp.Integer(depth)).doit())

    def holds(w: int, depth: int) -> bool:
        nodes = sum(1 for level in range(1, depth + 1) for _ in itertools.product(range(w), repeat=level))
        return nodes == (form or stated)(w, depth)

    return Cases(
        text="candidates of a tree of width w (W = 4, k = 5: 1364)",
        test=holds,
        cases=grid(w=range(1, 5), depth=range(1, 6)),
        where="w <= 4 and depths up to 5",
        partial=True,
    )


def _verify_tree(form: Callable[[int, int], int] | None = None) -> Evidence:
    deeper = "(W**(k + 2) - W) / (W - 1) - (W**(k + 1) - W) / (W - 1) == W**(k + 1)"
    return walked(_tree(form), tail=identity(deeper, "a deeper level adds W times the level above"))


def _chosen(draft: Fraction, target: Fraction, accuracy: Fraction) -> tuple[Fraction, Fraction]:
    """Chance that the candidate with the higher confidence is right, and that the other one is."""
    return (accuracy, target) if draft > target else (target, accuracy)


def _selection(draft_accuracy: str = "0.81") -> Predicate:
    """A candidate that the draft passed, right so often, against one that the target passed, which is calibrated."""

    def holds(draft: Fraction, target: Fraction) -> bool:
        chosen, other = _chosen(draft, target, Fraction(draft_accuracy))
        return chosen >= other

    def explain(draft: Fraction, target: Fraction) -> str:
        chosen, other = _chosen(draft, target, Fraction(draft_accuracy))
        return f"chosen: right with {float(chosen)}, other: {float(other)}"

    return Predicate(
        text="the candidate with the highest confidence is the one most likely right",
        test=holds,
        domain={"draft": between("9/10", 1, "[]"), "target": between("1/2", 1, "[]")},
        at=[{"draft": "0.95", "target": "0.9"}],
        explain=explain,
    )


def _most_likely(first: int, second: int, third: int) -> bool:
    """Where each confidence is the probability of being right, its maximum is the maximum of the latter."""
    right = [Fraction(x, 4) for x in (first, second, third)]
    confidence = list(right)
    return right[confidence.index(max(confidence))] == max(right)


_CALIBRATED: Final = Cases(
    text="with calibrated confidences the selected candidate is the most likely right one",
    test=_most_likely,
    cases=grid(first=range(5), second=range(5), third=range(5)),
    where="three candidates with confidences in quarters",
    partial=True,
)


def _equivalent(error: bool = False) -> Cases:
    def holds(meanings: tuple[int, ...], target: int) -> bool:
        passed = [x for x in meanings if x == target or (error and x == 0)]
        return len(set(passed)) <= 1

    return Cases(
        text="candidates that pass an exact check have one meaning",
        test=holds,
        cases=grid(meanings=itertools.product(range(3), repeat=3), target=range(3)),
        where="three candidates of three meanings",
        partial=True,
    )


def _longest(lengths: tuple[int, ...] = (1, 3)) -> Cases:
    """Two target steps at once, each of either length with chance 1/2: they take as long as the longer one."""
    pairs = list(itertools.product(lengths, repeat=2))
    both, one = Fraction(sum(map(max, pairs)), len(pairs)), Fraction(sum(lengths), len(lengths))
    return Cases(
        text=f"two steps at once, of lengths {' and '.join(map(str, lengths))} evenly, take the mean time of one",
        test=lambda both, one: both == one,
        cases=rows({"both": both, "one": one}),
        where="two steps",
        explain=lambda both, one: f"{both} on average for two, {one} for one",
    )


def _fix_at_once() -> Evidence:
    # of n steps, each of length l or l + d evenly; 2**-n = 1 / (4 + h) is at most 1/4
    return all_of(
        nonnegative("l + d - d / (4 + h) >= l + d / 2", "at least the mean of one, for two steps or more"),
        nonnegative("(2 + k) * (l + d / 2) >= l + d", "at most n times the mean"),
    )


def _memory(draft: str = "1.5") -> Cases:
    return Cases(
        text="two bytes per parameter fit into the memory that is stated, and fill at least half of it",
        test=lambda parameters, stated: Fraction(stated, 2) <= 2 * Fraction(parameters) <= stated,
        cases=rows({"parameters": "32", "stated": 70}, {"parameters": draft, "stated": 5}),
        where="billions of parameters of both models, gigabytes",
    )


CLAIMS: tuple[Claim, ...] = (
    refuted("CS-B1", _schedule(), instead=_PIPELINE, mutants={"pipeline": partial(_schedule, False)}),
    repaired("CS-B2", _longest(), fix=_fix_at_once, mutants={"equal": _longest((2, 2))}),
    proved("CS-M1", _memory(), mutants={"1": partial(_memory, "1")}),
    proved(
        "CS-T1", _tree(None), verify=_verify_tree, mutants={"beams": partial(_verify_tree, lambda w, depth: w * depth)}
    ),
    refuted("CS-T2", _selection(), instead=_CALIBRATED, mutants={"calibrated draft": partial(_selection, "0.95")}),
    verified("CS-T3", _equivalent(), mutants={"errors": partial(_equivalent, error=True)}),
)
