"""Claims of Lookahead Decoding, its statements in sympy and its algorithms run exactly."""

from __future__ import annotations

__all__ = ["READING_ORDER"]

READING_ORDER = ("expected_tokens", "verification", "scaling_law", "tables", "window")
"""Modules with claims, as the ledger lists them."""
