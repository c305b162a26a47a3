"""What all records of layers check."""

from __future__ import annotations

from dataclasses import fields

from theory.errors import ParameterError

__all__ = ["check_counts"]


def check_counts(record: object, optional: tuple[str, ...] = (), skipped: tuple[str, ...] = ()) -> None:
    """Refuse a record with a field that is no integer >= 1; ``optional`` ones may be None or 0.

    Raises
    ------
    ParameterError : names the field.
    """
    for field in fields(record):  # type: ignore[arg-type]  # a dataclass
        value = getattr(record, field.name)
        if field.name in skipped or (field.name in optional and value in (None, 0)):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(field.name, value, "must be an integer >= 1")
