"""Resamples of answers and of rounds, for the error of quantities computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

__all__ = ["resampled", "resampled_answers"]

Round = TypeVar("Round")


def resampled(rounds: Sequence[Round], rng: np.random.Generator | None) -> Sequence[Round]:
    """Return the rounds, or a resample of one fewer: so the mean of a few varies by its unbiased standard error.

    A resample of as many would vary by too little, of two rounds by 0.7 times that (Rao and Wu 1988).
    """
    if rng is None or len(rounds) == 1:
        return rounds
    return [rounds[i] for i in rng.integers(0, len(rounds), len(rounds) - 1)]


def resampled_answers(n: int, rng: np.random.Generator) -> list[int]:
    """Return indices of a resample of ``n`` answers in blocks of sqrt(n) neighbours, circular.

    Machines have slow phases, so that the times of neighbouring answers are correlated: resampled one by one, they
    would give too small an error (Politis and Romano 1992, circular block bootstrap).
    """
    length = max(round(n**0.5), 1)
    starts = rng.integers(0, n, -(-n // length))
    indices: list[int] = ((starts[:, None] + np.arange(length)) % n).ravel()[:n].tolist()
    return indices
