"""Headers of safetensors files: a u64 length, a JSON object with the byte range of each tensor, and the data."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Final

from calibrate.record.files import opened
from calibrate.record.json_text import parse_json
from theory.errors import SchemaError

__all__ = ["weight_header"]

_MOST_BYTES: Final = 2**50
_MOST_HEADER: Final = 100 * 2**20
"""Largest header, bytes: the limit of the format's own library."""


def weight_header(path: Path) -> dict[str, Any]:
    """Return the header of a file by name of tensor, without the file's metadata.

    Raises
    ------
    SchemaError : it cannot be read, or its size differs from the header's.
    """
    with opened(path, "weights", most_bytes=_MOST_BYTES) as file:
        size = file.seek(0, 2)
        file.seek(0)
        begin = file.read(8)
        n_header = struct.unpack("<Q", begin)[0] if len(begin) == 8 else 0
        if len(begin) < 8 or n_header > size - 8:
            raise SchemaError(f"{path}: its header is longer than the file")
        if n_header > _MOST_HEADER:
            raise SchemaError(f"{path}: its header has {n_header} bytes, {_MOST_HEADER} are read at most")
        header = parse_json(file.read(n_header).decode("utf-8", "replace"), str(path))
    try:
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        ends = [entry["data_offsets"][1] for entry in tensors.values()]
        expected = 8 + n_header + max(ends, default=0)
    except (TypeError, KeyError, IndexError, AttributeError):
        raise SchemaError(f"{path}: its header is not that of a safetensors file") from None
    if size != expected:
        raise SchemaError(f"{path}: {size} bytes, its header says {expected}")
    return tensors
