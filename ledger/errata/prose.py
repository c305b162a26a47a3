"""Sentences about a claim that both forms of the errata share."""

from __future__ import annotations

import re
from typing import Final

from ledger.errata.cause import Cause
from ledger.errata.errata import Errata, Found
from ledger.readme import decimals, failure, sentence

__all__ = ["METHODS", "SEVERITIES", "formula", "introduction", "place", "proof", "where_it_fails"]

_BY_NAME: Final = re.compile("At (?P<at>.*?): (?P<what>.*): fails for (?P<who>.*)")
"""How a verifier tells of the first failing row of a table."""
_COUNTS: Final = re.compile(r" \((?:\d+ box(?:es)?, \d+ bits|\d+ coefficients of one sign)\)")
"""How much work a step of a machine proof took, which is nothing to its readers."""

SEVERITIES = {
    "statement": "a result, an algorithm or a sentence about measurements says what is not so",
    "argument": "a step of a proof does not hold; what it was to prove does, by another way",
    "edge": "an edge of the range, an equality or a tacit condition",
    "slip": "a sign, an index, a factor or a last digit",
}

METHODS = (
    "Methods: 'symbolic' is an identity or a sign shown by computer algebra; 'ball arithmetic' is arithmetic with "
    "rigorous error bounds, over a whole range that is cut into parts; 'exact' is rational arithmetic; 'exhaustive' "
    "is every case of a finite list, such as the cells of a table."
)
"""What the words after 'Shown by' mean."""


def introduction(errata: Errata) -> str:
    """What the document is, for its readers."""
    inside = sum(len(found) for cause, found in errata.causes if not cause.aside)
    besides = "".join(_besides(cause, found) for cause, found in errata.causes)
    return (
        f"{inside} statements of the paper {errata.paper} do not hold exactly as printed. They come of "
        f"{sum(not cause.aside for cause, _ in errata.causes)} causes, which follow in the order of the paper, each "
        f"with how grave it is and what survives.{besides} The paper's words stand first, then the claim as it was "
        "tested, in our words; every counterexample is exact (decimals in it are rounded), every correction was "
        "checked by machine in the way that is named. The paper was read in a machine "
        "conversion, so that a floor for a ceiling, say, may be the conversion's."
    )


def where_it_fails(found: Found) -> str:
    """The counterexample, in words made for readers or in those of the verifier."""
    text = failure(found.result.evidence)
    if found.claim.reading:
        return found.claim.reading
    if told := _BY_NAME.fullmatch(text):
        return f"For {told['who'].removesuffix('.')} ({told['at']})."
    _, fails, where = text.partition(": fails at ")
    return f"At {where}" if fails else text


def proof(found: Found) -> list[str]:
    """The proof in paragraphs: written out, or the verifier's account of its steps."""
    return (
        found.claim.proof.split("\n\n")
        if found.claim.proof
        else [decimals(sentence(_COUNTS.sub("", found.result.evidence.detail)))]
    )


def _besides(cause: Cause, found: tuple[Found, ...]) -> str:
    """A sentence about claims that are not the paper's own."""
    number = "One further statement" if len(found) == 1 else f"{len(found)} further statements"
    return f" {number} at the end concern{'s' * (len(found) == 1)} {cause.aside}." if cause.aside else ""


def place(found: Found) -> str:
    """Where in the paper, without the paper's name."""
    where = found.claim.source.split(", ", 1)[-1]
    return where[:1].upper() + where[1:]


def formula(found: Found) -> str:
    """The statement's formula in LaTeX; nothing where a quotation or a written proof shows it."""
    claim = found.claim
    if found.claim.quotation or found.claim.proof:
        return ""
    if claim.formula is not None and claim.formula.latex:
        return claim.formula.latex
    if claim.expression is None:
        return ""
    import sympy

    return str(sympy.latex(claim.expression()))
