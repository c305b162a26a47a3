"""How far back each layer of attention looks."""

from __future__ import annotations

from collections.abc import Sequence

from specplan.worlds.configs.families import Family
from specplan.worlds.configs.fields import ConfigFields
from specplan.worlds.configs.needed import checked_length
from theory.errors import SchemaError


def windows(fields: ConfigFields, family: Family, kinds: Sequence[str]) -> list[int | None]:
    """Return the window of every layer, tokens; None: it attends to everything, or has a state.

    Parameters
    ----------
    kinds : of each layer, which decide where the file tells them.

    Raises
    ------
    SchemaError : windows without a size, of a family that has none, or a list of another length than the layers'.
    """
    n = fields.num_hidden_layers
    chunk = fields.attention_chunk_size
    window = None if fields.use_sliding_window is False else fields.sliding_window
    if fields.layer_types is not None or len(set(kinds)) > 1:
        return _told_windows(fields, kinds, window)
    if chunk is not None:  # layers with positions look back within their chunk: at most a chunk of tokens
        period = family.period or n + 1
        with_positions = fields.no_rope_layers or [int((i + 1) % period != 0) for i in range(n)]
        return [chunk if positions else None for positions in checked_length(with_positions, n, "no_rope_layers")]
    if window is None or (family.windows == "switch" and not fields.use_sliding_window):
        return [None] * n
    if family.windows == "none":
        raise SchemaError("sliding_window: windows are not known for this model_type; must be null")
    if family.windows == "pattern":
        period = _period(fields, family)
        return [window if (i + 1) % period else None for i in range(n)]
    first = fields.max_window_layers or 0 if family.windows == "switch" else 0
    return [window if i >= first else None for i in range(n)]


def _told_windows(fields: ConfigFields, kinds: Sequence[str], window: int | None) -> list[int | None]:
    sizes = {"sliding_attention": window, "chunked_attention": fields.attention_chunk_size}
    for kind in dict.fromkeys(kinds):
        if kind in sizes and sizes[kind] is None:
            raise SchemaError(f"layer_types: {kind} needs a size (sliding_window or attention_chunk_size)")
    return [sizes.get(kind) for kind in kinds]


def _period(fields: ConfigFields, family: Family) -> int:
    pattern = fields.sliding_window_pattern
    if pattern is None:
        return family.period
    if isinstance(pattern, int):
        return pattern
    if pattern and set(pattern[:-1]) <= {"L"} and pattern[-1] == "G":  # such as LLLG
        return len(pattern)
    raise SchemaError(f"sliding_window_pattern: {pattern[:40]!r} must be a number or like 'LLLG'")
