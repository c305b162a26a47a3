"""Records of an engine's work: iterations, passes over drafts, prefills, and passes that decode and read prompts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final, Self

__all__ = ["EngineStatistics", "JoinedPass", "Pass", "Prefill", "WorkLog", "sums_by", "united"]

_KEPT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Pass:
    """A decode iteration: a pass over drafts where a sequence speculated, else one that gives each sequence a token.

    Attributes
    ----------
    batch, context : sequences decoded, and cached tokens of all of them.
    rows : new tokens computed for all of them; each sequence has as many rows as the longest draft needs.
    tokens : tokens committed, for all of them.
    seconds, drafting_s : duration, and the part of it for drafting, s.
    ended_s : end, s on the machine's monotonic clock.
    """

    batch: int
    context: int
    rows: int
    tokens: int
    seconds: float
    drafting_s: float
    ended_s: float

    @classmethod
    def plain(cls, batch: int, context: int, seconds: float, ended_s: float) -> Self:
        """Return an iteration in which no sequence speculated."""
        return cls(batch, context, rows=batch, tokens=batch, seconds=seconds, drafting_s=0.0, ended_s=ended_s)


@dataclass(frozen=True, slots=True)
class Prefill:
    """The prefill of a request.

    Attributes
    ----------
    tokens, cached : prompt tokens computed, and prompt tokens that were cached.
    seconds, ended_s : duration, s, and end, s on the machine's monotonic clock.
    together : prompts that the same pass read; ``seconds`` is the time of the pass / this number.
    beside : sequences that decoded in the same pass; if > 0, ``seconds`` is the time that the prompts added to it.
    """

    tokens: int
    cached: int
    seconds: float
    ended_s: float
    together: int = 1
    beside: int = 0


@dataclass(frozen=True, slots=True)
class JoinedPass:
    """Consecutive decode passes of the same sequences in which prompts of other requests were read.

    It is one pass, or several where a prompt was read in parts. The time that the prompts added is that of their
    `Prefill`.

    Attributes
    ----------
    batch, context : sequences decoded, and cached tokens of all of them.
    n : number of passes.
    joiners, prompt_tokens : prompts that were read, and their tokens that were not cached.
    rows, tokens : new tokens computed for the decoded sequences, and tokens committed to them, in all passes.
    seconds, ended_s : duration of all passes, s, and end, s on the machine's monotonic clock.
    """

    batch: int
    context: int
    n: int
    joiners: int
    prompt_tokens: int
    rows: int
    tokens: int
    seconds: float
    ended_s: float


_KINDS: Final[Mapping[str, type[Any]]] = {"iterations": Pass, "passes": Pass, "prefills": Prefill, "joined": JoinedPass}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatistics:
    """Work of an engine since its start or the last reading with ``clear``; oldest first."""

    iterations: tuple[Pass, ...] = ()
    """Those in which no sequence speculated."""
    passes: tuple[Pass, ...] = ()
    """Those in which one did, and all of an engine that speculates."""
    prefills: tuple[Prefill, ...] = ()
    joined: tuple[JoinedPass, ...] = ()

    def with_speculating(self, others: Iterable[EngineStatistics]) -> EngineStatistics:
        """Return this work and that of engines that speculate for it, whose iterations count as passes."""
        speculating = tuple(others)
        parts = (self, *speculating)
        return replace(
            self,
            passes=(*self.passes, *(one for part in speculating for one in (*part.passes, *part.iterations))),
            prefills=tuple(prefill for part in parts for prefill in part.prefills),
            joined=tuple(joined for part in parts for joined in part.joined),
        )

    def busy_spans(self) -> list[tuple[float, float]]:
        """Return the disjoint time spans (from, to) in which the engine worked, s on the monotonic clock, in order."""
        done: tuple[Pass | Prefill, ...] = (*self.iterations, *self.passes, *self.prefills)
        return united((entry.ended_s - entry.seconds, entry.ended_s) for entry in done)

    def to_message(self) -> dict[str, Any]:
        """Return the records as arrays of numbers, for another process."""
        return {name: list(map(attrgetter(*kind.__match_args__), getattr(self, name))) for name, kind in _KINDS.items()}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """Rebuild what `to_message` returned."""
        return cls(**{name: tuple(kind(*numbers) for numbers in message[name]) for name, kind in _KINDS.items()})


class WorkLog:
    """Records the latest work of an engine; the attributes are those of `EngineStatistics`."""

    def __init__(self) -> None:
        self.iterations: deque[Pass] = deque(maxlen=_KEPT)
        self.passes: deque[Pass] = deque(maxlen=_KEPT)
        self.prefills: deque[Prefill] = deque(maxlen=_KEPT)
        self.joined: deque[JoinedPass] = deque(maxlen=_KEPT)

    def statistics(self, *, clear: bool) -> EngineStatistics:
        """Return the work since the start or the last clearing; ``clear`` empties the records."""
        statistics = EngineStatistics(**{name: tuple(getattr(self, name)) for name in _KINDS})
        for name in _KINDS if clear else ():
            getattr(self, name).clear()
        return statistics


def united(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join spans (from, to) that overlap or touch; return them in order.

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


def sums_by(n_keys: int, rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Sum the rows with the same first ``n_keys`` numbers, in the order of these.

    >>> sums_by(1, [(2, 1, 0.5), (1, 1, 0.25), (2, 1, 1.0)])
    [(1, 1, 0.25), (2, 2, 1.5)]
    """
    sums: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in rows:
        key, values = tuple(row[:n_keys]), tuple(row[n_keys:])
        known = sums.get(key)
        sums[key] = values if known is None else tuple(a + b for a, b in zip(known, values, strict=True))
    return [key + values for key, values in sorted(sums.items())]
