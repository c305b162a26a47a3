"""Lookahead Reasoning, synchronous: Algorithm 1 of Fu et al. 2025, with multi-branch drafting.

One cycle drafts ``k1 - 1`` steps one after the other, generates the ``k1`` target steps in parallel, and verifies. (The
paper's text counts drafts, its Theorem 1 counts target steps in flight; ``k1`` here is the latter.)
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from sim.algorithms.checks import JUDGED, Check, Judging
from sim.algorithms.lookahead_async import LOOKAHEAD_KNOBS
from sim.algorithms.rules import PAPER, Rules, check_counts
from sim.catalogue import Method, nodes_of_tree
from sim.operations import WAIT, Action, Algorithm, Cancel, Commit, Generate, Outcome, Step, Verify
from sim.roles import DRAFT, JUDGE, TARGET

__all__ = ["METHODS", "lookahead_sync"]


@dataclass(slots=True, eq=False)
class _Node:
    """A prefix of the cycle's draft tree, with its target step and the drafts that follow it."""

    prefix: Step
    target: Generate = field(init=False)
    drafts: list[Generate] = field(default_factory=list)
    children: dict[int, _Node] = field(default_factory=dict)
    verifies: list[Verify] = field(default_factory=list)
    verifying: bool = False  # whether its drafts have been submitted to the verifier
    undecided: int = 0  # verdicts still missing
    winner: int | None = None

    def __post_init__(self) -> None:
        self.target = Generate(TARGET, self.prefix, 0, self)


def lookahead_sync(root: Step, *, k1: int, width: int = 1, rules: Rules = PAPER, check: Check = JUDGED) -> Algorithm:
    """Generate the answer to ``root`` by synchronous Lookahead Reasoning.

    Parameters are those of `lookahead_async`; a cycle drafts ``k1 - 1`` steps ahead, and of the rules ``reject_first``,
    ``reject_after_truncation`` and ``barrier`` apply.
    """
    check_counts(k1, width)
    last = root
    while not last.final:
        nodes = yield from _draft(last, k1, width)
        for node in nodes:
            yield node.target
        steps = yield from _verify(nodes, rules, check)
        yield from _settle(nodes)
        for step in steps:
            yield Commit(step)
        last = steps[-1]


def _draft(step: Step, k1: int, width: int) -> Generator[Action, Any, list[_Node]]:
    """Draft ``k1 - 1`` levels, one level after the other; return all nodes, the root first."""
    level = [_Node(step)]
    nodes = list(level)
    for _ in range(k1 - 1):
        for node in level:
            for branch in range(width):
                draft = Generate(DRAFT, node.prefix, branch, node)
                node.drafts.append(draft)
                yield draft
        following = []
        for _ in range(width * len(level)):
            draft = yield WAIT
            if not draft.result.final:
                child = draft.tag.children[draft.branch] = _Node(draft.result)
                following.append(child)
        level = following
        nodes.extend(level)
    return nodes


def _verify(nodes: list[_Node], rules: Rules, check: Check) -> Generator[Action, Any, list[Step]]:
    """Wait for target steps and verdicts until the cycle's outcome is known; return the steps to commit."""
    unfinished = len(nodes)
    while True:
        done = yield WAIT
        node: _Node = done.tag
        if isinstance(done, Verify):
            appeal = check.appeal(done) if node.winner is None else None
            if appeal is None:
                _record(node, done)
            else:
                done.outcome = Outcome.ESCALATED
                node.verifies.append(appeal)
                yield appeal
        else:
            unfinished -= 1
            ready = ([] if unfinished else nodes) if rules.barrier else [node]
            for one in ready:
                yield from _ask(one, rules, check)
        steps = _walk(nodes[0])
        if steps is not None:
            return steps


def _ask(node: _Node, rules: Rules, check: Check) -> Generator[Action, Any, None]:
    node.verifying = True
    refuse = rules.refuses_unjudged(node.prefix.depth, node.prefix.truncated)
    for draft in node.drafts:
        if refuse:
            draft.outcome = Outcome.REJECTED
            continue
        verify = check.ask(draft.result, node.target.result, draft.branch, node)
        node.verifies.append(verify)
        node.undecided += 1
        yield verify


def _record(node: _Node, verify: Verify) -> None:
    node.undecided -= 1
    draft = node.drafts[verify.branch]
    if node.winner is not None:
        verify.outcome = draft.outcome = Outcome.DISCARDED
    elif verify.result.accepted:
        verify.outcome = draft.outcome = Outcome.ACCEPTED
        node.winner = verify.branch
    else:
        verify.outcome = draft.outcome = Outcome.REJECTED


def _walk(node: _Node) -> list[Step] | None:
    """Follow the accepted drafts from the root; ``None`` while the verdict on some position is missing."""
    steps: list[Step] = []
    while node.verifying and (node.winner is not None or not node.undecided):
        if node.winner is None:
            node.target.outcome = Outcome.COMMITTED
            return [*steps, node.target.result]
        node.target.outcome = Outcome.REFERENCE
        step: Step = node.drafts[node.winner].result
        steps.append(step)
        if step.final:
            return steps
        node = node.children[node.winner]
    return None


def _settle(nodes: list[_Node]) -> list[Cancel]:
    """Set the outcome of every operation that is not committed; return the cancellations of those still running."""
    cancels = []
    on_way: _Node | None = nodes[0]
    for node in nodes:  # the root first, and every node before those after it
        off = node is not on_way
        if not off:
            on_way = node.children.get(node.winner) if node.winner is not None else None
        for operation in (node.target, *node.drafts, *node.verifies):
            if operation.outcome is Outcome.PENDING or (off and operation.outcome is not Outcome.DISCARDED):
                operation.outcome = Outcome.DISCARDED
                if operation.result is None:
                    cancels.append(Cancel(operation))
    return cancels


METHODS = (
    Method(
        name="lr-sync",
        title="LR sync",
        paper="Fu et al. 2025 (Lookahead Reasoning), Algorithm 1; Theorem 1",
        level="step",
        algorithm=Judging(lookahead_sync),
        knobs=LOOKAHEAD_KNOBS,
        roles=(DRAFT, JUDGE),
        exact="Theorem 1 for constant step times, independent acceptance and free verdicts",
        measured="step lengths, acceptance and scores along recorded answers; engine timings",
        closed_form="theory.speedup.f_sync",
        in_flight=nodes_of_tree,
    ),
)
