"""Records of the ledger by their verdict: texts and formulas from ``ledger/papers``, checks from the claim's module."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from ledger.ledger import Claim, Evidence, Mutant, Verdict
from ledger.proving.cases import Cases, Predicate, Statement, searched, walked
from ledger.proving.combine import with_fix
from ledger.proving.domains import domain_of
from ledger.proving.formulas import Formula
from ledger.proving.reading import read
from ledger.proving.search.falsifier import judged
from ledger.texts import PAPERS, text_of
from theory.errors import ParameterError

__all__ = [
    "Given",
    "Verifier",
    "formula_of",
    "proved",
    "proved_with_fix",
    "record",
    "refuted",
    "repaired",
    "restated",
    "verified",
]


@dataclass(frozen=True, slots=True)
class Given:
    """A check that reads the statement which it verifies: its box, its constants, its conditions."""

    derive: Callable[[Any], Evidence]
    """Takes the statement of the record, or a changed one."""


Check = Callable[[], Evidence | Statement] | Given | Statement | None
"""Comes to evidence, or is or builds a statement that is then tried; None: the statement of the record."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """A call that comes to evidence for a statement."""

    check: Any
    decide: Callable[[Any], Evidence]
    """Tries a statement."""
    statement: Any
    """That of the record."""

    def __call__(self) -> Evidence:
        """Derive the evidence for the statement of the record."""
        return self.of(self.statement)

    def of(self, statement: Any) -> Evidence:
        """Derive the evidence for a statement; a check that does not read it comes to what it always does."""
        if isinstance(self.check, Given):
            return self.check.derive(statement)
        reached = self.check() if callable(self.check) else (self.check or statement)
        if isinstance(reached, Evidence):
            return reached
        return reached.by(reached) if isinstance(reached, Cases) and reached.by else self.decide(reached)


Mutants = Mapping[str, Callable[[], Evidence | Statement] | Statement]
"""Name -> the check of a claim on a changed statement; what is changed stands with the claim's texts."""
_REFUTED: Final = {Verdict.FALSE, Verdict.PROVED_WITH_FIX}
_FORMULAS: Final = {"formula", "correction_formula"}


def record(
    verdict: Verdict,
    claim_id: str,
    formula: Statement | None = None,
    /,
    *,
    mutants: Mutants | None = None,
    verify: Check = None,
    instead: Statement | None = None,
    fix: Check = None,
    **fields: Any,
) -> Claim:
    """A claim: the statement of one not true as printed is searched for a counterexample, any other is walked.

    Parameters
    ----------
    formula : the statement as printed; None: that of its table in ``ledger/papers``, if it has one.
    instead : the correction as such a statement; None: likewise.
    fix : verifies the correction; None: a walk through its cases.
    mutants : None: the correction is the one mutant.
    fields : others of the `Claim`.

    Raises
    ------
    ParameterError : a text that the record needs is missing.
    """
    fields |= _with_texts(claim_id, formula, instead)
    mutants = _mutants(mutants, fields, fix)
    what_changed = fields.pop("mutants")
    decide = searched if verdict in _REFUTED else walked
    if "correction" in fields:
        mended = Verifier(fix, walked, fields.get("correction_formula"))
        fields["correction_verify"] = fix if isinstance(fix, Verifier) else mended
    if what_changed.keys() != mutants.keys():
        raise ParameterError("mutants", f"{claim_id}: {list(mutants)}", "must be those of its table in ledger/papers")
    return Claim(
        id=claim_id,
        verdict=verdict,
        verify=Verifier(verify, decide, fields.get("formula")),
        mutants=tuple(
            Mutant(name=name, what_changed=what_changed[name], verify=_changed(check, Verifier(verify, decide, None)))
            for name, check in mutants.items()
        ),
        **fields,
    )


def _mutants(given: Mutants | None, fields: Mapping[str, Any], fix: Check) -> Mutants:
    correction: Any = fields.get("correction_formula") or fix
    return {name: correction for name in list(fields["mutants"])[:1]} if given is None else given


def _changed(check: Any, verifier: Verifier) -> Callable[[], Evidence]:
    """A changed statement of a proved claim meets its proof and the search; other checks come to their own evidence."""
    if verifier.check is not None and verifier.decide is walked and isinstance(check, (Formula, Predicate)):
        return lambda: judged(check, verifier.of(check), check.text)[0]
    return Verifier(check, verifier.decide, None)


def _with_texts(claim_id: str, formula: Statement | None, instead: Statement | None) -> dict[str, Any]:
    """Fields of a claim from its table, and its statements."""
    text = text_of(claim_id)
    folder, place = text.pop("folder"), text.pop("place")
    if "expression" in text:
        text["expression"] = partial(read, text["expression"], folder)
    text |= {name: formula_of(claim_id, name) for name in _FORMULAS & text.keys()}
    given = {"formula": formula, "correction_formula": instead, "source": f"{PAPERS[folder]}, {place}"}
    return {name: value for name, value in given.items() if value is not None} | text


@functools.cache
def formula_of(claim_id: str, which: str = "formula") -> Formula:
    """A claim's ``formula`` or ``correction_formula``: a table, or the id of a claim that has the same."""
    text = text_of(claim_id)
    table = text[which]
    if isinstance(table, str):
        return formula_of(table)
    return Formula(**{**table, "domain": domain_of(table["domain"]), "forms": text["folder"]})


def restated(
    claim_id: str,
    *,
    domain: str = "",
    relation: str = "",
    premise: str = "",
    change: tuple[str, str] = ("", ""),
    **at: Any,
) -> Formula:
    """The same with another ``relation`` or ``premise``, or other values of some variables of its ``domain``.

    Parameters
    ----------
    change : words of the relation, and what stands there instead.
    at : the one point to try instead of those of the record.

    Raises
    ------
    ParameterError : words to change that are none of the relation's.
    """
    formula = formula_of(claim_id)
    if change[0] not in formula.relation:
        raise ParameterError("change", change[0], f"must be words of the relation of {claim_id}")
    return replace(
        formula,
        domain={**formula.domain, **(domain_of(domain) if domain else {})},
        relation=relation or formula.relation.replace(*change),
        premise=premise or formula.premise,
        at=[at] if at else formula.at,
    )


proved = partial(record, Verdict.PROVED)
verified = partial(record, Verdict.VERIFIED)
"""True for the cases of its `reach`."""
refuted = partial(record, Verdict.FALSE)
proved_with_fix = partial(record, Verdict.PROVED_WITH_FIX)
"""A claim with a verifier that tries the print and the fix itself; see `repaired`."""


def repaired(
    claim_id: str,
    formula: Statement | None = None,
    /,
    *,
    mutants: Mutants | None = None,
    printed: Check = None,
    instead: Statement | None = None,
    fix: Check = None,
) -> Claim:
    """A claim that is proved with a fix: `printed` is refuted, `fix` proves the correction.

    The mutants change the print, and meet the same fix; the others are those of `record`.
    """
    own = _with_texts(claim_id, formula, instead)
    mended = Verifier(fix, walked, own.get("correction_formula"))

    def fixed(check: Any) -> Callable[[], Evidence]:
        return partial(with_fix, Verifier(check, searched, own.get("formula")), mended)

    return proved_with_fix(
        claim_id,
        formula,
        verify=fixed(printed),
        instead=instead,
        fix=mended,
        mutants={name: fixed(check) for name, check in _mutants(mutants, own, fix).items()},
    )
