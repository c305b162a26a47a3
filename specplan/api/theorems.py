"""The papers' claims with their verdicts, as recorded or derived again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ledger.errata.findings import Severity
from ledger.errata.letter import severity_of
from ledger.ledger import Claim, Testable, Verdict, claims
from ledger.ledger import claim as claim_of
from ledger.proving.search.falsifier import QUICK, THOROUGH
from ledger.runner import Verification, verify_all
from sim.catalogue import choice
from specplan.output import progress
from specplan.show import theorems as shown
from specplan.show.rendering import as_text
from specplan.show.result import Result
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.show.page import Report

__all__ = ["Theorems", "theorems"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Theorems(Result):
    """Claims as printed in the papers, and what is known about them."""

    claims: tuple[Claim, ...]
    derived: Mapping[str, Verification]
    """What was derived now, by the id of the claim."""
    in_full: bool
    """One claim was asked for, with its evidence."""

    @property
    def differing(self) -> tuple[str, ...]:
        """Ids whose derived verdict is not the recorded one."""
        return tuple(name for name, result in self.derived.items() if not result.agrees)

    def headline(self) -> str:
        """Return how many claims hold as printed."""
        return shown.summary(self.claims, self.derived)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each claim."""
        return [
            {
                **{"id": one.id, "paper": one.paper, "source": one.source, "verdict": one.verdict.value},
                **{"severity": _severity(one), "statement": one.statement, "correction": one.correction},
                **({"agrees": self.derived[one.id].agrees} if one.id in self.derived else {}),
            }
            for one in self.claims
        ]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan theorems --json`` prints."""
        claims = [_plain(one, self.derived.get(one.id), full=self.in_full) for one in self.claims]
        return {"schema": "specplan.theorems", "schema_version": 1, "claims": claims}

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan theorems`` prints, with ``verbose`` what it prints with ``-v``."""
        if self.in_full:
            return shown.one_claim(self.claims[0], self.derived[self.claims[0].id])
        return as_text(self.report()) if verbose else shown.first_screen(self.claims, self.derived)

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        return shown.theorems_report(self.claims, self.derived)


def theorems(
    claim: str | None = None,
    *,
    paper: str | None = None,
    verdict: str | None = None,
    severity: str | None = None,
    verify: bool = False,
    thorough: bool = False,
    jobs: int = 2,
) -> Theorems:
    """Return the papers' claims with their verdicts, as ``specplan theorems`` does.

    >>> import specplan as sp
    >>> [one.id for one in sp.theorems(paper="SPECS", severity="statement").claims][:1]
    ['SPECS-TAB1']
    >>> sp.theorems("LR-B1").differing
    ()

    Parameters
    ----------
    claim : id of one claim, which is then derived and shown in full.
    paper : only claims whose paper or id begins with this, e.g. SPECS or LD.
    verdict : only these: proved, proved with fix, false, verified, numeric or open.
    severity : only claims not true as printed, this grave: statement, argument, edge or slip.
    verify : derive the verdicts again, symbolically or in ball arithmetic, and search for counterexamples.
    thorough : search for minutes rather than a second for each claim.
    jobs : worker processes, >= 1.

    Raises
    ------
    ParameterError : no such claim, paper, verdict or severity.
    """
    if jobs < 1:
        raise ParameterError("jobs", jobs, "must be at least 1")
    chosen = (claim_of(claim),) if claim else _filtered(_of_paper(paper), verdict, severity)
    # a single claim is cheap to derive and means little without its evidence
    derived = _derived(chosen, jobs, thorough=thorough) if (verify or claim) and chosen else {}
    return Theorems(claims=chosen, derived=derived, in_full=bool(claim))


def _of_paper(paper: str | None) -> tuple[Claim, ...]:
    """The claims of the ledger, or of one paper."""
    if paper is None:
        return claims()
    wanted = paper.casefold()
    found = tuple(c for c in claims() if c.paper.casefold().startswith(wanted) or c.id.casefold().startswith(wanted))
    if not found:
        papers = ", ".join(dict.fromkeys(c.paper for c in claims()))
        raise ParameterError("paper", paper, f"must begin the name of one of {papers}, or an id")
    return found


def _filtered(chosen: Sequence[Claim], verdict: str | None, severity: str | None) -> tuple[Claim, ...]:
    """Those of a verdict and of a severity; an empty list is an answer too."""
    if severity is not None:
        grave = choice("severity", severity, tuple(one.value for one in Severity))
        chosen = [item for item in chosen if severity_of(item.id) == grave]
    wanted = None if verdict is None else choice("verdict", verdict, tuple(one.value for one in Verdict))
    return tuple(item for item in chosen if wanted is None or item.verdict == wanted)


def _derived(chosen: Sequence[Claim], jobs: int, *, thorough: bool) -> dict[str, Verification]:
    """Derive the verdicts, with a bar on stderr."""
    with progress("deriving verdicts", len(chosen)) as step_done:
        results = verify_all(
            [item.id for item in chosen],
            jobs=min(jobs, len(chosen)),
            effort=THOROUGH if thorough else QUICK,
            progress=lambda _result: step_done(),
        )
    return {result.id: result for result in results}


def _severity(one: Claim) -> str | None:
    found = severity_of(one.id)
    return None if found is None else found.value


def _formula(tried: Testable | None) -> dict[str, str | None] | None:
    """What a machine tries, and where; no LaTeX of a test in words."""
    if tried is None:
        return None
    return {"text": tried.text, "domain": tried.where, "latex": tried.latex or None}


def _plain(item: Claim, result: Verification | None, *, full: bool) -> dict[str, Any]:
    """A record, with its evidence when it was derived."""
    as_recorded = ("id", "source", "statement", "assumptions", "correction", "notes")
    data: dict[str, Any] = {
        **{name: getattr(item, name) for name in as_recorded},
        "verdict": item.verdict.value,
        "reach": item.reach or None,
        "severity": _severity(item),
        "mutants": [{"name": m.name, "what_changed": m.what_changed} for m in item.mutants],
    }
    if full:
        data["expression"] = None if item.expression is None else str(item.expression())
        data["formula"] = _formula(item.formula)
        data["no_formula"] = item.no_formula or None
        data["correction_formula"] = _formula(item.correction_formula)
    if result is not None:
        data["searched"] = None if result.finding is None else result.finding.as_json()
        data["correction_searched"] = None if result.correction_finding is None else result.correction_finding.as_json()
        data["derived"] = result.evidence.as_json()
        data["correction_derived"] = None if result.correction is None else result.correction.as_json()
        data["agrees"] = result.agrees
        data["seconds"] = round(result.seconds, 3)
    return data
