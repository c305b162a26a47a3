"""What an engine did: its iterations, its passes over drafts, and its prefills, each a record of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, Final, Self

__all__ = ["EngineStatistics", "Iteration", "Pass", "Prefill", "WorkLog", "united"]

_KEPT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Iteration:
    """A decode iteration in which no sequence speculated; it gives each of them a token.

    Attributes
    ----------
    batch, context : sequences decoded, and cached tokens of all of them.
    seconds, ended_s : how long it took, and when it ended, s on the machine's monotonic clock.
    """

    batch: int
    context: int
    seconds: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Pass:
    """A decode iteration in which a sequence speculated.

    Attributes
    ----------
    batch, context : sequences decoded, and cached tokens of all of them.
    rows : new tokens computed for all of them; each sequence gets as many as the longest draft asks for.
    tokens : tokens that it led to, of all of them.
    seconds, drafting_s : how long it took, and how much of that went into drafting.
    ended_s : when it ended, s on the machine's monotonic clock.
    """

    batch: int
    context: int
    rows: int
    tokens: int
    seconds: float
    drafting_s: float
    ended_s: float

    @classmethod
    def without_draft(cls, plain: Iteration) -> Self:
        """Return an iteration of an engine that speculates, but found nothing to draft, as a pass."""
        n = plain.batch
        return cls(n, plain.context, rows=n, tokens=n, seconds=plain.seconds, drafting_s=0.0, ended_s=plain.ended_s)


@dataclass(frozen=True, slots=True)
class Prefill:
    """The reading of a request's prompt.

    Attributes
    ----------
    tokens, cached : prompt tokens computed, and prompt tokens that the cache held.
    seconds, ended_s : how long it took, and when it ended, s on the machine's monotonic clock.
    together : prompts that the same pass read; ``seconds`` is then its share.
    beside : sequences that decoded in the same pass; ``seconds`` is then what it took longer for the prompts.
    """

    tokens: int
    cached: int
    seconds: float
    ended_s: float
    together: int = 1
    beside: int = 0


_KINDS: Final[Mapping[str, type[Any]]] = {"iterations": Iteration, "passes": Pass, "prefills": Prefill}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatistics:
    """What an engine spent its time on, since its start or the last time this was read with ``clear``; oldest first."""

    iterations: tuple[Iteration, ...] = ()
    passes: tuple[Pass, ...] = ()
    prefills: tuple[Prefill, ...] = ()
    n_aborted_tokens: int = 0
    """Tokens drawn for requests that were then aborted."""

    def with_speculating(self, others: Iterable[EngineStatistics]) -> EngineStatistics:
        """Return this and what engines did that speculate for it: what they decoded are passes, drafted or not."""
        parts = (self, *others)
        passes = [(*part.passes, *map(Pass.without_draft, part.iterations)) for part in parts[1:]]
        return replace(
            self,
            passes=sum(passes, start=self.passes),
            prefills=tuple(prefill for part in parts for prefill in part.prefills),
            n_aborted_tokens=sum(part.n_aborted_tokens for part in parts),
        )

    def busy_spans(self) -> list[tuple[float, float]]:
        """Return from when to when the engine worked, s on the monotonic clock, in order and apart."""
        done: tuple[Iteration | Pass | Prefill, ...] = (*self.iterations, *self.passes, *self.prefills)
        return united((entry.ended_s - entry.seconds, entry.ended_s) for entry in done)

    def to_message(self) -> dict[str, Any]:
        """Return the records as arrays of numbers, for another process."""
        arrays = {name: list(map(attrgetter(*_names(kind)), getattr(self, name))) for name, kind in _KINDS.items()}
        return {**arrays, "n_aborted_tokens": self.n_aborted_tokens}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """Rebuild what `to_message` returned."""
        records = {name: tuple(kind(*numbers) for numbers in message[name]) for name, kind in _KINDS.items()}
        return cls(**records, n_aborted_tokens=message["n_aborted_tokens"])


class WorkLog:
    """Keeps the latest of what an engine does; the attributes are those of `EngineStatistics`."""

    def __init__(self) -> None:
        self.iterations: deque[Iteration] = deque(maxlen=_KEPT)
        self.passes: deque[Pass] = deque(maxlen=_KEPT)
        self.prefills: deque[Prefill] = deque(maxlen=_KEPT)
        self.n_aborted_tokens = 0

    def statistics(self, *, clear: bool) -> EngineStatistics:
        """Return what was done since the start or the last clearing; ``clear`` starts afresh."""
        records = {name: tuple(getattr(self, name)) for name in _KINDS}
        statistics = EngineStatistics(**records, n_aborted_tokens=self.n_aborted_tokens)
        if clear:
            for ring in (self.iterations, self.passes, self.prefills):
                ring.clear()
            self.n_aborted_tokens = 0
        return statistics


def _names(kind: type[Any]) -> list[str]:
    return [field.name for field in fields(kind)]


def united(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join spans (from, to) that touch; return them in order.

    >>> united([(3.0, 4.0), (0.0, 1.0), (1.0, 2.0)])
    [(0.0, 2.0), (3.0, 4.0)]
    """
    joined: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined
