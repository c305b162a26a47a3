"""A letter as a LaTeX article that needs no package but those of every installation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.errata.blocks import Block, Heading, Paragraph, Table, blocks
from ledger.errata.inline_math import typeset
from ledger.errata.letter import Letter

__all__ = ["latex"]

_HEAD: Final = r"""\documentclass[10pt]{article}
\usepackage{amsmath,amssymb,longtable}
\usepackage[margin=2cm]{geometry}
\setlength{\parindent}{0pt}
\setlength{\parskip}{3pt}
\pagestyle{plain}
\sloppy
\begin{document}"""
_LEVELS: Final = {1: r"\section*", 2: r"\subsection*", 3: r"\paragraph"}
_COLUMNS: Final = r"p{0.17\textwidth}p{0.3\textwidth}p{0.45\textwidth}"


def latex(letter: Letter) -> str:
    """The whole document."""
    return "\n\n".join([_HEAD, *map(_block, blocks(letter)), r"\end{document}"])


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{_LEVELS[block.level]}{{{_text(block.text)}}}"
    return _text(block.text) if isinstance(block, Paragraph) else _table(block)


def _table(table: Table) -> str:
    rows = "\n".join(_row(tuple(map(_text, row))) for row in table.rows)
    body = f"{_row(table.headings)}\n\\hline\n\\endhead\n{rows}"
    return f"{{\\footnotesize\n\\begin{{longtable}}{{{_COLUMNS}}}\n{body}\n\\end{{longtable}}}}"


def _row(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _text(text: str) -> str:
    """Symbols in math; what stands between backticks in a typewriter font."""
    parts = text.split("`")
    return "".join(f"\\texttt{{{part}}}" if i % 2 else typeset(part) for i, part in enumerate(parts))
