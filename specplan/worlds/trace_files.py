"""Files of arrivals: Mooncake's (JSONL), Azure's of LLM inference (CSV), and our own (JSONL, in seconds).

Mooncake: an object a line, ``timestamp`` in milliseconds, ``input_length``, ``output_length``, ``hash_ids`` (blocks
that prompts have in common; not used: prompts count as new). https://github.com/kvcache-ai/Mooncake, FAST '25. Dynamo's
replay (``python -m dynamo.replay``) takes the same files; turns of sessions must have timestamps of their own here.
Azure: columns ``TIMESTAMP`` (date and time), ``ContextTokens``, ``GeneratedTokens``.
https://github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023 and 2024.
Our own: an object a line, ``arrival_s`` in seconds, ``prompt_tokens``, ``answer_tokens``.

Files of benchmarks (vLLM, guidellm, AIPerf: `specplan.readers.formats`) are read too, their first run.

Which one a file is, its first line tells, whatever its name. An answer of no tokens (recorded traces have some) counts
as one of a single token, since its prompt was read all the same. Times must be in order.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Generator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from calibrate.record.fields import misfit
from calibrate.record.files import opened
from sim.serving.arrivals import Arrivals
from specplan.readers.formats import is_benchmark, read_benchmarks
from theory.errors import SchemaError

__all__ = ["read_trace"]

_WHAT: Final = "arrivals"
_MOST_BYTES: Final = 512 * 2**20
_MOST_ROWS: Final = 2_000_000
_MOST_LINE: Final = 2**20
"""Characters of a line: 128k tokens in blocks of 16 with ids of 20 digits are 0.2 million."""
_MOST_TOKENS: Final = 10_000_000


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


_Prompt = Annotated[int, Field(ge=0, le=_MOST_TOKENS)]
_Answer = Annotated[int, Field(ge=0, le=_MOST_TOKENS), AfterValidator(lambda tokens: max(tokens, 1))]
_Moment = Annotated[float, Field(ge=0.0)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    unit_s: ClassVar[float] = 1.0
    """Unit of the arrival times, s."""
    moment: Any
    prompt: int
    answer: int


class _OwnRow(_Row):
    moment: _Moment = Field(alias="arrival_s")
    prompt: _Prompt = Field(alias="prompt_tokens")
    answer: _Answer = Field(alias="answer_tokens")


class _MooncakeRow(_Row):
    unit_s = 1e-3

    moment: _Moment = Field(alias="timestamp")
    prompt: _Prompt = Field(alias="input_length")
    answer: _Answer = Field(alias="output_length")


class _AzureRow(_Row):
    moment: Annotated[float, BeforeValidator(_moment)] = Field(alias="TIMESTAMP")
    prompt: _Prompt = Field(alias="ContextTokens")
    answer: _Answer = Field(alias="GeneratedTokens")


_AZURE_COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def read_trace(path: str | Path) -> Arrivals:
    """Read a file of arrivals; its first line tells of which kind it is.

    Raises
    ------
    SchemaError : unreadable, too large, empty, not in order, or a row that is not as its format has it.
    """
    path = Path(path)
    times: list[float] = []
    prompts: list[int] = []
    answers: list[int] = []
    if is_benchmark(path, _WHAT):
        return read_benchmarks(path)[0].arrivals
    last = -math.inf
    with closing(_lines(path)) as lines:
        for number, row in _rows(path, lines):
            if len(times) == _MOST_ROWS:
                raise SchemaError(f"{path}:{number}: more than {_MOST_ROWS} arrivals: give a part of them")
            if row.moment < last:
                raise SchemaError(f"{path}:{number}: arrives before the line above: sort the file by time")
            last = row.moment
            times.append(last * row.unit_s)
            prompts.append(row.prompt)
            answers.append(row.answer)
    if not times:
        raise SchemaError(f"{path}:1: no arrivals: the file is empty")
    return Arrivals.of(times, prompts, answers)


def _lines(path: Path) -> Generator[tuple[int, str], None, None]:
    """Lines with their numbers, blank ones left out."""
    with opened(path, _WHAT, most_bytes=_MOST_BYTES) as raw:
        file = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        number = 0
        while line := file.readline(_MOST_LINE + 1):
            number += 1
            if len(line) > _MOST_LINE:
                raise SchemaError(f"{path}:{number}: longer than {_MOST_LINE} characters")
            if line.strip():
                yield number, line


def _rows(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, _Row]]:
    """Rows of whichever kind the first line is, with their numbers."""
    number, first = next(lines, (1, ""))
    if first.lstrip().startswith("{"):
        kind: type[_Row] = _OwnRow if '"arrival_s"' in first else _MooncakeRow
        for at, line in chain([(number, first)], lines):
            try:
                yield at, kind.model_validate_json(line, strict=True)
            except ValidationError as error:
                raise misfit(error, f"{path}:{at}") from None
        return
    names = [name.strip() for name in first.split(",")]
    if first and not set(_AZURE_COLUMNS) <= set(names):
        rule = "must begin with an object (Mooncake's, or our own) or with Azure's columns"
        raise SchemaError(f"{path}:{number}: {rule} {', '.join(_AZURE_COLUMNS)}")
    for at, line in lines:
        try:
            yield at, _AzureRow.model_validate(dict(zip(names, next(csv.reader([line])), strict=False)))
        except ValidationError as error:
            raise misfit(error, f"{path}:{at}") from None
        except csv.Error as error:
            raise SchemaError(f"{path}:{at}: {error}") from None
