"""What exists to draft for a target: its MTP layers, published heads, block drafters, smaller models of its family."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, cast

from pydantic import Field, TypeAdapter

from calibrate.engines.token_vocabulary import BLOCK_DRAFTERS, UNPLANNED
from calibrate.record.fields import Record
from specplan.worlds.configs.blocks import BlockMethod, BlockSizes
from specplan.worlds.configs.published_formats import published_precision
from specplan.worlds.known_models import base_name, known_models
from specplan.worlds.model_files import ModelFacts, block_drafter, draft_head, shape_of
from theory.errors import ParameterError

__all__ = [
    "HeadFound",
    "PublishedHead",
    "check_draft",
    "check_head",
    "family_draft",
    "find_block",
    "find_head",
    "head_named",
    "published_heads",
]

_SMALLER: Final = 5.0
"""Active parameters of a target over those of a draft of its family, at least: nearer ones take too long to draft."""
_UNNAMED: Final = {"trained": "eagle3", "mtp": "mtp"}
"""Words for heads without a name of their own to their methods."""
_IMAGES: Final = "-vl-"
"""In the names of models that see: their positions have three parts, which vLLM 0.32 does not draft with everywhere."""
_FAMILY: Final = re.compile(r"(?:meta-)?([a-z]+-?\d+)(?!\d*b)")


class PublishedHead(Record):
    """A head on the hub."""

    targets: list[str] = Field(min_length=1)
    method: Literal["eagle", "eagle3", "mtp"] | BlockMethod
    head: str
    drafts: Literal["chain", "block"]
    block: tuple[int, int, int] | None = None
    """Tokens of its blocks: the fewest that engines take, those that it was trained for, the most."""
    further_layers: int = Field(default=0, ge=0)
    """Layers of the target's checkpoint that are the drafter; 0: it has weights of its own."""

    @property
    def sizes(self) -> BlockSizes:
        """Tokens of its blocks."""
        assert self.block is not None
        least, trained, most = self.block
        return BlockSizes(least=least, trained=trained, most=most)


@cache
def _table() -> tuple[PublishedHead, ...]:
    text = files(__package__).joinpath("published_heads.json").read_text(encoding="utf-8")
    return TypeAdapter(tuple[PublishedHead, ...]).validate_python(json.loads(text)["heads"])


def published_heads(target: str) -> list[PublishedHead]:
    """Return the heads of a target by its name; quantised copies of a model have the heads of the model.

    >>> [one.head for one in published_heads("Qwen/Qwen3-32B-FP8")]
    ['RedHatAI/Qwen3-32B-speculator.eagle3']
    """
    asked = base_name(target).lower()
    return [one for one in _table() if asked in {name.lower() for name in one.targets}]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadFound:
    """The head that is planned with, and what else there is."""

    facts: ModelFacts | None
    passed_over: dict[str, str]
    """What exists and is not considered, by how engines call it, and why."""


def find_head(target: ModelFacts, wanted: Sequence[str] = ()) -> HeadFound:
    """Return the head of a target: its own MTP layer, which is in the same checkpoint, before a published head.

    Parameters
    ----------
    wanted : methods as engines call them, if only some are to be considered.
    """
    published = published_heads(target.name)
    chains = [one for one in published if one.drafts == "chain" and (not wanted or one.method in wanted)]
    passed_over = dict(UNPLANNED)
    if target.next_token_layers and (not wanted or "mtp" in wanted):
        for one in chains:
            passed_over[one.method] = f"the checkpoint has MTP layers; --eagle {one.head} plans with this head instead"
        return HeadFound(facts=draft_head(target, "mtp"), passed_over=passed_over)
    return HeadFound(facts=_facts(chains[0], target) if chains else None, passed_over=passed_over)


