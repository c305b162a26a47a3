"""The one place that checks what options take: numbers, each kind with its range, and names of files.

A number outside, NaN, infinity and what is no number are refused before anything runs, by the option's own name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from theory.errors import ParameterError

__all__ = [
    "ANSWERS",
    "CONFIDENCE",
    "CORES",
    "COST",
    "GPUS",
    "MICROSECONDS",
    "MILLISECONDS",
    "PARALLEL",
    "PRICE",
    "PROBABILITY",
    "RATE",
    "SECONDS",
    "SEED",
    "SHARE",
    "SPREAD",
    "TEMPERATURE",
    "TOKENS",
    "TOP_P",
    "WINDOW",
    "InputName",
    "ListOf",
    "Number",
    "OutputFile",
    "WholeNumber",
    "pairs",
    "typed",
]


def pairs(name: str, texts: Sequence[str], rule: str) -> dict[str, str]:
    """Read options of the form ``KEY=VALUE``, by key; ``rule`` is what is said of others."""
    by_key: dict[str, str] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (key and equals and value):
            raise ParameterError(name, text, rule)
        if key in by_key:
            raise ParameterError(name, text, f"says again what {key} is")
        by_key[key] = value
    return by_key


class WholeNumber(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """An integer in [low, high]; where there may be ``tables``, a list or its text is left as text."""

    name = "integer"

    def __init__(self, low: int, high: int, *, tables: bool = False) -> None:
        self.low, self.high, self.tables = low, high, tables
        self.rule = f"must be an integer in [{low}, {high}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the integer; see `click.ParamType.convert`."""
        if self.tables and str(value).lstrip().startswith("["):
            return str(value)
        try:
            number = int(value)
        except (ValueError, TypeError, OverflowError):
            raise ParameterError(typed(param), value, self.rule) from None
        if not self.low <= number <= self.high:
            raise ParameterError(typed(param), number, self.rule)
        return number


class Number(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A finite number between two ends, each of which is in the range or not."""

    name = "float"

    def __init__(self, low: float, high: float, *, ends: str = "[]") -> None:
        self.low, self.high, self.ends = low, high, ends
        self.rule = f"must be a number in {ends[0]}{low:g}, {high:g}{ends[1]}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; see `click.ParamType.convert`."""
        try:
            number = float(value)
        except (ValueError, TypeError):
            raise ParameterError(typed(param), value, self.rule) from None
        # NaN compares false with everything, so it is inside of nothing.
        above = self.low <= number if self.ends[0] == "[" else self.low < number
        below = number <= self.high if self.ends[1] == "]" else number < self.high
        if not (above and below):
            raise ParameterError(typed(param), number, self.rule)
        return number


class ListOf(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """Numbers with commas between them; the text is handed on as it was typed."""

    name = "text"

    def __init__(self, one: WholeNumber | Number, most: int = 64) -> None:
        self.one, self.most = one, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text; see `click.ParamType.convert`."""
        parts = str(value).split(",")
        kind = "integers" if isinstance(self.one, WholeNumber) else "numbers"
        rule = f"{self.one.rule.partition(' in ')[2]}, with commas between them"
        if len(parts) > self.most:
            raise ParameterError(typed(param), value, f"must be at most {self.most} {kind}")
        for part in parts:
            try:
                self.one.convert(part.strip(), param, ctx)
            except ParameterError:
                raise ParameterError(typed(param), value, f"must be {kind} in {rule}, such as 1,2,4") from None
        return str(value)


class InputName(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A text that may name a file or a folder to read, such as a profile: no output may take its place.

    Parameters
    ----------
    lists : whether it may be several names with commas between them.
    """

    name = "text"

    def __init__(self, *, lists: bool = False) -> None:
        self.lists = lists

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text, which must not be blank; see `click.ParamType.convert`."""
        if not str(value).strip():
            raise ParameterError(typed(param), value, "must not be empty; leave the option out if there is none")
        return value


class OutputFile(click.Path):
    """A file that a command writes; `check_output` checks all of a command.

    Parameters
    ----------
    endings : that its name may have; any if there are none.
    """

    def __init__(self, *endings: str) -> None:
        super().__init__(path_type=Path)
        self.endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, of an ending that can be written; see `click.ParamType.convert`."""
        if self.endings and Path(value).suffix.lower() not in self.endings:
            *others, last = self.endings
            raise ParameterError(typed(param), str(value), f"must end in {', '.join(others)} or {last}")
        return super().convert(value, param, ctx)


def typed(param: click.Parameter | None) -> str:
    """The name of an option as it is typed, of an argument as help shows it."""
    if param is None:
        return "value"
    return max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name


ANSWERS: Final = WholeNumber(2, 10_000)
"""Answers to simulate or to ask for: 10,000 of 100 steps take minutes."""
WINDOW: Final = WholeNumber(1, 1024)
"""k1, k2, width: in flight at once."""
PARALLEL: Final = WholeNumber(1, 65_536)
"""Positions in flight, tokens side by side, batch sizes."""
GPUS: Final = WholeNumber(1, 1024)
CORES: Final = WholeNumber(0, 4095)
"""Number of a CPU core."""
TOKENS: Final = WholeNumber(1, 10_000_000)
SPREAD: Final = Number(0.0, 4.0)
"""Standard deviation / mean: 1 for exponential lengths."""
SEED: Final = WholeNumber(0, 2**31 - 1)
PROBABILITY: Final = Number(0.0, 1.0)
SHARE: Final = Number(0.0, 1.0, ends="()")
CONFIDENCE: Final = SHARE
TOP_P: Final = Number(0.0, 1.0, ends="(]")
TEMPERATURE: Final = Number(0.0, 100.0)
SECONDS: Final = Number(0.0, 1e6, ends="(]")
MICROSECONDS: Final = Number(1e-6, 1e9)
"""Seconds of a drawing: less than a microsecond shows nothing."""
MILLISECONDS: Final = Number(0.0, 1e9, ends="(]")
RATE: Final = Number(0.0, 1e6, ends="(]")
"""Arrivals per second."""
COST: Final = Number(0.0, 1e9)
"""Cost of one verification, in any unit."""
PRICE: Final = Number(0.0, 1e6)
"""Dollars of a GPU and hour."""
