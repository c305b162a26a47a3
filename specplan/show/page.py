"""Parts of a report: answers for the first screen, then sections; HTML and Markdown show the same content."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sim.estimate import Estimate

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
    "brief",
    "cleaned",
    "filled",
    "interval",
]

_HIDDEN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control and invisible characters, with which a name could look like another name."""


def cleaned(text: str) -> str:
    r"""Return a text in which control and invisible characters are replaced by their code points.

    >>> cleaned("a\u202eb")
    'a\\u202eb'
    """
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def brief(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, without an exponent.

    >>> brief(1234.5), brief(128.0, 2), brief(0.00002345, 2)
    ('1230', '130', '0.000023')
    """
    import numpy as np

    return np.format_float_positional(value, precision=digits, fractional=False, trim="-")


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its interval, drawn as a bar on the scale of its column."""

    value: float
    low: float
    high: float
    digits: int = 2

    def __str__(self) -> str:
        value, low, high = (f"{one:.{self.digits}f}" for one in (self.value, self.low, self.high))
        return value if low == high == value else f"{value} [{low}, {high}]"


def interval(estimate: Estimate, digits: int = 2, *, times: float = 1.0) -> Interval:
    """Return an estimate, so many ``times`` its unit (100: in per cent), as a cell of a table."""
    value, low, high = (times * one for one in (estimate.value, estimate.low, estimate.high))
    return Interval(value, low, high, digits=digits)


@dataclass(frozen=True, slots=True)
class Answer:
    """A question of the reader with its answer, on the first screen."""

    question: str
    answer: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Code:
    """Text to copy, such as commands and settings."""

    text: str
    shell: bool = False
    """Whether each line is a command, which may be broken between its options."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below headings; the intervals of a column share a scale."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str | Interval]]
    reference: float | None = None
    """A value that is marked on the bars, such as 1 for speedups."""
    strong: int | None = None
    """Number of the row that is emphasized."""
    folded: str = ""
    """Title of a table that is folded until the reader opens it; empty: it is not folded."""


def filled(
    *columns: tuple[str, Sequence[str | Interval]],
    reference: float | None = None,
    strong: int | None = None,
    folded: str = "",
) -> Table:
    """Return a table of columns, each a heading and cells, but for those with nothing but dashes; the first stays."""
    kept = [columns[0], *(one for one in columns[1:] if set(map(str, one[1])) != {"–"})]
    rows = [list(row) for row in zip(*(cells for _, cells in kept), strict=True)]
    headings = [heading for heading, _ in kept]
    return Table(headings=headings, rows=rows, reference=reference, strong=strong, folded=folded)


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing, which is only made for HTML."""

    draw: Callable[[], Figure]
    caption: str


Part = Text | Bullets | Code | Table | Picture


@dataclass(frozen=True, slots=True)
class Section:
    """Parts below a title."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a command as a page."""

    title: str
    about: str
    """Models and data that the report is about, in a line."""
    lead: str
    """The result in a sentence or two."""
    answers: Sequence[Answer]
    sections: Sequence[Section]
    made: Sequence[tuple[str, str]] = ()
    """Inputs, seeds and schedules behind the numbers."""
    notes: Sequence[str] = field(default=())
