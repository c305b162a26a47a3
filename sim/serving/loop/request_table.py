"""The requests of plain decoding as columns of numbers, which `sim.serving.loop` reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sim.answers.drawn import DrawnAnswer
from sim.answers.token_passes import DrawnPasses, SpeculatedAnswer
from sim.operations import Generate, Step
from sim.passes import Passes
from sim.random_streams import bits_at
from sim.roles import TARGET
from sim.serving.limits import ServingLimits
from sim.serving.under_way import sizes_under_way, under_way
from sim.trial import Trial
from sim.virtual_clock import Answer

__all__ = ["RequestTable", "Walk", "compiled_walk"]

Ints = NDArray[np.int64]
Walk: TypeAlias = Callable[..., tuple[Any, Any]]

TEXT, NEW, TOKENS, LIVED, _NUMBER, _DEPTH = range(6)
"""Rows of `RequestTable.columns`: tokens of the prefix, those of them that the engine has not read, tokens to write,
tokens of the answer written before the run began; the answer's index, and the depth of the prefix (-1: the prompt), by
which passes are drawn."""


class RequestTable:
    """Requests, answer by answer, of a trial that `sim.serving.loop` runs."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._parts: list[Ints] = []
        self._each: list[Ints] = []  # requests of answers
        self._totals: list[Ints] = []  # tokens of answers
        self._n = 0  # requests
        source = trial.passes.get(TARGET)
        self._drawn = source if isinstance(source, DrawnPasses) else None
        self._sizes = trial.sizes if source is self._drawn else None
        self._kept: dict[int, Passes] = {}  # of requests, by sources that cannot say how many there are without them

    def meet(self, n: int, first: int, limits: ServingLimits) -> int:
        """Add answers that are under way (`sim.serving.under_way`); return the index of the first one after them."""
        if self._sizes is None:
            met, following = under_way(self._trial, n, first, limits)
            for answer, text in met:
                self.add(answer, text)
            return following
        indices, (prompts, written, left), following = sizes_under_way(self._trial, n, first, limits)
        self._add_whole(indices, prompts + written, np.where(written > 0, 0, prompts), left, written)
        return following

    def begin(self, indices: Sequence[int]) -> None:
        """Add answers from their prompts on."""
        if self._sizes is None:
            for answer in map(self._trial.answer, indices):
                self.add(answer, answer.root)
            return
        prompts, tokens = self._sizes(indices)
        self._add_whole(np.array(indices), prompts, prompts, tokens, np.zeros_like(tokens))

    def until(self, index: int, places: int, tokens: int) -> None:
        """Add answers from an index on, as many as can begin before so many tokens are written.

        All but ``places`` answers have ended by then: if not the longest ones have, those that have are long enough.
        """
        while True:
            totals = np.concatenate([np.zeros(0, dtype=np.int64), *self._totals])
            more = places - totals.size
            if more <= 0:
                ended = int(np.partition(totals, totals.size - places)[: totals.size - places].sum())
                if ended >= tokens:
                    return
                more = max(math.ceil((tokens - ended) / float(totals.mean())), 1)
            self.begin(range(index, index + more))
            index += more

    def add(self, answer: Answer, before: Step) -> None:
        """Add the requests that continue an answer from ``before`` to its end."""
        source, inner, number = None, answer, 0
        if isinstance(answer, SpeculatedAnswer):
            source, inner, number = answer.source(TARGET), answer.inner, answer.index
        if source is not self._drawn:
            requests = self._by_running(answer, before, is_kept=True)
        elif isinstance(inner, DrawnAnswer):
            requests = _steps(inner, before)
        else:
            requests = self._by_running(inner, before, is_kept=False)
        n = len(requests)
        rows = [*zip(*requests, strict=True), [number] * n, range(before.depth, before.depth + n)]
        self._add(np.array(rows, dtype=np.int64), np.array([n]))
        self._totals.append(self._parts[-1][TOKENS].sum(keepdims=True))

    def _add_whole(self, indices: Ints, text: Ints, new: Ints, tokens: Ints, lived: Ints) -> None:
        """Add answers of a single request each."""
        self._add(np.array([text, new, tokens, lived, indices, np.full_like(indices, -1)]), np.ones_like(indices))
        self._totals.append(tokens)

    def _add(self, part: Ints, each: Ints) -> None:
        self._parts.append(part)
        self._each.append(each)
        self._n += part.shape[1]

    def _by_running(self, answer: Answer, before: Step, *, is_kept: bool) -> list[tuple[int, int, int, int]]:
        """Requests of any answer, as `sim.algorithms.autoregressive` makes them."""
        requests: list[tuple[int, int, int, int]] = []
        while not before.final:
            operation = Generate(TARGET, before, whole=True)
            last = answer.generate(operation)
            tokens = operation.tokens_of(last)
            if is_kept:
                self._kept[self._n + len(requests)] = last.passes or Passes.of((1,) * (tokens - 1))
            requests.append((before.context_tokens, _unread(before), tokens, getattr(before, "lived", 0)))
            before = last
        return requests

    def __len__(self) -> int:
        return sum(each.size for each in self._each)

    @cached_property
    def columns(self) -> Ints:
        """Rows by request, shape (6, requests)."""
        return np.concatenate(self._parts, axis=1)

    @cached_property
    def first(self) -> Ints:
        """Number of each answer's first request, and of all, shape (answers + 1,)."""
        return np.concatenate(([0], np.cumsum(np.concatenate(self._each))))

    @cached_property
    def answer_tokens(self) -> Ints:
        """Tokens of each answer, shape (answers,)."""
        return np.concatenate(self._totals)

    def passes(self, walk: Walk | None) -> Ints:
        """Return the iterations of each request after its first token, by a compiled walk if there is one."""
        *_, tokens, _, numbers, depths = self.columns
        counts: Ints = tokens - 1
        if self._drawn is not None and walk is None:
            counts = self._drawn.numbers(numbers, TARGET, depths, counts)
        elif self._drawn is not None and walk is not None:
            counts = walk(self._drawn.places(numbers, TARGET, depths), self._drawn.edges, counts, counts)[0]
        counts[list(self._kept)] = [len(passes) for passes in self._kept.values()]
        return counts

    def committed(self, requests: Ints, done: Ints, walk: Walk | None) -> Ints:
        """Return the tokens that the first ``done`` iterations of requests give after their first tokens."""
        columns: Any = self.columns[:, requests]
        *_, tokens, _, numbers, depths = columns
        given = done.copy()
        if self._drawn is not None and walk is None:
            rows = zip(*(row.tolist() for row in (numbers, depths, tokens - 1, done)), strict=True)
            given[:] = [self._drawn.committed(number, TARGET, *rest) for number, *rest in rows]
        elif self._drawn is not None and walk is not None:
            given = walk(self._drawn.places(numbers, TARGET, depths), self._drawn.edges, tokens - 1, done)[1]
        for at, request in enumerate(requests.tolist() if self._kept else []):
            given[at] = self._kept[request].committed(int(done[at])) if request in self._kept else given[at]
        return given


