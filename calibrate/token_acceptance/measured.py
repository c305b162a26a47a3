"""From a measured profile to the acceptance figures and pass times that other tools ask for."""

from __future__ import annotations

from collections import defaultdict

from calibrate.record.profile import Profile
from calibrate.record.token_records import NGramRecord
from calibrate.token_acceptance.curves import AcceptanceCurve
from calibrate.token_acceptance.schedule import DynamicStats
from sim.roles import TARGET
from theory.errors import ParameterError

__all__ = ["best_ngram", "curve_of", "dynamic_stats_of", "pass_times"]


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
