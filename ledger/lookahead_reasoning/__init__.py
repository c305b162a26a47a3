"""Claims of Lookahead Reasoning, its closed forms, in sympy and in exact arithmetic."""

__all__ = ["READING_ORDER"]

READING_ORDER = (
    "theorem_1",
    "theorem_2",
    "hybrid.theorem_3",
    "hybrid.theorem_3_steps",
    "hybrid.theorem_4",
    "hybrid.theorem_4_steps",
    "hybrid.edges",
    "hybrid.lemma_1",
    "hybrid.lemmas_2_and_3",
    "hybrid.lemma_4",
    "hybrid.lemmas_5_and_6",
    "optimisers",
    "tables",
    "ablations",
    "sentences",
)
"""Modules with claims, as the ledger lists them."""
