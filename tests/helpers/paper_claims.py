"""What every paper's claims are tested for: the recorded verdict is derived again, and every mutant is caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from theory.claims.ledger import PAPERS, Claim, Evidence, Mutant, Verdict, claim_modules
from theory.claims.runner import Verification

__all__ = ["PaperClaims", "check_caught", "check_verdict"]


class PaperClaims:
    """The claims of one paper.

    Parameters
    ----------
    folder : key of `PAPERS`.
    prefix : that all of their ids begin with.
    """

    def __init__(self, folder: str, *, prefix: str) -> None:
        self.all: tuple[Claim, ...] = tuple(claim for module in claim_modules(folder) for claim in module.CLAIMS)
        self.paper = PAPERS[folder]
        self.prefix = prefix

    @property
    def each(self) -> pytest.MarkDecorator:
        """Runs a test for every claim."""
        return pytest.mark.parametrize("claim", self.all, ids=lambda claim: claim.id)

    @property
    def each_mutant(self) -> pytest.MarkDecorator:
        """Runs a test for every claim and each of its mutants."""
        pairs = [(claim, mutant) for claim in self.all for mutant in claim.mutants]
        ids = [f"{claim.id}-{mutant.name}" for claim, mutant in pairs]
        return pytest.mark.parametrize(("claim", "mutant"), pairs, ids=ids)

    def check_ids(self) -> None:
        """Every id is used once, and all are of this paper."""
        ids = [claim.id for claim in self.all]
        assert ids
        assert len(set(ids)) == len(ids)
        assert {claim.paper for claim in self.all} == {self.paper}
        assert all(claim_id.startswith(self.prefix) for claim_id in ids)


def check_verdict(claim: Claim, verified: Callable[[str], Verification]) -> None:
    """The recorded verdict is derived again; what is false or needs a fix comes with a counterexample."""
    result = verified(claim.id)
    assert result.agrees, (result.evidence, result.correction)
    if claim.verdict in {Verdict.FALSE, Verdict.PROVED_WITH_FIX}:
        assert result.evidence.counterexample


def check_caught(claim: Claim, mutant: Mutant, mutated: Callable[[Claim, Mutant], Evidence]) -> None:
    """A claim that was made wrong on purpose gets another verdict."""
    assert mutated(claim, mutant).verdict is not claim.verdict
