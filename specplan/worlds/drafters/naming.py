"""Drafters by the names that engines give their methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from calibrate.engines.token_vocabulary import OF_ENGINES

if TYPE_CHECKING:
    from specplan.worlds.request import Deployment, ServedModel

__all__ = ["drafter_name", "drafters", "head_kind"]

_HEADS: Final = ("eagle", "eagle3", "mtp")
_OTHERS: Final = {of: name for name, of in OF_ENGINES.items() if name not in _HEADS}


def head_kind(head: ServedModel | None) -> str:
    """Return ``mtp``, ``eagle`` or ``eagle3``, which a published head is unless its configuration says otherwise."""
    named = "" if head is None else head.facts.architecture
    return named if named in _HEADS else "eagle3"


def drafter_name(deployment: Deployment, token: str) -> str:
    """Return the engines' name of a token-level method of the catalogue, as a deployment runs it."""
    return _OTHERS.get(token) or head_kind(deployment.head)


def drafters(deployment: Deployment) -> tuple[str, ...]:
    """Return the engines' names of what may draft tokens in a deployment."""
    found = ["ngram"]
    found += [head_kind(deployment.head)] if deployment.head is not None else []
    return (*found, "draft_model") if deployment.draft is not None else tuple(found)
