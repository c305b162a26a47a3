"""Which cells are measured: decoding, several new tokens on a cached prefix, prefills, power, and sharing."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

__all__ = ["FULL", "TINY_GRID", "Cell", "Grid", "SharedCell", "cell_of"]

Kind = Literal["decode", "prefill", "power"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One forward pass of one shape."""

    kind: Kind
    """``decode`` scores every new token, ``prefill`` the last one only, ``power`` repeats a decode for seconds."""
    batch: int
    prefix: int
    """Cached tokens of each sequence before the pass."""
    tokens: int
    """New tokens of each sequence."""

    @property
    def key(self) -> str:
        """Its name in the journal."""
        return f"{self.kind}:b{self.batch}:n{self.prefix}:q{self.tokens}"

    @property
    def cached(self) -> int:
        """Tokens of all sequences in the cache at the end of the pass."""
        return self.batch * (self.prefix + self.tokens)


def cell_of(key: str) -> Cell:
    """The cell of a key.

    >>> cell_of("decode:b4:n512:q8").prefix
    512
    """
    kind, batch, prefix, tokens = key.split(":")
    if kind not in ("decode", "prefill", "power"):
        raise ValueError(f"{key!r} is not the key of a cell")
    return Cell(kind=kind, batch=int(batch[1:]), prefix=int(prefix[1:]), tokens=int(tokens[1:]))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCell:
    """Two models decoding at once on one GPU, each on a stream of its own."""

    target_batch: int
    target_tokens: int
    draft_batch: int
    prefix: int

    @property
    def key(self) -> str:
        """Its name in the journal."""
        return f"shared:b{self.target_batch}:q{self.target_tokens}:d{self.draft_batch}:n{self.prefix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Axes of a measurement."""

    batches: tuple[int, ...]
    prefixes: tuple[int, ...]
    """Contexts for plain decoding."""
    tokens: tuple[int, ...]
    """New tokens per sequence beyond one."""
    verify_batches: tuple[int, ...]
    verify_prefixes: tuple[int, ...]
    prefills: tuple[int, ...]
    """Lengths of prompts."""
    prefill_prefixes: tuple[int, ...]
    """Cached tokens before them."""
    power_batches: tuple[int, ...]
    power_prefix: int
    shared_targets: tuple[tuple[int, int], ...]
    """(batch, new tokens per sequence) of the target beside a draft."""
    shared_prefixes: tuple[int, ...]
    repeats: int
    longest_s: float
    """Time for the runs of one cell that count, s."""
    warm_up_s: float
    """Time for the runs before them, s."""
    attempts: int
    """Times that a noisy cell is measured at most."""
    power_s: float
    """Time for a power cell, s."""

    def cells(self) -> list[Cell]:
        """Every cell once, in an order drawn once and for all, so that slow drifts hit all axes alike."""
        found = [*self._decodes(), *self._verifies(), *self._prefills()]
        random.Random(0).shuffle(found)
        powers = [Cell(kind="power", batch=b, prefix=self.power_prefix, tokens=1) for b in self.power_batches]
        return list(dict.fromkeys([self.sentinel, *found, *powers]))

    def _decodes(self) -> Iterable[Cell]:
        for batch, prefix in product(self.batches, self.prefixes):
            yield Cell(kind="decode", batch=batch, prefix=prefix, tokens=1)

    def _verifies(self) -> Iterable[Cell]:
        for batch, prefix, tokens in product(self.verify_batches, self.verify_prefixes, self.tokens):
            yield Cell(kind="decode", batch=batch, prefix=prefix, tokens=tokens)

    def _prefills(self) -> Iterable[Cell]:
        for tokens, prefix in product(self.prefills, self.prefill_prefixes):
            yield Cell(kind="prefill", batch=1, prefix=prefix, tokens=tokens)

    @property
    def sentinel(self) -> Cell:
        """The cell that is measured anew in every call, to see a drift or another machine."""
        return Cell(kind="decode", batch=1, prefix=self.verify_prefixes[0], tokens=1)

    def shared(self) -> list[SharedCell]:
        """Every shared cell."""
        return [
            SharedCell(target_batch=batch, target_tokens=tokens, draft_batch=1, prefix=prefix)
            for (batch, tokens), prefix in product(self.shared_targets, self.shared_prefixes)
        ]


FULL: Final = Grid(
    batches=(1, 2, 4, 8, 16, 32, 64),
    prefixes=(512, 1024, 2048, 4096, 8192, 16384, 32768),
    tokens=(2, 4, 8, 16, 32),
    verify_batches=(1, 2, 4, 8, 16, 64),
    verify_prefixes=(1024, 4096, 16384),
    prefills=(32, 64, 128, 256, 512, 1024, 2048),
    prefill_prefixes=(0, 2048),
    power_batches=(1, 8, 64),
    power_prefix=1024,
    shared_targets=((1, 1), (4, 1), (8, 1), (1, 8)),
    shared_prefixes=(1024, 4096),
    repeats=15,
    longest_s=1.0,
    warm_up_s=0.05,
    attempts=3,
    power_s=3.0,
)

TINY_GRID: Final = Grid(
    batches=(1, 2),
    prefixes=(32, 64),
    tokens=(2, 4),
    verify_batches=(1, 2),
    verify_prefixes=(32,),
    prefills=(8, 16),
    prefill_prefixes=(0, 32),
    power_batches=(1,),
    power_prefix=32,
    shared_targets=((1, 1),),
    shared_prefixes=(32,),
    repeats=7,
    longest_s=0.02,
    warm_up_s=0.0,
    attempts=2,
    power_s=0.05,
)
"""For trying the script out: seconds on a CPU."""
