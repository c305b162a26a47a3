"""Data from files checked against a model, with errors of one line that name the place."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from theory.errors import SchemaError

__all__ = ["checked"]

Kind = TypeVar("Kind", bound=BaseModel)


def checked(kind: type[Kind], item: Any, where: str) -> Kind:
    """Return data as a model; ``where`` names their source in errors.

    Raises
    ------
    SchemaError : they do not fit it.
    """
    try:
        return kind.model_validate(item)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SchemaError(f"{where}: {place}{': ' if place else ''}{first['msg']}") from None
