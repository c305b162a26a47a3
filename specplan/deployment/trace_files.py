"""Files of arrivals: Mooncake's (JSONL), Azure's of LLM inference (CSV), and our own (JSONL, in seconds).

Mooncake: an object a line, ``timestamp`` in milliseconds, ``input_length``, ``output_length``, ``hash_ids`` (blocks
that prompts have in common; not used: prompts count as new). https://github.com/kvcache-ai/Mooncake, FAST '25.
Azure: columns ``TIMESTAMP`` (date and time), ``ContextTokens``, ``GeneratedTokens``.
https://github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023 and 2024.
Our own: as Mooncake's, but ``timestamp`` in seconds, in a file named ``*arrivals.jsonl``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from sim.serving.arrivals import Arrivals
from theory.errors import SchemaError

__all__ = ["read_trace"]

_MOST_BYTES: Final = 512 * 2**20
_MOST_ROWS: Final = 2_000_000
_MOST_LINE: Final = 2**20
"""Characters of a line: 128k tokens in blocks of 16 with ids of 20 digits are 0.2 million."""
_MOST_TOKENS: Final = 10_000_000
_OWN_NAME: Final = "arrivals.jsonl"


def _moment(text: object) -> object:
    """Seconds since 1970 of a date and time; those without a zone are taken as UTC."""
    if not isinstance(text, str):
        return text
    head, _, fraction = text.strip().partition(".")
    digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))]
    # Azure writes seven digits of a second: the standard library reads six, so the fraction is read apart.
    found = datetime.fromisoformat(head + fraction[len(digits) :])
    whole = found if found.tzinfo else found.replace(tzinfo=UTC)
    return whole.timestamp() + (float(f"0.{digits}") if digits else 0.0)


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    moment: Any
    prompt: int
    answer: int


class _LengthRow(_Row):
    moment: float = Field(alias="timestamp", ge=0.0)
    prompt: int = Field(alias="input_length", ge=0, le=_MOST_TOKENS)
    answer: int = Field(alias="output_length", ge=1, le=_MOST_TOKENS)


class _AzureRow(_Row):
    moment: Annotated[float, BeforeValidator(_moment)] = Field(alias="TIMESTAMP")
    prompt: int = Field(alias="ContextTokens", ge=0, le=_MOST_TOKENS)
    answer: int = Field(alias="GeneratedTokens", ge=1, le=_MOST_TOKENS)


def read_trace(path: str | Path) -> Arrivals:
    """Read a file of arrivals; its kind is told by its name (``.csv``, ``.jsonl``).

    Raises
    ------
    SchemaError : unreadable, too large, empty, not in order, or a row that is not as its format has it.
    """
    path = Path(path)
    readers: dict[str, Callable[[Path], Iterator[tuple[int, _Row]]]] = {".csv": _csv_rows, ".jsonl": _json_rows}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise SchemaError(f"{path}: must be named .jsonl (Mooncake's or our own) or .csv (Azure's)")
    unit = 1e-3 if reader is _json_rows and not path.name.endswith(_OWN_NAME) else 1.0
    times: list[float] = []
    prompts: list[int] = []
    answers: list[int] = []
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SchemaError(f"{path}: larger than {_MOST_BYTES // 2**20} MiB: give a part of it")
        last = -math.inf
        for number, row in reader(path):
            if len(times) == _MOST_ROWS:
                raise SchemaError(f"{path}:{number}: more than {_MOST_ROWS} arrivals: give a part of them")
            if row.moment < last:
                raise SchemaError(f"{path}:{number}: arrives before the line above: sort the file by time")
            last = row.moment
            times.append(last * unit)
            prompts.append(row.prompt)
            answers.append(row.answer)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SchemaError(f"{path}: cannot be read as arrivals: {reason}") from None
    if not times:
        raise SchemaError(f"{path}:1: no arrivals: the file is empty")
    return Arrivals.of(times, prompts, answers)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, blank ones left out."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        number = 0
        while line := file.readline(_MOST_LINE + 1):
            number += 1
            if len(line) > _MOST_LINE:
                raise SchemaError(f"{path}:{number}: longer than {_MOST_LINE} characters")
            if line.strip():
                yield number, line


def _json_rows(path: Path) -> Iterator[tuple[int, _Row]]:
    for number, line in _lines(path):
        try:
            yield number, _LengthRow.model_validate_json(line)
        except ValidationError as error:
            raise SchemaError(f"{path}:{number}: {_told(error)}") from None


def _csv_rows(path: Path) -> Iterator[tuple[int, _Row]]:
    lines = _lines(path)
    _, header = next(lines, (1, ""))
    names = [name.strip() for name in header.split(",")]
    for number, line in lines:
        cells = next(csv.reader([line]))
        try:
            yield number, _AzureRow.model_validate(dict(zip(names, cells, strict=False)))
        except ValidationError as error:
            raise SchemaError(f"{path}:{number}: {_told(error)}") from None


def _told(error: ValidationError) -> str:
    """Return the first thing that is wrong."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])
