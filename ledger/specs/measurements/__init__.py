"""SPECS, sections 4 and D: sentences and settings against the paper's own tables."""

from __future__ import annotations

__all__: list[str] = []
