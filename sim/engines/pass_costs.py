"""Time of a pass of an engine with token-level speculation: that of a plain pass, of additional rows, and of drafting.

A pass computes several rows per sequence (the last token and its drafted ones, or the branches of a lookahead). Their
number differs from pass to pass, so the mean time of a pass is taken over the distribution of a sequence's rows.
Engines that pad compute as many rows for each sequence of a batch as the sequence with the most rows needs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sim.engines.protocol import Cost
from theory.errors import ParameterError

__all__ = ["PassCost", "PassSeconds", "PassTable", "RowsAsBatch"]


class PassSeconds(Protocol):
    """Seconds of one target pass over some rows per sequence."""

    def seconds(self, rows: float, batch: int, context: float) -> float:
        """Return the time of a pass of ``batch`` sequences with ``rows`` rows each and ``context`` cached tokens."""


@dataclass(frozen=True, slots=True)
class RowsAsBatch:
    """n rows take as long as n sequences: the assumption where passes of several rows were not measured."""

    plain: Cost

    def seconds(self, rows: float, batch: int, context: float) -> float:
        """Return the time of a pass over ``batch * rows`` sequences that read the context once."""
        return self.plain.iteration(round(batch * rows), context)


@dataclass(frozen=True, slots=True)
class PassTable:
    """Measured passes: one cost for each number of rows, interpolated between them.

    Beyond the largest measured number of rows the last segment is extrapolated if it rises, else the last time is kept.

    Raises
    ------
    ParameterError : no cost for one row.
    """

    by_rows: Mapping[int, Cost]
    """Rows per sequence to the cost of an iteration with that many; 1 is plain decoding."""
    _rows: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rows = tuple(sorted(self.by_rows))
        if not rows or rows[0] != 1:
            raise ParameterError("by_rows", rows, "must begin with one row")
        object.__setattr__(self, "_rows", rows)

    def seconds(self, rows: float, batch: int, context: float) -> float:
        """Return the time of a pass of ``batch`` sequences with ``rows`` rows each and ``context`` cached tokens."""
        known = self._rows
        right = min(max(bisect_left(known, rows), 1), len(known) - 1) if len(known) > 1 else 0
        high = self.by_rows[known[right]].iteration(batch, context)
        if known[right] == rows or right == 0:
            return high
        left = known[right - 1]
        low = self.by_rows[left].iteration(batch, context)
        seconds = low + (high - low) * (rows - left) / (known[right] - left)
        return max(seconds, high) if rows > known[-1] else seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCost:
    """The cost of an engine whose sequences decode with token-level speculation; an iteration is a pass."""

    inner: Cost
    """The engine without speculation, for its prefills."""
    wide: PassSeconds
    """Its passes by rows."""
    rows: Mapping[int, float]
    """Rows of a sequence in a pass to the share of passes with that many, [-]; the shares sum to 1."""
    factor: float = 1.0
    """Measured time of the method's passes without drafting / time by ``wide``, [-]."""
    draft_s: float = 0.0
    """Seconds of drafting in a pass with one sequence."""
    drafter: Cost | None = None
    """The draft model: drafting time grows with the batch as its iterations do. None: in proportion to the batch."""
    prefill_factor: float = 1.0
    """Time of a prefill with the method / without, [-]: a draft model reads the prompt too."""
    request_s: float = 0.0
    """Latency of a request outside the engine, s."""
    padded: bool = True
    """Whether each sequence of a batch computes as many rows as the one with the most; if not, its own number."""
    _known: dict[int, tuple[float, float]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.rows or min(self.rows) < 1 or abs(sum(self.rows.values()) - 1.0) > 1e-9:
            raise ParameterError("rows", dict(self.rows), "must be shares, by rows >= 1, that sum to 1")
        object.__setattr__(self, "_known", {})

    def iteration(self, batch: int, context: float) -> float:
        """Return the mean seconds of a pass, drafting included."""
        known = self._known.get(batch)
        if known is None:  # costs are linear in the context: two points determine them
            zero, one = self._pass(batch, 0.0), self._pass(batch, 1024.0)
            known = self._known[batch] = zero, (one - zero) / 1024.0
        return known[0] + known[1] * context

    def prefill(self, n_tokens: int) -> float:
        """Return the seconds until the first token."""
        return self.inner.prefill(n_tokens) * self.prefill_factor

    def _pass(self, batch: int, context: float) -> float:
        below, wide = 0.0, 0.0
        for rows, share in sorted(self.rows.items()):
            here = min(below + share, 1.0)
            weight = here**batch - below**batch if self.padded else share
            wide += weight * self.wide.seconds(rows, batch, context)
            below = here
        return self.factor * wide + self.draft_s * self._growth(batch)

    def _growth(self, batch: int) -> float:
        """Drafting for a batch / for one sequence."""
        if self.drafter is None:
            return float(batch)
        return self.drafter.iteration(batch, 0.0) / self.drafter.iteration(1, 0.0)
