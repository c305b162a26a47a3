"""Whether drafts are accepted less often, or more, as a text grows: what the passes of a measured profile tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from calibrate.record.token_records import TokenRecord
from sim.estimate import Estimate, ratio_of_totals

__all__ = ["growth", "growths"]

_FEWEST: Final = 8
"""Answers below which their spread does not tell how sure a slope is."""
_CLEAR: Final = 3.0
"""Standard errors at which a slope is one: chance shows as much in one record of 400."""


def growth(record: TokenRecord) -> Estimate | None:
    """Return the tokens that a pass commits more with each doubling of the text; None: too few answers tell.

    The least-squares slope within answers, by the text that as many passes write on average: what an answer's own
    passes committed would draw it down. Answers of one request count, whose prompt was read.
    """
    sums = []
    for answer in record.answers:
        right = np.array([sample.right for request in answer.requests[:1] for sample in request.passes], dtype=float)
        if len(answer.requests) == 1 and answer.prefill.tokens and right.size > 1:
            text = np.log2(answer.prefill.tokens + 1.0 + record.tokens / record.passes * np.arange(right.size))
            text -= text.mean()
            sums.append((float(text @ right), float(text @ text)))
    return ratio_of_totals(*zip(*sums, strict=True)) if len(sums) >= _FEWEST else None


def growths(records: list[TokenRecord]) -> Iterator[str]:
    """Yield a line for each record whose slope is clear of zero."""
    for record in records:
        slope = growth(record)
        if slope is not None and abs(slope.value) > _CLEAR * slope.stderr:
            yield (
                f"{record.method} at k2 = {record.k2} commits {slope.value:+.2f} tokens per pass "
                f"[{slope.low:+.2f}, {slope.high:+.2f}] with each doubling of the text: at contexts beyond those "
                "that were measured its acceptance is another one"
            )
