"""What the 95 % intervals cover on rows that were left out of the fits: a part of `benchmarks.league`.

Times with each family of models left out; gains of batches with each target left out; throughputs and gains by
concurrency with the family of their model left out of the engine's constants, and their workload and cache format left
out of what a drafted token takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.fit_rounds import gains_left_out, verified_left_out
from benchmarks.fit_serving import NAMES, Times, times
from benchmarks.fit_serving import left_out as errors_left_out
from specplan.check.scoreboard import driven
from specplan.check.scoreboard.rows import Driven, Measured, Speculated
from theory.hardware.engines import EngineConstants
from theory.hardware.half_widths import GAIN, ITERATION, THROUGHPUT, TIME_PER_TOKEN, half_width
from theory.hardware.work import Work

__all__ = ["Coverage", "by_load", "coverages"]

Array = NDArray[np.float64]
_TARGET = "Llama-3.1-8B"
"""The family of the rows by concurrency, as `benchmarks.fit_serving` names it."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often intervals hold what was measured."""

    quantity: str
    left_out: str
    """What was left out of the fit in turn."""
    n: int
    inside: float
    """Share of rows in their 95 % interval, [0, 1]."""
    half_width: float
    """Median of the half-widths of the logarithm, [-]."""
    error: float
    """Mean absolute relative error."""


def coverages(rows: Sequence[Measured]) -> Iterator[Coverage]:
    """Yield what intervals of times, throughputs and gains cover; of quantities that have rows."""
    table = times(rows)
    if len(table.base):
        logs = errors_left_out(table)
        for kind in (ITERATION, TIME_PER_TOKEN):
            yield from _covered(
                kind, "family of models", logs[table.kind == kind], table.half_width[table.kind == kind]
            )
    throughputs, gains = by_load(table, [row for row in rows if isinstance(row, Driven)])
    yield from _covered(THROUGHPUT, "family, and workload and cache", *throughputs)
    _, *batches = gains_left_out([row for row in rows if isinstance(row, Speculated)])
    errors, widths = (np.concatenate(pair) for pair in zip(batches, gains, strict=True))
    yield from _covered(GAIN, "target, or workload and cache", errors, widths)


def _covered(quantity: str, left_out: str, logs: Array, widths: Array) -> Iterator[Coverage]:
    if len(logs):
        inside = float(np.mean(np.abs(logs) <= widths))
        error = float(np.abs(np.expm1(logs)).mean())
        yield Coverage(quantity, left_out, len(logs), inside, float(np.median(widths)), error)


def by_load(table: Times, rows: Sequence[Driven]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return log errors and half-widths of throughputs, and of the gains of the rows that drafts were compared for.

    The family of their model is left out of the engine's constants, their workload and cache out of a drafted token's.
    """
    speeds: dict[str, tuple[float, float]] = {}
    verified = verified_left_out(rows)
    for row in rows:
        facts, model = driven.deployed(row)
        engine = _without(table, model.engine)
        model = replace(model, engine=replace(engine, **verified.get(row.where, {})))
        predicted = driven.throughput(row, driven.loop_times(row, facts, model))
        speeds[row.where] = predicted / row.throughput_tok_s, half_width(THROUGHPUT, model)
    plain = driven.plain_rows(rows)
    pairs = [(row, plain[row.where]) for row in rows if row.where in plain]
    gains = [speeds[row.where][0] / speeds[other.where][0] for row, other in pairs]
    widths = [half_width(GAIN, driven.deployed(row)[1], Work(sequences=row.concurrency)) for row, _ in pairs]
    found = np.array(list(speeds.values())).reshape(-1, 2)
    return (np.log(found[:, 0]), found[:, 1]), (np.log(np.array(gains, dtype=float)), np.array(widths, dtype=float))


def _without(table: Times, engine: EngineConstants) -> EngineConstants:
    """An engine with constants from the other families; as committed where there are none."""
    here = (table.engine == f"{engine.name} {engine.version}") & (table.family != _TARGET) & table.usual
    if not here.any():
        return engine
    return replace(engine, **dict(zip(NAMES, map(float, table.fitted(here)), strict=True)))
