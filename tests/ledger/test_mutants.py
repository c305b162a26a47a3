"""Statements changed by 1 %: the search or the proof rejects nearly all, and it is known why the others stand."""

import secrets
from collections.abc import Iterable

import pytest

from ledger.ledger import claim
from workshop.ledger_mutants import Outcome, changes, holding, sampled

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
    import random

    made = {one.kind for name in ("LR-L3b", "LR-T4e", "LD-S3") for one in changes(*_recorded(name), random.Random(1))}
    assert made >= {"constant", "coefficient", "direction"}
    assert {claim_.id for claim_, _, _ in holding()} >= {"LR-L2c", "SPECS-T3", "CS-P4"}


def test_a_change_that_only_weakens_is_not_made() -> None:
    import random

    item, corrected, statement = _recorded("LR-L6a")
    found = [one.what for one in changes(item, corrected, statement, random.Random(1)) if one.kind == "constant"]
    assert any(what.startswith("1.14543 for 1.157") for what in found)
    assert not any(what.startswith("1.16857 for 1.157") for what in found)


def _recorded(claim_id: str) -> tuple:  # type: ignore[type-arg]
    item = claim(claim_id)
    assert item.formula is not None
    return item, False, item.formula
