"""The papers' claims with their verdicts, as recorded or derived again."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.errata.letter import Severity, severity_of
from ledger.ledger import Claim, Verdict, claims
from ledger.ledger import claim as claim_of
from ledger.proving.search.falsifier import QUICK, THOROUGH
from ledger.runner import Verification, verify_all
from sim.catalogue import choice
from specplan.output import progress
from specplan.show.theorems import Theorems
from theory.errors import ParameterError

__all__ = ["Theorems", "theorems"]


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
    chosen = (claim_of(claim),) if claim else _filtered(paper, verdict, severity)
    derived: dict[str, Verification] = {}
    if (verify or claim) and chosen:  # a single claim is cheap to derive and means little without its evidence
        with progress("deriving verdicts", len(chosen)) as step_done:
            results = verify_all(
                [item.id for item in chosen],
                jobs=min(jobs, len(chosen)),
                effort=THOROUGH if thorough else QUICK,
                progress=lambda _result: step_done(),
            )
        derived = {result.id: result for result in results}
    return Theorems(claims=chosen, derived=derived, in_full=bool(claim))


def _filtered(paper: str | None, verdict: str | None, severity: str | None) -> tuple[Claim, ...]:
    """The claims of a paper, a verdict and a severity, where these are given; none is an answer too."""
    chosen: Sequence[Claim] = claims()
    if paper is not None:
        wanted = paper.casefold()
        chosen = [c for c in chosen if c.paper.casefold().startswith(wanted) or c.id.casefold().startswith(wanted)]
        if not chosen:
            papers = ", ".join(dict.fromkeys(c.paper for c in claims()))
            raise ParameterError("paper", paper, f"must begin the name of one of {papers}, or an id")
    if severity is not None:
        grave = choice("severity", severity, tuple(one.value for one in Severity))
        chosen = [item for item in chosen if severity_of(item.id) == grave]
    if verdict is not None:
        judged = choice("verdict", verdict, tuple(one.value for one in Verdict))
        chosen = [item for item in chosen if item.verdict == judged]
    return tuple(chosen)
