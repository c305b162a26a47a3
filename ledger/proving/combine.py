"""Build and combine evidence: conjunctions, a search before a proof, a refuted print with a proved repair."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from types import FunctionType

from ledger.ledger import Evidence, Verdict

__all__ = [
    "Part",
    "all_of",
    "argued",
    "counterexample",
    "exact_step",
    "made",
    "numeric",
    "refutation",
    "screened",
    "settled",
    "with_fix",
]

Part = Evidence | Callable[[], Evidence]
"""A piece of evidence, or a call that makes it: later parts are not run once a part has failed."""


def numeric(agrees: bool, *, what: str, effort: Mapping[str, int | float]) -> Evidence:
    """Evidence of a test that proves nothing: ``numeric`` when it agreed, ``open`` when it did not."""
    verdict = Verdict.NUMERIC if agrees else Verdict.OPEN
    return Evidence(verdict=verdict, method="sampled", detail=what, effort=effort)


def all_of(*parts: Part, detail: str = "") -> Evidence:
    """The conjunction: ``false`` with the first refuted part, ``proved`` when every part is, else the weakest verdict.

    Parts after the first that is neither proved nor verified are not run; one part that is only verified for the cases
    tried makes the whole so.
    """
    done: list[Evidence] = []
    for part in parts:
        evidence = made(part)
        if evidence.verdict not in {Verdict.PROVED, Verdict.VERIFIED}:
            return evidence
        done.append(evidence)
    effort: dict[str, int | float] = {}
    for evidence in done:
        for key, value in evidence.effort.items():
            effort[key] = max(effort.get(key, 0), value) if key in {"bits", "digits"} else effort.get(key, 0) + value
    methods = list(dict.fromkeys(m for evidence in done for m in evidence.method.split(" and ")))
    text = "; ".join(evidence.detail for evidence in done)
    whole = all(evidence.verdict is Verdict.PROVED for evidence in done)
    return Evidence(
        verdict=Verdict.PROVED if whole else Verdict.VERIFIED,
        method=" and ".join(methods),
        detail=f"{detail}: {text}" if detail else text,
        effort=effort,
    )


def exact_step(holds: bool, what: str, method: str = "exact") -> Evidence:
    """A part of a proof that is one exact decision: ``proved``, or ``open``, as it refutes no claim."""
    verdict = Verdict.PROVED if holds else Verdict.OPEN
    return Evidence(verdict=verdict, method=method, detail=what if holds else f"{what}: this step does not hold")


def with_fix(printed: Part, fixed: Part) -> Evidence:
    """``proved with fix`` when the statement as printed is refuted and the small repair is proved.

    A printed statement that is not refuted needs no fix: its own evidence is returned. An unproved repair leaves
    the claim ``false``.
    """
    first = made(printed)
    if first.verdict is not Verdict.FALSE:
        return first
    second = made(fixed)
    if second.verdict is not Verdict.PROVED:
        return first
    return Evidence(
        verdict=Verdict.PROVED_WITH_FIX,
        method=f"{first.method} and {second.method}",
        detail=f"As printed: {first.detail}. With the fix: {second.detail}",
        counterexample=first.counterexample,
        effort={**first.effort, **second.effort},
    )


def made(part: Part) -> Evidence:
    """Run the part if it is a call; a function of a module comes to the same each time, and is run once."""
    if isinstance(part, Evidence):
        return part
    lasting = isinstance(part, FunctionType) and part.__qualname__ == part.__name__ != "<lambda>"
    return settled(part) if lasting else part()


@functools.cache
def settled(part: Callable[[], Evidence]) -> Evidence:
    """Evidence of a part that many claims share, derived once in a process."""
    return part()


def screened(search: Part, *parts: Part, detail: str = "") -> Evidence:
    """A search for a counterexample first, then the proof: ``false`` if the search finds one, else `argued`.

    The search proves nothing; it keeps a proof honest, because a mutated statement meets it too.
    """
    screen = made(search)
    if screen.verdict is Verdict.FALSE:
        return screen
    proof = argued(*parts, detail=detail)
    effort = {**proof.effort, "screened": screen.effort.get("points", 0)}
    return replace(proof, detail=f"{proof.detail}; searched before, {screen.detail}", effort=effort)


def argued(*parts: Part, detail: str = "") -> Evidence:
    """`all_of` the parts of a proof, which cannot refute: a step that fails leaves the statement ``open``.

    It may be true by another way.
    """
    proof = all_of(*parts, detail=detail)
    if proof.verdict is not Verdict.FALSE:
        return proof
    text = f"a step of the proof fails, which refutes no more than the step: {proof.detail}"
    return replace(proof, verdict=Verdict.OPEN, detail=text, counterexample=None)


def refutation(what: str, where: Mapping[str, Fraction], effort: Mapping[str, int | float]) -> Evidence:
    """Evidence ``false`` at an exact point."""
    at = ", ".join(f"{name} = {value}" for name, value in where.items())
    return counterexample(f"{what}: fails at {at}", where, effort)


def counterexample(
    detail: str, where: Mapping[str, object] | None, effort: Mapping[str, int | float] | None = None
) -> Evidence:
    """Evidence ``false``, in words of its own."""
    shown = None if where is None else {name: str(value) for name, value in where.items()}
    return Evidence(
        verdict=Verdict.FALSE, method="exact counterexample", detail=detail, counterexample=shown, effort=effort or {}
    )
