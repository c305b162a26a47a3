"""The table of published heads: which heads were trained for which target, and how they draft."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import Field

from calibrate.record.fields import Record
from specplan.worlds.known_models import base_name

__all__ = ["PublishedHead", "published_heads"]


class PublishedHead(Record):
    """A head on the hub."""

    targets: list[str] = Field(min_length=1)
    """Targets that it was trained for, as named on the hub."""
    method: Literal["eagle", "eagle3", "dflash"]
    """As engines call it."""
    head: str
    """Its name on the hub."""
    drafts: Literal["chain", "block"]
    """Token by token, or a block in one pass."""


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
