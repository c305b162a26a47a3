"""Base class and field types of the records of a profile: frozen, without unknown keys, numbers within their ranges."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["AtLeastOne", "Count", "Finite", "Moment", "NotNegative", "Record", "Seconds"]


NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.0, le=1e9, allow_inf_nan=False)]
Moment = Annotated[float, Field(ge=0.0, le=1e11, allow_inf_nan=False)]
"""Seconds since 1970."""
Count = Annotated[int, Field(ge=0, le=2**53)]
AtLeastOne = Annotated[int, Field(ge=1, le=2**53)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Record(BaseModel):
    """Part of a profile."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # nested records share their schema
