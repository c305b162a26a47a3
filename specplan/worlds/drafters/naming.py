"""Methods and drafters by the names that engines give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from calibrate.engines.token_vocabulary import BLOCK_DRAFTERS, OF_ENGINES, catalogue_name
from sim.catalogue import choice, method
from sim.configuration import METHOD_NAMES, Configuration

if TYPE_CHECKING:
    from specplan.worlds.request import Deployment, ServedModel

__all__ = [
    "ADAPTIVE",
    "PROPOSED",
    "block_kind",
    "drafter_name",
    "drafters",
    "drafting_model",
    "ends_a_turn",
    "head_kind",
    "kind",
    "layers_in_turn",
    "method_name",
    "methods_named",
]


ADAPTIVE: Final = " adaptive"
"""Behind the name of a method whose drafted tokens are verified where that pays."""
PROPOSED: Final = tuple(name for name in METHOD_NAMES if not method(name).ablation)
"""Methods to consider unless others are named: all but variants that exist for comparison only."""
_HEADS: Final = ("eagle", "eagle3", "mtp")
_OTHERS: Final = {of: name for name, of in OF_ENGINES.items() if name not in (*_HEADS, *BLOCK_DRAFTERS)}


def methods_named(names: Sequence[str]) -> tuple[str, ...]:
    """Return the methods of these names, in the catalogue or as engines call them; without names all but ablations.

    Raises
    ------
    ParameterError : no method of that name.
    """
    known = dict.fromkeys((*OF_ENGINES, *METHOD_NAMES))
    return tuple(dict.fromkeys(choice("methods", catalogue_name(name), known) for name in names)) or PROPOSED


def kind(configuration: Configuration) -> str:
    """Configurations of a kind differ in their knobs only; the plan shows the best of each.

    A method whose drafted tokens are verified where that pays is another kind than the same with all verified.
    """
    below = f"+{configuration.token}" if configuration.is_hybrid else ""
    return configuration.method + below + (ADAPTIVE if configuration.least else "")


def drafting_model(deployment: Deployment, token: str | None) -> ServedModel | None:
    """Return the model or head that drafts with a token-level method of the catalogue; None: it needs none."""
    known = {"draft-model": deployment.draft, "eagle": deployment.head, "block-drafter": deployment.block}
    return known.get(token or "")


def head_kind(head: ServedModel | None) -> str:
    """Return ``mtp``, ``eagle`` or ``eagle3``, which a published head is unless its configuration says otherwise."""
    named = "" if head is None else head.facts.architecture
    return "mtp" if named == "gemma4_assistant" else named if named in _HEADS else "eagle3"


def layers_in_turn(deployment: Deployment) -> int:
    """Return how many layers of the target's checkpoint draft a token each, in turn; 1 for a head of its own weights.

    vLLM drafts at most so many tokens a round, or a multiple of it (``n_predict``, 0.32).
    """
    head = deployment.head
    return deployment.target.facts.next_token_layers if head is not None and head.facts.in_target else 1


def ends_a_turn(k: int, layers: int) -> bool:
    """Return whether vLLM takes a round of ``k`` tokens of so many layers that draft in turn, see `layers_in_turn`."""
    return k <= layers or k % layers == 0


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
