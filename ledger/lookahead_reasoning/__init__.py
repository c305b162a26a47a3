"""Claims of Lookahead Reasoning, its statements in sympy and its closed forms in exact arithmetic."""

from __future__ import annotations

__all__ = ["READING_ORDER"]

READING_ORDER = (
    "theorem_1",
    "theorem_2",
    "expectations",
    "hybrid.theorem_3",
    "hybrid.theorem_3_steps",
    "hybrid.constant_of_6",
    "hybrid.theorem_4",
    "hybrid.theorem_4_steps",
    "hybrid.lemma_1",
    "hybrid.lemma_2",
    "hybrid.lemma_3",
    "hybrid.lemma_4",
    "hybrid.lemma_5",
    "hybrid.lemma_6",
    "optimisers",
    "tables",
    "ablations",
)
"""Modules with claims, as the ledger lists them."""
