"""A model in several vLLM engines: one for plain decoding, and one for each speculation that requests have.

vLLM speculates for all requests of an engine or for none. A group sends each request to the engine with its
speculation, and starts that engine when it is first needed; beyond a limit, the least recently used engine is ended.
All of them run on the same cores, so a measurement lets only one of them work at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from calibrate.engines.local import LocalEngine
from calibrate.engines.protocol import Choice, Generation, Progress, Prompt, Request, Sampling
from calibrate.engines.speculation import Speculation
from calibrate.engines.vllm.config import VllmConfig, speculative_of
from calibrate.engines.vllm.engine import VllmEngine
from calibrate.engines.work import EngineStatistics
from theory.errors import ParameterError

__all__ = ["VllmGroup"]

_WARM_UP: Final = tuple(
    Request(
        prompt="One and two make three, and",
        max_tokens=32,
        stop=(),
        sampling=Sampling(temperature=0.6),
        seed=n,
        ignore_eos=True,
    )
    for n in range(4)
)
"""Warm-up requests of an engine that speculates: its first drafts take seconds."""


class VllmGroup(LocalEngine):
    """A model in vLLM whose requests may speculate (a `Backend`). Create it with `start`.

    Parameters
    ----------
    config : configuration of the engines; ``speculative`` is taken from the requests.
    most : largest number of engines with speculation that run at the same time, >= 1.

    Raises
    ------
    CalibrationError : from every method, as soon as an engine has died, failed or been closed.
    ParameterError : a configuration with ``speculative``.
    """

    def __init__(self, config: VllmConfig, *, most: int = 3) -> None:
        if config.speculative is not None:
            raise ParameterError("speculative", config.speculative, "must be left to the requests of a group")
        self.config: VllmConfig = config
        self.most = most
        self.plain: VllmEngine
        self._others: dict[Speculation, VllmEngine] = {}
        self._used: dict[Speculation, float] = {}
        self._lock = asyncio.Lock()

    @classmethod
    async def start(cls, config: VllmConfig, *, most: int = 3) -> VllmGroup:
        """Start the engine for plain decoding.

        Raises
        ------
        CalibrationError : it did not come up.
        """
        group = cls(config, most=most)
        group.plain = await VllmEngine.start(config)
        return group

    @property
    def engines(self) -> tuple[VllmEngine, ...]:
        """All running engines, that for plain decoding first."""
        return (self.plain, *self._others.values())

    async def engine(self, speculation: Speculation | None) -> VllmEngine:
        """Return the engine with a speculation; start it if it does not run.

        Raises
        ------
        CalibrationError : it did not come up.
        ParameterError : vLLM does not support the speculation.
        """
        if speculation is None:
            return self.plain
        async with self._lock:
            if speculation not in self._others:
                wanted = speculative_of(speculation)
                while len(self._others) >= self.most:
                    oldest = min(self._others, key=self._used.__getitem__)
                    await self._others.pop(oldest).close()
                config = replace(self.config, name=f"{self.name}-{speculation.method}", speculative=wanted)
                self._others[speculation] = await _warm(await VllmEngine.start(config))
            self._used[speculation] = time.monotonic()
            return self._others[speculation]

    async def prepare(self, speculation: Speculation) -> None:
        """Start the engine with a speculation if it does not run; see `engine`."""
        await self.engine(speculation)

    async def generate(self, request: Request, progress: Progress | None = None) -> Generation:
        """Continue a prompt; see `Backend.generate`."""
        engine = await self.engine(request.speculation)
        return await engine.generate(replace(request, speculation=None), progress)

    async def choose(self, prompt: Prompt, choices: Sequence[str]) -> Choice:
        """Probabilities of single-token replies by the plain engine; see `Backend.choose`."""
        return await self.plain.choose(prompt, choices)

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        """Work of all engines; iterations of an engine that speculates count as passes, with or without a draft."""
        plain = await self.plain.stats(clear=clear)
        return plain.with_speculating([await engine.stats(clear=clear) for engine in self._others.values()])

    async def forget(self) -> None:
        """Empty the prefix caches of all engines."""
        for engine in self.engines:
            await engine.forget()

    def describe(self) -> Mapping[str, Any]:
        """Description of the plain engine, and the speculations of the others."""
        also = [dict(engine.config.speculative or {}) for engine in self._others.values()]
        return {**self.plain.describe(), "speculative": also}

    async def close(self) -> None:
        """End all engines. A second call has no effect."""
        for engine in (*self._others.values(), self.plain):
            await engine.close()
        self._others.clear()


async def _warm(engine: VllmEngine) -> VllmEngine:
    """Generate a text at concurrency 1 and then several at once, and drop the timings."""
    await engine.generate(_WARM_UP[0])
    await asyncio.gather(*map(engine.generate, _WARM_UP))
    await engine.stats(clear=True)
    return engine
