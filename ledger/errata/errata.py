"""The errata of one paper as data: root causes in the paper's order, and what holds beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ledger.errata.cause import Cause, Severity
from ledger.errata.lookahead_papers import LOOKAHEAD_DECODING, LOOKAHEAD_REASONING
from ledger.errata.lookahead_proofs import PROOFS
from ledger.errata.lookahead_quotations import LOOKAHEAD_DECODING_WORDS, LOOKAHEAD_REASONING_WORDS
from ledger.errata.lookahead_readings import READINGS
from ledger.errata.other_papers import CONFSPEC, SPECS
from ledger.errata.other_quotations import CONFSPEC_WORDS, SPECS_WORDS
from ledger.ledger import PAPERS, Claim, Verdict, claims
from ledger.runner import Verification
from theory.errors import ParameterError

__all__ = ["CAUSES", "MAIN_RESULTS", "WORDS", "Errata", "Found", "errata_of", "paper_key", "severity_of"]

CAUSES: Mapping[str, tuple[Cause, ...]] = {
    "lookahead_reasoning": LOOKAHEAD_REASONING,
    "lookahead_decoding": LOOKAHEAD_DECODING,
    "specs": SPECS,
    "confspec": CONFSPEC,
}
"""Paper (a key of `ledger.ledger.PAPERS`) -> its root causes."""

WORDS: Mapping[str, str] = {
    **LOOKAHEAD_REASONING_WORDS,
    **LOOKAHEAD_DECODING_WORDS,
    **SPECS_WORDS,
    **CONFSPEC_WORDS,
}
"""Claim not true as printed -> the paper's own words; none where cells of a table contradict each other."""

MAIN_RESULTS: Mapping[str, str] = {
    "lookahead_reasoning": "Theorem 1 holds as printed (LR-T1), Theorem 2 where both cases switch at the ceiling "
    "(LR-T2a, LR-T2b), Theorem 3 with strict conditions (LR-T3b), and of Theorem 4 the 'only if', for every budget "
    "from 16 on (LR-T4c); its 'if' does not hold (LR-T4b).",
    "lookahead_decoding": "Theorem A holds (LD-TA). Equations 4, 5 and 7 hold for a constant rate and independent "
    "sequences (LD-E4, LD-E5, LD-E7). The scaling law holds for the compression, not for the number of steps (LD-S1).",
    "specs": "Theorems 1, 2 and 4 hold (SPECS-T1, SPECS-T2, SPECS-T4), the first with constant one and a better rate; "
    "Theorems 3 and 5 hold with the conditions given below (SPECS-T3, SPECS-T5).",
    "confspec": "The paper has no theorem. Its cost and its point of break-even hold (CS-V1, CS-V2). The cascade does "
    "not preserve the target's decisions (CS-P1); what it can lose is bounded (CS-P2).",
}
"""What becomes of a paper's main results, with the claims that say so."""

_SHORT = {"lr": "lookahead_reasoning", "ld": "lookahead_decoding", "cs": "confspec"}
_OWN = ("derived here", "not in the paper", "sharpened here")
"""Words in the source of a claim that the paper does not make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A claim, and what was derived about it now."""

    claim: Claim
    result: Verification

    @property
    def words(self) -> str:
        """The paper's own words, formulas between dollars; empty where there are none."""
        return WORDS.get(self.claim.id, "")

    @property
    def reading(self) -> str:
        """The counterexample told for readers; empty where the verifier's own sentence serves."""
        return READINGS.get(self.claim.id, "")

    @property
    def proof(self) -> str:
        """A full proof, in paragraphs; empty where there is the verifier's account only."""
        return PROOFS.get(self.claim.id, "")


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
    return bool(found.proof) or any(word in found.claim.source for word in _OWN)
