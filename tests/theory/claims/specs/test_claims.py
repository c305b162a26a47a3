"""The SPECS claims: each derives its recorded verdict, each correction holds, each mutant is caught."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import pytest

from theory.claims.ledger import Claim, Evidence, Mutant, Verdict, claim_modules
from theory.claims.runner import CRASHED, Verification

CLAIMS = tuple(claim for module in claim_modules("specs") for claim in module.CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_claim_derives_its_verdict(claim: Claim, verified: Callable[[str], Verification]) -> None:
    result = verified(claim.id)
    assert result.agrees, (result.evidence, result.correction)
    if claim.correction_verify is not None:
        assert result.correction is not None
        assert result.correction.verdict is Verdict.PROVED
    if result.evidence.verdict in {Verdict.FALSE, Verdict.PROVED_WITH_FIX}:
        assert result.evidence.counterexample
        for value in result.evidence.counterexample.values():
            Fraction(value)


@pytest.mark.parametrize(
    ("claim", "mutant"),
    [pytest.param(c, m, id=f"{c.id}-{m.name}") for c in CLAIMS for m in c.mutants],
)
def test_mutant_is_caught(claim: Claim, mutant: Mutant, mutated: Callable[[Claim, Mutant], Evidence]) -> None:
    evidence = mutated(claim, mutant)
    assert evidence.method != CRASHED
    assert evidence.verdict is not claim.verdict, evidence.detail
    if claim.verdict in {Verdict.FALSE}:
        assert evidence.verdict is Verdict.OPEN, "a statement without a counterexample is not refuted"


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


def test_ids_are_unique() -> None:
    assert len({c.id for c in CLAIMS}) == len(CLAIMS)


def test_expressions_build() -> None:
    built = [c.expression() for c in CLAIMS if c.expression is not None]
    assert len(built) >= 15
    assert all(hasattr(e, "free_symbols") for e in built)


def test_import_of_the_records_leaves_sympy_alone() -> None:
    code = "import sys; from theory.claims.ledger import claims; claims(); sys.exit('sympy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
