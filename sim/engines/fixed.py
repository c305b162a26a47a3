"""The papers' engine: a request's time does not depend on other requests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappush

from simpy import Environment
from simpy.events import NORMAL

from sim.engines.protocol import Done, Moment
from sim.operations import Operation
from theory.errors import ParameterError

__all__ = ["FixedEngine", "PerToken"]


@dataclass(frozen=True, slots=True)
class PerToken:
    """Seconds of a request as a linear function of its generated tokens: the costs that `sim.fast` supports.

    Raises
    ------
    ParameterError : a time that is negative or not finite.
    """

    token_s: float
    """Time of each generated token, s."""
    request_s: float = 0.0
    """Overhead of each request, s."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ParameterError(name, getattr(self, name), "must be finite and >= 0")

    def __call__(self, n_tokens: int, n_prompt: int = 0, context: int = 0) -> float:
        """Return the seconds of a request."""
        return self.request_s + self.token_s * n_tokens


class FixedEngine:
    """A request takes ``seconds(n_tokens, n_prompt, context)``, or a constant >= 0, whatever else runs.

    Raises
    ------
    ParameterError : a constant that is negative or not finite.
    """

    def __init__(self, seconds: Callable[[int, int, int], float] | float) -> None:
        if not callable(seconds) and not 0.0 <= seconds < math.inf:
            raise ParameterError("seconds", seconds, "must be finite and >= 0")
        self._seconds: Callable[[int, int, int], float]
        self._seconds = seconds if callable(seconds) else PerToken(0.0, float(seconds))

    @property
    def by_tokens(self) -> PerToken | None:
        """Seconds of a request where they depend on its generated tokens only, else None."""
        return self._seconds if isinstance(self._seconds, PerToken) else None

    def __getstate__(self) -> dict[str, object]:
        """Pickle the parameters, without the requests in flight."""
        return {"_seconds": self._seconds}

    def attach(self, env: Environment) -> None:
        """Run in the environment ``env`` from now on."""
        self._env = env

    def submit(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        """Schedule the end of the request."""
        seconds = self._seconds(n_tokens, n_prompt, context)
        if seconds <= 0.0:
            done(operation)
            return
        operation.job = (n_tokens, seconds)
        env = self._env  # the next line is `env.schedule`, inlined
        heappush(env._queue, (env._now + seconds, NORMAL, next(env._eid), _Expiry(operation, done)))  # type: ignore[misc]

    def seconds(self, n_tokens: int, n_prompt: int, context: int) -> float:
        """Return the time of a request, s."""
        return self._seconds(n_tokens, n_prompt, context)

    def cancel(self, operation: Operation) -> None:
        """Store how many tokens the request has generated; the event of its end stays scheduled and is ignored."""
        n_tokens, seconds = operation.job
        operation.n_generated = int(n_tokens * (self._env.now - operation.started) / seconds)


class _Expiry(Moment):
    """The end of a request on a `FixedEngine`."""

    __slots__ = ("done", "operation")

    def __init__(self, operation: Operation, done: Done) -> None:
        self.callbacks = _EXPIRE
        self.operation = operation
        self.done = done


def _expire(expiry: _Expiry) -> None:
    operation = expiry.operation
    if not operation.cancelled:
        expiry.done(operation)


_EXPIRE = [_expire]
