"""Reading a measurement's journal without resuming it (see `calibrate.record.journal` for the format)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theory.errors import SchemaError

__all__ = ["Record", "read"]


@dataclass(frozen=True, slots=True)
class Record:
    """What a journal holds."""

    settings: dict[str, Any]
    pieces: dict[str, Any]
    """By key; the last entry of a key counts."""


def read(path: Path) -> Record:
    """Read a journal; a last line cut short by a crash is left out.

    Raises
    ------
    SchemaError : there is no such file, or it is not a journal.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise SchemaError(f"{path}: cannot be read: {error.strerror}") from None
    entries = []
    for number, line in enumerate(lines):
        try:
            entries.append(json.loads(line))
        except ValueError:
            if number < len(lines) - 1 or number == 0:
                raise SchemaError(f"{path}: line {number + 1} is not JSON: not the journal of a measurement") from None
    if not entries or not isinstance(entries[0], dict) or "settings" not in entries[0]:
        raise SchemaError(f"{path}: not the journal of a measurement: it does not begin with its settings")
    return Record(entries[0]["settings"], {entry["key"]: entry["value"] for entry in entries[1:]})
