"""Forward pass over the proposed rows of several sequences, with different numbers of rows; and prefill of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from calibrate.engines.torch.token_methods.protocol import Rows

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from calibrate.engines.torch.decoder import Decoder
    from calibrate.engines.torch.kv_cache import KvCache

__all__ = ["CHUNK", "chunks", "forward_rows", "read_tokens"]

CHUNK: Final = 512
"""Most tokens of a text that a pass reads."""


def chunks(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Split the positions from ``begin`` to ``end`` into chunks for a pass each."""
    return ((first, min(first + CHUNK, end)) for first in range(begin, end, CHUNK))


def read_tokens(
    decoder: Decoder, cache: KvCache, row: int, ids: Sequence[int], features: Tensor | None = None
) -> Tensor:
    """Prefill the next tokens of a row of the cache; return the final hidden states (n, size)."""
    hidden = forward_rows(decoder, cache, row, [Rows(ids=list(ids), features=features)])
    cache.append(row, ids)
    return hidden


def forward_rows(decoder: Decoder, cache: KvCache, first_row: int, rows: Sequence[Rows]) -> Tensor:
    """Final hidden states of the rows of consecutive sequences, one sequence after the other, (rows, size).

    Row r of a sequence is written to its slot r after the cached tokens; the caller appends committed tokens to the
    cache. A sequence with fewer rows than another computes its last row repeatedly, in the same slot.
    """
    import torch

    device = decoder.device
    lengths = cache.length[first_row : first_row + len(rows)].tolist()
    counts = [len(seq.ids) for seq in rows]
    most = max(counts)
    columns = max(length + n for length, n in zip(lengths, counts, strict=True))
    cache.reserve(columns)
    ids = torch.tensor([seq.ids + seq.ids[-1:] * (most - len(seq.ids)) for seq in rows], device=device)
    places = [_padded(length, range(n), most) for length, n in zip(lengths, counts, strict=True)]
    slots = positions = torch.tensor(places, device=device)
    if any(seq.offsets is not None for seq in rows):
        steps = [range(n) if seq.offsets is None else seq.offsets for seq, n in zip(rows, counts, strict=True)]
        moved = [_padded(length, step, most) for length, step in zip(lengths, steps, strict=True)]
        positions = torch.tensor(moved, device=device)
    mask = None
    if most > 1 or min(lengths) + 1 < columns:
        mask = _mask(slots, lengths, rows, columns, decoder.dtype)
    features = None
    if rows[0].features is not None:
        brought = [seq.features for seq in rows if seq.features is not None]
        features = torch.stack([torch.cat((f, f[-1:].expand(most - len(f), -1))) for f in brought])
    hidden = decoder.forward(ids, positions, cache, first_row, columns, mask, slots, features)
    if min(counts) == most:
        return hidden.flatten(0, 1)
    return hidden[[i for i, n in enumerate(counts) for _ in range(n)], [r for n in counts for r in range(n)]]


def _padded(length: int, steps: Sequence[int], n: int) -> list[int]:
    places = [length + step for step in steps]
    return places + places[-1:] * (n - len(places))


def _mask(slots: Tensor, lengths: Sequence[int], rows: Sequence[Rows], columns: int, dtype: torch.dtype) -> Tensor:
    """Mask added to attention scores, (B, 1, rows, columns): 0, or minus infinity for columns without attention."""
    import torch

    hidden = torch.arange(columns, device=slots.device) > slots[:, :, None]
    for row, (length, seq) in enumerate(zip(lengths, rows, strict=True)):
        if seq.visible is not None:
            n = len(seq.ids)
            unseen = ~seq.visible.to(slots.device)
            hidden[row, :n, length : length + n] = unseen
            hidden[row, n:, length : length + n] = unseen[-1]
    return torch.zeros(hidden.shape, dtype=dtype, device=slots.device).masked_fill_(hidden, -torch.inf)[:, None]
