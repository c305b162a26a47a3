"""Keys and values of many sequences in one tensor: running ones first, then finished ones, kept as a prefix cache.

Rows ``0 .. n_active - 1`` are running, so that a single view serves the attention of a batch without a copy. A finished
row stays after them with its tokens, and is reused when a prompt begins with those tokens: in place if the prompt
extends all of it, else by copying the common part (also from a running row). The least recently used row is evicted.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

    from calibrate.engines.torch.cuda.captured import CapturedPasses

__all__ = ["KvCache"]

_INITIAL_BYTES: Final = 256 << 20


class KvCache:
    """A bounded cache of sequences.

    Parameters
    ----------
    shape : layers, key-value heads and dimensions of a head of the model.
    max_batch, n_idle : most sequences that run at once, and finished ones that are kept, >= 1 each.
    max_context : most tokens of a sequence.

    Attributes
    ----------
    n_active : running sequences; they are rows ``0 .. n_active - 1``.
    length : tokens whose keys and values each row holds.
    capacity : allocated tokens per row; doubles up to ``max_context``.
    passes : padded passes on this cache, if it has such; then its capacity is ``max_context`` from the start.
    kv : tensor of shape (layers, 2, rows, capacity, heads, head_dim); keys and values are separate, because attention
        reads a row's keys twice as fast if they are contiguous (measured at 8 rows of 400 tokens, limited by memory).
    """

    def __init__(
        self,
        *,
        shape: tuple[int, int, int],
        max_batch: int,
        n_idle: int,
        max_context: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.max_batch = max_batch
        self.max_context = max_context
        self.n_rows = max_batch + n_idle
        self.n_active = 0
        self.passes: CapturedPasses | None = None
        self.length: NDArray[np.int64] = np.zeros(self.n_rows, np.int64)
        self._ids: NDArray[np.int32] = np.zeros((self.n_rows, max_context), np.int32)
        self._used: NDArray[np.int64] = np.zeros(self.n_rows, np.int64)
        self._clock = 0
        self.bytes_per_token: int = 2 * math.prod(shape) * dtype.itemsize
        first = max(64, _INITIAL_BYTES // (self.bytes_per_token * self.n_rows))
        self.capacity = max_context if device.type == "cuda" else min(max_context, first)
        self.kv = _zeros((shape[0], 2, self.n_rows, self.capacity, *shape[1:]), dtype, device)

    @property
    def max_bytes(self) -> int:
        """Bytes that the tensors may grow to."""
        return self.bytes_per_token * self.n_rows * self.max_context

    def view(self, first_row: int, n_rows: int, columns: int) -> torch.Tensor:
        """Keys and values of consecutive rows without a copy, (layers, 2, rows, heads, columns, head_dim)."""
        return self.kv[:, :, first_row : first_row + n_rows, :columns].transpose(3, 4)

    def copied(self, layer: int, row: torch.Tensor, columns: int) -> torch.Tensor:
        """Keys and values of a layer in a row (1,), copied, (2, 1, heads, columns, head_dim)."""
        return self.kv[layer][:, :, :columns].index_select(1, row).transpose(2, 3)

    def admit(self, prompt: Sequence[int]) -> int:
        """Make row ``n_active`` a running sequence with the cached prefix of ``prompt``; return the prefix's length.

        At least the prompt's last token remains to be computed, because its logits are needed.
        """
        row = self.n_active
        assert row < self.max_batch
        source, n = self._match(np.asarray(prompt, np.int32))
        if n and source >= row and n == self.length[source]:
            self._swap(source, row)
        else:
            n = self._branch(source, n, row)
        self.length[row] = n
        self._touch(row)
        self.n_active += 1
        return n

    def append(self, row: int, ids: Sequence[int] | NDArray[np.int32]) -> None:
        """Record tokens whose keys and values the model has just written (or is about to write) to ``row``."""
        n = int(self.length[row])
        self._ids[row, n : n + len(ids)] = ids
        self.length[row] = n + len(ids)

    def keep(self, row: int, ids: Sequence[int], slots: Sequence[int]) -> None:
        """Record tokens written to ascending ``slots`` after the cached ones; other slots among them are discarded."""
        n = int(self.length[row])
        moved = [(n + i, n + slot) for i, slot in enumerate(slots) if slot != i]
        if moved:
            to, source = (list(places) for places in zip(*moved, strict=True))
            self.kv[:, :, row, to] = self.kv[:, :, row, source]  # the right side is a copy
        self.append(row, ids)

    def truncate(self, row: int, n: int) -> None:
        """Cut ``row`` to its first ``n`` tokens; no effect if it has at most that many."""
        self.length[row] = min(int(self.length[row]), n)

    def release(self, row: int) -> None:
        """End a running sequence; the last running row takes its place, and its tokens stay cached."""
        assert 0 <= row < self.n_active
        self._touch(row)
        self.n_active -= 1
        self._swap(row, self.n_active)

    def forget(self) -> None:
        """Drop the tokens of sequences that have ended."""
        self.length[self.n_active :] = 0

    def reserve(self, n_tokens: int) -> None:
        """Allocate for sequences of ``n_tokens``; with doubling, the number of copies per token is constant."""
        import torch

        old = self.capacity
        if n_tokens <= old:
            return
        self.capacity = min(max(n_tokens, 2 * old), self.max_context)
        shape = (*self.kv.shape[:3], self.capacity, *self.kv.shape[4:])
        with torch.inference_mode(mode=False):  # where the tensor grows; rows are moved outside of inference too
            grown = _zeros(shape, self.kv.dtype, self.kv.device)
        grown[:, :, :, :old] = self.kv
        self.kv = grown

    def _match(self, prompt: NDArray[np.int32]) -> tuple[int, int]:
        """The row with the longest common prefix, and its length; on a tie a row that need not be copied."""
        n = len(prompt)
        differs = self._ids[:, :n] != prompt
        common = np.where(differs.any(axis=1), differs.argmax(axis=1), n)
        common = np.minimum(np.minimum(common, self.length), n - 1)
        whole = (common == self.length) & (np.arange(self.n_rows) >= self.n_active)
        row = int(np.argmax(2 * common + whole))
        return row, int(common[row])

    def _branch(self, source: int, n: int, row: int) -> int:
        """Copy ``n`` tokens of ``source`` to ``row``; the least recently used idle row is evicted."""
        idle = np.arange(row, self.n_rows)
        spare = idle[idle != source] if n else idle
        if not len(spare):
            return n  # the only idle row is the source itself: it is cut to the common part
        victim = int(spare[np.argmin(self._used[spare])])
        if victim != row:
            self._copy(row, victim, int(self.length[row]))
            self._ids[victim] = self._ids[row]
            self.length[victim], self._used[victim] = self.length[row], self._used[row]
        if n and source != row:
            self._copy(source, row, n)
            self._ids[row, :n] = self._ids[source, :n]
        return n

    def _copy(self, source: int, target: int, n: int) -> None:
        if n:
            self.kv[:, :, target, :n] = self.kv[:, :, source, :n]

    def _swap(self, a: int, b: int) -> None:
        if a == b:
            return
        n_a, n_b = int(self.length[a]), int(self.length[b])
        kept = self.kv[:, :, b, :n_b].clone() if n_b else None
        self._copy(a, b, n_a)
        if kept is not None:
            self.kv[:, :, a, :n_b] = kept
        for table in (self.length, self._used, self._ids):
            table[[a, b]] = table[[b, a]]

    def _touch(self, row: int) -> None:
        self._clock += 1
        self._used[row] = self._clock


def _zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros, because attention reads masked columns and garbage may be NaN; on CPU, pages are allocated lazily."""
    import torch

    if device.type != "cpu":
        return torch.zeros(*shape, dtype=dtype, device=device)
    n = math.prod(shape)
    pages = mmap.mmap(-1, n * dtype.itemsize)
    return torch.frombuffer(pages, dtype=dtype, count=n).view(*shape)
