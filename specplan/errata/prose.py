"""Sentences about a claim that both forms of the errata share."""

from __future__ import annotations

import re
from typing import Final

from specplan.errata.errata import Errata, Found
from theory.claims.readme import failure, sentence

__all__ = ["SEVERITIES", "formula", "introduction", "place", "trial"]

_BY_NAME: Final = re.compile("At (?P<at>.*?): (?P<what>.*): fails for (?P<who>.*)")
"""How a verifier tells of the first failing row of a table."""

SEVERITIES = {
    "statement": "a result, an algorithm or a sentence about measurements says what is not so",
    "argument": "a step of a proof does not hold; what it was to prove does, by another way",
    "edge": "an edge of the range, an equality or a tacit condition",
    "slip": "a sign, an index, a factor or a last digit",
}


def introduction(errata: Errata) -> str:
    """What the document is, for its readers."""
    inside = sum(len(found) for cause, found in errata.causes if not cause.by_others)
    outside = sum(len(found) for cause, found in errata.causes if cause.by_others)
    besides = f", and {outside} of a summary by others," if outside else ""
    return (
        f"{inside} statements of the paper {errata.paper}{besides} do not hold exactly as printed. They come of "
        f"{len(errata.causes)} causes, which follow in the order of the paper, each with how grave it is and what "
        "survives. The paper's words stand first, then the claim as it was tested, in our words and in formulas of "
        "plain text; every counterexample is exact, every correction was checked by machine in the way that is named. "
        "The paper was read in a machine conversion, so that a floor for a ceiling, say, may be the conversion's."
    )


def trial(found: Found) -> tuple[str, str]:
    """What was tested, where it says more than the claim, and where it fails."""
    text = failure(found.result.evidence)
    if told := _BY_NAME.fullmatch(text):
        return sentence(told["what"]), f"For {told['who'].removesuffix('.')} ({told['at']})."
    what, fails, where = text.partition(": fails at ")
    return (sentence(what), f"At {where}") if fails else ("", text)


def place(found: Found) -> str:
    """Where in the paper, without the paper's name."""
    where = found.claim.source.split(", ", 1)[-1]
    return where[:1].upper() + where[1:]


def formula(found: Found) -> str:
    """The statement's formula in LaTeX, or nothing where no formula carries it."""
    claim = found.claim
    if claim.formula is not None and claim.formula.latex:
        return claim.formula.latex
    if claim.expression is None:
        return ""
    import sympy

    return str(sympy.latex(claim.expression()))
