"""Trees by rank: the dynamic programme against every tree there is, and the published search's figures."""

from collections.abc import Iterator, Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from theory.drafting.ranked_trees import fastest_tree
from theory.errors import ParameterError

RANKS = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4).filter(lambda p: sum(p) > 0.0)


@cache
def forests(nodes: int, trees: int) -> tuple[tuple[object, ...], ...]:
    """Every ordered forest of so many nodes in at most so many trees, each a tuple of its children's forests."""
    if nodes == 0:
        return ((),)
    if trees == 0:
        return ()
    return tuple(
        (first, *rest)
        for size in range(1, nodes + 1)
        for first in forests(size - 1, nodes)
        for rest in forests(nodes - size, trees - 1)
    )


def shapes(nodes: int, ranks: int) -> Iterator[list[int]]:
    """Parents of every tree of so many nodes, none with more children than there are ranks."""
    for root in forests(nodes - 1, nodes):
        parents, left = [-1], [(0, root)]
        while left:
            node, children = left.pop()
            for child in children:  # type: ignore[attr-defined]
                left.append((len(parents), child))
                parents.append(node)
        if max(parents.count(node) for node in range(nodes)) <= ranks or nodes == 1:
            yield parents


def levels_of(parents: Sequence[int]) -> int:
    depths = [0]
    for parent in parents[1:]:
        depths.append(depths[parent] + 1)
    return max(depths) + 1


def tree_tokens(parents: Sequence[int], by_rank: Sequence[float]) -> float:
    """The tokens of a pass: the sum over nodes of the probability that each is reached."""
    reached, ranks = [1.0], [iter(by_rank) for _ in parents]
    for parent in parents[1:]:
        reached.append(reached[parent] * next(ranks[parent], 0.0))
    return sum(reached)


def test_there_are_as_many_ordered_trees_as_catalan_has() -> None:
    assert [len(list(shapes(n, n))) for n in range(1, 8)] == [1, 1, 2, 5, 14, 42, 132]


def test_the_search_of_sequoia_on_its_demonstration_machine() -> None:
    """``demo-config.json`` has draft 0.3 and target 10, 10, 10, 12, 14, 18 at 1, 2, 4, ..., 32 positions.

    Its acceptance vector is published as a binary file only. The printed answer, 4.8878 at 4 positions on 4 levels and
    2.0459 times as fast, is that of a chain, (10 + 4 x 0.3) / (1 + p + p**2 + p**3), so that its p_1 is 0.63418.
    """
    target = dict(zip((1, 2, 4, 8, 16, 32), (10.0, 10.0, 10.0, 12.0, 14.0, 18.0), strict=True))
    found = fastest_tree([0.63418, 0.09, 0.03], 0.3, target, levels=10)
    assert (found.tree.parents, found.tree.levels) == ((-1, 0, 1, 2), 4)
    assert (round(found.seconds_per_token, 4), round(found.speedup, 4)) == (4.8878, 2.0459)


@given(
    p=RANKS,
    draft=st.floats(0.0, 2.0),
    seconds=st.dictionaries(st.integers(1, 7), st.floats(1.0, 3.0), min_size=1, max_size=6),
    levels=st.integers(1, 7),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_no_tree_is_faster_on_a_machine(p: list[float], draft: float, seconds: dict[int, float], levels: int) -> None:
    p = [share / max(sum(p), 1.0) for share in p]
    trees = [shape for n in seconds for shape in shapes(n, len(p)) if levels_of(shape) <= levels]
    if not trees:
        with pytest.raises(ParameterError, match=r"target_s=.* must have at most"):
            fastest_tree(p, draft, seconds, levels)
        return
    times = [(levels_of(tree) * draft + seconds[len(tree)]) / tree_tokens(tree, p) for tree in trees]
    found = fastest_tree(p, draft, seconds, levels)
    assert found.seconds_per_token == pytest.approx(min(times), rel=1e-12)
    assert found.speedup == pytest.approx(seconds[min(seconds)] / min(times), rel=1e-12)
    best = found.tree
    assert tree_tokens(best.parents, p) == pytest.approx(best.tokens, rel=1e-12)
    assert (best.nodes, levels_of(best.parents)) == (len(best.parents), best.levels)
    taken = best.levels * draft + seconds[best.nodes]
    assert taken / best.tokens == pytest.approx(min(times), rel=1e-12)
    assert best.levels <= levels


test_impossible_arguments_are_refused = refused(
    lambda by_rank, nodes, levels: fastest_tree(by_rank, 0.0, dict.fromkeys(nodes, 1.0), levels),
    ([0.7, 0.6], [3], 64, "by_rank=.*at most 1 in all"),
    ([0.5], [0], 64, "nodes=0"),
    ([0.5], [3], 2, "must have at most 2 positions: trees of 1 ranks on 2 levels hold no more"),
    ([1.5], [3], 64, r"by_rank\[0\]=1.5"),
    ([0.5], [], 64, "target_s={} must have"),
)
