"""Base class and field types of records, frozen and without unknown keys, and the check of data against a model."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from theory.errors import SchemaError, shown

__all__ = ["AtLeastOne", "Count", "Finite", "Moment", "NotNegative", "Record", "Seconds", "checked", "misfit"]

_Kind = TypeVar("_Kind", bound=BaseModel)
NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.0, le=1e9, allow_inf_nan=False)]
Moment = Annotated[float, Field(ge=0.0, le=1e11, allow_inf_nan=False)]
"""Seconds since 1970."""
Count = Annotated[int, Field(ge=0, le=2**53)]
AtLeastOne = Annotated[int, Field(ge=1, le=2**53)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Record(BaseModel):
    """Part of a profile."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # nested records share their schema


def checked(kind: type[_Kind], data: Any, where: str) -> _Kind:
    """Return data as a model; ``where`` names their source in errors.

    Raises
    ------
    SchemaError : they do not fit it; see `misfit`.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise misfit(error, where) from None


def misfit(error: ValidationError, where: str) -> SchemaError:
    """Return the error that names the first field which does not fit, what it must be, and its value."""
    first = error.errors(include_url=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    message = "missing" if first["type"] == "missing" else first["msg"].removeprefix("Value error, ")
    got = "" if first["type"] in ("missing", "value_error") else f", got '{shown(str(first['input']), 60)}'"
    text = f"{place + ': ' if place else ''}{message[0].lower() + message[1:]}{got}{more}"
    return SchemaError(f"{where}: {text}")
