"""The errata of one paper as data: root causes in the paper's order, and what holds beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ledger.errata.cause import Cause, Severity
from ledger.ledger import PAPERS, Claim, Verdict, claims
from ledger.runner import Verification
from ledger.texts import errata
from theory.errors import ParameterError

__all__ = ["CAUSES", "MAIN_RESULTS", "Errata", "Found", "errata_of", "paper_key", "severity_of"]

_TEXTS: Final = {paper: errata(paper) for paper in PAPERS}
CAUSES: Mapping[str, tuple[Cause, ...]] = {
    paper: tuple(
        Cause(**{**cause, "severity": Severity(cause["severity"]), "claims": tuple(cause["claims"])})
        for cause in text["causes"]
    )
    for paper, text in _TEXTS.items()
}
"""Paper (a key of `ledger.texts.PAPERS`) -> its root causes."""
MAIN_RESULTS: Mapping[str, str] = {paper: text["main_results"] for paper, text in _TEXTS.items()}
"""What becomes of a paper's main results, with the claims that say so."""

_SHORT = {"lr": "lookahead_reasoning", "ld": "lookahead_decoding", "cs": "confspec"}
_OWN = ("derived here", "not in the paper", "sharpened here")
"""Words in the source of a claim that the paper does not make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A claim, and what was derived about it now."""

    claim: Claim
    result: Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class Errata:
    """What is to be told to the authors of one paper."""

    paper: str
    main_results: str
    """Whether they survive."""
    causes: tuple[tuple[Cause, tuple[Found, ...]], ...]
    """Causes of the severities asked for, each with its claims."""
    sharper: tuple[Found, ...]
    """Proved here, sharper than printed or not in the paper at all."""
    holding: tuple[Found, ...]
    """The paper's claims that hold as printed, with how they were shown."""


def paper_key(name: str) -> str:
    """The key of a paper in `CAUSES`, from its name, its folder or the prefix of its ids.

    Raises
    ------
    ParameterError : no such paper.
    """
    wanted = name.casefold().replace("-", "_").replace(" ", "_")
    key = _SHORT.get(wanted, wanted)
    if key not in CAUSES:
        known = ", ".join(each.replace("_", "-") for each in CAUSES)
        raise ParameterError("errata", name, f"must be one of {known}")
    return key


def severity_of(claim_id: str) -> Severity | None:
    """How grave a claim is; None for one that holds as printed."""
    for causes in CAUSES.values():
        for cause in causes:
            if claim_id in cause.claims:
                return cause.severity
    return None


def errata_of(key: str, results: Mapping[str, Verification]) -> Errata:
    """The errata of a paper, a key of `CAUSES`, from what was derived about all its claims."""
    found = {item.id: Found(claim=item, result=results[item.id]) for item in claims() if item.paper == PAPERS[key]}
    right = [each for each in found.values() if each.claim.verdict in {Verdict.PROVED, Verdict.VERIFIED}]
    return Errata(
        paper=PAPERS[key],
        main_results=MAIN_RESULTS[key],
        causes=tuple((cause, tuple(found[name] for name in cause.claims)) for cause in CAUSES[key]),
        sharper=tuple(each for each in right if _beyond(each)),
        holding=tuple(each for each in right if not _beyond(each)),
    )


def _beyond(found: Found) -> bool:
    """The paper does not say it, or says it without the proof given here."""
    return bool(found.claim.proof) or any(word in found.claim.source for word in _OWN)
