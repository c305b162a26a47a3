"""Claims of SPECS, its statements in sympy, and its laws on small alphabets and trees of blocks in exact arithmetic."""

from typing import TYPE_CHECKING

from ledger.proving.deferred import Deferred

__all__ = ["READING_ORDER", "st"]

if TYPE_CHECKING:
    from ledger.specs import statements as st
else:
    st = Deferred("ledger.specs.statements")

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
