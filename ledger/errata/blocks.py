"""A letter as headings, paragraphs and a table, which Markdown and LaTeX render alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledger.errata.letter import Letter
from ledger.ledger import Claim
from ledger.readme import sentence

__all__ = ["Block", "Heading", "Paragraph", "Table", "blocks"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the title, 2 a section, 3 a part of one."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Plain words with formulas such as ``alpha1^k``."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, each a text as in a paragraph."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block = Heading | Paragraph | Table


def blocks(letter: Letter) -> tuple[Block, ...]:
    """The whole letter: what survives, what does not hold, what holds more sharply, and slips in a table."""
    return tuple(_blocks(letter))


def _blocks(letter: Letter) -> Iterator[Block]:
    yield Heading(f"To the authors of {letter.paper}: errata", 1)
    yield Paragraph(_introduction(letter))
    yield Heading("What survives")
    yield from _paragraphs(letter.survives)
    yield Heading("What does not hold as printed")
    for finding in letter.findings:
        yield from _part(finding.title, finding.claims, finding.text)
    yield Heading("What holds more sharply than printed")
    for result in letter.sharper:
        yield from _part(result.title, result.claims, result.text)
    yield Heading("Slips, edges and steps of proofs")
    yield Table(("Place", "As printed", "Where it fails, and what holds"), tuple(map(_row, letter.slips)))


def _introduction(letter: Letter) -> str:
    return (
        "We restated the claims of your paper one by one and had a program derive each again from its definitions: "
        f"{letter.holding} of {letter.checked} hold as printed, and {len(letter.slips)} of the others are slips, edges "
        "or steps of proofs that the results survive. This letter says what survives, then what does not hold, the "
        "gravest first, then what holds more sharply; the small things are in a table at the end. Every "
        "counterexample is exact (decimals are rounded), and every correction was derived in the same way. We read a "
        "machine conversion of the paper, so that a floor for a ceiling, say, may be its fault. A name such as "
        f"{letter.findings[0].claims[0]} is that of a record: `specplan theorems` with this name shows the statement "
        "as it was tested, and derives it."
    )


def _part(title: str, names: Sequence[str], text: str) -> Iterator[Block]:
    yield Heading(f"{title} ({', '.join(names)})", 3)
    yield from _paragraphs(text)


def _paragraphs(text: str) -> Iterator[Block]:
    yield from (Paragraph(part) for part in text.split("\n\n"))


def _row(claim: Claim) -> tuple[str, str, str]:
    """Where it stands, what is printed, and where it fails with what holds instead."""
    place = claim.source.split(", ", 1)[-1]
    return (
        f"{place[:1].upper()}{place[1:]} ({claim.id})",
        sentence(claim.statement),
        f"{claim.reading} What holds: {sentence(claim.correction or '')}",
    )
