"""Checks of printed cells: a claim about a finite list of them, and what went wrong in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ledger.ledger import Evidence, Verdict
from ledger.proving.cases import Case, Cases, rows, walked
from ledger.proving.combine import counterexample

__all__ = ["Failure", "over"]

Failure = tuple[str, dict[str, str]] | None
"""What went wrong and the printed cells that show it; None when the check passes."""


def over(items: Sequence[Any], failure: Callable[[Any], Failure], what: str) -> Cases:
    """A test of each item of a finite list; the item is shown by the printed cells that fail."""

    def shown(case: Case) -> dict[str, str]:
        failing = failure(case["item"])
        return {} if failing is None else failing[1]

    return Cases(
        text=what,
        test=lambda item: failure(item) is None,
        cases=rows(*[{"item": item} for item in items]),
        where=f"{len(items)} of them, for every value that rounds to the printed one",
        shown=shown,
        by=partial(_decided, failure),
    )


def _decided(failure: Callable[[Any], Failure], cases: Cases) -> Evidence:
    """``false`` with the first failing item, else ``proved`` for the finite list."""
    evidence = walked(cases)
    if evidence.verdict is Verdict.PROVED:
        return replace(evidence, method="exact arithmetic", detail=f"{cases.text}: all {cases.where}")
    item = next(case["item"] for case in cases.cases() if not cases.holds(case))
    name, cells = failure(item) or (str(item), {})
    return counterexample(f"{cases.text}: fails for {name}", cells, evidence.effort)
