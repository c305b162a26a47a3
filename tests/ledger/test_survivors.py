"""Mutants of claims: all kinds of changes are made, and what survives is named."""

import random
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from ledger.ledger import Claim, Verdict, claim
from ledger.proving.cases import Predicate
from ledger.proving.domains import one_of, whole
from ledger.proving.formulas import Formula
from ledger.proving.search.falsifier import falsified
from ledger.runner import Verification, verify_claim
from workshop.ledger_mutants import Outcome, changes, holding, sampled

Statement = Formula | Predicate


def _statement(item: Claim, corrected: bool) -> Statement:
    found = item.correction_formula if corrected else item.formula
    assert isinstance(found, (Formula, Predicate))
    return found


def _of(item: Claim, corrected: bool, changed: Statement) -> Verification:
    name = "correction_formula" if corrected else "formula"
    return verify_claim(replace(item, **{name: changed}))  # type: ignore[arg-type]  # one of two fields


def _numbers(**numbers: str) -> dict[str, Any]:
    return {"numbers": {name: Fraction(value) for name, value in numbers.items()}}


def _range(name: str, values: Any) -> dict[str, Any]:
    return {"range": {name: values}}


SURVIVORS: dict[str, tuple[str, bool, Mapping[str, Any]]] = {
    "Theorem 4 at M = 13": ("LR-T4e", False, _range("M", one_of(12, 13, 14, 15))),
    "Lemma 1 from M = 12": ("LR-L1b", False, _range("M", whole(12, None, 2))),
    "S2 up to gamma c <= 1.03": ("LR-T2b", False, {"premise": lambda c1, gamma, **_: gamma * c1 <= Fraction(103, 100)}),
    "Lemma 2 up to 1.02/c": ("LR-L2c", True, {"premise": "gamma < later and later < 1.02 / c1"}),
    "(7) from 1.12 on": ("LR-T3h", True, _numbers(six="1.12", margin="1")),
    "tokens less 0.97": (
        "LD-S5",
        False,
        {"relation": "log(1 / alpha) * (multi(alpha, gamma, b) - 0.97) < harmonic(b)"},
    ),
    "98 % of the local divergence": ("SPECS-L3", False, _numbers(share="0.98")),
    "95 % of the local divergence": ("SPECS-L3", False, _numbers(share="0.95")),
    "0.24 of the bound, own drafts": ("SPECS-C1b", True, _numbers(share="0.24")),
    "0.24 of the bound": ("SPECS-T3", True, _numbers(share="0.24")),
}
"""Name -> claim, whether its correction is changed, the change."""


@pytest.mark.parametrize("name", SURVIVORS)
def test_the_search_refutes_it(name: str) -> None:
    claim_id, corrected, change = SURVIVORS[name]
    statement = _statement(claim(claim_id), corrected)
    if "range" in change:
        change = {"domain": {**statement.domain, **change["range"]}}
    changed = replace(statement, **change)
    finding = falsified(changed, name)
    assert finding.failing is not None, finding
    assert changed.admits(finding.failing)


@pytest.mark.parametrize("less", ["0.0002", "0.0009"])
def test_lower_constants_of_theorem_3_do_not_pass(less: str) -> None:
    """LR-T3k: the proof bounds each constant that the statement names."""
    item = claim("LR-T3k")
    statement = _statement(item, corrected=False)
    assert isinstance(statement, Predicate)
    lower = {name: value - Fraction(less) for name, value in statement.numbers.items()}
    result = _of(item, False, replace(statement, numbers=lower))
    assert result.evidence.verdict is Verdict.FALSE
    assert not result.agrees


def test_1156_in_theorem_3_does_not_pass_with_the_lemma_at_1157() -> None:
    """LR-T3b: no budget up to 12 tells them apart, but the lemma must bound the constant that the statement names."""
    item = claim("LR-T3b")
    changed = replace(_statement(item, corrected=True), **_numbers(six="1.156"))
    result = _of(item, True, changed)
    assert claim("LR-L6a").verify().verdict is Verdict.PROVED
    assert result.correction is not None
    assert result.correction.verdict is Verdict.OPEN
    assert not result.agrees


OPEN = {"LD-S5, coefficient: 1.01 of log(1 / alpha) * (mu (node 2) in the relation"}
"""Of the hundred below: neither falls nor is known to be true."""


def _unexplained(outcomes: Iterable[Outcome]) -> list[str]:
    """Mutants that do not fall, and of which neither their proof nor the record says why they are true."""
    return [str(one.changed) for one in outcomes if not one.falls and not one.why_true]


@pytest.mark.slow
def test_a_fresh_sample_of_mutants_falls() -> None:
    """A seed of its own each time. Of 190 tried 2 stood unexplained: with 1 % of them, 3 of 10 do so once in 9,000."""
    seed = secrets.token_hex(4)
    standing = _unexplained(sampled(10, seed, most=5))
    assert len(standing) <= 2, f"seed {seed}: {standing}"


@pytest.mark.slow
def test_a_hundred_mutants_fall() -> None:
    outcomes = list(sampled(100, "a hundred", most=60))
    assert len(outcomes) == 100
    assert set(_unexplained(outcomes)) <= OPEN


def test_all_kinds_of_changes_are_made() -> None:
    made = {one.kind for name in ("LR-L3b", "LR-T4e", "LD-S3") for one in changes(*_recorded(name), random.Random(1))}
    assert made >= {"constant", "coefficient", "direction"}
    assert {claim_.id for claim_, _, _ in holding()} >= {"LR-L2c", "SPECS-T3", "CS-P4"}


def test_a_change_that_only_weakens_is_not_made() -> None:
    item, corrected, statement = _recorded("LR-L6a")
    found = [one.what for one in changes(item, corrected, statement, random.Random(1)) if one.kind == "constant"]
    assert any(what.startswith("1.14543 for 1.157") for what in found)
    assert not any(what.startswith("1.16857 for 1.157") for what in found)


def _recorded(claim_id: str) -> tuple:
    item = claim(claim_id)
    assert item.formula is not None
    return item, False, item.formula
