"""The record of one claim, the evidence that a verifier returns, and the collection of all claims.

A record never stores a result: it stores the verdict that we stand by, and callables that derive it again from nothing.
Every claim carries at least one *mutant*, the same verifier on a statement that was changed on purpose, because a check
that cannot fail proves nothing.
"""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from ledger.texts import PAPERS
from theory.errors import ParameterError

if TYPE_CHECKING:
    import sympy

__all__ = ["PAPERS", "Claim", "Evidence", "Mutant", "Testable", "Verdict", "claim", "claim_modules", "claims"]


class Verdict(StrEnum):
    """What is known about a claim as printed."""

    PROVED = "proved"
    """Symbolically, or by ball arithmetic over the whole stated range with the unbounded parts closed by a bound."""
    PROVED_WITH_FIX = "proved with fix"
    """Fails literally as printed; a small stated change (a symbol, an assumption, an edge) makes it provable."""
    FALSE = "false"
    """An exact rational counterexample exists."""
    VERIFIED = "verified"
    """True at every case of a finite part of its range, which `Claim.reach` names; no proof covers the rest."""
    NUMERIC = "numeric"
    """Tested, not proved; the evidence says how. Never counts as proved."""
    OPEN = "open"
    """Neither proved nor refuted here."""


class Testable(Protocol):
    """A statement that a machine tries at points: a `Formula`, a `Predicate` or `Cases`, which are in ``proving``."""

    @property
    def text(self) -> str:
        """The statement in plain text."""

    @property
    def where(self) -> str:
        """Its domain in words."""

    @property
    def latex(self) -> str:
        """The statement in LaTeX; empty where it stands in words."""

    def holds(self, point: Mapping[str, Any], /) -> bool | None:
        """Whether it holds at a point of its domain; None where that is not decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A verifier's result, in a form that turns into JSON."""

    verdict: Verdict
    """Derived by the verifier, never copied from the record."""
    method: str
    """``'symbolic'``, ``'ball arithmetic'``, ``'exhaustive'``, ``'exact counterexample'``, ``'sampled'``, ..."""
    detail: str
    """One or two sentences that a reader can follow: boxes covered, precision, where it fails."""
    counterexample: Mapping[str, str] | None = None
    """Variable -> exact rational as a string ``'p/q'``; small and readable."""
    effort: Mapping[str, int | float] = field(default_factory=dict)
    """Counters: boxes, points, digits."""

    def as_json(self) -> dict[str, object]:
        """Plain values only."""
        return {
            "verdict": self.verdict.value,
            "method": self.method,
            "detail": self.detail,
            "counterexample": None if self.counterexample is None else dict(self.counterexample),
            "effort": dict(self.effort),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A claim changed on purpose; the verifier must not give it the verdict of the claim."""

    name: str
    """Short identifier, unique within the claim."""
    what_changed: str
    """The changed constant, sign, bound or domain, in words."""
    verify: Callable[[], Evidence]
    """The verifier of the claim, called on the changed statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim of one paper."""

    id: str
    """Paper, kind and number: ``'LR-T3c'``, ``'LD-E5'``, ``'SPECS-L4'``, ``'CS-A1'``."""
    source: str
    """Paper, number and section: ``'Lookahead Reasoning, Theorem 3, Appendix B.1.2'``."""
    statement: str
    """The claim in our own words and formulas, with the content as printed."""
    expression: Callable[[], sympy.Basic] | None = None
    """Builds the sympy form on demand (sympy takes a second to import); None where no formula carries the claim."""
    assumptions: str
    """The stated parameter range."""
    verdict: Verdict
    """The recorded verdict; ``--verify`` compares it with the derived one."""
    verify: Callable[[], Evidence]
    """Derives the verdict from nothing."""
    correction: str | None = None
    """What is true instead; present when the verdict is ``false`` or ``proved with fix``."""
    correction_verify: Callable[[], Evidence] | None = None
    """Derives ``proved`` (or ``numeric``) for the correction."""
    mutants: tuple[Mutant, ...]
    """At least one."""
    formula: Testable | None = None
    """The claim as printed in a form that a machine tries at points: the one source of its domain and its test."""
    no_formula: str = ""
    """Why there is none, in a line."""
    correction_formula: Testable | None = None
    """The correction in the same form."""
    reach: str = ""
    """The cases that were tried, ``'n <= 8'``; present exactly when the verdict is ``verified``."""
    notes: str = ""
    """A repaired argument, the limits of the verdict, what a reader should know."""
    quotation: str = ""
    """The paper's own words, formulas between dollars; none where cells of a table contradict each other."""
    reading: str = ""
    """The counterexample for readers, with what both sides mean; its symbols are those of the statement or range."""
    stands: Mapping[str, str] = field(default_factory=dict)
    """Changes of 1 % after which it holds as well, and why: words of the change -> the reason; see the workshop."""

    def __post_init__(self) -> None:
        if not self.mutants:
            raise ParameterError("mutants", self.id, "must hold at least one mutant: a check that cannot fail is none")
        if (self.verdict is Verdict.VERIFIED) is not bool(self.reach):
            raise ParameterError("reach", self.id, "must name the cases tried, for a verdict 'verified' and no other")
        if self.needs_correction and (not self.correction or self.correction_verify is None):
            raise ParameterError("correction", self.id, "must be stated and verified for a claim not true as printed")
        if self.needs_correction is not bool(self.reading):
            raise ParameterError("reading", self.id, "must say where a claim not true as printed fails, and no other")
        if self.formula is not None and self.no_formula:
            raise ParameterError("no_formula", self.id, "must be left out for a claim with a formula")

    @property
    def needs_correction(self) -> bool:
        """True when the claim is not true as printed."""
        return self.verdict in {Verdict.FALSE, Verdict.PROVED_WITH_FIX}

    @property
    def verdict_text(self) -> str:
        """The verdict for a reader: ``'verified for n <= 8'`` says how far."""
        return f"{self.verdict.value} for {self.reach}" if self.reach else self.verdict.value

    @property
    def paper(self) -> str:
        """The paper's name: the source up to its first comma."""
        return self.source.split(",", 1)[0]


@functools.cache
def claims() -> tuple[Claim, ...]:
    """All claims: by paper, then by the ``READING_ORDER`` of the paper's folder, then as written there."""
    collected = tuple(item for paper in PAPERS for module in claim_modules(paper) for item in module.CLAIMS)
    seen: set[str] = set()
    for item in collected:
        if item.id in seen:
            raise ParameterError("id", item.id, "must be unique in the ledger")
        seen.add(item.id)
    return collected


def claim_modules(paper: str) -> tuple[ModuleType, ...]:
    """The modules with the claims of one paper (a key of `PAPERS`), in reading order."""
    folder = importlib.import_module(f"ledger.{paper}")
    return tuple(importlib.import_module(f"{folder.__name__}.{name}") for name in folder.READING_ORDER)


def claim(claim_id: str) -> Claim:
    """The claim with this id, upper or lower case.

    Raises
    ------
    ParameterError : no such claim; the message names ids near to it.
    """
    wanted = claim_id.casefold()
    for item in claims():
        if item.id.casefold() == wanted:
            return item
    near = difflib.get_close_matches(wanted.upper(), [item.id for item in claims()], n=5, cutoff=0.5)
    hint = f"; near to it: {', '.join(near)}" if near else ""
    raise ParameterError("ID", claim_id, f"must be the id of a claim{hint}")
