"""What a letter says: findings about claims that do not hold as printed, and results sharper than the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "Severity", "Sharper"]


class Severity(StrEnum):
    """How much a reader loses who takes the print at its word; the gravest first."""

    STATEMENT = "statement"
    """A result, an algorithm or a sentence about measurements says what is not so."""
    ARGUMENT = "argument"
    """A step of a proof does not hold; what it was to prove does, by another way."""
    EDGE = "edge"
    """An edge of the range, an equality or a tacit condition."""
    SLIP = "slip"
    """A sign, an index, a factor or a last digit, whose right form the text itself shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One mistake, with all claims of the ledger that come of it."""

    title: str
    severity: Severity
    claims: tuple[str, ...]
    """Ids, in the order of the paper; at least one."""
    text: str = ""
    """What is said, a counterexample, and what holds, in paragraphs; empty for a row per claim in the table."""
    unsent: str = ""
    """Why the letter leaves it out; empty where it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharper:
    """A result beyond the paper, with a proof for readers."""

    title: str
    claims: tuple[str, ...]
    """Ids of the proved claims that it states."""
    text: str
    """Statement and proof, in paragraphs."""
