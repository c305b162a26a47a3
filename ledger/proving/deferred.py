"""Sympy under the name ``sp``, imported at its first use: it takes a second, and a list of claims needs none."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["sp"]

if TYPE_CHECKING:
    import sympy as sp
else:

    class _Deferred:
        """Attributes of sympy."""

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("sympy"), name)

    sp = _Deferred()
