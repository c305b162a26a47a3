"""Modules that are imported at their first use, sympy as ``sp``: it takes a second, and a list of claims needs none."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["Deferred", "sp"]


class Deferred:
    """Attributes of a module."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._module), name)


if TYPE_CHECKING:
    import sympy as sp
else:
    sp = Deferred("sympy")
