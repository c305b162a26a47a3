"""A root cause of claims that do not hold as printed, and how much depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Cause", "Severity"]


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
class Cause:
    """One mistake, with all claims of the ledger that come of it."""

    title: str
    severity: Severity
    stands: str
    """What survives: whether the main results need it."""
    claims: tuple[str, ...]
    """Ids, in the order of the paper; at least one."""
    aside: str = ""
    """What the claims are about, where it is not the paper itself; empty where it is."""
