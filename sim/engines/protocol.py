"""Protocols of an engine in virtual time and of a model's costs, and the event that an engine schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from simpy import Environment

from sim.operations import Operation

__all__ = ["Cost", "Done", "Engine", "Moment"]

Done = Callable[[Operation], None]


class Cost(Protocol):
    """The times that an engine takes from a model; see `sim.engines.costs.LinearCost`."""

    @property
    def request_s(self) -> float:
        """Latency of a request outside the engine, s."""

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of one decode iteration."""

    def prefill(self, n_tokens: int) -> float:
        """Seconds of a prefill."""


class Engine(Protocol):
    """A model server in virtual time."""

    def attach(self, env: Environment) -> None:
        """Drop all requests and run in the environment ``env`` from now on."""

    def submit(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        """Start a request that generates ``n_tokens`` after ``n_prompt`` uncached ones; call ``done`` at its end."""

    def cancel(self, operation: Operation) -> None:
        """Stop working on a request; ``done`` will not be called for it."""


class Moment:
    """An event in SimPy's queue with only the attributes that the environment reads.

    ``callbacks`` may be a list that several moments share: the environment reads it and sets the attribute to None.
    """

    __slots__ = ("callbacks",)
    _ok = True

    def __init__(self, callbacks: Sequence[Callable[[Any], None]]) -> None:
        self.callbacks = callbacks
