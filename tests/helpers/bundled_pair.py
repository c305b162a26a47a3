"""The bundled pair with its engines running, for all tests that ask real models: starting them costs seconds each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from calibrate.models.asking import bundled_problems
from calibrate.models.local import TorchModels

if TYPE_CHECKING:
    from calibrate.engines.torch.engine import TorchEngine
    from calibrate.running.problem import Problem
    from calibrate.running.wall_clock import WallClock


T = TypeVar("T")


def brief_problems(n: int, seed: int, split: str) -> list[Problem]:
    """Problems of the bundled task whose answers are short, for tests to which length does not matter."""
    return _briefest(seed, split)[:n]


@cache
def _briefest(seed: int, split: str) -> list[Problem]:
    brief = [one for one in bundled_problems(400, seed, split) if "Be brief" in one.prompt]
    return sorted(brief, key=lambda one: one.prompt.count("."))


class BundledPair:
    """Running engines by role, a wall clock on them, and the event loop that they belong to."""

    models = TorchModels(max_steps=12)
    roles: dict[str, TorchEngine]
    clock: WallClock

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        try:
            self.roles, self.clock = self.run(self._stack.enter_async_context(self.models.open()))
        except BaseException:
            self._runner.close()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the engines' loop."""
        return self._runner.run(work)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[dict[str, TorchEngine], WallClock]]:
        """Stand in for `TorchModels.open`: these engines, which stay open, and a new clock on them."""
        yield self.roles, self.models.clock(self.roles)

    def close(self) -> None:
        """End the engines."""
        self.run(self._stack.aclose())
        self._runner.close()
