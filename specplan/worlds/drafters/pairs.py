"""Whether a draft or a head belongs to a target: the fields of their configurations that must agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.worlds.model_files import ModelFacts

_PADDING: Final = 512
"""Embeddings are padded to multiples of 64 to 512: sizes nearer than that can be of one tokenizer."""
_MOST_LAYERS: Final = 8
"""Of a head; published ones have 1 to 5, block drafters 3 to 8."""


def same_tokens(target: ModelFacts, draft: ModelFacts) -> bool:
    """Whether a draft's tokens can be verified as they are: engines ask for vocabularies of one size."""
    return target.shape.vocab == draft.shape.vocab


def check_draft(target: ModelFacts, draft: ModelFacts, *, tokens: bool) -> None:
    """Refuse a draft of another vocabulary where it is to draft tokens.

    Parameters
    ----------
    tokens : whether it is to draft tokens; steps are text, and may be of any vocabulary.

    Raises
    ------
    ParameterError : the vocabularies differ by more than padding.
    """
    if tokens and abs(target.shape.vocab - draft.shape.vocab) >= _PADDING:
        rule = (
            f"has another vocabulary than {target.name}: vocab_size {draft.shape.vocab}, not {target.shape.vocab}; "
            "take a draft of the target's family, or --methods lr-async, whose steps are text"
        )
        raise ParameterError("draft", draft.name, rule)


def check_head(target: ModelFacts, head: ModelFacts, option: str = "eagle") -> None:
    """Refuse what is no head, or one of another target.

    Parameters
    ----------
    option : by which the head was named: ``eagle``, or ``block`` for block drafters.

    Raises
    ------
    ParameterError : it has as many layers as a model, drafts in another way, or reads states or tokens of another size.
    """
    what = "head" if option == "eagle" else "block drafter"
    if head.shape.n_layers > _MOST_LAYERS:
        rule = (
            f"is no {what}: num_hidden_layers {head.shape.n_layers}, {what}s have at most {_MOST_LAYERS}; "
            "models: --draft"
        )
        raise ParameterError(option, head.name, rule)
    if option == "eagle" and head.block is not None:
        raise ParameterError(option, head.name, f"drafts blocks ({head.architecture}): name it with --block")
    if option == "block" and head.block is None:
        rule = "drafts token by token: name it with --eagle; block drafters (DFlash, DSpark) say their block_size"
        raise ParameterError(option, head.name, rule)
    for field, own, wanted in (
        ("hidden_size" if head.reads_hidden == head.shape.hidden else "target_hidden_size",
         head.reads_hidden, target.shape.hidden),
        ("vocab_size", head.reads_vocab, target.shape.vocab),
    ):  # fmt: skip
        if own and own != wanted:
            raise ParameterError(option, head.name, f"is no {what} of {target.name}: {field} {own}, not {wanted}")
