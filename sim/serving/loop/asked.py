"""The requests of plain decoding as columns of numbers: what `sim.serving.loop` reads of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from heapq import heappushpop
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.answers.drawn import DrawnAnswer
from sim.answers.token_passes import DrawnPasses, PassSource, SpeculatedAnswer
from sim.operations import TARGET, Generate, Step
from sim.passes import Passes
from sim.virtual_clock import Answer

__all__ = ["Asked"]

Ints = NDArray[np.int64]


class _Row(NamedTuple):
    """The requests of an answer."""

    number: int
    """Index of the answer."""
    depth: int
    """Of the text before its first request; -1: the prompt."""
    source: PassSource | None
    kept: list[Passes] | None
    """Passes of each request, of sources that cannot say how many there are without them."""


class Asked:
    """Answers' requests, one answer after the other.

    Parameters
    ----------
    met : answers that are under way, each with its text so far (`sim.serving.under_way`).
    """

    def __init__(self, met: Iterable[tuple[Answer, Step]] = ()) -> None:
        self._rows: list[_Row] = []
        self._first = [0]
        self._text: list[int] = []
        self._new: list[int] = []
        self._tokens: list[int] = []
        self._lived: list[int] = []
        for answer, text in met:
            self.add(answer, text)

    def add(self, answer: Answer, before: Step) -> int:
        """Add what is asked for to continue a text to the answer's end; return its tokens."""
        source, inner, index = None, answer, 0
        if isinstance(answer, SpeculatedAnswer):
            source, inner, index = answer.source(TARGET), answer.inner, answer.index
        is_counted = source is None or isinstance(source, DrawnPasses)
        kept: list[Passes] | None = None if is_counted else []
        self._rows.append(_Row(index, before.depth, source, kept))
        begin = len(self._tokens)
        if isinstance(inner, DrawnAnswer) and is_counted:
            self._add_steps(inner, before)
        else:
            self._add_requests(inner if is_counted else answer, before, kept)
        self._first.append(len(self._tokens))
        return sum(self._tokens[begin:])

    def _add_steps(self, answer: DrawnAnswer, before: Step) -> None:
        """Requests of an answer that is drawn step by step, by its lengths."""
        lengths, context = answer.written_lengths()[before.depth + 1 :], before.context_tokens
        self._tokens += lengths
        self._new += [0 if before.role == TARGET else before.n_tokens] + [0] * (len(lengths) - 1)
        self._lived += [0] * len(lengths)
        for length in lengths:
            self._text.append(context)
            context += length

    def _add_requests(self, answer: Answer, before: Step, kept: list[Passes] | None) -> None:
        """Requests of any answer, as `sim.algorithms.autoregressive` makes them."""
        while not before.final:
            operation = Generate(TARGET, before, whole=True)
            last = answer.generate(operation)
            self._text.append(before.context_tokens)
            self._new.append(0 if before.role == TARGET else before.n_tokens)
            self._tokens.append(operation.tokens_of(last))
            self._lived.append(getattr(before, "lived", 0))
            if kept is not None:
                kept.append(last.passes or Passes.of((1,) * (self._tokens[-1] - 1)))
            before = last

    def until(self, answer_of: Callable[[int], Answer], index: int, places: int, tokens: int) -> None:
        """Add answers from an index on, as many as can begin before so many tokens are written.

        All but ``places`` answers have ended by then: if not the longest ones have, those that have are long enough.
        """
        sums = np.add.reduceat(np.array([*self._tokens, 0]), self._first[:-1]).tolist() if self._tokens else []
        ended, longest = 0, [0] * places  # a heap
        for total in sums:
            ended += heappushpop(longest, total)
        while ended < tokens or len(self._rows) < places:
            answer = answer_of(index)
            ended += heappushpop(longest, self.add(answer, answer.root))
            index += 1

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def first(self) -> Ints:
        """Number of each answer's first request, and of all, shape (answers + 1,)."""
        return np.array(self._first)

    @cached_property
    def text(self) -> Ints:
        """Tokens before what each request writes, shape (requests,)."""
        return np.array(self._text)

    @cached_property
    def new(self) -> Ints:
        """Of these, tokens that the engine has not read."""
        return np.array(self._new)

    @cached_property
    def tokens(self) -> Ints:
        """Tokens that each request writes."""
        return np.array(self._tokens)

    @cached_property
    def context(self) -> NDArray[np.float64]:
        """Mean context of each request over its life, tokens."""
        return np.asarray(self.text + (self.tokens - np.array(self._lived)) / 2.0)

    @cached_property
    def answer_tokens(self) -> Ints:
        """Tokens of each answer, shape (answers,)."""
        return np.add.reduceat(self.tokens, self.first[:-1])

    @cached_property
    def passes(self) -> Ints:
        """Iterations of each request after its first token."""
        found = self.tokens - 1
        answers = np.repeat(np.arange(len(self)), np.diff(self.first))
        depths = np.array([row.depth for row in self._rows])[answers] + np.arange(found.size) - self.first[answers]
        indices = np.array([row.number for row in self._rows])[answers]
        for source in {id(row.source): row.source for row in self._rows}.values():
            own = np.flatnonzero(np.array([row.source is source for row in self._rows])[answers])
            if isinstance(source, DrawnPasses):
                found[own] = source.numbers(indices[own], TARGET, depths[own], found[own])
            elif source is not None:
                found[own] = [len(passes) for row in self._rows for passes in row.kept or () if row.source is source]
        return found

    def committed(self, answer: int, request: int, n: int) -> int:
        """Return the tokens that the first ``n`` iterations of an answer's request give after its first token."""
        row, number = self._rows[answer], request - self._first[answer]
        if row.source is None:
            return n
        if row.kept is not None:
            return row.kept[number].committed(n)
        assert isinstance(row.source, DrawnPasses)
        wanted = self._tokens[request] - 1
        return row.source.committed(row.number, TARGET, row.depth + number, wanted, n)
