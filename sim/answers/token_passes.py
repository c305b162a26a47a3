"""Tokens per pass below the step level: how many passes of its engine a step takes with token-level speculation.

A pass commits a random number of tokens. A `PassSource` returns the tokens of each pass of a step: drawn (independent
passes of a known distribution) or recorded (the passes of recorded requests of about that length); the last pass is
cut where the step ends, as an engine cuts it at a stop string. `SpeculatedAnswer` adds the passes to any answer, so
that every algorithm runs on it unchanged, and `sim.engines.batching.BatchEngine` simulates the passes.

Draws are indexed by answer, role, depth and branch, never by time: all schedules use the same passes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from sim.operations import Generate, Step
from sim.passes import Passes
from sim.random_streams import bits_at, place_of, stream
from sim.virtual_clock import Answer
from theory.errors import ParameterError

__all__ = ["DrawnPasses", "PassSource", "PassedStep", "RecordedPasses", "SpeculatedAnswer", "cut"]


class PassedStep(Step):
    """A step with the passes of its request; the first token comes from the prefill."""

    __slots__ = ("passes",)

    def __init__(self, step: Step, passes: Passes) -> None:
        super().__init__(step.parent, step.role, step.n_tokens, step.final, step.truncated, step.payload)
        self.passes = passes


class PassSource(Protocol):
    """Source of the tokens that the passes of a step commit."""

    def passes(self, index: int, operation: Generate, n_tokens: int) -> Passes:
        """Return the passes of a step of answer ``index``; they commit ``n_tokens`` in all, each at least 1."""


def cut(passes: Iterable[int], n_tokens: int) -> tuple[int, ...]:
    """Return the first passes that commit ``n_tokens`` tokens in all; the last one is cut to meet that number.

    >>> cut([3, 3, 3], 5), cut([3], 0)
    ((3, 2), ())
    """
    result = []
    left = n_tokens
    for tokens in passes:
        if left <= 0:
            break
        result.append(min(tokens, left))
        left -= tokens
    return tuple(result)


_AMPLE, _MORE = 1.05, 24
"""Passes drawn in the first batch: this multiple of the mean number of passes, plus this many."""
_KEPT = 10_000
"""Steps of which a source knows the passes: all configurations that are compared use the same steps."""
_AT_ONCE = 1 << 14
"""Passes of many requests that are drawn at once: what is computed of them stays in a core's cache."""

_Words: TypeAlias = NDArray[np.uint64]
_Step = tuple[int, str, int, int, int]
_Kept = TypeVar("_Kept")


