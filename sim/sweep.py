"""A grid of configurations, all simulated on the same answers.

The work goes through ``joblib.Parallel`` alone: on one machine its processes, on a cluster whatever
``joblib.parallel_config(backend=...)`` selects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from sim.answers.drawn import Behaviour
from sim.engines.batching import Engine
from sim.replicate import MakeAlgorithm, Simulation, simulate
from theory.errors import ParameterError

__all__ = ["SweepRow", "grid", "sweep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One configuration and what it does."""

    configuration: Mapping[str, Any]
    """The parameters, by name."""

    simulation: Simulation
    """The result."""


def grid(**axes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return every combination of the axes' values, the last axis fastest.

    >>> grid(k1=(2, 4), width=(1,))
    [{'k1': 2, 'width': 1}, {'k1': 4, 'width': 1}]
    """
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def sweep(
    make: Callable[..., MakeAlgorithm],
    configurations: Sequence[Mapping[str, Any]],
    behaviour: Behaviour,
    engines: Mapping[str, Engine],
    *,
    n: int = 200,
    jobs: int = 1,
    confidence: float = 0.95,
) -> list[SweepRow]:
    """Simulate each configuration on answers 0 to n - 1; rows in the order of the configurations.

    Parameters
    ----------
    make : builds a method from a configuration's parameters, e.g. ``lambda k1: partial(lookahead_async, k1=k1)``.
    configurations : parameters by name; see `grid`.
    behaviour, engines : as in `sim.replicate.simulate`.
    n : answers, >= 1; those of a replay at most.
    jobs : parallel workers.

    Raises
    ------
    ParameterError : no configuration, or one that its method refuses.
    """
    if not configurations:
        raise ParameterError("configurations", configurations, "must hold at least one")
    from joblib import Parallel, delayed

    limit = n if behaviour.n_answers is None else min(n, behaviour.n_answers)

    def row(configuration: Mapping[str, Any]) -> SweepRow:
        simulation = simulate(make(**configuration), behaviour, engines, n=limit, confidence=confidence)
        return SweepRow(configuration=dict(configuration), simulation=simulation)

    return list(Parallel(n_jobs=jobs)(delayed(row)(configuration) for configuration in configurations))
