"""Claims of ConfSpec, its closed forms, its published numbers and its algorithm run exactly."""

__all__ = ["READING_ORDER"]

READING_ORDER = ("cascade", "accuracy", "algorithm_1", "trends", "tables", "tree_drafts", "wider_trees")
"""Modules with claims, as the ledger lists them."""
