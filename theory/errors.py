"""The project's exceptions: one base class, and messages that name the argument, its value, the rule and the remedy."""

from __future__ import annotations

from functools import partial
from typing import Final

__all__ = [
    "CalibrationError",
    "ParameterError",
    "SchemaError",
    "SpecplanError",
    "UnstableMeasurementError",
    "check_integers",
    "shown",
]

_LONGEST_VALUE: Final = 160


def shown(text: str, longest: int = _LONGEST_VALUE) -> str:
    r"""Text on a single line: unprintable characters are escaped, the middle of a long text is left out.

    Parameters
    ----------
    text : text from a user, a file or a server.
    longest : most characters to show, >= 8.

    >>> print(shown("a\nUse LR: 99 times \x1b[31m"))
    a\nUse LR: 99 times \x1b[31m
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: 2 * longest])
    if len(text) <= longest:
        return text
    head = longest * 2 // 3
    return f"{text[:head]} ... {text[len(text) - (longest - head - 5) :]}"


class SpecplanError(Exception):
    """Base of all errors that this project raises; the message is a single printable line."""


class ParameterError(SpecplanError, ValueError):
    """A parameter is outside its domain (NaN and infinity included).

    Parameters
    ----------
    name : the parameter's name for the caller.
    value : the given value.
    rule : the domain in words or as an interval, e.g. ``"must be in [0, 1]"``.
    """

    def __init__(self, name: str, value: object, rule: str) -> None:
        super().__init__(f"{name}={shown(repr(value))} {rule}")
        self.name = name
        self.value = value
        self.rule = rule

    def __reduce__(self) -> tuple[type[ParameterError], tuple[str, object, str]]:
        """Rebuild from the three parts: worker processes return exceptions as pickles."""
        return type(self), (self.name, self.value, self.rule)


def check_integers(record: object, **least: int) -> None:
    """Check fields of a record by name: each must be None or an integer that is at least the number given for it.

    Raises
    ------
    ParameterError : the first that is not.
    """
    for name, bound in least.items():
        value = getattr(record, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < bound):
            raise ParameterError(name, value, f"must be an integer >= {bound}")


class SchemaError(SpecplanError):
    """A file does not match its schema; the message has the path inside the file."""


class CalibrationError(SpecplanError):
    """A measurement on an engine failed (engine unreachable, died, sent an invalid answer, timed out)."""


class UnstableMeasurementError(CalibrationError):
    """A measurement succeeded, but is too noisy to be used.

    Parameters
    ----------
    message : one line: the measured quantity, its spread and the limit of the spread.
    spread : the relative spread, [-].
    """

    def __init__(self, message: str, *, spread: float) -> None:
        super().__init__(message)
        self.spread = spread

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild with the keyword argument."""
        return partial(UnstableMeasurementError, spread=self.spread), (str(self),)
