"""Evidence is derived once per claim and test run, however many tests look at it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from theory.claims.ledger import claim
from theory.claims.runner import Verification, verify_claim


@pytest.fixture(scope="session")
def verified() -> Callable[[str], Verification]:
    """Call with an id: its verification."""
    done: dict[str, Verification] = {}

    def get(claim_id: str) -> Verification:
        if claim_id not in done:
            done[claim_id] = verify_claim(claim(claim_id))
        return done[claim_id]

    return get
