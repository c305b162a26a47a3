"""Fields that must be there, and lists that must be as long as a model has layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from specplan.worlds.configs.fields import ConfigFields
from theory.errors import SchemaError

T = TypeVar("T")


def needed(fields: ConfigFields, name: str) -> int:
    """Return a size; raise `SchemaError` where the file does not say it."""
    value = getattr(fields, name)
    if value is None:
        raise SchemaError(f"{name}: missing")
    return int(value)


def checked_length(values: Sequence[T], n: int, name: str) -> Sequence[T]:
    """Return a list with an entry for each of ``n`` layers; raise `SchemaError` if it has another length."""
    if len(values) != n:
        raise SchemaError(f"{name}: {len(values)} entries must be num_hidden_layers={n}")
    return values
