"""Reports as HTML, from templates that escape all values, as Markdown, and as text of 80 columns."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specplan.output import SCREEN, screen, table
from specplan.show.page import Bullets, Code, Interval, Part, Picture, Report, Table, Text, cleaned

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["as_html", "as_markdown", "as_text", "broken", "json_lines"]

_TEMPLATES: Final = Path(__file__).parent / "templates"
_INDENT: Final = "    "
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|, |[^",]+|,')
"""Strings of JSON, commas between values, and what is between these."""
_SPECIAL: Final = re.compile(r"([\\`*_\[\]|#~!])")


def as_html(report: Report, made: Sequence[tuple[str, str]], command: str) -> str:
    """Return a self-contained page, which neither needs nor may load any other file."""
    style = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'; img-src data:; base-uri 'none'; form-action 'none'"
    page = _environment().get_template("report.html")
    return page.render(report=report, made=made, command=command, style=style, policy=policy)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from specplan.show.drawing import as_svg

    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: cleaned(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    made.filters["own"] = Markup  # for specplan's own style and bars, which hold no text from elsewhere
    made.filters["drawn"] = lambda picture: base64.b64encode(as_svg(picture.draw()).encode()).decode()
    made.globals.update(bars=_bars, kind=lambda one: type(one).__name__)
    return made


def _bars(table: Table) -> dict[tuple[int, int], str]:
    """Bars of a table's intervals by row and column; each column has its own scale."""
    bars = {}
    for j in range(len(table.headings)):
        cells = {i: cell for i, row in enumerate(table.rows) if isinstance(cell := row[j], Interval)}
        ends = [end for cell in cells.values() for end in (cell.low, cell.high) if math.isfinite(end)]
        ends += [] if table.reference is None or not ends else [table.reference]
        for i, cell in cells.items():
            if math.isnan(cell.value + cell.low + cell.high) or not ends:
                continue  # an unknown value has no bar
            bars[i, j] = _bar(cell, min(ends), max(ends), table.reference)
    return bars


def _bar(interval: Interval, low: float, high: float, reference: float | None) -> str:
    """A bar from low to high with a dot, 150 px wide, on the scale from ``low`` to ``high`` of its column."""

    def x(value: float) -> float:
        return round(6.0 + 138.0 * (min(max(value, low), high) - low) / ((high - low) or 1.0), 2)

    left, right = x(interval.low), x(interval.high)
    mark = "" if reference is None else f'<path class="reference" d="M{x(reference)} 0v16"/>'
    return (
        f'<svg class="interval" viewBox="0 0 150 16" aria-hidden="true">{mark}<rect class="bar" x="{left}" y="5" '
        f'width="{max(right - left, 1.0):.2f}" height="6" rx="3"/><circle cx="{x(interval.value)}" cy="8" r="4"/></svg>'
    )


def as_markdown(report: Report, made: Sequence[tuple[str, str]], command: str) -> str:
    """Return the report as Markdown, with captions in place of drawings."""
    lines = [f"# {_said(report.title)}", "", _said(report.about), "", f"**{_said(report.lead)}**", ""]
    answers = [f"{one.answer} – {one.detail}" if one.detail else one.answer for one in report.answers]
    questions = [one.question for one in report.answers]
    lines += _rows(["question", "answer"], [list(pair) for pair in zip(questions, answers, strict=True)])
    for section in report.sections:
        lines += ["", f"## {_said(section.title)}"]
        for part in section.parts:
            lines += ["", *_part(part)]
    lines += ["", "## How the numbers were made", "", *_rows(["", ""], [[name, value] for name, value in made])]
    if command:
        lines += ["", *_part(Code(command))]
    if report.notes:
        lines += ["", "## Notes", "", *_part(Bullets(report.notes))]
    return "\n".join(lines) + "\n"


def _said(text: str) -> str:
    """Escape a text so that nothing in it is markup."""
    shown = _SPECIAL.sub(r"\\\1", " ".join(cleaned(text).split()))
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _rows(headings: Sequence[str], rows: Sequence[Sequence[str | Interval]]) -> list[str]:
    table = [headings, ["---"] * len(headings), *rows]
    return ["| " + " | ".join(cell if cell == "---" else _said(str(cell)) for cell in row) + " |" for row in table]


def _part(part: Part) -> list[str]:
    if isinstance(part, Text):
        return [_said(part.text)]
    if isinstance(part, Bullets):
        return [f"- {_said(item)}" for item in part.items]
    if isinstance(part, Code):
        shown = [cleaned(line) for line in part.text.splitlines()]
        fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", part.text))])
        return [fence, *shown, fence]
    if isinstance(part, Table):
        return _rows(part.headings, part.rows)
    assert isinstance(part, Picture)
    return [f"*{_said(part.caption)}* (Drawn in the HTML report.)"]


