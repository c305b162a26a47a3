"""Claims of SPECS, its statements in sympy, and its laws on small alphabets and trees of blocks in exact arithmetic."""

__all__ = ["READING_ORDER"]

READING_ORDER = (
    "objective",
    "theorems_1_and_2",
    "knobs",
    "measurements.tables",
    "measurements.sentences",
    "measurements.baselines",
    "definitions",
    "convergence.sharpening",
    "convergence.corollaries",
    "convergence.theorem_4",
    "convergence.lemmas_4_and_5",
    "convergence.equations_17_to_20",
    "convergence.theorem_5",
)
"""Modules with claims, as the ledger lists them."""
