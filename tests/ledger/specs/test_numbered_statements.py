"""SPECS: nothing that the paper numbers is left without a claim."""

from __future__ import annotations

from ledger.ledger import claims

CLAIMS = [claim for claim in claims() if claim.paper == "SPECS"]


def test_every_numbered_statement_has_a_claim() -> None:
    sources = " | ".join(c.source for c in CLAIMS)
    for number in range(1, 8):
        assert f"Lemma {number}" in sources
    for number in range(1, 6):
        assert f"Theorem {number}" in sources
    ids = {c.id for c in CLAIMS}
    assert {"SPECS-C1", "SPECS-C2", "SPECS-R2", "SPECS-E1", "SPECS-E2", "SPECS-E3", "SPECS-E4", "SPECS-E10"} <= ids
    for words in ("Equation 5", "Equations 2 and 6", "Equation 7", "Equations 8 and 9", "Equation 11", "Equation 12"):
        assert words in sources
