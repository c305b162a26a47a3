"""Sentences about a claim that both forms of the errata share."""

from __future__ import annotations

from specplan.errata.errata import Found

__all__ = ["SEVERITIES", "formula", "introduction", "place"]

SEVERITIES = {
    "statement": "a result, an algorithm or a sentence about measurements says what is not so",
    "argument": "a step of a proof does not hold; what it was to prove does, by another way",
    "edge": "an edge of the range, an equality or a tacit condition",
    "slip": "a sign, an index, a factor or a last digit",
}


def introduction(paper: str, n_claims: int, n_causes: int) -> str:
    """What the document is, for its readers."""
    return (
        f"{n_claims} statements of the paper {paper} do not hold exactly as printed. They come of {n_causes} causes, "
        "which follow in the order of the paper, each with how grave it is and what survives. A statement is given in "
        "our words and in formulas of plain text; every counterexample is exact, every correction was checked by "
        "machine in the way that is named. The text was read from a machine conversion of the paper, so that a floor "
        "for a ceiling, say, may be the conversion's."
    )


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
