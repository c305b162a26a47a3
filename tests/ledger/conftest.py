"""Mutants are derived once per test run, as verdicts are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ledger.ledger import Claim, Evidence, Mutant

if TYPE_CHECKING:
    from evidence import Shared


@pytest.fixture(scope="session")
def mutated(shared: Shared) -> Callable[[Claim, Mutant], Evidence]:
    """Call with a claim and one of its mutants: the evidence that the mutant's verifier comes to."""
    return lambda item, mutant: shared.get(f"{item.id} {mutant.name}", mutant.verify)
