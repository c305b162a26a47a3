"""From a measured profile to the acceptance figures and pass times that other tools ask for, and what bears on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np

from calibrate.record.profile import Profile
from calibrate.record.token_records import NGramRecord, TokenRecord
from calibrate.token_acceptance.curves import AcceptanceCurve
from calibrate.token_acceptance.schedule import DynamicStats
from sim.estimate import Estimate, ratio_of_totals
from sim.roles import TARGET
from theory.errors import ParameterError

__all__ = ["best_ngram", "curve_of", "dynamic_stats_of", "growth", "growths", "pass_times"]

_FEWEST: Final = 8
"""Answers below which their spread does not tell how sure a slope is."""
_CLEAR: Final = 3.0
"""Standard errors at which a slope is one: chance shows as much in one record of 400."""


def best_ngram(profile: Profile, k: int | None = None) -> NGramRecord | None:
    """The recorded n-gram lookup with the most tokens per pass at ``k`` drafted tokens; None without one that deep."""
    records = [r for r in profile.ngram if r.drafts and r.passes and (k is None or r.n_speculative >= k)]
    return max(records, key=lambda r: sum(r.accepted_at[:k]) / r.passes, default=None)


def curve_of(profile: Profile) -> AcceptanceCurve:
    """Token acceptance of a profile's best n-gram lookup, per position, with its hit rate.

    Raises
    ------
    ParameterError : the profile holds no counts per position.
    """
    record = best_ngram(profile)
    if record is None:
        raise ParameterError("profile", profile.name, "holds no token acceptance per position")
    rates = [accepted / record.drafts for accepted in record.accepted_at]
    return AcceptanceCurve.of(rates, "unconditional", hit_rate=record.drafts / record.passes)


def pass_times(profile: Profile) -> dict[int, dict[int, float]]:
    """Batch size -> K -> mean milliseconds of a target pass over K + 1 tokens per sequence, as far as measured.

    Means over the contexts that were measured: compare cells of one design, as `specplan calibrate` makes them.
    """
    if profile.published is not None:
        return {}
    cells: dict[tuple[int, int], list[float]] = defaultdict(list)
    for sample in profile.engines[profile.placement[TARGET]].decode:
        cells[sample.batch, sample.tokens].append(1e3 * sample.seconds)
    times: dict[int, dict[int, float]] = defaultdict(dict)
    for (batch, tokens), values in sorted(cells.items()):
        times[batch][tokens - 1] = sum(values) / len(values)
    return {batch: row for batch, row in times.items() if 0 in row}


def dynamic_stats_of(profile: Profile) -> DynamicStats | None:
    """What vLLM's dynamic speculation is computed from; None where passes over several tokens were not measured.

    Batch sizes without such passes are left out; batch size 1 must be there. Errors are those of `curve_of`.
    """
    times = {batch: row for batch, row in pass_times(profile).items() if len(row) > 1}
    return DynamicStats(curve=curve_of(profile), pass_ms=times) if 1 in times else None


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
