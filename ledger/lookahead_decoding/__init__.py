"""Claims of Lookahead Decoding, its closed forms and its algorithms run exactly."""

__all__ = ["READING_ORDER"]

READING_ORDER = ("window", "verification", "expected_tokens", "scaling_law", "tables")
"""Modules with claims, as the ledger lists them."""
