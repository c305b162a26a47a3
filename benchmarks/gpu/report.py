"""What a latency profile says: fit and spread, where parallel sequences stop being free, what verification costs."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from calibrate.costs.fit import fit_cost
from calibrate.record.engine_records import EngineRecord
from calibrate.record.profile import Profile
from specplan.output import table

__all__ = ["FreeLimit", "free_limits", "medians", "report", "spreads", "verification_costs"]

CellKey = tuple[int, int, int]
"""(batch, cached tokens per sequence, new tokens per sequence)."""


@dataclass(frozen=True, slots=True)
class FreeLimit:
    """The batch at which an iteration costs a given share more than at batch 1."""

    batch: float
    """Interpolated between measured batches; the largest measured one if ``reached`` is false."""
    reached: bool

    def __str__(self) -> str:
        return f"{self.batch:.1f}" if self.reached else f"> {self.batch:.0f}"


def medians(engine: EngineRecord) -> dict[CellKey, float]:
    """Median time of every decode cell, s."""
    return {cell: statistics.median(samples) for cell, samples in _cells(engine).items()}


def spreads(engine: EngineRecord) -> dict[CellKey, float]:
    """Interquartile range over median of every decode cell, [-]."""
    found = {}
    for cell, samples in _cells(engine).items():
        low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
        found[cell] = (high - low) / middle
    return found


def _cells(engine: EngineRecord) -> dict[CellKey, list[float]]:
    cells: dict[CellKey, list[float]] = defaultdict(list)
    for sample in engine.decode:
        cells[sample.batch, sample.context // sample.batch, sample.tokens].append(sample.seconds)
    return dict(cells)


def free_limits(times: Mapping[CellKey, float], share: float) -> dict[int, FreeLimit]:
    """Per context, the batch at which an iteration with one new token costs ``share`` more than at batch 1.

    Between measured batches time is taken as linear. Contexts without a second batch are left out.
    """
    found = {}
    for context in sorted({n for _, n, q in times if q == 1}):
        points = sorted((b, t) for (b, n, q), t in times.items() if n == context and q == 1)
        if points[0][0] == 1 and len(points) > 1:
            found[context] = _crossing(points, points[0][1] * (1.0 + share))
    return found


def _crossing(points: list[tuple[int, float]], limit: float) -> FreeLimit:
    for (low, before), (high, after) in pairwise(points):
        if after > limit:
            return FreeLimit(low + (high - low) * (limit - before) / (after - before), True)
    return FreeLimit(float(points[-1][0]), False)


def verification_costs(times: Mapping[CellKey, float]) -> dict[CellKey, float]:
    """Time of an iteration with several new tokens per sequence over that with one, same batch and context, [-]."""
    return {
        (batch, context, tokens): seconds / times[batch, context, 1]
        for (batch, context, tokens), seconds in sorted(times.items())
        if tokens > 1 and (batch, context, 1) in times
    }


def report(profile: Profile) -> str:
    """All of it as text."""
    parts = [f"{profile.name}: {profile.provenance.device or profile.provenance.cpu}, {profile.provenance.engine}"]
    for role in sorted(profile.placement):
        engine = profile.engines[profile.placement[role]]
        parts.append(f"{role}, {profile.models[role].name}\n\n" + _engine_report(engine))
    if profile.settings:
        parts.append("\n".join(f"{name} = {value}" for name, value in sorted(profile.settings.items())))
    return "\n\n".join([*parts, *(f"- {note}" for note in profile.provenance.notes)])


def _engine_report(engine: EngineRecord) -> str:
    times = medians(engine)
    fit = fit_cost(engine)
    found = list(spreads(engine).values())
    lines = [
        f"one sequence: {1e3 * fit.cost.iteration(1, 0.0):.3f} ms per iteration and "
        f"{1e9 * fit.cost.context_s:.3f} ns per cached token; prefill {1e3 * fit.cost.prefill_s:.3f} ms and "
        f"{1e6 * fit.cost.prefill_token_s:.3f} us per token",
        f"fit: rms error {100 * fit.sweep.decode_error:.1f} % decode, {100 * fit.sweep.prefill_error:.1f} % prefill; "
        f"spread (interquartile range / median) median {100 * statistics.median(found):.1f} %, "
        f"worst {100 * max(found):.1f} %",
    ]
    return "\n".join(lines) + "\n\n" + _free_table(times) + "\n\n" + _verification_table(times)


def _free_table(times: Mapping[CellKey, float]) -> str:
    ten, fifty = free_limits(times, 0.10), free_limits(times, 0.50)
    rows = [
        [str(context), f"{1e3 * times[1, context, 1]:.3f}", str(ten[context]), str(fifty[context])] for context in ten
    ]
    return table(["context", "batch 1, ms", "batch for +10 %", "batch for +50 %"], rows)


def _verification_table(times: Mapping[CellKey, float]) -> str:
    costs = verification_costs(times)
    tokens = sorted({q for _, _, q in costs})
    places = sorted({(batch, context) for batch, context, _ in costs})
    rows = [
        [
            str(batch),
            str(context),
            *(f"{costs[batch, context, q]:.3f}" if (batch, context, q) in costs else "-" for q in tokens),
        ]
        for batch, context in places
    ]
    return table(["batch", "context", *(f"{q} tokens / 1" for q in tokens)], rows)
