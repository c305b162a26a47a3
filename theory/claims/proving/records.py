"""Records of the ledger by their verdict, and a mutant by the arguments that it changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec

from theory.claims.ledger import Claim, Evidence, Mutant, Verdict

__all__ = ["mutant", "proved", "proved_with_fix", "refuted"]

P = ParamSpec("P")

proved = partial(Claim, verdict=Verdict.PROVED)
proved_with_fix = partial(Claim, verdict=Verdict.PROVED_WITH_FIX)
refuted = partial(Claim, verdict=Verdict.FALSE)


def mutant(
    name: str, what_changed: str, verify: Callable[P, Evidence], /, *changed: P.args, **also_changed: P.kwargs
) -> Mutant:
    """A mutant that calls a verifier with the changed arguments, when it is asked to."""
    return Mutant(name=name, what_changed=what_changed, verify=partial(verify, *changed, **also_changed))