def _steps(answer: DrawnAnswer, before: Step) -> list[tuple[int, int, int, int]]:
    """Requests of an answer that is drawn step by step, by its lengths."""
    requests, text, new = [], before.context_tokens, _unread(before)
    for length in answer.written_lengths()[before.depth + 1 :]:
        requests.append((text, new, length, 0))
        text, new = text + length, 0
    return requests


def _unread(before: Step) -> int:
    """Tokens of a text that the target has not written, nor read."""
    return 0 if before.role == TARGET else before.n_tokens


@lru_cache(maxsize=1)
def compiled_walk() -> Walk:
    """Return the loop below, compiled: it draws the passes of `DrawnPasses`, to the last one, and no more of them."""
    from numba import njit

    names = {**globals(), "bits_at": njit(nogil=True)(bits_at)}
    walk: Walk = njit(nogil=True)(FunctionType(_walk.__code__, names, "walk"))
    return walk


def _walk(places: Any, edges: Any, tokens: Any, passes: Any) -> tuple[Any, Any]:
    """Draw each request's passes until they commit its tokens, or there are so many; return their numbers and tokens.

    A pass commits more than i tokens where its bits are not below the i-th edge; the last one is cut.
    """
    drawn, committed = np.zeros_like(tokens), np.zeros_like(tokens)
    for i in range(len(tokens)):
        while committed[i] < tokens[i] and drawn[i] < passes[i]:
            count: Any = np.uint64(drawn[i])
            bits = bits_at(places[i], count)
            committed[i] += 1
            for edge in edges:
                committed[i] += bits >= edge
            drawn[i] += 1
        committed[i] = min(committed[i], tokens[i])
    return drawn, committed
