"""Resamples of answers, for the error of what is worked out from them."""

from __future__ import annotations

import numpy as np

__all__ = ["resampled_answers"]


def resampled_answers(n: int, rng: np.random.Generator) -> list[int]:
    """Return indices of a resample of ``n`` answers in blocks of sqrt(n) neighbours, around the end to the beginning.

    Machines have slow phases, so that neighbouring answers are alike: one by one, they would promise too much
    (Politis and Romano 1992, circular block bootstrap).
    """
    length = max(round(n**0.5), 1)
    starts = rng.integers(0, n, -(-n // length))
    found: list[int] = ((starts[:, None] + np.arange(length)) % n).ravel()[:n].tolist()
    return found
