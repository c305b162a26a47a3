"""An event loop in virtual time: clients and servers of one loop talk over real sockets, and nobody waits.

The clock stands still while anything is ready to run or to be read, and then moves to the next moment for which
something waits. What is measured with it is exact whatever else the machine does, and takes the time of its processing.
"""

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar
from unittest import mock

from openai_server import OpenAIServer, Planted, served

Result = TypeVar("Result")


class _Virtual(selectors.DefaultSelector):
    """Moves the clock instead of waiting: what was sent to a local socket has arrived when the sender goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def moment(self) -> float:
        """The virtual moment, s."""
        return self.now

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(None if timeout is None else 0.0)
        if not ready and timeout is not None:
            self.now += timeout
        return ready


def run_virtually(program: Coroutine[Any, Any, Result]) -> Result:
    """Run a program in virtual time; ``time.monotonic`` is its clock, from 1000 s, also in other threads."""
    selector = _Virtual()
    with (
        mock.patch.object(time, "monotonic", selector.moment),
        asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner,
    ):
        return runner.run(program)


def on_servers(work: Callable[[list[OpenAIServer]], Awaitable[Result]], *planted: Planted) -> Result:
    """Do something with servers of these kinds, all in virtual time; an iteration of theirs must take some."""

    async def program() -> Result:
        async with served(*planted) as servers:
            return await work(servers)

    return run_virtually(program())
