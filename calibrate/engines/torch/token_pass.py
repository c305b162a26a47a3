"""Forward pass over the proposed rows of several sequences, with different numbers of rows; and prefill of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from calibrate.engines.sampling import picked, sent
from calibrate.engines.torch.cuda.captured import padded_columns
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
    lengths: list[int] = cache.length[first_row : first_row + len(rows)].tolist()
    counts = [len(seq.ids) for seq in rows]
    most = max(counts)
    columns = max(length + n for length, n in zip(lengths, counts, strict=True))
    passes, shape = cache.passes, None
    if passes is not None and all(seq.visible is None for seq in rows):
        shape = passes.shape(first_row, len(rows), most, columns)
    if passes is None or shape is None:
        hidden = _at_once(decoder, cache, first_row, rows, lengths, columns)
    else:
        most = shape.tokens
        # the next pass overwrites the result
        hidden = passes.hidden(shape, first_row, _numbers(lengths, rows, most), _features(rows, most)).clone()
    return picked(hidden.flatten(0, 1), [i * most + r for i, n in enumerate(counts) for r in range(n)])


def _at_once(
    decoder: Decoder, cache: KvCache, first_row: int, rows: Sequence[Rows], lengths: Sequence[int], columns: int
) -> Tensor:
    """A pass of the shape that its rows have, (sequences, most rows, size)."""
    import torch

    if decoder.padded:
        columns = padded_columns(columns, cache.max_context)
    cache.reserve(columns)
    most = max(len(seq.ids) for seq in rows)
    ids, positions, slots = sent(_numbers(lengths, rows, most), torch.int64, decoder.device).unbind(0)
    mask = None
    if most > 1 or min(lengths) + 1 < columns:
        mask = _mask(slots, lengths, rows, columns, decoder.dtype)
    return decoder.forward(ids, positions, cache, first_row, columns, mask, slots, _features(rows, most))


def _numbers(lengths: Sequence[int], rows: Sequence[Rows], most: int) -> list[list[list[int]]]:
    """Ids, positions and slots of the rows, each (sequences, most)."""
    counts = [len(seq.ids) for seq in rows]
    ids = [seq.ids + seq.ids[-1:] * (most - n) for n, seq in zip(counts, rows, strict=True)]
    steps = [range(n) if seq.offsets is None else seq.offsets for n, seq in zip(counts, rows, strict=True)]
    positions = [_padded(length, step, most) for length, step in zip(lengths, steps, strict=True)]
    slots = [_padded(length, range(n), most) for length, n in zip(lengths, counts, strict=True)]
    return [ids, positions, slots]


def _features(rows: Sequence[Rows], most: int) -> Tensor | None:
    """Further inputs of the rows, (sequences, most, size)."""
    import torch

    brought = [seq.features for seq in rows if seq.features is not None]
    if not brought:
        return None
    return torch.stack([torch.cat((f, f[-1:].expand(most - len(f), -1))) for f in brought])


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
