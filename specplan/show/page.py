"""What a report is made of: answers for the first screen, then sections of parts; HTML and Markdown show the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

__all__ = [
    "Answer",
    "Bullets",
    "Code",
    "Interval",
    "Part",
    "Picture",
    "Report",
    "Section",
    "Table",
    "Text",
    "Widget",
    "cleaned",
]

_HIDDEN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Characters that steer or are not seen: they could make a name look like another one."""


def cleaned(text: str) -> str:
    r"""Return a text in which characters that steer or are not seen are written as their numbers.

    >>> cleaned("a\u202eb")
    'a\\u202eb'
    """
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with its interval, drawn as a bar beside the others of its column."""

    value: float
    low: float
    high: float
    digits: int = 2

    def __str__(self) -> str:
        value, low, high = (f"{one:.{self.digits}f}" for one in (self.value, self.low, self.high))
        return value if low == high == value else f"{value} [{low}, {high}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One of the reader's questions, answered on the first screen."""

    question: str
    answer: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bullets:
    """A list of sentences."""

    kind: ClassVar[str] = "bullets"
    items: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Something to copy: commands, settings."""

    kind: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows beneath headings; intervals of a column are drawn on one scale."""

    kind: ClassVar[str] = "table"
    headings: Sequence[str]
    rows: Sequence[Sequence[str | Interval]]
    reference: float | None = None
    """A value that the bars mark, such as 1 for speedups."""
    strong: int | None = None
    """Number of the row to stress."""
    folded: bool = False
    """Whether a reader opens it; for long tables."""
    summary: str = ""
    """What is folded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A drawing, as SVG without outside references."""

    kind: ClassVar[str] = "picture"
    svg: str
    caption: str
    zooms: bool = False
    """Whether it is a timeline with buttons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Widget:
    """A part that the page's script brings to life, with the data that it evaluates."""

    kind: ClassVar[str] = "widget"
    data: Mapping[str, Any]
    caption: str


Part = Text | Bullets | Code | Table | Picture | Widget


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Parts beneath a title."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a command found, for a reader who was not there."""

    title: str
    about: str
    """What it is about: models, data; a line."""
    lead: str
    """The result in a sentence or two."""
    answers: Sequence[Answer]
    sections: Sequence[Section]
    made: Sequence[tuple[str, str]] = ()
    """How the numbers were made: inputs, seeds, schedules."""
    notes: Sequence[str] = field(default=())
