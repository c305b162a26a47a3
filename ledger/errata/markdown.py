"""A letter as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.errata.blocks import Block, Heading, Paragraph, blocks
from ledger.errata.letter import Letter

__all__ = ["markdown"]


def markdown(letter: Letter) -> str:
    """The whole document."""
    return "\n\n".join(map(_block, blocks(letter)))


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_text(block.text)}"
    if isinstance(block, Paragraph):
        return _text(block.text)
    rule = ("---",) * len(block.headings)
    return "\n".join([_row(block.headings), _row(rule), *(_row(tuple(map(_text, row))) for row in block.rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """Plain words and formulas, as Markdown shows them unchanged; what stands between backticks is code."""
    parts = text.split("`")
    return "`".join(part if i % 2 else _escaped(part) for i, part in enumerate(parts))


def _escaped(text: str) -> str:
    return text.replace("**", "^").replace("*", r"\*").replace("_", r"\_").replace("|", r"\|").replace("<", r"\<")
