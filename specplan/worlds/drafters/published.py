"""The table of published heads and block drafters: which were trained for which target, and how they draft."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Literal, Self

from pydantic import Field, model_validator

from calibrate.record.fields import Record
from specplan.worlds.configs.blocks import BlockMethod, BlockSizes
from specplan.worlds.known_models import base_name


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

    @model_validator(mode="after")
    def _blocks_have_sizes(self) -> Self:
        if (self.drafts == "block") != (self.block is not None):
            raise ValueError(f"{self.head}: block must be given for blocks, and for no chain")
        return self

    @property
    def sizes(self) -> BlockSizes:
        """Tokens of its blocks."""
        assert self.block is not None
        least, trained, most = self.block
        return BlockSizes(least=least, trained=trained, most=most)


class _Table(Record):
    schema_version: int
    source: str
    heads: list[PublishedHead]


@cache
def _table() -> tuple[PublishedHead, ...]:
    text = files(__package__).joinpath("published_heads.json").read_text(encoding="utf-8")
    return tuple(_Table.model_validate(json.loads(text)).heads)


def published_heads(target: str) -> list[PublishedHead]:
    """Return the heads of a target by its name; quantised copies of a model have the heads of the model.

    >>> [one.head for one in published_heads("Qwen/Qwen3-32B-FP8")]
    ['RedHatAI/Qwen3-32B-speculator.eagle3']
    """
    asked = base_name(target).lower()
    return [one for one in _table() if asked in {name.lower() for name in one.targets}]
