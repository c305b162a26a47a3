"""Compare every number of `theory.published` with the papers' text.

Run ``python -m workshop.check_published FOLDER`` with a folder of the papers as plain text (one file each; they are not
in the repository). Each printed row must stand in its paper's text, number by number and in order; exit status 1 if one
does not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from theory.published import confspec, lookahead_decoding, lookahead_reasoning, specs

__all__ = ["PRINTED", "PrintedRow", "main", "missing", "numbers"]

PrintedRow = tuple[str, list[str]]
"""Where the row stands, and its numbers as printed, in order."""

_NUMBER: Final = re.compile(r"(?<![A-Za-z\d.])\d+(?:,\d{3})*(?:\.\d+)?")
_ABSENT: Final = ("-", "=")
"""How the tables here write cells without a number."""


def numbers(text: str) -> list[str]:
    r"""The numbers of a text in order; digits within a name (AMC23) are none.

    >>> numbers(r"AMC23 & $28.5\pm3.9$ (5, 15, 15) 1.06x")
    ['28.5', '3.9', '5', '15', '15', '1.06']
    """
    return _NUMBER.findall(re.sub(r"\\[a-z]+", " ", text))


def missing(text: str, rows: Iterator[PrintedRow]) -> list[PrintedRow]:
    """The rows whose numbers do not follow each other anywhere in the text."""
    stream = f" {' '.join(numbers(text))} "
    return [(place, row) for place, row in rows if f" {' '.join(row)} " not in stream]


def _present(*cells: str) -> list[str]:
    return [cell for cell in cells if cell not in _ABSENT]


def _columns(table: Mapping[str, Sequence[str]], *rows: str) -> list[str]:
    """Rows read column by column, as a table prints a cell of several lines."""
    return _present(*chain.from_iterable(zip(*(table[row] for row in rows), strict=True)))


def _lookahead_reasoning() -> Iterator[PrintedRow]:
    for pair, table in lookahead_reasoning.TABLE_1.items():
        for who in ("draft", "target"):
            yield f"Table 1, {pair}, {who}", _columns(table, f"{who} accuracy", f"{who} spread")
        rows = [f"SpecReason {what}" for what in ("accuracy", "spread", "acceptance")]
        yield f"Table 1, {pair}, SpecReason", _columns(table, *rows)
        yield (
            f"Table 1, {pair}, LR",
            _columns(table, *(f"LR {w}" for w in ("accuracy", "spread", "acceptance", "speedup"))),
        )
        for method in ("SD", "SD+LR"):
            yield f"Table 1, {pair}, {method}", list(table[f"{method} speedup"])
    for data, table in lookahead_reasoning.TABLE_2.items():
        yield f"Table 2, {data}", _columns(table, "acceptance", "accuracy", "spread")
    for data in ("GSM8K", "AIME24"):
        trees = [lookahead_reasoning.TABLE_3[data, judge] for judge in lookahead_reasoning.JUDGES]
        cells = [
            [*(x for tree in trees for x in (tree["accuracy"][i], tree["spread"][i])),
             *(tree[row][i] for row in ("acceptance", "speedup") for tree in trees)]
            for i in range(len(lookahead_reasoning.TREE_WIDTHS))
        ]  # fmt: skip
        yield f"Table 3, {data}", list(chain.from_iterable(cells))


def _lookahead_decoding() -> Iterator[PrintedRow]:
    yield "Figure 4", [lookahead_decoding.ALPHA]
    yield "Figure 4", [lookahead_decoding.STEPS_PER_HIT]
    for data in ("CNN", "XSum"):
        warm, cold = (lookahead_decoding.TABLE_2[data, temperature] for temperature in ("1.0", "0.0"))
        for column in range(3):
            row = [warm.plain[column], warm.own[column], cold.plain[column], cold.own[column]]
            yield f"Table 2, {data}, Rouge {column}", row
        for name in ("speedup", "compression"):
            yield f"Table 2, {data}, {name}", ["1.00", getattr(warm, name), "1.00", getattr(cold, name)]
    for tag, setting in lookahead_decoding.TABLE_3.items():
        shape = [str(x) for x in (setting.ngram, setting.window, setting.guesses)] if setting.ngram else []
        yield f"Table 3, {tag}", [*shape, setting.speedup, setting.compression]
    for model, (window, ngram) in lookahead_decoding.TABLE_4.items():
        yield f"Table 4, {model}", [model.removesuffix("B"), str(window), str(ngram)]
    yield "Table 5", list(lookahead_decoding.SCORES)
    for key, gains in lookahead_decoding.TABLE_6.items():
        yield f"Table 6, {key}", ["1.0", *_present(*gains)]


def _specs() -> Iterator[PrintedRow]:
    for (family, benchmark, method, width), cell in specs.TABLE_1.items():
        spread_of_share = [] if method.startswith("BS") else [cell.share_spread]
        yield f"Table 1, {family}, {benchmark}, {method}, {width}", [*cell[:-1], *spread_of_share]
    for name, table in (("2", specs.TABLE_2), ("4", specs.TABLE_4), ("6", specs.TABLE_6)):
        for (method, width), row in table.items():
            yield f"Table {name}, {method}, {width}", [str(width), *row]
    rows = [[str(width), str(beta), tau] for (_, _, width), (beta, tau) in specs.TABLE_3.items()]
    yield "Table 3", list(chain.from_iterable(rows))
    for name, others in (("5", specs.TABLE_5), ("7", specs.TABLE_7)):
        for width, row in others.items():
            yield f"Table {name}, {width}", [str(width), *row]


def _confspec() -> Iterator[PrintedRow]:
    for table, methods in confspec.TABLES.items():
        for method, cells in methods.items():
            yield f"Table {table}, {method}", _present(*chain.from_iterable(cell.split("/") for cell in cells))
    for component, milliseconds in confspec.LATENCY_MS.items():
        yield f"Table 6, {component}", [milliseconds]
    for model, shares in confspec.CONFIDENT.items():
        for share in shares:
            yield f"Figure 1, {model}", [f"{100 * float(share):.0f}"]


PRINTED: Final[Mapping[str, Callable[[], Iterator[PrintedRow]]]] = {
    "Scaling Speculative Decoding with LOOKAHEAD REASONING": _lookahead_reasoning,
    "Break the Sequential Dependency of LLM Inference Using LOOKAHEAD DECODING": _lookahead_decoding,
    "SPECS": _specs,
    "ConfSpec": _confspec,
}
"""Title of a paper, as its text begins, to its rows."""

_BEGINNING: Final = 1500
"""Characters within which a text's title stands."""


def main(folder: Path) -> int:
    """Compare the texts of a folder, tell what is missing, and return the exit status."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt"))]
    status = 0
    for title, rows in PRINTED.items():
        own = [text for text in texts if title.casefold() in text[:_BEGINNING].casefold()]
        if not own:
            print(f"{title}: no text in {folder}", file=sys.stderr)
            status = 1
            continue
        wrong = missing(own[0], rows())
        print(f"{title}: {sum(1 for _ in rows())} rows, {len(wrong)} not found")
        for place, row in wrong:
            print(f"  {place}: {' '.join(row)}", file=sys.stderr)
        status = max(status, int(bool(wrong)))
    return status


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m workshop.check_published FOLDER")
    sys.exit(main(Path(sys.argv[1])))
