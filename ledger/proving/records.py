"""Records of the ledger by their verdict, and a mutant by the arguments that it changes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Final, ParamSpec

from ledger.ledger import Claim, Evidence, Mutant, Verdict, statement
from ledger.proving.cases import Statement, searched, walked
from ledger.proving.combine import with_fix
from ledger.proving.domains import domain_of
from ledger.proving.formulas import Formula
from ledger.texts import PAPERS, text_of

__all__ = [
    "corrected",
    "formula_of",
    "mutant",
    "proved",
    "proved_with_fix",
    "record",
    "refuted",
    "repaired",
    "verified",
]

P = ParamSpec("P")
Verifier = Callable[[], Evidence]
Check = Callable[[], Evidence | Statement] | None
_REFUTED: Final = {Verdict.FALSE, Verdict.PROVED_WITH_FIX}
_FORMULAS: Final = {"formula", "correction_formula"}


def record(
    verdict: Verdict, claim_id: str, /, *, verify: Check = None, correction_verify: Check = None, **fields: Any
) -> Claim:
    """A claim with its texts and formulas from ``ledger/papers``.

    A verifier may return a statement, and where it is left out the record's own statement is meant. The statement of a
    claim not true as printed is searched for a counterexample, any other one, and a correction, is walked.
    """
    fields |= _texts(claim_id)
    decide = searched if verdict in _REFUTED else walked
    if "correction" in fields:
        fields["correction_verify"] = _verifier(correction_verify or fields.get("correction_formula"), walked)
    fields["mutants"] = tuple(replace(each, verify=_verifier(each.verify, decide)) for each in fields["mutants"])
    return Claim(id=claim_id, verdict=verdict, verify=_verifier(verify or fields.get("formula"), decide), **fields)


def _texts(claim_id: str) -> dict[str, Any]:
    text = text_of(claim_id)
    folder, place = text.pop("folder"), text.pop("place")
    if "expression" in text:
        text["expression"] = statement(folder, text["expression"])
    text |= {name: formula_of(claim_id, name) for name in _FORMULAS & text.keys()}
    return {"source": f"{PAPERS[folder]}, {place}", **text}


def _verifier(check: Any, decide: Callable[[Any], Evidence]) -> Verifier:
    """A call that comes to evidence."""

    def verify() -> Evidence:
        reached = check() if callable(check) else check
        return reached if isinstance(reached, Evidence) else decide(reached)

    return verify


@functools.cache
def formula_of(claim_id: str, which: str = "formula") -> Formula:
    """A claim's ``formula`` or ``correction_formula``: a table, or the id of a claim that has the same."""
    text = text_of(claim_id)
    table = text[which]
    if isinstance(table, str):
        return formula_of(table)
    sharp = Fraction(table["sharp"]) if "sharp" in table else None
    return Formula(**{**table, "domain": domain_of(table["domain"]), "sharp": sharp, "forms": text["folder"]})


proved = partial(record, Verdict.PROVED)
verified = partial(record, Verdict.VERIFIED)
"""True for the cases of its `reach`."""
refuted = partial(record, Verdict.FALSE)
proved_with_fix = partial(record, Verdict.PROVED_WITH_FIX)
"""A claim with a verifier that tries the print and the fix itself; see `repaired`."""


def mutant(
    name: str, what_changed: str, verify: Callable[P, Evidence | Statement], /, *changed: P.args, **also: P.kwargs
) -> Mutant:
    """A mutant: a verifier, or what builds the statement of a claim, with the changed arguments."""
    return Mutant(name=name, what_changed=what_changed, verify=partial(verify, *changed, **also))  # type: ignore[arg-type]  # see `record`


def corrected(claim_id: str, /, *, holds: Mutant, **fields: Any) -> Claim:
    """A refuted claim whose one mutant is its correction: what `holds` is verified instead."""
    mended = replace(holds, verify=_verifier(holds.verify, walked))
    return refuted(claim_id, correction_verify=mended.verify, mutants=(mended,), **fields)


def repaired(
    claim_id: str, /, *, mutants: tuple[Mutant, ...], printed: Check = None, repair: Check = None, **fields: Any
) -> Claim:
    """A claim that is proved with a fix: `printed` is refuted, `repair` proves the correction.

    The mutants change the print, and meet the same repair; `fields` are the other ones of the `Claim`.
    """
    record = {**fields, **_texts(claim_id)}
    mended = _verifier(repair or record.get("correction_formula"), walked)

    def fixed(check: Any) -> Verifier:
        return partial(with_fix, _verifier(check, searched), mended)

    return proved_with_fix(
        claim_id,
        verify=fixed(printed or record["formula"]),
        correction_verify=mended,
        mutants=tuple(replace(each, verify=fixed(each.verify)) for each in mutants),
        **fields,
    )
