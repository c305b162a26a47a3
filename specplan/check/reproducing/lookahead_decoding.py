"""Lookahead Decoding, Table 3: compression by Equations 5 and 7, with the constants of the paper's Figure 4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from specplan.output import table
from theory.lookahead_decoding.speedup import lookahead_compression
from theory.published.lookahead_decoding import ALPHA, STEPS_PER_HIT
from theory.published.lookahead_decoding import TABLE_3 as TABLE

__all__ = [
    "BELOW",
    "HEADING",
    "N_STEPS",
    "REASONS",
    "TABLE_3",
    "TITLE",
    "Cell",
    "as_json",
    "cells",
    "report",
    "short_table",
    "summary",
]

REASONS: Final = (
    "Settings with W and G apart: the equations have one number of sequences, b = W = G, for the n-grams that are made "
    "and those that are tried.",
    "Settings with the prompt as reference: how often the prompt has the next n-gram is not published.",
    "Speedups: what a step costs by its tokens is not published for this GPU and code.",
    "One setting is balanced, and the constants were fitted to runs of the same kind: agreement is weak evidence.",
)
"""What is not predicted, and what the agreement is worth."""

N_STEPS: Final = 1
TITLE: Final = "Lookahead Decoding, Table 3"
HEADING: Final = "What is not modelled, and what the agreement is worth:"
"""What stands above the reasons."""
BELOW: Final = f"S: compression, with alpha = {ALPHA} and f = {STEPS_PER_HIT} of Figure 4."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A row of Table 3."""

    tag: int
    """The paper's number of the row."""
    ngram: int
    """N, tokens of an n-gram."""
    window: int
    """W."""
    guesses: int
    """G, n-grams that are tried in a step."""
    prompt: bool
    """N-grams are taken from the prompt, too."""
    published: float
    """Compression S, [-]."""

    @property
    def predicted(self) -> float | None:
        """Compression, [-]; None where the equations do not apply."""
        if self.prompt or self.window != self.guesses:
            return None
        return float(lookahead_compression(float(ALPHA), float(STEPS_PER_HIT), window=self.window, ngram=self.ngram))

    @property
    def error(self) -> float | None:
        """Predicted / published - 1, [-]."""
        return None if self.predicted is None else self.predicted / self.published - 1.0


TABLE_3: Final = tuple(
    Cell(
        tag=tag,
        ngram=row.ngram,
        window=row.window,
        guesses=row.guesses,
        prompt=row.prompt,
        published=float(row.compression),
    )
    for tag, row in TABLE.items()
    if row.ngram
)
"""Rows of Lookahead Decoding (tags 1 and 2 are other methods)."""


def cells(step_done: Callable[[], None] = lambda: None) -> list[Cell]:
    """All rows, each of which predicts itself; ``step_done`` is called after that."""
    step_done()
    return list(TABLE_3)


def report(found: Sequence[Cell]) -> str:
    """Compression predicted beside printed."""
    title = f"{TITLE} (compression; alpha = {ALPHA}, f = {STEPS_PER_HIT} of Figure 4)"
    return "\n".join([title, "", short_table(found), "", *(f"- {reason}" for reason in REASONS)])


def summary(cells: Sequence[Cell]) -> str:
    """State how many settings the equations cover, and what their agreement is worth."""
    predicted = [c for c in cells if c.predicted is not None]
    values = "; ".join(f"S = {c.predicted:.2f}, published {c.published:.2f}" for c in predicted)
    return (
        f"The paper's equations predict {len(predicted)} of the {len(cells)} settings of Table 3: {values}. Its "
        "constants were fitted to runs of the same kind, so that this is weak evidence. The other "
        f"{len(cells) - len(predicted)} settings are not modelled."
    )


def short_table(found: Sequence[Cell]) -> str:
    """Every setting, and whether it is modelled."""
    lines = [
        [
            *(str(cell.tag), f"({cell.ngram}, {cell.window}, {cell.guesses})", "yes" if cell.prompt else "no"),
            "–" if cell.predicted is None else f"{cell.predicted:.2f}",
            f"{cell.published:.2f}",
            "not modelled" if cell.error is None else f"{100 * cell.error:+.1f} %",
        ]
        for cell in found
    ]
    return table(["tag", "(N, W, G)", "prompt", "predicted S", "published S", "error"], lines)


def as_json(found: Sequence[Cell]) -> list[dict[str, object]]:
    """Plain values only."""
    return [{**asdict(cell), "predicted": cell.predicted, "error": cell.error} for cell in found]
