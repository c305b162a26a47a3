"""Lookahead Reasoning: the numbers of its Tables 1 to 3, as printed (strings keep the rounding; ``-``: not given)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["DATASETS", "JUDGES", "PAIRS", "TABLE_1", "TABLE_2", "TABLE_3", "TREE_WIDTHS", "VERIFIERS", "both_pairs"]

DATASETS: Final = ("AIME24", "AMC23", "GSM8K", "HumanEval", "GPQA", "MT-Bench", "LiveCodeBench")
PAIRS: Final = ("DeepSeek-R1-Distill", "Qwen3")

_Row = tuple[str, ...]


def _row(cells: str) -> _Row:
    return tuple(cells.split())


TABLE_1: Final[Mapping[str, Mapping[str, _Row]]] = {
    "DeepSeek-R1-Distill": {
        "draft accuracy": _row("28.5 71.6 77.6 67.2 9.6 6.23 14.5"),
        "draft spread": _row("3.9 4.1 3.3 2.4 1.2 1.9 1.3"),
        "target accuracy": _row("70.8 95.6 91.8 96.9 63.3 8.17 48.9"),
        "target spread": _row("5.2 2.3 1.9 0.8 2.2 1.2 1.3"),
        "SpecReason accuracy": _row("58.3 90.6 85.9 94.5 57.0 - 40.6"),
        "SpecReason spread": _row("5.7 2.6 2.2 1.5 2.8 - 1.5"),
        "SpecReason acceptance": _row("0.39 0.69 0.93 0.43 0.08 - 0.25"),
        "LR accuracy": _row("69.2 94.1 92.8 95.5 61.2 8.13 49.5"),
        "LR spread": _row("8.1 2.1 1.8 1.8 2.8 1.2 2.3"),
        "LR acceptance": _row("0.47 0.58 0.63 0.44 0.35 0.48 0.47"),
        "LR speedup": _row("1.36 1.48 1.71 1.27 1.14 1.27 1.21"),
        "SD speedup": _row("1.53 1.50 1.39 1.32 1.48 1.25 1.45"),
        "SD+LR speedup": _row("1.82 2.00 2.11 1.54 1.63 1.51 1.58"),
    },
    "Qwen3": {
        "draft accuracy": _row("46.9 84.2 91.1 85.4 38.5 7.96 28.8"),
        "draft spread": _row("8.1 4.7 1.6 1.6 1.4 1.5 1.6"),
        "target accuracy": _row("80.0 97.5 96.6 97.6 68.2 8.53 52.4"),
        "target spread": _row("3.9 2.0 1.4 0.8 2.1 1.1 1.4"),
        "SpecReason accuracy": _row("68.3 90.5 94.5 92.0 66.3 - 39.7"),
        "SpecReason spread": _row("5.3 3.9 1.4 2.0 2.0 - 1.9"),
        "SpecReason acceptance": _row("0.75 0.92 0.95 0.91 0.46 - 0.65"),
        "LR accuracy": _row("80.4 96.4 96.4 97.1 68.5 8.46 51.7"),
        "LR spread": _row("4.1 2.0 1.2 0.8 2.4 1.15 1.7"),
        "LR acceptance": _row("0.43 0.53 0.50 0.39 0.30 0.38 0.40"),
        "LR speedup": _row("1.12 1.22 1.32 1.13 1.04 1.10 1.08"),
        "SD speedup": _row("1.40 1.38 1.32 1.32 1.40 1.41 1.25"),
        "SD+LR speedup": _row("1.49 1.62 1.68 1.39 1.44 1.49 1.32"),
    },
}
"""Pair -> row -> one cell for each of `DATASETS`: accuracy in percent (MT-Bench: its score), acceptance, speedup."""


def both_pairs(row: str) -> _Row:
    """The cells of a row of Table 1, the second pair's after the first's."""
    return tuple(cell for pair in PAIRS for cell in TABLE_1[pair][row])


VERIFIERS: Final = ("target", "Random", "LLM-J 7B", "LLM-J 32B", "Emb. 0.85", "Emb. 0.95", "Score 7", "Score 9")

TABLE_2: Final[Mapping[str, Mapping[str, _Row]]] = {
    "GSM8K": {
        "acceptance": _row("- 0.50 0.63 0.58 0.56 0.37 0.97 0.93"),
        "accuracy": _row("91.8 88.3 92.8 92.3 89.8 92.3 82.1 85.9"),
        "spread": _row("1.9 3.7 1.8 1.2 2.5 1.4 2.4 2.2"),
    },
    "AIME": {
        "acceptance": _row("- 0.40 0.47 0.46 0.45 0.38 0.81 0.39"),
        "accuracy": _row("70.8 59.6 69.2 69.0 64.0 66.7 37.9 58.3"),
        "spread": _row("5.2 5.4 8.1 4.7 6.5 6.3 7.5 5.7"),
    },
}
"""Data set -> row -> one cell for each of `VERIFIERS`; accuracy in percent."""

TREE_WIDTHS: Final = (1, 2, 4, 8)
JUDGES: Final = ("7B", "32B")

TABLE_3: Final[Mapping[tuple[str, str], Mapping[str, _Row]]] = {
    ("GSM8K", "7B"): {
        "accuracy": _row("92.8 91.2 91.1 91.5"),
        "spread": _row("1.8 1.8 1.7 1.8"),
        "acceptance": _row("0.63 0.73 0.77 0.83"),
        "speedup": _row("1.48 1.49 1.47 1.25"),
    },
    ("GSM8K", "32B"): {
        "accuracy": _row("92.3 93.2 92.8 92.5"),
        "spread": _row("1.2 2.0 1.8 1.5"),
        "acceptance": _row("0.58 0.66 0.73 0.77"),
        "speedup": _row("1.40 1.42 1.39 1.19"),
    },
    ("AIME24", "7B"): {
        "accuracy": _row("69.2 67.3 65.4 64.6"),
        "spread": _row("8.1 4.1 6.5 5.9"),
        "acceptance": _row("0.47 0.58 0.67 0.74"),
        "speedup": _row("1.27 1.32 1.26 1.00"),
    },
    ("AIME24", "32B"): {
        "accuracy": _row("69.0 69.0 68.1 67.3"),
        "spread": _row("4.7 6.7 6.1 7.1"),
        "acceptance": _row("0.46 0.54 0.59 0.68"),
        "speedup": _row("1.23 1.23 1.17 0.98"),
    },
}
"""Data set and judge -> row -> one cell for each of `TREE_WIDTHS`, at depth 2; accuracy in percent."""
