"""Lookahead Decoding, Table 3: compression by Equations 5 and 7, with the constants of the paper's Figure 4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from specplan.output import percent, table
from theory.lookahead_decoding.speedup import lookahead_compression
from theory.published.lookahead_decoding import ALPHA, STEPS_PER_HIT, TABLE_3

__all__ = ["Cell", "cells"]

REASONS: Final = (
    "Settings with W other than G: the equations have a single number of sequences, b = W = G, for generated and "
    "verified n-grams.",
    "Settings with the prompt as reference: how often the prompt contains the next n-gram is not published.",
    "Speedups: the time of a step by its tokens is not published for this GPU and code.",
    "Only one setting has W = G, and the constants were fitted to similar runs: its agreement is weak evidence.",
)
"""Settings that are not predicted, and limits of the agreement."""

N_STEPS: Final = 1
TITLE: Final = "Lookahead Decoding, Table 3"
HEADING: Final = "Settings that are not modelled, and limits of the agreement:"
BELOW: Final = f"S: compression, with alpha = {ALPHA} and f = {STEPS_PER_HIT} of Figure 4."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A row of Table 3."""

    tag: int
    """Number of the row in the paper."""
    ngram: int
    """N, tokens of an n-gram."""
    window: int
    """W, width of the window."""
    guesses: int
    """G, n-grams that a step verifies."""
    prompt: bool
    """Whether n-grams are also taken from the prompt."""
    published: float
    """Compression S, [-]."""
    predicted: float | None
    """The same; None where the equations do not apply."""

    @property
    def error(self) -> float | None:
        """Predicted / published - 1, [-]."""
        return None if self.predicted is None else self.predicted / self.published - 1.0

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "error": self.error}


def cells(step_done: Callable[[], None] = lambda: None) -> list[Cell]:
    """Return all rows of the method (tags 1 and 2 are other methods); ``step_done`` is called once."""
    step_done()
    results = []
    for tag, (n, window, guesses, prompt, _, published) in TABLE_3.items():
        predicted = None
        if window == guesses and not prompt:
            predicted = float(lookahead_compression(float(ALPHA), float(STEPS_PER_HIT), window=window, ngram=n))
        cell = Cell(
            tag=tag,
            ngram=n,
            window=window,
            guesses=guesses,
            prompt=prompt,
            published=float(published),
            predicted=predicted,
        )
        results += [cell] if n else []
    return results


def summary(cells: Sequence[Cell]) -> str:
    """State how many settings the equations cover, and what their agreement is worth."""
    predicted = [c for c in cells if c.predicted is not None]
    values = "; ".join(f"S = {c.predicted:.2f}, published {c.published:.2f}" for c in predicted)
    return (
        f"The paper's equations predict {len(predicted)} of the {len(cells)} settings of Table 3: {values}. Its "
        "constants were fitted to runs of the same kind, so that this is weak evidence. The other "
        f"{len(cells) - len(predicted)} settings are not modelled."
    )


def short_table(results: Sequence[Cell]) -> str:
    """Return a table of all settings, predicted or not."""
    lines = [
        [
            *(str(cell.tag), f"({cell.ngram}, {cell.window}, {cell.guesses})", "yes" if cell.prompt else "no"),
            "–" if cell.predicted is None else f"{cell.predicted:.2f}",
            f"{cell.published:.2f}",
            "not modelled" if cell.error is None else percent(cell.error, signed=True),
        ]
        for cell in results
    ]
    return table(["tag", "(N, W, G)", "prompt", "predicted S", "published S", "error"], lines)
