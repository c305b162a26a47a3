"""The scheduler that the authors of Lookahead Reasoning released, replayed as a machine that polls; no code of `sim`.

Facts of ``lr.py`` and ``lr_tree.py`` (github.com/hao-ai-lab/LookaheadReasoning). The tree has a node per text. One
turn of the loop: every node whose draft has ended gets a target request and, if it lies fewer than ``max_depth`` levels
below the root, its children with their drafts; target steps that have ended are collected; verdicts are asked wherever
a target step and a child's draft exist; then, as long as the root has its target step and all verdicts that were asked
about its children are there, the first accepted child becomes the root, or else a new root takes up after the target's
step, and the turn ends. Whatever else hangs on the old root is thrown away. Turns follow each other without pause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What the models would write and say, by position; drafts and verdicts by branch first."""

    target_s: Sequence[float]
    draft_s: Sequence[Sequence[float]]
    accepted: Sequence[Sequence[bool]]
    target_truncated: Sequence[bool]
    draft_truncated: Sequence[Sequence[bool]]
    verify_s: float


@dataclass(slots=True)
class _Node:
    position: int
    """Of its target step."""
    branch: int
    draft_end: float
    """When its own text, the prefix of its target step, is there."""
    whole: bool
    """Whether that text ends where a step ends."""
    target_end: float = inf
    collected: bool = False
    verdict_at: float | None = None
    """When the verdict on its own text is there; None: not asked yet."""
    passes: bool = False
    children: list[_Node] | None = field(default=None)


def commit_times(texts: Texts, *, max_depth: int) -> list[float]:
    """Return when each position is decided, s, from the start of the answer."""
    last = len(texts.target_s) - 1
    root, now, times = _Node(0, 0, 0.0, whole=False), 0.0, []
    while True:
        moved = _start(root, root, texts, max_depth, now)
        moved |= _judge(root, texts, now)
        while root.collected and _verdicts_are_in(root, now):
            times.append(now)
            if root.position == last:
                return times
            moved = True
            winner = next((child for child in root.children or () if child.passes), None)
            if winner is None:
                root = _Node(root.position + 1, 0, now, whole=not texts.target_truncated[root.position])
                break
            root = winner
        if not moved:
            now = min(time for time in _events(root) if time > now)


def _start(node: _Node, root: _Node, texts: Texts, max_depth: int, now: float) -> bool:
    """Start the target steps and drafts that can start; collect the target steps that have ended."""
    moved = False
    if node.draft_end <= now:
        if node.target_end == inf:
            node.target_end, moved = now + texts.target_s[node.position], True
        if node.children is None and node.position - root.position < max_depth:
            node.children, moved = _children(node, texts, now), True
    for child in node.children or ():
        moved |= child.position < len(texts.target_s) and _start(child, root, texts, max_depth, now)
    if node.target_end <= now and not node.collected:
        node.collected = moved = True
    return moved


def _children(node: _Node, texts: Texts, now: float) -> list[_Node]:
    at = node.position
    return [
        _Node(at + 1, branch, now + seconds[at], whole=not texts.draft_truncated[branch][at])
        for branch, seconds in enumerate(texts.draft_s)
    ]


def _judge(node: _Node, texts: Texts, now: float) -> bool:
    """Ask about every draft whose counterpart is there; a draft after half a step is refused without asking."""
    moved = False
    for child in node.children or ():
        if node.collected and child.draft_end <= now and child.verdict_at is None:
            child.verdict_at, moved = now + (texts.verify_s if node.whole else 0.0), True
            child.passes = node.whole and texts.accepted[child.branch][node.position]
        moved |= _judge(child, texts, now)
    return moved


def _verdicts_are_in(root: _Node, now: float) -> bool:
    """Drafts that are still being written do not count."""
    drafted = [child for child in root.children or () if child.draft_end <= now]
    return all(child.verdict_at is not None and child.verdict_at <= now for child in drafted)


def _events(node: _Node) -> Iterator[float]:
    """Moments at which something of a subtree ends."""
    yield node.draft_end
    yield node.target_end
    if node.verdict_at is not None:
        yield node.verdict_at
    for child in node.children or ():
        yield from _events(child)
