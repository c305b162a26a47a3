"""The constants behind the priors of acceptance, and the kinds of text that they tell apart."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from calibrate.record.fields import Finite, NotNegative, Record
from sim.catalogue import choice

__all__ = [
    "DOMAIN_OF",
    "SHORT",
    "BlockConstants",
    "LongPromptConstants",
    "LookupConstants",
    "PriorConstants",
    "StepConstants",
    "TokenConstants",
    "constants",
    "domain_shares",
    "kind_of",
]

Pair: TypeAlias = tuple[Finite, Finite]

DOMAIN_OF: Final = {
    "gsm8k": "math",
    "math500": "math",
    "aime24": "math",
    "amc23": "math",
    "humaneval": "code",
    "livecodebench": "code",
    "coding": "code",
    "mtbench": "chat",
    "gpqa": "science",
    "financeqa": "finance",
    "instructcoder": "copying",
}

SHORT: Final = 4096
"""Tokens of the prompts behind the priors, at most."""


def domain_shares(kinds: Iterable[str]) -> dict[str, float]:
    """Return how likely each kind of text is where nothing is said: a data set of `DOMAIN_OF`, picked at random."""
    counts = {kind: sum(of == kind for of in DOMAIN_OF.values()) for kind in kinds}
    return {kind: count / sum(counts.values()) for kind, count in counts.items()}


class BlockConstants(Record):
    """How acceptance depends on the length of a block: `theory.block_drafting`."""

    drafted: Annotated[int, Field(ge=1)]
    """Drafted tokens of the block whose positions ``level_slope`` describes."""
    slope: Finite
    error: NotNegative


class TokenConstants(Record):
    """Prior of a method that drafts tokens: multivariate t over level and slope."""

    level_slope: Pair
    """Mean, in logits and logits per ln(position)."""
    covariance: tuple[NotNegative, Finite, NotNegative]
    """Between models, for a model not seen: of level, of both, of slope."""
    degrees: Annotated[float, Field(gt=0)]
    domains: bool
    """Whether the effects of domains were measured on such drafts."""
    source: str
    block: BlockConstants | None = None
    """Of drafters of blocks; None: a chain."""


class LookupConstants(Record):
    """Prior of prompt lookup: tokens per round at one k2, and how likely a hit goes on."""

    k2: Annotated[int, Field(ge=2)]
    log_extra: dict[str, Finite]
    """Mean of ln(tokens per round - 1) by domain; ``all`` for none."""
    spread: NotNegative
    """Standard deviation of it for a pair not seen, domain known."""
    spread_all: NotNegative
    """The same, domain unknown."""
    degrees: Annotated[float, Field(gt=0)]
    going_on: Pair
    """Logit of the acceptance after a first one: mean and standard deviation, assumed."""
    source: str


class StepConstants(Record):
    """Prior of step acceptance: t over logit(alpha1)."""

    tasks: dict[str, Finite]
    """Mean logit by data set, by domain, and of ``all``."""
    spread_task: NotNegative
    """Standard deviation for a pair not seen, data set known, in logits."""
    spread_domain: NotNegative
    spread_all: NotNegative
    degrees: Annotated[float, Field(gt=0)]
    source: str


class LongPromptConstants(Record):
    """What the logit of acceptance loses per doubling of a prompt beyond `SHORT` tokens: t, none below 0."""

    loss: Finite
    spread: NotNegative
    degrees: Annotated[float, Field(gt=0)]
    source: str


class PriorConstants(Record):
    """The file ``priors.json``."""

    schema_version: int
    token: dict[str, TokenConstants]
    domain_level_slope: dict[str, Pair]
    domain_covariance: tuple[NotNegative, Finite, NotNegative]
    """Between domains, added where the domain is unknown."""
    long_prompts: LongPromptConstants
    lookup: LookupConstants
    step: StepConstants
    step_tokens: Pair
    """Mean length of a step, tokens: value and half-width of 95 %."""
    step_source: str


@cache
def constants() -> PriorConstants:
    """Return the fitted constants."""
    text = files(__package__).joinpath("priors.json").read_text(encoding="utf-8")
    return PriorConstants.model_validate(json.loads(text))


def kind_of(domain: str) -> str:
    """Return the kind of text that a data set is of; a kind is its own.

    Raises
    ------
    ParameterError : neither a kind nor a data set; the message suggests the nearest.
    """
    name = domain.strip().lower()
    kinds = dict.fromkeys(DOMAIN_OF.values())
    return DOMAIN_OF.get(name) or choice("domain", name, [*kinds, *DOMAIN_OF])