def as_text(report: Report) -> str:
    """Return the report in lines of a terminal, without drawings; commands can be pasted as they are printed."""
    answers = [
        f"{one.question} {one.answer.removesuffix('.')}." + (f" {one.detail}" if one.detail else "")
        for one in report.answers
    ]
    blocks: list[str | Sequence[str]] = [report.title, report.about, report.lead, answers]
    for section in report.sections:
        if parts := list(filter(None, map(_in_lines, section.parts))):
            blocks += [f"{section.title}\n{'=' * len(section.title)}", *parts]
    notes = [*(f"{name}: {value}" for name, value in report.made), *report.notes]
    return screen(*blocks, [f"- {note}" for note in notes])


def _in_lines(part: Part) -> str:
    """A part as text; empty for drawings."""
    if isinstance(part, Text):
        return screen(part.text)
    if isinstance(part, Bullets):
        return screen([f"- {item}" for item in part.items])
    if isinstance(part, Code):
        shown = []
        for line in part.text.splitlines():
            is_long = line.startswith("{") and len(line) > SCREEN - 2  # JSON, broken between its values
            indented = [f"  {one}" for one in (json_lines(line, SCREEN - 2) if is_long else [line])]
            shown += [broken(line)] if part.shell else indented
        return "\n".join(shown)
    if isinstance(part, Table):
        title = [screen(f"{part.folded}:"), ""] if part.folded else []
        return "\n".join([*title, "\n\n".join(_narrow(part))])
    return ""


def _narrow(part: Table) -> Iterator[str]:
    """A table as several where it is wider than a screen, each with the first column."""
    rows = [list(map(str, row)) for row in [part.headings, *part.rows]]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    columns = [0]
    for column in range(1, len(widths)):
        if sum(widths[i] for i in [*columns, column]) > SCREEN + 2 and len(columns) > 1:
            yield _columns(rows, columns)
            columns = [0]
        columns.append(column)
    yield _columns(rows, columns)


def _columns(rows: Sequence[Sequence[str]], columns: Sequence[int]) -> str:
    headings, *body = ([row[i] for i in columns] for row in rows)
    return table(headings, body, width=SCREEN)


def broken(command: str) -> str:
    """Return a shell command in lines that end in a backslash; an option keeps its value, JSON is broken at commas.

    >>> print(broken("vllm serve m --port 8000"))
      vllm serve m --port 8000
    """
    indent = lines = "  "
    for first, *inside in _options(shlex.split(command)):
        line = lines.rpartition("\n")[2]
        fits = len(line) + len(first) + len("  \\") <= SCREEN or line == indent
        lines += ("" if line == indent else " " if fits else f" \\\n{indent}{_INDENT}") + first
        lines += "".join(f"\n{part}" for part in inside)
    return lines


def _options(words: list[str]) -> Iterator[list[str]]:
    """Each option with its value, a word, or the lines of a value in JSON."""
    i = 0
    while i < len(words):
        word, value = words[i], words[i + 1] if i + 1 < len(words) else "--"
        if not word.startswith("--") or value.startswith("--"):
            yield [word if re.fullmatch(r"\w+=[\w,]*", word) else shlex.quote(word)]  # assignments stay without quotes
            i += 1
            continue
        text = f"{word} {shlex.quote(value)}"
        yield [text] if len(text) + 8 <= SCREEN or not value.startswith("{") else _of_json(word, value)
        i += 2


def _of_json(option: str, value: str) -> list[str]:
    first, *rest = json_lines(value, SCREEN - 2 * len(_INDENT) - len(option) - 4)
    lines = [f"{option} '{first}", *(f"{2 * _INDENT}{line}" for line in rest)]
    return [*lines[:-1], lines[-1] + "'"]


def json_lines(text: str, width: int) -> list[str]:
    """Return JSON in lines of a width where commas between values allow it; strings are not broken.

    >>> json_lines('{"method": "mtp", "num_speculative_tokens": 3}', 30)
    ['{"method": "mtp",', '"num_speculative_tokens": 3}']
    """
    lines = [""]
    for part in _parts(text):
        joined = f"{lines[-1]} {part}".strip()
        lines[-1:] = [joined] if len(joined) <= width or not lines[-1] else [lines[-1], part]
    return lines


def _parts(text: str) -> Iterator[str]:
    """The text between commas that are in no string, each with its comma."""
    part = ""
    for token in _TOKENS.findall(text):
        if token == ", ":
            yield f"{part},"
            part = ""
        else:
            part += token
    yield part
