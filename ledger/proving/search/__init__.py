"""The search for a point at which a statement fails."""

from __future__ import annotations

__all__: list[str] = []
