"""Lookahead Reasoning, asynchronous (Fu et al. 2025, section 3.1, "Asynchronous Generation", and Appendix B.1.1).

The state is a tree of nodes, one per prefix. A node owns the target's step after its prefix and ``width`` drafts of
that step. A finished draft opens a child; a node whose drafts are all refused opens a child after the target's own
step. The root advances, and commits, as nodes are resolved. Only nodes fewer than ``k1`` levels below the root work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from sim.algorithms.checks import CHECK_KNOBS, JUDGED, Check
from sim.algorithms.rules import PAPER, PRESETS, Rules, check_counts
from sim.catalogue import Knob, Method
from sim.operations import (
    DRAFT,
    JUDGE,
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

__all__ = ["LOOKAHEAD_KNOBS", "METHODS", "lookahead_async", "most_sequences"]

_DISCARDED: Final = Outcome.DISCARDED


def lookahead_async(root: Step, *, k1: int, width: int = 1, rules: Rules = PAPER, check: Check = JUDGED) -> Algorithm:
    """Generate the answer to ``root`` by asynchronous Lookahead Reasoning.

    Parameters
    ----------
    root : the prompt.
    k1 : target steps in flight along one path, >= 1 (1 is autoregressive decoding that also drafts in vain).
    width : drafts per position, >= 1 (the paper's W); targets in flight grow as ``width ** depth``.
    rules : scheduling rules; `PAPER` or `RELEASED_CODE`, or your own.
    check : who decides about a draft, and how.

    Raises
    ------
    ParameterError : ``k1`` or ``width`` is not a positive integer.
    """
    check_counts(k1, width)
    return _run(_Lookahead(root, k1 + rules.extra_in_flight, width, rules, check))


def _run(state: _Lookahead) -> Algorithm:
    actions = state.actions
    while True:
        yield from actions
        actions.clear()
        if state.ended:
            return
        state.on_done((yield WAIT))


class _Node:
    """One prefix: the target's step after it, the drafts of that step, and what became of them.

    An operation's ``tag`` is the node that waits for it; a draft that has ended is tagged with the node that grew from
    it. The tag goes when the operation no longer matters, so that no cycle of references keeps the node alive.
    """

    __slots__ = (
        "alive",
        "drafts",
        "next_node",
        "next_step",
        "prefix",
        "refused",
        "target",
        "verifies",
        "waiting",
    )

    drafts: tuple[Generate, ...]
    verifies: tuple[Verify, ...]

    def __init__(self, prefix: Step) -> None:
        self.prefix = prefix
        self.target: Generate | None = None
        self.drafts = ()
        self.verifies = ()
        self.refused = 0  # drafts refused so far
        self.next_step: Step | None = None  # the step that follows the prefix, once resolved
        self.next_node: _Node | None = None
        self.waiting = False  # outside the window: something of it is yet to start
        self.alive = True


class _Lookahead:
    """The tree and its rules. Methods append to ``actions``; the generator above yields them."""

    __slots__ = ("actions", "check", "ended", "judges_all", "root", "rules", "waiting", "width", "window")

    def __init__(self, root: Step, window: int, width: int, rules: Rules, check: Check) -> None:
        self.actions: list[Action] = []
        self.window = window
        self.width = width
        self.rules = rules
        self.check = check
        self.judges_all = not (rules.reject_first or rules.reject_after_truncation)
        self.waiting: list[_Node] = []
        self.ended = root.final
        self.root = _Node(root)
        if not self.ended:
            self._open(self.root)

    def on_done(self, done: Operation) -> None:
        node: _Node = done.tag
        if done.__class__ is Verify:
            self._on_verdict(node, done)
        elif done.role == TARGET:
            self._on_target(node)
        else:
            self._on_draft(node, done)  # type: ignore[arg-type]  # only Generate is left
        if self.root.next_step is not None:
            self._advance()

    def _open(self, node: _Node) -> None:
        """Start what the window lets a node start: its target step, and its drafts."""
        room = self.window - node.prefix.depth + self.root.prefix.depth
        if room <= 0:
            self._wait(node)
            return
        node.waiting = False
        if node.target is None:
            node.target = target = Generate(TARGET, node.prefix, 0, node)
            self.actions.append(target)
        if node.drafts:
            return
        if room > 1 or self.rules.prefetch_draft:
            self._start_drafts(node)
        else:
            self._wait(node)

    def _start_drafts(self, node: _Node) -> None:
        if self.width == 1:
            drafts: tuple[Generate, ...] = (Generate(DRAFT, node.prefix, 0, node),)
        else:
            drafts = tuple(Generate(DRAFT, node.prefix, branch, node) for branch in range(self.width))
        node.drafts = drafts
        self.actions += drafts

    def _wait(self, node: _Node) -> None:
        node.waiting = True
        self.waiting.append(node)

    def _on_draft(self, node: _Node, draft: Generate) -> None:
        step: Step = draft.result
        if step.final:
            draft.tag = None
        else:
            draft.tag = child = _Node(step)
            self._open(child)
        target = node.target
        if target is not None and target.result is not None:
            self._judge(node, draft)

    def _on_target(self, node: _Node) -> None:
        node.waiting = False  # drafts that have not started by now never will
        for draft in node.drafts:
            if draft.result is not None:
                self._judge(node, draft)
            elif self.rules.late_draft == "cancel" or self._refuses(node):
                self.actions.append(Cancel(draft))
                self._refuse(node, draft)
        if not node.drafts:
            self._take_target(node)

    def _refuses(self, node: _Node) -> bool:
        """Whether the node's drafts are refused unjudged."""
        prefix = node.prefix
        return not self.judges_all and self.rules.refuses_unjudged(prefix.depth, prefix.truncated)

    def _judge(self, node: _Node, draft: Generate) -> None:
        """Put a draft before the verifier; both texts exist, and no sibling has been accepted."""
        if self._refuses(node):
            self._refuse(node, draft)
            return
        self._ask(node, self.check.ask(draft.result, node.target.result, draft.branch, node))  # type: ignore[union-attr]

    def _ask(self, node: _Node, verify: Verify) -> None:
        node.verifies = (*node.verifies, verify) if node.verifies else (verify,)
        self.actions.append(verify)

    def _on_verdict(self, node: _Node, verify: Verify) -> None:
        appeal = self.check.appeal(verify)
        if appeal is not None:
            verify.outcome = Outcome.ESCALATED
            self._ask(node, appeal)
            return
        draft = node.drafts[verify.branch]
        if not verify.result.accepted:
            verify.outcome = Outcome.REJECTED
            self._refuse(node, draft)
            return
        verify.outcome = draft.outcome = Outcome.ACCEPTED
        node.target.outcome = Outcome.REFERENCE  # type: ignore[union-attr]  # it has been judged against
        node.next_step = draft.result
        node.next_node, draft.tag = draft.tag, None
        if self.width > 1:
            self._drop_siblings(node)

    def _refuse(self, node: _Node, draft: Generate) -> None:
        draft.outcome = Outcome.REJECTED
        if draft.tag is not None and draft.tag is not node:
            self._cut(draft.tag)
        draft.tag = None
        node.refused += 1
        if node.refused == self.width:
            self._take_target(node)

    def _take_target(self, node: _Node) -> None:
        """All drafts refused: the target's own step is the correction, and drafting restarts after it at once."""
        target = node.target
        assert target is not None
        target.outcome = Outcome.COMMITTED
        node.next_step = step = target.result
        if not step.final:
            node.next_node = _Node(step)
            self._open(node.next_node)

    def _drop_siblings(self, node: _Node) -> None:
        """Abandon what is still undecided at a node, and the branches that hang on it."""
        for draft in node.drafts:
            if draft.tag is not None and draft.tag is not node:
                self._cut(draft.tag)
            draft.tag = None
            if draft.outcome is Outcome.PENDING:
                self._discard(draft)
        for verify in node.verifies:
            if verify.outcome is Outcome.PENDING:
                self._discard(verify)

    def _cut(self, top: _Node) -> None:
        """Abandon a subtree. Even what was decided in it no longer counts for what it was."""
        stack = [top]
        while stack:
            node = stack.pop()
            node.alive = False
            if node.target is not None:
                self._discard(node.target)
            for draft in node.drafts:
                if draft.tag is not None and draft.tag is not node:
                    stack.append(draft.tag)
                self._discard(draft)
            for verify in node.verifies:
                self._discard(verify)
            if node.next_node is not None:
                stack.append(node.next_node)

    def _discard(self, operation: Operation) -> None:
        operation.outcome = _DISCARDED
        operation.tag = None
        if operation.result is None and not operation.cancelled:
            self.actions.append(Cancel(operation))

    def _advance(self) -> None:
        """Commit what is resolved, in order; then start what the moved window lets in."""
        root = self.root
        while (step := root.next_step) is not None:
            self.actions.append(Commit(step))
            if step.final:
                self._end(root)
                return
            _forget(root)
            assert root.next_node is not None
            root = self.root = root.next_node
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            for node in waiting:
                if node.alive and node.waiting:
                    self._open(node)

    def _end(self, root: _Node) -> None:
        """Abandon what the last step leaves behind; or let it run on, as far as it hangs on this last event."""
        self.ended = True
        self._drop_siblings(root)
        _forget(root)
        if not self.rules.cancel_at_end:
            self.actions[:] = [
                action
                for action in self.actions
                if not (isinstance(action, Cancel) and action.operation.outcome is _DISCARDED)
            ]


def _forget(node: _Node) -> None:
    """Break the cycles of references through a node that is done."""
    node.target.tag = None  # type: ignore[union-attr]  # a node that is done has one
    for draft in node.drafts:
        draft.tag = None
    for verify in node.verifies:
        verify.tag = None


def most_sequences(*, k1: int, width: int, rules: str, **knobs: object) -> int:
    """Return the target sequences in flight at the worst moment: one per node of a full tree of the window's depth."""
    return int(sum(width**level for level in range(k1 + PRESETS[rules].extra_in_flight)))


def _build(
    *, k1: int, width: int, rules: str, verifier: str, threshold: float | None, gamma: float
) -> Callable[[Step], Algorithm]:
    check = Check(verifier=verifier, threshold=threshold, gamma=gamma)
    return partial(lookahead_async, k1=k1, width=width, rules=PRESETS[rules], check=check)


LOOKAHEAD_KNOBS: Final = (
    Knob(name="k1", kind="integer", default=4, low=1, high=1024, help="target steps in flight along one path"),
    Knob(name="width", kind="integer", default=1, low=1, high=1024, help="drafts per position (W)"),
    Knob(name="rules", kind="choice", default="paper", choices=tuple(PRESETS), help="schedule"),
    *CHECK_KNOBS,
)

METHODS = (
    Method(
        name="lr-async",
        title="LR async",
        paper="Fu et al. 2025 (Lookahead Reasoning), section 3.1 and Appendix B.1.1; Theorem 2",
        level="step",
        algorithm=_build,
        knobs=LOOKAHEAD_KNOBS,
        roles=(DRAFT, JUDGE),
        exact="Theorem 2 for constant step times, independent acceptance and free verdicts",
        measured="step lengths, acceptance and scores along recorded answers; engine timings",
        closed_form="theory.speedup.f_async",
        in_flight=most_sequences,
    ),
)
