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
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sim.operations import Choose, Generate, Score, Selection, Step, Verdict, Verify
from sim.random_streams import stream
from sim.virtual_clock import Answer
from theory.errors import ParameterError

__all__ = ["DrawnPasses", "PassSource", "PassedStep", "RecordedPasses", "SpeculatedAnswer", "cut"]


class PassedStep(Step):
    """A step with the tokens that each pass of its request commits; the first token comes from the prefill."""

    __slots__ = ("passes",)

    def __init__(self, step: Step, passes: tuple[int, ...]) -> None:
        super().__init__(step.parent, step.role, step.n_tokens, step.final, step.truncated, step.payload)
        self.passes = passes


class PassSource(Protocol):
    """Source of the tokens that the passes of a step commit."""

    def passes(self, index: int, operation: Generate, n_tokens: int) -> tuple[int, ...]:
        """Return the tokens of each pass of a step of answer ``index``; they sum to ``n_tokens``, each at least 1."""
        ...


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
"""Steps whose passes a source caches: all configurations that are compared use the same steps."""

_Known = dict[tuple[int, str, int, int, int], tuple[int, ...]]


def _drawn_once(
    known: _Known, draw: Callable[[int, Generate, int], tuple[int, ...]], index: int, operation: Generate, n_tokens: int
) -> tuple[int, ...]:
    """The passes that ``draw`` returns for a step, cached."""
    key = index, operation.role, operation.branch, operation.prefix.depth, n_tokens
    passes = known.get(key)
    if passes is None:
        if len(known) >= _KEPT:
            known.clear()
        passes = known[key] = draw(index, operation, n_tokens) if n_tokens > 0 else ()
    return passes


def _generator(seed: int, index: int, operation: Generate) -> np.random.Generator:
    return stream(seed, f"passes/{operation.role}/{operation.branch}/{operation.prefix.depth + 1}", index)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPasses:
    """Independent passes of one distribution.

    Raises
    ------
    ParameterError : no row of probabilities that sum to 1.
    """

    pmf: tuple[float, ...]
    """P(a pass commits 1, 2, ..., k2 tokens), [-]; sums to 1."""

    seed: int = 0

    _edges: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    _mean: float = field(init=False, repr=False, compare=False)
    _known: _Known = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        p = np.asarray(self.pmf, dtype=np.float64)
        if p.ndim != 1 or not p.size or not (p >= 0.0).all() or abs(float(p.sum()) - 1.0) > 1e-9:
            raise ParameterError("pmf", self.pmf, "must be one row of probabilities that sum to 1")
        object.__setattr__(self, "_edges", np.cumsum(p)[:-1])
        object.__setattr__(self, "_mean", float(p @ np.arange(1, p.size + 1)))

    def passes(self, index: int, operation: Generate, n_tokens: int) -> tuple[int, ...]:
        """Return the tokens of each pass of a step."""
        return _drawn_once(self._known, self._draw, index, operation, n_tokens)

    def _draw(self, index: int, operation: Generate, n_tokens: int) -> tuple[int, ...]:
        # Enough passes for nearly every step; where they do not suffice, the same numbers are drawn again with more.
        for n in (min(int(_AMPLE * n_tokens / self._mean) + _MORE, n_tokens), n_tokens):
            tokens = np.searchsorted(self._edges, _generator(self.seed, index, operation).random(n), side="right") + 1
            ends = np.cumsum(tokens)
            if ends[-1] >= n_tokens:
                break
        last = int(np.searchsorted(ends, n_tokens))  # the pass that reaches the end of the step, cut there
        tokens[last] -= ends[last] - n_tokens
        return tuple(tokens[: last + 1].tolist())


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
    _known: _Known = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        ordered = sorted(request for request in self.requests if request[0] > 0)
        if not ordered or any(sum(passes) < n or min(passes) < 1 for n, passes in ordered):
            raise ParameterError("requests", len(ordered), "must be recorded, each with passes that commit its tokens")
        object.__setattr__(self, "_sorted", ordered)
        object.__setattr__(self, "_lengths", [n for n, _ in ordered])

    def passes(self, index: int, operation: Generate, n_tokens: int) -> tuple[int, ...]:
        """Return the tokens of each pass of a step."""
        return _drawn_once(self._known, self._draw, index, operation, n_tokens)

    def _draw(self, index: int, operation: Generate, n_tokens: int) -> tuple[int, ...]:
        first, last = self._nearest(n_tokens)
        drawn = _generator(self.seed, index, operation).integers(first, last, 1 + n_tokens)
        return cut(chain.from_iterable(self._sorted[i][1] for i in drawn.tolist()), n_tokens)

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

    __slots__ = ("_index", "_inner", "_sources", "root")

    def __init__(self, inner: Answer, sources: Mapping[str, PassSource], index: int) -> None:
        self._inner = inner
        self._sources = dict(sources)
        self._index = index
        self.root = inner.root

    def around(self, wrap: Callable[[Answer], Answer]) -> SpeculatedAnswer:
        """Return the same passes for the answer that ``wrap`` makes of the inner one."""
        return SpeculatedAnswer(wrap(self._inner), self._sources, self._index)

    def generate(self, operation: Generate) -> Step:
        """Return the step, with the passes of its request where its role speculates."""
        step = self._inner.generate(operation)
        source = self._sources.get(operation.role)
        if source is None:
            return step
        return PassedStep(step, source.passes(self._index, operation, operation.tokens_of(step) - 1))

    def verify(self, operation: Verify) -> Verdict:
        """Return the inner answer's verdict."""
        return self._inner.verify(operation)

    def judge_tokens(self, operation: Verify) -> int:
        """Return the prompt length of the inner answer's verifier."""
        return self._inner.judge_tokens(operation)

    def score(self, operation: Score) -> float:
        """Return the inner answer's score."""
        return self._inner.score(operation)

    def choose(self, operation: Choose) -> Selection:
        """Return the inner answer's choice."""
        return self._inner.choose(operation)

    def score_tokens(self, operation: Score | Choose) -> int:
        """Return what the inner answer's scorer reads."""
        return self._inner.score_tokens(operation)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the inner answer."""
        return getattr(self._inner, name)
