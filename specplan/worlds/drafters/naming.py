"""Drafters by the names that engines give their methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from calibrate.engines.token_vocabulary import OF_ENGINES

if TYPE_CHECKING:
    from sim.configuration import Configuration
    from specplan.worlds.request import Deployment, ServedModel

__all__ = ["drafter_name", "drafters", "head_kind", "method_name"]

_HEADS: Final = ("eagle", "eagle3", "mtp")
_OTHERS: Final = {of: name for name, of in OF_ENGINES.items() if name not in _HEADS}


def head_kind(head: ServedModel | None) -> str:
    """Return ``mtp``, ``eagle`` or ``eagle3``, which a published head is unless its configuration says otherwise."""
    named = "" if head is None else head.facts.architecture
    return named if named in _HEADS else "eagle3"


def drafter_name(deployment: Deployment, token: str) -> str:
    """Return the engines' name of a token-level method of the catalogue, as a deployment runs it."""
    return _OTHERS.get(token) or head_kind(deployment.head)


def method_name(deployment: Deployment, configuration: Configuration) -> str:
    """Return a method as engines call it (mtp, eagle3, ngram, draft_model); others by their title."""
    token = configuration.token
    if configuration.spec.level == "token" and token is not None:
        return drafter_name(deployment, token)
    below = f" + {drafter_name(deployment, token)}" if token is not None else ""
    return configuration.spec.title + below


def drafters(deployment: Deployment) -> tuple[str, ...]:
    """Return the engines' names of what may draft tokens in a deployment."""
    found = ["ngram"]
    found += [head_kind(deployment.head)] if deployment.head is not None else []
    return (*found, "draft_model") if deployment.draft is not None else tuple(found)
