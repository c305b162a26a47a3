"""The letter to the authors of one paper as data, from its texts and the record of its claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ledger.errata.findings import Finding, Severity, Sharper
from ledger.ledger import PAPERS, Claim, claims
from ledger.texts import errata
from theory.errors import ParameterError

__all__ = ["FINDINGS", "OTHERS", "Letter", "letter_of", "paper_key", "severity_of"]

_TEXTS: Final = {paper: errata(paper) for paper in PAPERS}


def _finding(table: Mapping[str, Any]) -> Finding:
    return Finding(**{**table, "severity": Severity(table["severity"]), "claims": tuple(table["claims"])})


FINDINGS: Final[Mapping[str, tuple[Finding, ...]]] = {
    paper: tuple(map(_finding, text["findings"])) for paper, text in _TEXTS.items()
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