def head_named(name: str, target: ModelFacts) -> ModelFacts:
    """Return a head that drafts for a target: ``mtp`` its own layers, ``trained`` one of the usual size still to train.

    Parameters
    ----------
    name : one of these, a published head of the table, a model of the table, or a ``config.json``.

    Raises
    ------
    ParameterError : an unknown name, a head of another target, or ``mtp`` of a target without such layers.
    """
    if name in _UNNAMED:
        return draft_head(target, _UNNAMED[name])
    heads = [one for one in _table() if one.head.lower() == name.strip().lower() and one.drafts == "chain"]
    if not heads or _is_known(name):
        return shape_of(name)
    own, other = target.shape, shape_of(heads[0].targets[0]).shape
    if (own.hidden, own.vocab, own.n_layers) != (other.hidden, other.vocab, other.n_layers):
        raise ParameterError("eagle", name, f"is a head of {heads[0].targets[0]}, not of {target.name}")
    return _facts(heads[0], target)


def find_block(target: ModelFacts, wanted: Sequence[str] = (), named: str = "") -> HeadFound:
    """Return the block drafter of a target: DSpark before DFlash, whose acceptance falls faster along a block.

    Parameters
    ----------
    wanted : methods as engines call them, if only some are to be considered.
    named : on the hub, if it has to be this one; empty: any.
    """
    published = [one for one in published_heads(target.name) if one.drafts == "block"]
    fitting = [
        one
        for method in BLOCK_DRAFTERS
        for one in published
        if one.method == method and (not wanted or method in wanted) and named.lower() in ("", one.head.lower())
    ]
    if not fitting:
        return HeadFound(facts=None, passed_over={})
    first, *others = fitting
    other: dict[str, str] = {
        one.method: f"{first.method} is planned for this target; --block {one.head} plans with it" for one in others
    }
    known: dict[str, Any] = {"name": first.head, "sizes": first.sizes, "further_layers": first.further_layers}
    return HeadFound(facts=block_drafter(target, cast("BlockMethod", first.method), **known), passed_over=other)


def _facts(head: PublishedHead, target: ModelFacts) -> ModelFacts:
    """Sizes of a head from the table of known models; else those of a usual head."""
    if _is_known(head.head):
        return shape_of(head.head)
    source = "published; its sizes are not in the table of known models, so those of a usual head"
    return replace(draft_head(target, head.method), name=head.head, source=source)


def _is_known(name: str) -> bool:
    return any(name.strip().lower() == one.lower() for model in known_models() for one in model.names)


def family_draft(target: ModelFacts, context: int = 1) -> str | None:
    """Return the smallest model of the target's family and vocabulary that reads so many tokens; None where none is.

    >>> family_draft(shape_of("Qwen/Qwen3-32B")), family_draft(shape_of("deepseek-ai/DeepSeek-R1"))
    ('Qwen/Qwen3-0.6B', None)
    """
    organisation, family = _family(base_name(target.name))
    if not family:
        return None
    most = target.shape.active_parameters / _SMALLER
    sizes: dict[str, int] = {}
    for model in known_models():
        name = model.names[0]
        other = _IMAGES in name.lower() or "target_hidden_size" in model.config  # heads
        vocabulary = model.config.get("vocab_size") == target.shape.vocab and not other
        if vocabulary and _family(name) == (organisation, family) and not published_precision(model.config).experts:
            try:
                facts = shape_of(name)
            except ParameterError:  # pragma: no cover - every modelled entry of the table is read by its tests
                continue
            if context <= (facts.max_context or context):
                sizes[name] = facts.shape.active_parameters
    return min((name for name, n in sizes.items() if n <= most), key=sizes.__getitem__, default=None)


def _family(name: str) -> tuple[str, str]:
    """Organisation and the family with its generation, such as qwen3 or llama-3; empty where the name tells none."""
    organisation, _, rest = name.lower().rpartition("/")
    match = _FAMILY.match(rest)
    return organisation, match.group(1) if match else ""


_PADDING: Final = 512
"""Embeddings are padded to multiples of 64 to 512: sizes nearer than that can be of one tokenizer."""
_MOST_LAYERS: Final = 8
"""Of a head; published ones have 1 to 5, block drafters 3 to 8."""


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
