"""A request inside the torch engine, and the engine's limits; used by the batch and the token methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from calibrate.engines.protocol import GREEDY, Sampling

if TYPE_CHECKING:
    from calibrate.engines.speculation import Speculation

__all__ = ["SPARE", "Job", "Limits"]

SPARE: Final = 256
"""Positions beyond the context, for rows that a pass computes and discards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of an engine's memory."""

    max_batch: int
    """Most sequences decoded at once; more requests wait."""
    n_idle: int
    """Finished sequences kept for prompts that extend them."""
    max_context: int
    """Most tokens of a sequence, including its prompt."""


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """A request inside the engine. With ``choices``, it has a one-token reply instead of a generation."""

    id: int
    prompt: Sequence[int]
    max_tokens: int = 1
    stop: Sequence[str] = ()
    sampling: Sampling = GREEDY
    seed: int = 0
    ignore_eos: bool = False
    choices: Sequence[int] = ()
    n_scored: int = 0
    """Tokens at the prompt's end whose likelihood is computed; if > 0, nothing is generated."""
    speculation: Speculation | None = None
    queued: float = 0.0
    tokens: list[int] = field(default_factory=list)
    """Tokens generated so far; the last one is not yet in the cache."""
    n_cached: int = 0
    prefill_start: float = 0.0
    prefill_end: float = 0.0
    end: float = 0.0
    finish: str = ""
    text: str = ""
    n_generated: int = 0
    logprobs: list[float] = field(default_factory=list)
    """Log probabilities of the choices, or of the scored tokens."""
    passes: list[tuple[int, int]] = field(default_factory=list)
    """With speculation: tokens drafted and accepted in each pass."""
    memo: Any = None
    """Data of the token method."""
