"""Claims of ConfSpec about its schedule and its trees: speed limits, candidates, selection by confidence."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

from theory.claims.ledger import Claim, Evidence, statement
from theory.claims.proving.records import mutant, proved, refuted, verified
from theory.claims.proving.rounding import printed
from theory.claims.proving.tools import exhaustive, identity, refute
from theory.published.confspec import LATENCY_MS, TABLES, speedups

__all__ = ["CLAIMS"]


def _verify_schedule(serial: bool = True) -> Evidence:
    """Largest speedup of the printed order of stages at Table 6 latencies: 5 drafts accepted after one check."""
    draft, target, check = (printed(LATENCY_MS[x]) for x in ("draft step", "target step", "draft verification"))
    reported = {
        name: printed(cell)[0] for name, cell in zip("abcde", speedups("3", "Draft Verification"), strict=False)
    }
    bound = 5 * target[1] / (5 * draft[0] + target[1] + check[0]) if serial else target[1] / draft[0]
    return refute(
        lambda speedup: speedup <= bound,
        [{"speedup": max(reported.values())}],
        what=f"drafting {'before' if serial else 'while'} the target generates allows the speedups of Table 3",
        explain=lambda speedup: f"at least {float(speedup):.3f} reported, at most {float(bound):.3f} possible",
    )


def _verify_pipeline() -> Evidence:
    bound = printed(LATENCY_MS["target step"])[0] / printed(LATENCY_MS["draft step"])[1]
    rows = [Fraction(x) for method in TABLES["3"] for x in speedups("3", method)]
    what = f"every speedup of Table 3 is below t / d >= {float(bound):.2f}, the limit of drafting in parallel"
    return exhaustive(lambda row: rows[row] < bound, {"row": range(len(rows))}, what=what)


def _verify_tree(form: Callable[[int, int], int] | None = None) -> Evidence:
    """Nodes of the tree counted one by one against W (W^k - 1) / (W - 1), k for W = 1."""
    from theory.claims.confspec.statements import k, tree_candidates, width

    def stated(w: int, depth: int) -> int:
        return int(tree_candidates().subs({width: w, k: depth}).doit())

    def holds(w: int, depth: int) -> bool:
        nodes = sum(1 for level in range(1, depth + 1) for _ in itertools.product(range(w), repeat=level))
        return nodes == (form or stated)(w, depth)

    closed = (width ** (k + 1) - width) / (width - 1)
    return exhaustive(
        holds,
        {"w": range(1, 5), "depth": range(1, 6)},
        what="candidates of a tree of width w (W = 4, k = 5: 1364)",
        tail=identity(closed.subs(k, k + 1) - closed - width ** (k + 1), "a deeper level adds W times the level above"),
    )


def _verify_selection(draft_accuracy: str = "0.81") -> Evidence:
    """A draft-confident candidate (0.95) against one that the target passed with 0.90 and that is right so often."""
    right = {Fraction(95, 100): Fraction(draft_accuracy), Fraction(9, 10): Fraction(9, 10)}
    return refute(
        lambda draft, target: right[max(draft, target)] == max(right.values()),
        [{"draft": "0.95", "target": "0.9"}],
        what="the candidate with the highest confidence is the one most likely right",
        explain=lambda draft, target: (
            f"chosen: right with {float(right[max(draft, target)])}, other: {float(right[min(draft, target)])}"
        ),
    )


def _verify_calibrated_selection() -> Evidence:
    """Where each confidence is the probability of being right, its maximum is the maximum of the latter."""

    def holds(first: int, second: int, third: int) -> bool:
        right = [Fraction(x, 4) for x in (first, second, third)]
        confidence = list(right)
        return right[confidence.index(max(confidence))] == max(right)

    fourths = range(5)
    ranges = {"first": fourths, "second": fourths, "third": fourths}
    return exhaustive(
        holds,
        ranges,
        what="with calibrated confidences the selected candidate is the most likely right one",
        reach="three candidates with confidences in quarters",
    )


def _verify_equivalent(error: bool = False) -> Evidence:
    """All sets of up to three candidates with three meanings and one target step: those that pass have its meaning."""

    def holds(code: int, target: int) -> bool:
        meanings = [code // 3**i % 3 for i in range(3)]
        passed = [x for x in meanings if x == target or (error and x == 0)]
        return len(set(passed)) <= 1

    return exhaustive(
        holds,
        {"code": range(27), "target": range(3)},
        what="candidates that pass an exact check have one meaning",
        reach="three candidates of three meanings",
    )


CLAIMS: tuple[Claim, ...] = (
    refuted(
        id="CS-B1",
        source="ConfSpec, Algorithm 1 (order of stages) with Tables 3 and 6",
        statement="Drafting k = 5 steps, then generating and verifying, allows the reported speedups at the reported "
        "latencies.",
        assumptions="mean latencies of Table 6; traces of the same number and length of steps as the target's",
        verify=_verify_schedule,
        correction="The serial order is limited to 5 t / (5 d + t + c_d) = 2.1; the asynchronous pipeline of Appendix "
        "B.1 is limited by t / d = 3.6, which all entries obey.",
        correction_verify=_verify_pipeline,
        mutants=(mutant("pipeline", "drafting while the target generates", _verify_schedule, False),),
        notes="Draft-only verification reports 2.34 on AIME24; wrong accepts may also shorten its traces, which Table "
        "3 does not show.",
    ),
    proved(
        id="CS-T1",
        source="ConfSpec, section 5.3 (tree width)",
        statement="The number of candidates of a draft tree grows exponentially with depth: sum_{j=1}^{k} W^j.",
        expression=statement("confspec", "tree_candidates"),
        assumptions="every node has W children, W >= 1",
        verify=_verify_tree,
        mutants=(mutant("beams", "W k candidates", _verify_tree, lambda w, depth: w * depth),),
        notes="Exponential for W >= 2 only; k for W = 1.",
    ),
    refuted(
        id="CS-T2",
        source="ConfSpec, Equation 5, section 4.3",
        statement="Among accepted candidates the one with the highest confidence is most likely right, whichever model "
        "gave the confidence.",
        assumptions="confidence of the draft above 0.9 is right 81 % of the time (Figure 1); that of the target is "
        "calibrated",
        verify=_verify_selection,
        correction="True when both models' confidences are calibrated; otherwise map each to its measured accuracy "
        "first.",
        correction_verify=_verify_calibrated_selection,
        mutants=(mutant("calibrated draft", "draft right 95 % of the time at 0.95", _verify_selection, "0.95"),),
    ),
    verified(
        id="CS-T3",
        source="ConfSpec, section 4.3, consequence derived here",
        statement="When verification makes no error, all accepted candidates of a node mean the same, and selection "
        "cannot change the trace.",
        assumptions="meaning is an equivalence; all candidates are compared with one target step",
        reach="three candidates of three meanings",
        verify=_verify_equivalent,
        mutants=(mutant("errors", "one wrong meaning passes too", _verify_equivalent, error=True),),
        notes="So gains of wider trees come from verification errors or from more accepted steps, not from better "
        "paths among equals.",
    ),
)
