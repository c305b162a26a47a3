r"""Draft trees whose acceptance depends on the rank of a draft among its siblings (Sequoia's positional acceptance).

A node stands for a token; its children are drafts of the next token, the likeliest first. At most one child of a node
is accepted: the r-th with probability p_r, whatever the node. A pass then commits, the target's own token included,

.. math:: F(T) = \sum_{v \in T} \prod_{u \in path(v)} p_{rank(u)}

tokens on average, where the root counts 1 and the sum of all p_r is at most 1.

Method. The best tree of m nodes on at most d levels is a root with children that are best trees of their own, so that a
dynamic programme over levels, ranks and nodes finds it: with C(b, m) the best b children of m nodes in all,

.. math:: G(d, m) = 1 + \max_b C(b, m - 1), \qquad C(b, m) = \max_y C(b - 1, m - y) + p_b G(d - 1, y).

Source: Chen et al. 2024, "Sequoia: Scalable, Robust, and Hardware-aware Speculative Decoding", arXiv:2402.12374: its
positional acceptance, its tree construction, and its search for the tree of a machine (``tree_search.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from theory import checks
from theory.checks import FloatArray, IntArray
from theory.errors import ParameterError

__all__ = ["MAX_LEVELS", "MAX_NODES", "FastestTree", "RankedTree", "fastest_tree"]

MAX_NODES: Final = 1024
"""Largest tree, and most ranks."""
MAX_LEVELS: Final = 64

_SUM_RTOL: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTree:
    """A draft tree; node 0 is the root, the last token that is certain."""

    parents: tuple[int, ...]
    """Parent of each node, -1 of the root; siblings in the order of their ranks."""
    tokens: float
    """Mean tokens that a pass over the tree commits, the target's own one included, >= 1."""

    @property
    def nodes(self) -> int:
        """Positions that the target verifies in a pass, the root included."""
        return len(self.parents)

    @property
    def levels(self) -> int:
        """Levels of the tree, the root's included: a chain of n nodes has n."""
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return max(depths) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FastestTree:
    """The tree with which a token takes the least time."""

    tree: RankedTree
    seconds_per_token: float
    speedup: float
    """Over plain decoding, [-]; below 1 if drafting loses at every size."""


def fastest_tree(
    by_rank: ArrayLike, draft_s: float, target_s: Mapping[int, float], levels: int = MAX_LEVELS
) -> FastestTree:
    """The tree with which a token takes the least time on a machine.

    A pass over a tree of m nodes on d levels takes ``d * draft_s + target_s[m]``: the drafter is run once for each
    level (for the last one so that its cache holds all that may be accepted, as the authors' search counts).

    Parameters
    ----------
    by_rank : p_1, p_2, ..., [-], in [0, 1], one row whose sum is at most 1; ranks beyond it are never accepted.
    draft_s : time of a pass of the drafter over a level, s, >= 0.
    target_s : seconds of a target pass by its positions, > 0; the sizes of trees to consider, in [1, 1024]. That of the
        fewest positions is taken for plain decoding's.
    levels : most levels, in [1, 64].

    Returns
    -------
    The fastest; of equally fast ones that with the fewest nodes, then the fewest levels.

    Raises
    ------
    ParameterError : an argument outside its domain, or more positions than so many ranks and levels hold.

    References
    ----------
    Sequoia (module docstring).

    >>> fastest = fastest_tree([0.6, 0.2], 0.5, {1: 10.0, 2: 10.0, 4: 10.0, 8: 14.0})
    >>> fastest.tree.nodes, fastest.tree.levels, round(fastest.seconds_per_token, 2)
    (4, 3, 5.32)
    """
    p = checks.probability("by_rank", by_rank)
    if p.ndim != 1 or p.size > MAX_NODES or float(p.sum()) > 1.0 + _SUM_RTOL:
        rule = f"must be one row of at most {MAX_NODES} probabilities, at most 1 in all"
        raise ParameterError("by_rank", by_rank, rule)
    depth = checks.scalar_count("levels", levels, maximum=MAX_LEVELS)
    draft = checks.single("draft_s", checks.nonnegative("draft_s", draft_s), draft_s)
    sizes = sorted(checks.scalar_count("nodes", size, maximum=MAX_NODES) for size in target_s)
    if not sizes:
        raise ParameterError("target_s", {}, "must have the seconds of a pass of one size at least")
    seconds = {
        size: checks.single(f"target_s[{size}]", checks.positive("target_s", target_s[size]), target_s[size])
        for size in sizes
    }
    grown = _Grown(p, sizes[-1], min(depth, sizes[-1]))
    known = [(size, d) for size in sizes for d in range(1, len(grown.tokens)) if grown.tokens[d][size] > 0.0]
    if not known:
        most = int(np.flatnonzero(grown.tokens[-1] > 0.0).max())
        rule = f"must have at most {most} positions: trees of {p.size} ranks on {depth} levels hold no more"
        raise ParameterError("target_s", sizes, rule)
    times = {(size, d): (d * draft + seconds[size]) / float(grown.tokens[d][size]) for size, d in known}
    size, d = min(times, key=lambda place: times[place])  # the first of equals
    return FastestTree(
        tree=grown.tree(d, size), seconds_per_token=times[size, d], speedup=seconds[sizes[0]] / times[size, d]
    )


