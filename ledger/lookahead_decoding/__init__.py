"""Claims of Lookahead Decoding, its statements in sympy and its algorithms run exactly."""

from __future__ import annotations

__all__ = ["READING_ORDER"]

READING_ORDER = ("equations", "window", "verification", "draws", "expected_tokens", "scaling_law", "tables", "quality")
"""Modules with claims, as the ledger lists them."""
