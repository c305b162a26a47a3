"""The tree of asynchronous Lookahead Reasoning and the rules by which nodes are added, decided and committed.

The state is a tree of nodes, one per prefix. A node owns the target's step after its prefix and ``width`` drafts of
that step. A finished draft opens a child; a node whose drafts are all refused opens a child after the target's own
step. The root advances, and commits, as nodes are decided. Only nodes fewer than ``k1`` levels below the root work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sim.algorithms.checks import CASCADE, Check, confidence
from sim.algorithms.rules import Rules
from sim.operations import Action, Algorithm, Cancel, Commit, Generate, Operation, Outcome, Step, Verify
from sim.roles import DRAFT, TARGET

__all__ = ["Lookahead"]

# Module constants: looking up members of an enumeration is slow, and a simulation does it millions of times.
_DISCARDED: Final = Outcome.DISCARDED
_REJECTED: Final = Outcome.REJECTED
_ACCEPTED: Final = Outcome.ACCEPTED
_REFERENCE: Final = Outcome.REFERENCE
_COMMITTED: Final = Outcome.COMMITTED


@dataclass(slots=True, eq=False)
class _Node:
    """One prefix: the target's step after it, the drafts of that step, and the decision between them.

    An operation's ``tag`` is the node that waits for it; the tag of a finished draft is the node opened after it. The
    tag is removed when the operation has ended or is discarded, so that no cycle of references keeps the node.
    """

    prefix: Step
    parent: _Node | None  # the node before it, up to the root, which has none
    drafted: bool = False  # whether the prefix ends with a draft that may still be refused
    attempt: int = 0  # 1 where the drafts of this position were refused before: the new drafts must differ
    target: Generate | None = None
    anew: Generate | None = None  # the step that the target writes after a rejection
    drafts: tuple[Generate, ...] = ()
    verifies: tuple[Verify, ...] = ()
    refused: int = 0  # drafts refused so far
    decided: bool = False  # whether a draft has won, or all are refused
    winner: Generate | None = None
    next_step: Step | None = None  # the step that follows the prefix
    next_node: _Node | None = None
    waiting: bool = False  # outside the window: some of its requests have not started


class Lookahead:
    """The tree and its rules, for ``window`` levels with requests in flight and ``width`` drafts per position.

    Methods append to ``actions``; `run` yields them and clears the list.
    """

    def __init__(self, root: Step, window: int, width: int, rules: Rules, check: Check) -> None:
        self.actions: list[Action] = []
        self.window = window
        self.width = width
        self.rules = rules
        self.check = check
        self.appeals = check.verifier == CASCADE
        self.verifier, self.threshold = check.first
        self.judges_all = not (rules.reject_first or rules.reject_after_truncation)
        self.slides = rules.slot == "commit"
        self.prefetches = rules.prefetch_draft
        self.in_order = rules.restart == "in-order"
        self.late_in_order = rules.late_draft == "in-order"
        self.waiting: list[_Node] = []
        self.ended = root.final
        self.root = _Node(root, None)
        if not self.ended:
            self._open(self.root)

    def run(self) -> Algorithm:
        """Run the algorithm: update the tree after each operation that has ended."""
        actions = self.actions
        while not self.ended:
            done = yield actions
            actions.clear()
            node: _Node = done.tag
            done.tag = None
            if done.__class__ is Verify:
                self._on_verdict(node, done)
            elif done.role != TARGET:
                self._on_draft(node, done)
            elif done is node.target:
                self._on_target(node)
            else:
                self._commit_target(node, done)
            if self.late_in_order or self.root.decided:
                self._advance()
        yield from actions

    def _open(self, node: _Node) -> None:
        """Start a node's target step and its drafts, as far as the window allows."""
        room = self.window - node.prefix.depth + self.root.prefix.depth if self.slides else self._room(node)
        if room <= 0:
            self._wait(node)
            return
        node.waiting = False
        prefix, actions = node.prefix, self.actions
        if node.target is None:
            node.target = target = Generate(TARGET, prefix, 2 * node.attempt, node)
            actions.append(target)
        if node.drafts:
            return
        if room <= 1 and not self.prefetches:
            self._wait(node)
        elif self.width == 1:
            draft = Generate(DRAFT, prefix, node.attempt, node)
            node.drafts = (draft,)
            actions.append(draft)
        else:
            first = self.width * node.attempt
            node.drafts = tuple(Generate(DRAFT, prefix, first + branch, node) for branch in range(self.width))
            actions += node.drafts

    def _room(self, node: _Node) -> int:
        """Free places of the window at this node, under rules where generated steps free their places."""
        distance = oldest = unfinished = 0
        before = node.parent
        while before is not None:
            distance += 1
            if before.target is None or before.target.result is None:
                oldest, unfinished = distance, unfinished + 1
            before = before.parent
        return self.window - (oldest if self.rules.slot == "oldest-target" else unfinished)

    def _wait(self, node: _Node) -> None:
        node.waiting = True
        self.waiting.append(node)

    def _on_draft(self, node: _Node, draft: Generate) -> None:
        step: Step = draft.result
        if not step.final:
            draft.tag = child = _Node(step, node, True)
            self._open(child)
        target = node.target
        if target is not None and target.result is not None:
            self._judge(node, draft)

    def _on_target(self, node: _Node) -> None:
        for draft in node.drafts:
            if draft.result is not None:
                self._judge(node, draft)
            elif not self.late_in_order and (self.rules.late_draft == "cancel" or self._refuses(node)):
                self._give_up(node, draft)
        if not self.late_in_order and (node.waiting or not node.drafts):
            self._close(node)
        if not self.slides:
            self._reopen()

    def _close(self, node: _Node) -> None:
        """Handle the end of the target's step: drafts that have not started by then are never started."""
        node.waiting = False
        if not node.drafts:
            self._decide(node, None)

    def _give_up(self, node: _Node, draft: Generate) -> None:
        """Cancel a late draft; it counts as refused."""
        self.actions.append(Cancel(draft))
        self._refuse(node, draft)

    def _refuses(self, node: _Node) -> bool:
        """Whether the node's drafts are refused unjudged."""
        prefix = node.prefix
        return not self.judges_all and self.rules.refuses_unjudged(prefix.depth, prefix.truncated)

    def _judge(self, node: _Node, draft: Generate) -> None:
        """Submit a draft to the verifier; both texts exist, and no sibling has been accepted."""
        if not self.judges_all and self._refuses(node):
            self._refuse(node, draft)
            return
        written: Step = node.target.result  # type: ignore[union-attr]  # both texts exist
        verify = Verify(draft.result, written, draft.branch, self.verifier, node, self.threshold)
        node.verifies = (*node.verifies, verify) if node.verifies else (verify,)
        self.actions.append(verify)

    def _on_verdict(self, node: _Node, verify: Verify) -> None:
        if self.appeals and (appeal := self.check.appeal(verify)) is not None:
            verify.outcome, appeal.tag = Outcome.ESCALATED, node
            node.verifies = (*node.verifies, appeal)
            self.actions.append(appeal)
            return
        if not verify.result.accepted:
            verify.outcome = _REJECTED
            self._refuse(node, _judged_draft(node, verify))
            return
        verify.outcome = _ACCEPTED
        if self.width == 1:
            winner = node.drafts[0]
            node.decided, node.winner = True, winner
            if not self.in_order:
                _follow(node, winner)
            return
        self._try(node)

    def _refuse(self, node: _Node, draft: Generate) -> None:
        draft.outcome = _REJECTED
        if not self.in_order:
            self._prune(node, draft)
        node.refused += 1
        self._try(node)

    def _try(self, node: _Node) -> None:
        """Decide about a node if no missing verdict can change the step that follows it."""
        if node.decided:
            return
        if node.refused == self.width:
            self._decide(node, None)
            return
        accepted = [verify for verify in node.verifies if verify.outcome is _ACCEPTED]
        if accepted and (self.rules.winner == "first-verdict" or len(accepted) + node.refused == self.width):
            best = accepted[0] if len(accepted) == 1 else max(accepted, key=self._merit)
            self._decide(node, _judged_draft(node, best))

    def _merit(self, verify: Verify) -> tuple[float, int]:
        return (confidence(verify) if self.rules.winner == "most-confident" else 0.0, -verify.branch)

    def _decide(self, node: _Node, winner: Generate | None) -> None:
        node.decided, node.winner = True, winner
        if not self.in_order:
            self._take_effect(node)

    def _take_effect(self, node: _Node) -> None:
        """Follow the winner, or the target's step where all drafts are refused; discard the other branches."""
        target, winner = node.target, node.winner
        if self.width > 1 or (winner is None and self.in_order):
            self._drop_siblings(node)
        assert target is not None
        if winner is not None:
            _follow(node, winner)
        elif self.rules.fallback == "reuse":
            self._commit_target(node, target)
        elif self.rules.fallback == "regenerate" or not node.drafted:
            self._discard(target)
            node.anew = Generate(TARGET, node.prefix, target.branch + 1, node)
            self.actions.append(node.anew)
        else:
            self._discard(target)
            node.next_node = _Node(node.prefix, node.parent, attempt=1)
            self._open(node.next_node)

    def _commit_target(self, node: _Node, target: Generate) -> None:
        """Follow the target's step, which replaces the refused drafts; drafting restarts after it at once."""
        target.outcome = _COMMITTED
        node.next_step = step = target.result
        if not step.final:
            node.next_node = _Node(step, node)
            self._open(node.next_node)

    def _drop_siblings(self, node: _Node) -> None:
        """Discard a node's drafts and verdicts other than the winner's, and the branches after these drafts."""
        winner = node.winner
        for draft in node.drafts:
            if draft is not winner:
                self._prune(node, draft)
                if draft.outcome is Outcome.PENDING:
                    self._discard(draft)
        for verify in node.verifies:
            lost = verify.outcome is Outcome.ACCEPTED and (winner is None or verify.branch != winner.branch)
            if lost or verify.outcome is Outcome.PENDING:
                self._discard(verify)

    def _prune(self, node: _Node, draft: Generate) -> None:
        """Discard the subtree after a draft."""
        if draft.tag is not None and draft.tag is not node:
            self._cut(draft.tag)
        draft.tag = None

    def _cut(self, top: _Node) -> None:
        """Discard a subtree, decided nodes included."""
        stack = [top]
        while stack:
            node = stack.pop()
            node.waiting, node.parent = False, None
            for operation in (node.target, node.anew, *node.drafts, *node.verifies):
                if operation is None:
                    continue
                if operation.tag is not node and operation.tag is not None:  # the node after a draft
                    stack.append(operation.tag)
                operation.outcome = _DISCARDED  # `_discard`, inlined
                operation.tag = None
                if operation.result is None and not operation.cancelled:
                    self.actions.append(Cancel(operation))
            if node.next_node is not None:
                stack.append(node.next_node)

    def _discard(self, operation: Operation) -> None:
        operation.outcome = _DISCARDED
        operation.tag = None
        if operation.result is None and not operation.cancelled:
            self.actions.append(Cancel(operation))

    def _advance(self) -> None:
        """Commit the steps that are decided, in order; then start the requests that the moved window allows."""
        root = first = self.root
        while root.next_step is not None or ((root.decided or self.late_in_order) and self._is_known(root)):
            if (step := root.next_step) is not None:
                self.actions.append(Commit(step))
                if step.final:
                    self._end()
                    return
            assert root.next_node is not None
            root = self.root = root.next_node
            root.parent = None
        if root is not first and self.waiting:
            self._reopen()

    def _is_known(self, root: _Node) -> bool:
        """Whether the step after the root is known; under in-order rules the decision is made here."""
        if self.late_in_order and not root.decided:
            self._decide_in_order(root)
        if root.decided and root.next_step is None and root.next_node is None and root.anew is None:
            self._take_effect(root)
        return root.next_step is not None or root.next_node is not None

    def _decide_in_order(self, root: _Node) -> None:
        target = root.target
        if target is None or target.result is None or any(v.outcome is Outcome.PENDING for v in root.verifies):
            return
        for draft in root.drafts:
            if draft.result is None:
                self._give_up(root, draft)
        self._close(root)

    def _reopen(self) -> None:
        waiting, self.waiting = self.waiting, []
        for node in waiting:
            if node.waiting:
                self._open(node)

    def _end(self) -> None:
        """End the answer: cancel the requests still in flight, or under ``cancel_at_end=False`` let them run on."""
        self.ended = True
        if not self.rules.cancel_at_end:
            self.actions[:] = [action for action in self.actions if not isinstance(action, Cancel)]


def _follow(node: _Node, winner: Generate) -> None:
    """Follow a draft; the target's step has served to verify it."""
    winner.outcome = _ACCEPTED
    node.target.outcome = _REFERENCE  # type: ignore[union-attr]  # the draft was judged against it
    node.next_step = winner.result
    node.next_node, winner.tag = winner.tag, None


def _judged_draft(node: _Node, verify: Verify) -> Generate:
    return node.drafts[verify.branch - node.drafts[0].branch]
