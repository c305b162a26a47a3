"""What an engine in virtual time is, what it needs to know of a model, and how it waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from simpy import Environment

from sim.operations import Operation

__all__ = ["Cost", "Done", "Engine", "Moment"]

Done = Callable[[Operation], None]


class Cost(Protocol):
    """What an engine needs to know of a model; see `sim.engines.costs.LinearCost`."""

    @property
    def request_s(self) -> float:
        """Latency of a request outside the engine, s."""
        ...

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of one decode iteration."""
        ...

    def prefill(self, n_tokens: int) -> float:
        """Seconds of a prefill."""
        ...


class Engine(Protocol):
    """A model server in virtual time."""

    def attach(self, env: Environment) -> None:
        """Forget the past and live in ``env`` from now on."""
        ...

    def submit(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        """Start a request that generates ``n_tokens`` after ``n_prompt`` uncached ones; call ``done`` at its end."""
        ...

    def cancel(self, operation: Operation) -> None:
        """Stop working on a request; ``done`` will not be called for it."""
        ...


class Moment:
    """Something that is due, as SimPy's queue holds it: what the environment needs of an event, and nothing else.

    ``callbacks`` may be a list that moments share: the environment reads it, and puts None in its place.
    """

    __slots__ = ("callbacks",)
    _ok = True

    def __init__(self, callbacks: Sequence[Callable[[Any], None]]) -> None:
        self.callbacks = callbacks
