"""Lookahead Reasoning, asynchronous (Fu et al. 2025, section 3.1, "Asynchronous Generation", and Appendix B.1.1).

The state is a tree of nodes, one per prefix. A node owns the target's step after its prefix and ``width`` drafts of
that step. A finished draft opens a child; a node whose drafts are all refused opens a child after the target's own
step. The root advances, and commits, as nodes are resolved. Only nodes fewer than ``k1`` levels below the root work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sim.algorithms.rules import PAPER, Rules, check_counts
from sim.operations import (
    DRAFT,
    TARGET,
    WAIT,
    Action,
    Algorithm,
    Cancel,
    Commit,
    Generate,
    Operation,
    Outcome,
    Step,
    Verify,
)

__all__ = ["lookahead_async"]


def lookahead_async(root: Step, *, k1: int, width: int = 1, rules: Rules = PAPER) -> Algorithm:
    """Generate the answer to ``root`` by asynchronous Lookahead Reasoning.

    Parameters
    ----------
    root : the prompt.
    k1 : target steps in flight along one path, >= 1 (1 is autoregressive decoding that also drafts in vain).
    width : drafts per position, >= 1 (the paper's W); targets in flight grow as ``width ** depth``.
    rules : scheduling rules; `PAPER` or `RELEASED_CODE`, or your own.

    Raises
    ------
    ParameterError : ``k1`` or ``width`` is not a positive integer.
    """
    check_counts(k1, width)
    return _run(_Lookahead(root, k1 + rules.extra_in_flight, width, rules))


def _run(state: _Lookahead) -> Algorithm:
    actions = state.actions
    while True:
        for action in actions:
            yield action
        actions.clear()
        if state.ended:
            return
        state.on_done((yield WAIT))


class _Node:
    """One prefix: the target's step after it, the drafts of that step, and what became of them."""

    __slots__ = (
        "alive",
        "children",
        "drafts",
        "next_node",
        "next_step",
        "prefix",
        "refused",
        "target",
        "verifies",
        "waiting",
    )

    def __init__(self, prefix: Step) -> None:
        self.prefix = prefix
        self.target: Generate | None = None
        self.drafts: list[Generate] = []
        self.verifies: list[Verify] = []
        self.children: dict[int, _Node] = {}
        self.refused = 0  # drafts refused so far
        self.next_step: Step | None = None  # the step that follows the prefix, once resolved
        self.next_node: _Node | None = None
        self.waiting = False  # outside the window: something of it is yet to start
        self.alive = True


class _Lookahead:
    """The tree and its rules. Methods append to ``actions``; the generator above yields them."""

    __slots__ = ("actions", "ended", "root", "rules", "waiting", "width", "window")

    def __init__(self, root: Step, window: int, width: int, rules: Rules) -> None:
        self.actions: list[Action] = []
        self.window = window
        self.width = width
        self.rules = rules
        self.waiting: list[_Node] = []
        self.ended = root.final
        self.root = _Node(root)
        if not self.ended:
            self._open(self.root)

    def on_done(self, done: Operation) -> None:
        node: _Node = done.tag
        if isinstance(done, Verify):
            self._on_verdict(node, done)
        elif done.role == TARGET:
            self._on_target(node)
        else:
            self._on_draft(node, done)  # type: ignore[arg-type]  # only Generate is left
        if self.root.next_step is not None:
            self._advance()

    def _open(self, node: _Node) -> None:
        """Start what the window lets a node start: its target step, and its drafts."""
        level = node.prefix.depth - self.root.prefix.depth
        node.waiting = False
        if level >= self.window:
            self._wait(node)
            return
        if node.target is None:
            node.target = Generate(TARGET, node.prefix, 0, node)
            self.actions.append(node.target)
        if node.drafts:
            return
        if level < self.window - 1 or self.rules.prefetch_draft:
            for branch in range(self.width):
                draft = Generate(DRAFT, node.prefix, branch, node)
                node.drafts.append(draft)
                self.actions.append(draft)
        else:
            self._wait(node)

    def _wait(self, node: _Node) -> None:
        node.waiting = True
        self.waiting.append(node)

    def _on_draft(self, node: _Node, draft: Generate) -> None:
        step: Step = draft.result
        if not step.final:
            child = node.children[draft.branch] = _Node(step)
            self._open(child)
        if node.target is not None and node.target.result is not None:
            self._judge(node, draft)

    def _on_target(self, node: _Node) -> None:
        node.waiting = False  # drafts that have not started by now never will
        for draft in node.drafts:
            if draft.result is not None:
                self._judge(node, draft)
            elif self.rules.late_draft == "cancel":
                self.actions.append(Cancel(draft))
                self._refuse(node, draft)
        if not node.drafts:
            self._take_target(node)

    def _judge(self, node: _Node, draft: Generate) -> None:
        if node.next_step is not None:  # a sibling has been accepted already
            draft.outcome = Outcome.DISCARDED
        elif self.rules.refuses_unjudged(node.prefix.depth, node.prefix.truncated):
            self._refuse(node, draft)
        else:
            assert node.target is not None
            verify = Verify(draft.result, node.target.result, draft.branch, tag=node)
            node.verifies.append(verify)
            self.actions.append(verify)

    def _on_verdict(self, node: _Node, verify: Verify) -> None:
        draft = node.drafts[verify.branch]
        if not verify.result.accepted:
            verify.outcome = Outcome.REJECTED
            self._refuse(node, draft)
            return
        verify.outcome = draft.outcome = Outcome.ACCEPTED
        assert node.target is not None
        node.target.outcome = Outcome.REFERENCE
        node.next_step = draft.result
        node.next_node = node.children.pop(draft.branch, None)
        self._drop_rest(node)

    def _refuse(self, node: _Node, draft: Generate) -> None:
        draft.outcome = Outcome.REJECTED
        self._cut(node.children.pop(draft.branch, None))
        node.refused += 1
        if node.refused == self.width:
            self._take_target(node)

    def _take_target(self, node: _Node) -> None:
        """All drafts refused: the target's own step is the correction, and drafting restarts after it at once."""
        assert node.target is not None
        node.target.outcome = Outcome.COMMITTED
        node.next_step = step = node.target.result
        if not step.final:
            node.next_node = _Node(step)
            self._open(node.next_node)

    def _drop_rest(self, node: _Node) -> None:
        """Abandon the drafts of a node that are still undecided, and the branches that hang on them."""
        self._discard(node.drafts)
        self._discard(node.verifies)
        for child in node.children.values():
            self._cut(child)
        node.children.clear()

    def _cut(self, top: _Node | None) -> None:
        for node in _subtree(top):
            node.alive = False
            if node.target is not None:
                self._discard((node.target,), decided=True)
            self._discard(node.drafts, decided=True)
            self._discard(node.verifies, decided=True)

    def _discard(self, operations: Iterable[Operation], *, decided: bool = False) -> None:
        """Abandon operations; on a branch that is cut, even a decided one no longer counts for what it was."""
        for operation in operations:
            if decided or operation.outcome is Outcome.PENDING:
                operation.outcome = Outcome.DISCARDED
                if operation.result is None:
                    self.actions.append(Cancel(operation))

    def _advance(self) -> None:
        """Commit what is resolved, in order; then start what the moved window lets in."""
        while (step := self.root.next_step) is not None:
            self.actions.append(Commit(step))
            if step.final:
                self._end()
                return
            assert self.root.next_node is not None
            self.root = self.root.next_node
        waiting, self.waiting = self.waiting, []
        for node in waiting:
            if node.alive and node.waiting:
                self._open(node)

    def _end(self) -> None:
        self.ended = True
        before = len(self.actions)
        self._drop_rest(self.root)
        self._cut(self.root.next_node)
        if not self.rules.cancel_at_end:
            self.actions[before:] = [a for a in self.actions[before:] if not isinstance(a, Cancel)]


def _subtree(top: _Node | None) -> Iterator[_Node]:
    stack = [] if top is None else [top]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children.values())
        if node.next_node is not None:
            stack.append(node.next_node)