def _drawn_once(
    known: dict[_Step, _Kept],
    draw: Callable[[int, Generate, int], _Kept],
    index: int,
    operation: Generate,
    n_tokens: int,
) -> _Kept:
    """What ``draw`` returns for a step, cached."""
    key = index, operation.role, operation.branch, operation.prefix.depth, n_tokens
    kept = known.get(key)
    if kept is None:
        if len(known) >= _KEPT:
            known.clear()
        kept = known[key] = draw(index, operation, n_tokens)
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPasses:
    """Independent passes of one distribution.

    Of a step only the number of passes is kept: their tokens are functions of their place (`sim.random_streams`), and
    computed again where somebody asks for them.

    Raises
    ------
    ParameterError : no row of probabilities that sum to 1.
    """

    pmf: tuple[float, ...]
    """P(a pass commits 1, 2, ..., k2 tokens), [-]; sums to 1."""
    seed: int = 0
    edges: NDArray[np.uint64] = field(init=False, repr=False, compare=False)
    """A pass commits more than i tokens where its 64 random bits are not below the i-th of these."""
    _mean: float = field(init=False, repr=False, compare=False)
    _known: dict[_Step, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        p = np.asarray(self.pmf, dtype=np.float64)
        if p.ndim != 1 or not p.size or not (p >= 0.0).all() or abs(float(p.sum()) - 1.0) > 1e-9:
            raise ParameterError("pmf", self.pmf, "must be one row of probabilities that sum to 1")
        edges = [int(edge * 2.0**64) for edge in np.cumsum(p)[:-1].tolist()]
        object.__setattr__(self, "edges", np.array([edge for edge in edges if edge < 2**64], dtype=np.uint64))
        object.__setattr__(self, "_mean", float(p @ np.arange(1, p.size + 1)))

    def passes(self, index: int, operation: Generate, n_tokens: int) -> Passes:
        """Return the passes of a step."""
        n = _drawn_once(self._known, self._number, index, operation, n_tokens)
        return Passes(n, partial(self._ends, index, operation.role, operation.branch, operation.prefix.depth, n_tokens))

    def committed(self, index: int, role: str, depth: int, n_tokens: int, n: int) -> int:
        """Return the tokens that the first ``n`` of the passes of a step, on branch 0, commit."""
        return int(self._ends(index, role, 0, depth, n_tokens)[n - 1]) if n > 0 else 0

    def numbers(
        self, indices: NDArray[np.int64], role: str, depths: NDArray[np.int64], n_tokens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return how many passes steps on branch 0 have, those that `passes` returns, shape (steps,).

        ``depths`` are those of the prefixes, -1 for the prompt; passes commit ``n_tokens`` >= 0; all of shape (steps,).
        """
        places = self.places(indices, role, depths)
        numbers = np.zeros(n_tokens.size, dtype=np.int64)
        ample = np.minimum((_AMPLE * n_tokens / self._mean).astype(np.int64) + _MORE, n_tokens)
        for part in np.split(np.arange(n_tokens.size), np.flatnonzero(np.diff(np.cumsum(ample) // _AT_ONCE)) + 1):
            numbers[part] = self._counted(places[part], n_tokens[part], ample[part])
        missed = np.flatnonzero(numbers < 0)
        for step in missed.tolist():
            numbers[step] = self._counted(places[[step]], n_tokens[[step]], n_tokens[[step]])[0]
        return numbers

    def places(self, indices: NDArray[np.int64], role: str, depths: NDArray[np.int64]) -> _Words:
        """Return from where on `bits_at` has the bits of steps' passes; parameters are those of `numbers`."""
        first = np.uint64(place_of(self.seed, f"passes/{role}/0"))
        return bits_at(bits_at(first, indices.astype(np.uint64)), (depths + 1).astype(np.uint64))

    def _counted(self, places: _Words, n_tokens: NDArray[np.int64], n_drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of the passes drawn for each step commit its tokens; -1 where they do not suffice."""
        after = np.cumsum(n_drawn)
        before = after - n_drawn
        within = np.arange(after[-1] if after.size else 0) - np.repeat(before, n_drawn)
        ends = np.cumsum(self._tokens(np.repeat(places, n_drawn), within.view(np.uint64)), dtype=np.int64)
        gone = np.where(before > 0, ends[before - 1], 0) if ends.size else before
        last = np.searchsorted(ends, gone + n_tokens)  # the pass that commits the last token
        return np.where(n_tokens == 0, 0, np.where(last < after, last - before + 1, -1))

    def _number(self, index: int, operation: Generate, n_tokens: int) -> int:
        return self._ends(index, operation.role, operation.branch, operation.prefix.depth, n_tokens).size

    def _ends(self, index: int, role: str, branch: int, depth: int, n_tokens: int) -> NDArray[np.int64]:
        """Tokens that the first passes of a step commit in all; the last one is cut where the step ends."""
        place = np.uint64(place_of(self.seed, f"passes/{role}/{branch}", index, depth + 1))
        # Enough passes for nearly every step; where they do not suffice, the same numbers are drawn again with more.
        for n in (min(int(_AMPLE * n_tokens / self._mean) + _MORE, n_tokens), n_tokens):
            ends = np.cumsum(self._tokens(place, np.arange(n, dtype=np.uint64)), dtype=np.int64)
            if n == n_tokens or ends[-1] >= n_tokens:
                break
        ends = ends[: int(np.searchsorted(ends, n_tokens)) + 1]
        return np.minimum(ends, n_tokens)

    def _tokens(self, places: _Words | np.uint64, counts: _Words) -> NDArray[np.uint16]:
        """Tokens of passes; comparing all with each of the few edges takes less time than to search for each."""
        bits = bits_at(places, counts)
        tokens = np.ones(bits.shape, dtype=np.uint16)
        for edge in self.edges:
            tokens += bits >= edge
        return tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPasses:
    """Passes of recorded requests: a step takes the passes of a random one of the recorded requests nearest in length.

    Acceptance is correlated within a step, and short steps are other text than long ones. Where the request is shorter
    than the step, another request is drawn for the rest.

    Raises
    ------
    ParameterError : no request, or one whose passes do not sum to its tokens at least.
    """

    requests: tuple[tuple[int, tuple[int, ...]], ...]
    """Per request: its generated tokens, and the tokens that each pass committed before the last one was cut."""
    seed: int = 0
    neighbours: int = 12
    """Least number of requests to draw from: the nearest in length, all that are equally near."""
    _sorted: list[tuple[int, tuple[int, ...]]] = field(init=False, repr=False, compare=False)
    _lengths: list[int] = field(init=False, repr=False, compare=False)
    _known: dict[_Step, Passes] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        ordered = sorted(request for request in self.requests if request[0] > 0)
        if not ordered or any(sum(passes) < n or min(passes) < 1 for n, passes in ordered):
            raise ParameterError("requests", len(ordered), "must be recorded, each with passes that commit its tokens")
        object.__setattr__(self, "_sorted", ordered)
        object.__setattr__(self, "_lengths", [n for n, _ in ordered])

    def passes(self, index: int, operation: Generate, n_tokens: int) -> Passes:
        """Return the passes of a step."""
        return _drawn_once(self._known, self._draw, index, operation, n_tokens)

    def _draw(self, index: int, operation: Generate, n_tokens: int) -> Passes:
        if n_tokens <= 0:
            return Passes.of(())
        first, last = self._nearest(n_tokens)
        name = f"passes/{operation.role}/{operation.branch}/{operation.prefix.depth + 1}"
        drawn = stream(self.seed, name, index).integers(first, last, 1 + n_tokens)
        return Passes.of(cut(chain.from_iterable(self._sorted[i][1] for i in drawn.tolist()), n_tokens))

    def _nearest(self, n_tokens: int) -> tuple[int, int]:
        """The range of sorted requests to draw from: a step's neighbours in length, ties included."""
        lengths, n = self._lengths, len(self._lengths)
        wanted = min(self.neighbours, n)
        distance = 0
        while True:
            first, last = bisect_left(lengths, n_tokens - distance), bisect_left(lengths, n_tokens + distance + 1)
            if last - first >= wanted:
                return first, last
            near = [abs(lengths[i] - n_tokens) for i in (first - 1, last) if 0 <= i < n]
            distance = min(near)


class SpeculatedAnswer:
    """An answer in which some roles decode with token-level speculation: same text as ``inner``, fewer passes."""

    __slots__ = ("_sources", "index", "inner", "root")

    def __init__(self, inner: Answer, sources: Mapping[str, PassSource], index: int) -> None:
        self.inner = inner
        self._sources = dict(sources)
        self.index = index
        self.root = inner.root

    def source(self, role: str) -> PassSource | None:
        """Return the source of a role's passes; None: a token per iteration."""
        return self._sources.get(role)

    def around(self, wrap: Callable[[Answer], Answer]) -> SpeculatedAnswer:
        """Return the same passes for the answer that ``wrap`` makes of the inner one."""
        return SpeculatedAnswer(wrap(self.inner), self._sources, self.index)

    def generate(self, operation: Generate) -> Step:
        """Return the step, with the passes of its request where its role speculates."""
        step = self.inner.generate(operation)
        source = self._sources.get(operation.role)
        if source is None:
            return step
        return PassedStep(step, source.passes(self.index, operation, operation.tokens_of(step) - 1))

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the inner answer."""
        return getattr(self.inner, name)
