"""Drafters by the names that engines give their methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from calibrate.engines.token_vocabulary import BLOCK_DRAFTERS, OF_ENGINES

if TYPE_CHECKING:
    from sim.configuration import Configuration
    from specplan.worlds.request import Deployment, ServedModel

__all__ = ["ADAPTIVE", "block_kind", "drafter_name", "drafters", "drafting_model", "head_kind", "method_name"]

ADAPTIVE: Final = " adaptive"
"""Behind the name of a method whose drafted tokens are verified where that pays."""
_HEADS: Final = ("eagle", "eagle3", "mtp")
_OTHERS: Final = {of: name for name, of in OF_ENGINES.items() if name not in (*_HEADS, *BLOCK_DRAFTERS)}


def drafting_model(deployment: Deployment, token: str | None) -> ServedModel | None:
    """Return the model or head that drafts with a token-level method of the catalogue; None: it needs none."""
    known = {"draft-model": deployment.draft, "eagle": deployment.head, "block-drafter": deployment.block}
    return known.get(token or "")


def head_kind(head: ServedModel | None) -> str:
    """Return ``mtp``, ``eagle`` or ``eagle3``, which a published head is unless its configuration says otherwise."""
    named = "" if head is None else head.facts.architecture
    return named if named in _HEADS else "eagle3"


def block_kind(block: ServedModel | None) -> str:
    """Return ``dspark`` or ``dflash``."""
    return BLOCK_DRAFTERS[0] if block is None else block.facts.architecture


def drafter_name(deployment: Deployment, token: str) -> str:
    """Return the engines' name of a token-level method of the catalogue, as a deployment runs it."""
    if token == "block-drafter":
        return block_kind(deployment.block)
    return _OTHERS.get(token) or head_kind(deployment.head)


def method_name(deployment: Deployment, configuration: Configuration) -> str:
    """Return a method as engines call it (mtp, eagle3, ngram, draft_model); others by their title."""
    token = configuration.token
    if configuration.spec.level == "token" and token is not None:
        return drafter_name(deployment, token) + (ADAPTIVE if configuration.least else "")
    below = f" + {drafter_name(deployment, token)}" if token is not None else ""
    return configuration.spec.title + below


def drafters(deployment: Deployment) -> tuple[str, ...]:
    """Return the engines' names of what may draft tokens in a deployment."""
    tokens = [token for token in ("eagle", "block-drafter", "draft-model") if drafting_model(deployment, token)]
    return ("ngram", *(drafter_name(deployment, token) for token in tokens))
