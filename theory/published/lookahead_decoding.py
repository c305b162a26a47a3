"""Lookahead Decoding: the numbers of its Tables 2 to 6 and Figure 4, as printed (strings keep the rounding)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = [
    "ALPHA",
    "METHODS",
    "SCORES",
    "STEPS_PER_HIT",
    "TABLE_2",
    "TABLE_3",
    "TABLE_4",
    "TABLE_6",
    "Quality",
    "Setting",
]

ALPHA: Final = "0.425"
"""Acceptance rate of a token, caption of Figure 4: fitted by the authors to LLaMA-2-Chat-7B on MT-Bench."""
STEPS_PER_HIT: Final = "3.106"
"""f: steps per step that finds n-grams, from the same caption."""


class Quality(NamedTuple):
    """A data set and temperature of Table 2."""

    plain: tuple[str, str, str]
    """Rouge-1, Rouge-2 and Rouge-L of autoregressive decoding."""
    own: tuple[str, str, str]
    """The same of Lookahead Decoding."""
    speedup: str
    compression: str
    """S."""


TABLE_2: Final[Mapping[tuple[str, str], Quality]] = {
    ("CNN", "1.0"): Quality(("36.55", "13.20", "22.68"), ("36.53", "13.27", "22.71"), "1.46", "1.64"),
    ("CNN", "0.0"): Quality(("37.79", "14.59", "23.96"), ("37.79", "14.59", "23.96"), "1.57", "1.72"),
    ("XSum", "1.0"): Quality(("19.15", "4.53", "12.84"), ("19.20", "4.53", "12.87"), "1.50", "1.67"),
    ("XSum", "0.0"): Quality(("19.38", "4.78", "13.05"), ("19.39", "4.79", "13.06"), "1.60", "1.77"),
}
"""Data set and temperature -> cells."""


class Setting(NamedTuple):
    """A row of Table 3."""

    ngram: int
    """N, tokens of an n-gram; 0 for prompt lookup, which has no such setting."""
    window: int
    """W."""
    guesses: int
    """G, n-grams that are tried in a step."""
    prompt: bool
    """N-grams are taken from the prompt, too."""
    speedup: str
    compression: str
    """S."""


TABLE_3: Final[Mapping[int, Setting]] = {
    2: Setting(0, 0, 0, True, "1.44", "1.55"),
    3: Setting(10, 1, 3, True, "1.36", "1.45"),
    4: Setting(5, 1, 10, True, "1.36", "1.51"),
    5: Setting(5, 1, 30, False, "1.04", "1.12"),
    6: Setting(5, 1, 30, True, "1.46", "1.59"),
    7: Setting(5, 30, 1, False, "1.61", "1.79"),
    8: Setting(5, 15, 15, False, "1.78", "1.96"),
    9: Setting(5, 15, 15, True, "1.88", "2.05"),
}
"""The paper's number of the row -> cells; 2 is prompt lookup (1 is autoregressive decoding)."""

TABLE_4: Final[Mapping[str, tuple[int, int]]] = {"7B": (15, 5), "13B": (10, 5), "34B": (7, 5)}
"""Model -> W = G, N."""

SCORES: Final = ("6.51", "6.47")
"""Table 5: MT-Bench score of Lookahead Decoding and of autoregressive decoding."""

METHODS: Final = ("LD", "Medusa", "SD 1B", "SD 7B", "PJ", "PGJ 5", "PGJ 16")

TABLE_6: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("7B", "MT-Bench"): ("1.7", "2.3", "0.7", "-", "0.4", "1.1", "1.1"),
    ("7B", "HumanEval"): ("2.1", "2.5", "0.8", "-", "0.7", "1.1", "1.1"),
    ("13B", "MT-Bench"): ("1.6", "2.4", "0.9", "0.7", "0.3", "1.2", "1.2"),
    ("13B", "HumanEval"): ("2.0", "2.6", "1.0", "0.8", "0.6", "1.2", "1.2"),
}
"""Vicuna, data set -> speedups of `METHODS`; ``-``: not given."""
