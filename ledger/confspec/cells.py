"""Checks of printed cells: a claim about a finite list of them, and what went wrong in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ParamSpec

from ledger.ledger import Evidence, Verdict
from ledger.proving.cases import Case, Cases, rows, walked
from ledger.proving.combine import counterexample

__all__ = ["Checked", "Failure", "checked", "over"]

P = ParamSpec("P")
Failure = tuple[str, dict[str, str]] | None
"""What went wrong and the printed cells that show it; None when the check passes."""


Checked = tuple[Cases, Callable[[Any], Failure]]
"""Cells to check, and what went wrong in one."""


def over(items: Sequence[Any], failure: Callable[[Any], Failure], what: str) -> Checked:
    """A test of each item of a finite list; the item is shown by the printed cells that fail."""

    def shown(case: Case) -> dict[str, str]:
        failing = failure(case["item"])
        return {} if failing is None else failing[1]

    cases = Cases(
        text=what,
        test=lambda item: failure(item) is None,
        cases=rows(*[{"item": item} for item in items]),
        where=f"{len(items)} of them, for every value that rounds to the printed one",
        shown=shown,
    )
    return cases, failure


def _decided(cases: Cases, failure: Callable[[Any], Failure]) -> Evidence:
    """``false`` with the first failing item, else ``proved`` for the finite list."""
    evidence = walked(cases)
    if evidence.verdict is Verdict.PROVED:
        return replace(evidence, method="exact arithmetic", detail=f"{cases.text}: all {cases.where}")
    item = next(case["item"] for case in cases.cases() if not cases.holds(case))
    name, cells = failure(item) or (str(item), {})
    return counterexample(f"{cases.text}: fails for {name}", cells, evidence.effort)


def checked(build: Callable[P, Checked]) -> Callable[P, Evidence]:
    """The verifier of a list of cells."""

    def verify(*args: P.args, **kwargs: P.kwargs) -> Evidence:
        return _decided(*build(*args, **kwargs))

    return verify
