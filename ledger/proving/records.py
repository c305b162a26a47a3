"""Records of the ledger by their verdict, and a mutant by the arguments that it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ParamSpec

from ledger.ledger import Claim, Evidence, Mutant, Verdict
from ledger.proving.combine import with_fix

__all__ = ["corrected", "mutant", "proved", "proved_with_fix", "refuted", "repaired", "verified"]

P = ParamSpec("P")
Verifier = Callable[[], Evidence]

proved = partial(Claim, verdict=Verdict.PROVED)
verified = partial(Claim, verdict=Verdict.VERIFIED)
"""True for the cases of its `reach`."""
refuted = partial(Claim, verdict=Verdict.FALSE)
proved_with_fix = partial(Claim, verdict=Verdict.PROVED_WITH_FIX)
"""A claim with a verifier that tries the print and the fix itself; see `repaired`."""


def mutant(
    name: str, what_changed: str, verify: Callable[P, Evidence], /, *changed: P.args, **also_changed: P.kwargs
) -> Mutant:
    """A mutant that calls a verifier with the changed arguments, when it is asked to."""
    return Mutant(name=name, what_changed=what_changed, verify=partial(verify, *changed, **also_changed))


def corrected(*, holds: Mutant, **record: Any) -> Claim:
    """A refuted claim whose one mutant is its correction: what `holds` is verified instead."""
    return refuted(correction_verify=holds.verify, mutants=(holds,), **record)


def repaired(*, printed: Verifier, repair: Verifier, mutants: tuple[Mutant, ...], **record: Any) -> Claim:
    """A claim that is proved with a fix: `printed` is refuted, `repair` proves the correction.

    The mutants change the print, and meet the same repair; `record` holds the other fields of the `Claim`.
    """

    def fixed(verify: Verifier) -> Verifier:
        return partial(with_fix, verify, repair)

    return proved_with_fix(
        verify=fixed(printed),
        correction_verify=repair,
        mutants=tuple(replace(each, verify=fixed(each.verify)) for each in mutants),
        **record,
    )
