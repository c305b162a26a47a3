"""Resamples of answers, for the error of quantities computed from them."""

from __future__ import annotations

import numpy as np

__all__ = ["resampled_answers"]


def resampled_answers(n: int, rng: np.random.Generator) -> list[int]:
    """Return indices of a resample of ``n`` answers in blocks of sqrt(n) neighbours, circular.

    Machines have slow phases, so that the times of neighbouring answers are correlated: resampled one by one, they
    would give too small an error (Politis and Romano 1992, circular block bootstrap).
    """
    length = max(round(n**0.5), 1)
    starts = rng.integers(0, n, -(-n // length))
    indices: list[int] = ((starts[:, None] + np.arange(length)) % n).ravel()[:n].tolist()
    return indices
