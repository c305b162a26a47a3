"""What the sweep asks of an engine: the work of answers, and nothing that a cache could help with."""

from dataclasses import replace
from typing import Any

from replies import generated, times

from calibrate.engines.protocol import Generation, Request, Sampling
from calibrate.engines.work import EngineStatistics, Pass, Prefill
from calibrate.measuring.engine_timings import MeasureOptions, measure_engine, measure_joining_prefills

DRAWN = Sampling(temperature=0.6, top_p=0.95)
OPTIONS = MeasureOptions(batches=(1, 3), contexts=(8,), iterations=4, prefills=(4,), repeats=1, rounds=1)


class Asked:
    """An engine that takes down what it is asked."""

    name = "asked"

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def describe(self) -> dict[str, Any]:
        return {"vocab_size": 1000, "speculates_per_request": True}

    async def generate(self, request: Request) -> Generation:
        self.requests.append(request)
        at = times(0.2, queued=0.0, start=0.0, first=0.1)
        return generated(request.max_tokens, at, finish="length", n_prompt=len(request.prompt))

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        return EngineStatistics(iterations=(Pass.plain(1, 8, 0.1, 1.0),), prefills=(Prefill(8, 0, 0.1, 0.5),))


async def test_only_iterations_of_the_whole_batch_count() -> None:
    """While it forms and ends fewer sequences decode, and the engine is busy with those that come and go."""

    class Forming(Asked):
        async def stats(self, *, clear: bool = False) -> EngineStatistics:
            told = await super().stats(clear=clear)
            return replace(told, iterations=tuple(Pass.plain(batch, 8, 0.1, 1.0) for batch in (1, 2, 3)))

    engine: Any = Forming()
    found = await measure_engine(engine, "cpu", OPTIONS)
    assert [sample.batch for sample in found.decode] == [1, 3]
    assert await measure_joining_prefills(engine, OPTIONS) == [], "of an engine that reads prompts apart"


async def test_the_sweep_draws_tokens_as_answers_do_and_its_batches_are_uneven() -> None:
    """Tokens of answers are drawn, which takes a small model a third of an iteration; prompts of equal length need no
    mask, which those of answers do. Latencies are of requests that end at once: how they are drawn does not matter."""
    engine: Any = Asked()
    await measure_engine(engine, "cpu", OPTIONS, sampling=DRAWN)
    swept = [request for request in engine.requests if request.max_tokens != 2]
    assert all(request.sampling == DRAWN for request in swept)
    lengths = [len(request.prompt) for request in swept if request.max_tokens == OPTIONS.iterations + 1]
    assert lengths == [8, 8, 11, 14]
    assert len({request.prompt[:2] for request in engine.requests}) == len(engine.requests)
