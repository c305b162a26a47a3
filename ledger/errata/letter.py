"""The letter to the authors of one paper as data, from its texts and the record of its claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ledger.ledger import PAPERS, Claim, claims
from ledger.texts import errata
from theory.errors import ParameterError

__all__ = ["FINDINGS", "OTHERS", "Finding", "Letter", "Severity", "Sharper", "letter_of", "paper_key", "severity_of"]


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


_TEXTS: Final = {paper: errata(paper) for paper in PAPERS}


FINDINGS: Final[Mapping[str, tuple[Finding, ...]]] = {
    paper: tuple(
        Finding(**{**each, "severity": Severity(each["severity"]), "claims": tuple(each["claims"])})
        for each in text["findings"]
    )
    for paper, text in _TEXTS.items()
}
"""Paper (a key of `ledger.texts.PAPERS`) -> its findings, the gravest first."""

_SHORT: Final = {"lr": "lookahead_reasoning", "ld": "lookahead_decoding", "cs": "confspec"}
OTHERS: Final = ("derived here", "not in the paper", "sharpened here", "Chinese summary")
"""Words in the source of a claim that the paper does not make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """The letter to the authors of one paper."""

    paper: str
    checked: int
    """Claims of the paper; tests derive all verdicts of the record again."""
    holding: int
    """Those that hold as printed."""
    survives: str
    findings: tuple[Finding, ...]
    """Those written out, the gravest first."""
    slips: tuple[Claim, ...]
    """The claims of all others, for the table at the end."""
    sharper: tuple[Sharper, ...]


def paper_key(name: str) -> str:
    """The key of a paper in `FINDINGS`, from its name, its folder or the prefix of its ids."""
    wanted = name.casefold().replace("-", "_").replace(" ", "_")
    key = _SHORT.get(wanted, wanted)
    if key not in FINDINGS:
        known = ", ".join(each.replace("_", "-") for each in FINDINGS)
        raise ParameterError("errata", name, f"must be one of {known}")
    return key


def severity_of(claim_id: str) -> Severity | None:
    """How grave a claim is; None for one that holds as printed."""
    for findings in FINDINGS.values():
        for finding in findings:
            if claim_id in finding.claims:
                return finding.severity
    return None


def letter_of(key: str) -> Letter:
    """The letter about a paper, a key of `FINDINGS`."""
    sent = [each for each in FINDINGS[key] if not each.unsent]
    by_id = {item.id: item for item in claims()}
    of_paper = [item for item in claims() if item.paper == PAPERS[key]]
    printed = [item for item in of_paper if not any(word in item.source for word in OTHERS)]
    return Letter(
        paper=PAPERS[key],
        checked=len(printed),
        holding=sum(not item.needs_correction for item in printed),
        survives=_TEXTS[key]["survives"],
        findings=tuple(each for each in sent if each.text),
        slips=tuple(by_id[name] for each in sent if not each.text for name in each.claims),
        sharper=tuple(Sharper(**{**table, "claims": tuple(table["claims"])}) for table in _TEXTS[key]["sharper"]),
    )
