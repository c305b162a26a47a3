"""What an engine is used for: its caches, its company and the size of its batches differ, and so does what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, cast

from calibrate.record.engine_records import EngineRecord, InUse
from sim.catalogue import Level

__all__ = ["FIELD_OF_USE", "USE_OF_LEVEL", "Use", "work_in_use"]

Use: TypeAlias = Literal["plain", "steps", "beams"]
"""The engine answers alone, or step by step in turns with another engine, or writes many candidates at once."""

FIELD_OF_USE: Final[Mapping[Use, str]] = {"plain": "plain_in_use", "steps": "in_use", "beams": "beam_in_use"}
"""The field of `EngineRecord` that holds what an engine did in a use; journals have the same names."""

USE_OF_LEVEL: Final[Mapping[Level, Use]] = {"baseline": "plain", "token": "plain", "step": "steps", "beam": "beams"}
"""What methods of a level use engines for."""


def work_in_use(record: EngineRecord, use: Use) -> list[InUse]:
    """Return what an engine did in a use, one entry per answer."""
    return cast("list[InUse]", getattr(record, FIELD_OF_USE[use]))