class _Grown:
    """The best trees of up to so many nodes, by levels: their tokens, and how their nodes are split among children."""

    def __init__(self, p: FloatArray, nodes: int, levels: int) -> None:
        nothing = np.full(nodes + 1, -np.inf)
        self.tokens = [nothing]
        """By levels, then nodes; -inf where there is no such tree."""
        self._widths = [np.zeros(nodes + 1, dtype=np.int64)]
        self._splits: list[list[IntArray]] = [[]]
        lag = np.subtract.outer(np.arange(nodes + 1), np.arange(nodes + 1))
        for _ in range(levels):
            self._grow(p, lag, self.tokens[-1])

    def _grow(self, p: FloatArray, lag: IntArray, below: FloatArray) -> None:
        """Add a level above the best trees ``below``."""
        nodes = below.size - 1
        children = np.full(nodes + 1, -np.inf)
        children[0] = 0.0
        best, widths, splits = children, np.zeros(nodes + 1, dtype=np.int64), []
        for rank, chance in enumerate(p[:nodes], 1):
            last = np.where(below > 0.0, chance * np.maximum(below, 0.0), -np.inf)
            sums = np.where(lag >= 0, children[np.maximum(lag, 0)] + last, -np.inf)
            split = sums.argmax(axis=1)
            children = sums[np.arange(nodes + 1), split]
            splits.append(split)
            widths = np.where(children > best, rank, widths)
            best = np.maximum(best, children)
        self.tokens.append(np.concatenate([[-np.inf], 1.0 + best[:-1]]))
        self._widths.append(np.concatenate([[0], widths[:-1]]))
        self._splits.append(splits)

    def tree(self, levels: int, nodes: int) -> RankedTree:
        """The best tree of so many nodes on at most so many levels."""
        parents, left = [-1], [(0, levels, nodes)]
        while left:
            node, depth, size = left.pop()
            for child in self._children(depth, size):
                left.append((len(parents), depth - 1, child))
                parents.append(node)
        return RankedTree(parents=tuple(parents), tokens=float(self.tokens[levels][nodes]))

    def _children(self, levels: int, nodes: int) -> list[int]:
        """Nodes of each child's tree, the first rank first."""
        left, sizes = nodes - 1, []
        for rank in range(int(self._widths[levels][nodes]), 0, -1):
            sizes.append(int(self._splits[levels][rank - 1][left]))
            left -= sizes[-1]
        return sizes[::-1]
