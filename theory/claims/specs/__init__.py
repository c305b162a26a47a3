"""Claims of SPECS, its statements in sympy, and its laws on small alphabets and trees of blocks in exact arithmetic."""

from __future__ import annotations

__all__ = ["READING_ORDER"]

READING_ORDER = (
    "theorems_1_and_2",
    "divergences",
    "definitions",
    "convergence.lemmas_4_and_5",
    "convergence.equations_17_to_20",
    "knobs",
    "tables",
    "settings",
    "sentences",
    "convergence.theorem_5",
    "objective",
    "convergence.corollaries",
    "convergence.theorem_4",
)
"""Modules with claims, as the ledger lists them."""
