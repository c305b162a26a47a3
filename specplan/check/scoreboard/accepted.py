"""Tokens that a round commits, as expected before anything is measured, beside measured acceptance lengths."""

from __future__ import annotations

from typing import Final

from specplan.check.scoreboard.outcomes import Outcome, Refused
from specplan.check.scoreboard.rows import Acceptance, Speculated
from specplan.worlds.priors import Prior, token_prior
from theory.errors import ParameterError, SpecplanError

__all__ = ["accepted_outcome", "length_prior"]

_METHODS: Final = ("dspark", "mtp", "eagle3", "eagle")
"""Words for methods in the tables, more telling ones first."""


def accepted_outcome(row: Acceptance | Speculated) -> Outcome | Refused | None:
    """Predict the acceptance length of a chain; None of a tree, for which there is no prior."""
    if isinstance(row, Speculated):
        if row.topk > 1:
            return None
        model, drafted, measured, said = row.target, row.steps, row.accept_length, "eagle3"
    else:
        model, drafted, measured = row.model, row.num_speculative_tokens, row.acceptance_length
        said = f"{row.method} {row.measured_on} {row.file}".lower().replace("eagle-3", "eagle3")
    method = next((one for one in _METHODS if one in said), said)
    try:
        prior = length_prior(method, drafted + 1, row.dataset)
    except SpecplanError as error:
        return Refused(where=row.where, model=model, reason=str(error))
    return Outcome(
        where=row.where,
        quantity="tokens per round",
        unit="tokens",
        model=model,
        labels={"method": method, "drafted": str(drafted), "dataset": row.dataset},
        measured=measured,
        predicted=prior.value,
        interval=(prior.low, prior.high),
    )


def length_prior(method: str, k2: int, dataset: str) -> Prior:
    """Return the prior of tokens per round of a data set, or of any where the data set is not known."""
    try:
        return token_prior(method, k2, dataset)
    except ParameterError:
        return token_prior(method, k2)
