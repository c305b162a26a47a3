"""Uses of an engine, which differ in caches, in other engines at work and in batch size, and so in times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, cast

from calibrate.record.engine_records import EngineRecord, InUse
from sim.catalogue import Level

__all__ = ["CLIENTS", "FIELD_OF_USE", "STEPWISE", "USE_OF_LEVEL", "Use", "work_in_use"]

Use: TypeAlias = Literal["plain", "steps", "beams"]
"""``plain``: plain decoding; ``steps``: steps in turns with another engine; ``beams``: many candidates at once."""

FIELD_OF_USE: Final[Mapping[Use, str]] = {"plain": "plain_in_use", "steps": "in_use", "beams": "beam_in_use"}
"""Use -> field of `EngineRecord` with the engine's work in that use; journals have the same names."""

STEPWISE: Final = "stepwise_in_use"
"""Field of `EngineRecord` and of journals with the work of a target without a draft, in a request for each step."""

CLIENTS: Final = "clients_in_use"
"""Field of `EngineRecord` with the engine's work while several clients were answered step by step at a time."""

USE_OF_LEVEL: Final[Mapping[Level, Use]] = {"baseline": "plain", "token": "plain", "step": "steps", "beam": "beams"}
"""Level of a method -> use of its engines."""


def work_in_use(record: EngineRecord, use: Use) -> list[InUse]:
    """Return the work of an engine in a use, one entry per answer."""
    return cast("list[InUse]", getattr(record, FIELD_OF_USE[use]))
