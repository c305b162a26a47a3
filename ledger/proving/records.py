"""Records of the ledger by their verdict, and a mutant by the arguments that it changes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Final, ParamSpec

from ledger.ledger import Claim, Evidence, Mutant, Verdict, statement
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
_FORMULAS: Final = {"formula", "correction_formula"}


def record(verdict: Verdict, claim_id: str, /, **fields: Any) -> Claim:
    """A claim with its texts and formulas from ``ledger/papers``, and its verifiers from ``fields``."""
    text = text_of(claim_id)
    folder, place = text.pop("folder"), text.pop("place")
    if "expression" in text:
        text["expression"] = statement(folder, text["expression"])
    text |= {name: formula_of(claim_id, name) for name in _FORMULAS & text.keys()}
    return Claim(id=claim_id, verdict=verdict, source=f"{PAPERS[folder]}, {place}", **text, **fields)


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
    name: str, what_changed: str, verify: Callable[P, Evidence], /, *changed: P.args, **also_changed: P.kwargs
) -> Mutant:
    """A mutant that calls a verifier with the changed arguments, when it is asked to."""
    return Mutant(name=name, what_changed=what_changed, verify=partial(verify, *changed, **also_changed))


def corrected(claim_id: str, /, *, holds: Mutant, **fields: Any) -> Claim:
    """A refuted claim whose one mutant is its correction: what `holds` is verified instead."""
    return refuted(claim_id, correction_verify=holds.verify, mutants=(holds,), **fields)


def repaired(
    claim_id: str, /, *, printed: Verifier, repair: Verifier, mutants: tuple[Mutant, ...], **fields: Any
) -> Claim:
    """A claim that is proved with a fix: `printed` is refuted, `repair` proves the correction.

    The mutants change the print, and meet the same repair; `fields` are the other ones of the `Claim`.
    """

    def fixed(verify: Verifier) -> Verifier:
        return partial(with_fix, verify, repair)

    return proved_with_fix(
        claim_id,
        verify=fixed(printed),
        correction_verify=repair,
        mutants=tuple(replace(each, verify=fixed(each.verify)) for each in mutants),
        **fields,
    )
