"""Iterations told from the arrivals of tokens: merged, late, one after the other; and what is said about them."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from types import MappingProxyType
from typing import Any, cast

import pytest
from openai_server import OpenAIServer, Planted
from virtual_time import on_servers, run_virtually

from calibrate.costs.fit import fit_cost
from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.stalls import TICK_S, StallWatch
from calibrate.engines.http.stream import Streamed
from calibrate.engines.http.wire import HttpConfig
from calibrate.engines.protocol import Request
from calibrate.engines.speculation import Speculation
from calibrate.measuring import from_outside
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.measuring.from_outside import left_out_notes, measure_server, timing_notes
from calibrate.measuring.stream_samples import grouped, iterations, prefill
from calibrate.record.engine_records import DecodeSample, EngineRecord
from theory.errors import CalibrationError

OPTIONS = MeasureOptions(batches=(1, 2), contexts=(4,), iterations=8, prefills=(4,), repeats=2, rounds=1)
OFF = 1e-3
"""Relative error of what is read from arrivals in virtual time."""
Arrivals = list[tuple[float, int]]


def told(*arrivals: tuple[float, int]) -> Streamed:
    """A stream whose chunks tell their tokens."""
    n = sum(n for _, n in arrivals)
    usage = {"prompt_tokens": 10, "completion_tokens": n}
    return Streamed(arrivals=list(arrivals), ids=[1] * n, usage=usage, reason="length")


def each(moments: Iterable[float]) -> Arrivals:
    return [(float(moment), 1) for moment in moments]


COMPANY = told(*each(range(4)), (7.5, 4), (11.5, 4))
"""12 tokens, 4 of which are there when a request begins at 3 s: they share 8 iterations and no more."""


@pytest.mark.parametrize(
    ("streams", "seconds", "contexts"),
    [
        ((told(*each(range(20))), told(*each(range(5, 12)))), [1.0] * 6, [27 + 2 * i for i in range(6)]),
        ((told(*each((0, 1, 2, 4, 6, 7))), told(*each((2, 4, 6, 7, 8)))), [2.0, 2.0, 1.0], [24, 26, 28]),
        ((COMPANY, told((3.0, 1), (7.0, 4), (11.0, 4))), [1.0] * 4, None),
        # Of the 4 that come next for the company 3 may have been there before: 4 + 3, and 5 are left for sure.
        ((COMPANY, told((3.0, 1), (5.0, 2), (8.0, 3), (11.0, 3))), [1.0] * 5, None),
        ((COMPANY, told((3.0, 1), (9.0, 6))), [], None),
        # In two pieces the company may have ended before the other began: its tokens waited for their delivery.
        ((told((0.0, 1), (100.0, 319)), told((1.0, 1), (99.0, 319))), [], None),
        ((told((0.0, 1), (100.0, 319)), told((1.0, 1), (101.0, 319))), [], None),
        ((told((0.0, 320)), told((1.0, 1), (101.0, 319))), [], None),
        # One after the other is no batch.
        ((told(*each(range(9))), told(*each(range(9, 20)))), [], None),
        ((told(*each(range(9))), told(*each(range(20))), told(*each(range(9, 20)))), [], None),
        # A chunk that straddles the end of another stream does not count.
        ((told(*each(range(8))), told((2.0, 1), (4.0, 2), (6.0, 2), (8.0, 2))), [1.0] * 4, None),
        # A merged chunk without company is as many iterations.
        ((told((0.0, 3), (2.0, 4), (3.0, 1)),), [0.5] * 4 + [1.0], None),
        (
            (replace(told(*each((0, 3, 6))), ids=[], usage={"prompt_tokens": 10, "completion_tokens": 9}),),
            [1.0] * 6,
            None,
        ),
    ],
)
def test_only_iterations_of_the_whole_batch_count_and_each_once(
    streams: Sequence[Streamed], seconds: list[float], contexts: list[int] | None
) -> None:
    found = iterations(streams)
    assert [sample.seconds for sample in found] == seconds
    assert {sample.batch for sample in found} <= {len(streams)}
    assert contexts is None or [sample.context for sample in found] == contexts


def test_a_chunk_of_a_pass_is_one_iteration_whatever_was_accepted() -> None:
    """Chunks of 1 to 4 tokens are passes over k2 = 4, of 5 tokens two; the company is sure to make two more passes."""
    last = told((0.0, 1), (1.0, 4), (2.0, 1), (6.0, 5), (7.0, 2))
    assert [(s.tokens, s.seconds) for s in iterations([last], k2=4)] == [(4, s) for s in (1.0, 1.0, 2.0, 2.0, 1.0)]
    company = told((-1.0, 1), (0.5, 4), (9.0, 5))
    assert [s.seconds for s in iterations([company, last], k2=4)] == [1.0, 1.0]
    assert {s.tokens for s in iterations([told(*each(range(4)))])} == {1}


def test_more_samples_than_asked_for_are_averaged_and_keep_their_mean() -> None:
    samples = [DecodeSample(batch=1, context=10 + i, seconds=s) for i, s in enumerate((9.0, 1.0, 1.0, 1.0, 2.0))]
    found = grouped(samples, 2)
    assert [(sample.context, sample.seconds) for sample in found] == [(10, 5.0), (13, pytest.approx(4 / 3))]
    assert grouped(samples, 9) == samples


def test_a_prefill_is_the_time_to_the_first_token_less_a_round_trip() -> None:
    assert prefill(replace(told((1.0, 1)), sent=0.25), 0.5).seconds == 0.25


# Stalls


def test_a_stall_counts_where_it_touches() -> None:
    watch = StallWatch()
    now = time.monotonic() + 100.0  # nothing goes on then
    watch._stalls.extend([(now + 1.0, now + 1.5), (now + 3.0, now + 3.2)])
    watch._ticked = now + 3.2
    assert watch.longest(now + 0.0, now + 1.0) == 0.0
    assert watch.longest(now + 1.4, now + 2.0) == pytest.approx(0.5 - TICK_S)
    assert watch.longest(now + 2.0, now + 4.0) == pytest.approx(0.2 - TICK_S)


async def test_a_loop_that_is_kept_busy_is_seen_even_before_the_next_tick() -> None:
    async with StallWatch() as watch:
        begin = time.monotonic()
        await asyncio.sleep(0.01)
        time.sleep(0.1)
        assert watch.longest(begin, time.monotonic()) >= 0.09
        await asyncio.sleep(0.01)
        assert watch.longest(begin, time.monotonic()) >= 0.09


class Late:
    """A watch that saw stalls of these lengths, one for each question, and then none."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = list(seconds)

    def longest(self, begin: float, end: float) -> float:
        return self.seconds.pop(0) if self.seconds else 0.0


class Scripted:
    """An engine whose tokens come at planned moments."""

    name = "draft"
    speculates = None
    speculating: Mapping[Any, Any] = MappingProxyType({})

    def __init__(self, arrivals: Callable[[int, int], Arrivals], wait_s: float = 0.1) -> None:
        self.arrivals = arrivals
        self.wait_s = wait_s
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.n_answered = self.n_late = 0
        self.asked: list[int] = []

    def describe(self) -> dict[str, Any]:
        return {"max_context": 1024}

    async def round_trip(self) -> float:
        return 0.5

    async def stream(self, request: Request, streamed: Streamed) -> Streamed:
        self.asked.append(request.max_tokens)
        streamed.arrivals = self.arrivals(len(self.asked), request.max_tokens)
        n = sum(n for _, n in streamed.arrivals)
        streamed.ids, streamed.usage = [1] * n, {"prompt_tokens": 24, "completion_tokens": n}
        streamed.sent, streamed.end = streamed.arrivals[0][0] - self.wait_s, streamed.arrivals[-1][0]
        streamed.begun.set()
        return streamed


def timed(engine: Scripted, batch: int, n: int = 8, watch: Late | None = None) -> list[DecodeSample]:
    asked = from_outside._timed_batch(
        cast(OpenAIEngine, engine), ["a"] * batch, n, cast(StallWatch, watch if watch is not None else Late())
    )
    return run_virtually(asked)


def in_pace(number: int, n_tokens: int) -> Arrivals:
    """One token a second, all requests from one moment on."""
    return each(range(n_tokens))


def test_a_cancellation_while_a_watch_ends_is_not_lost() -> None:
    """Ctrl-C cancels the main task, wherever it waits."""
    reached = []

    async def work() -> None:
        async with StallWatch():
            task = asyncio.current_task()
            task.cancel()
        reached.append("the end")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(work())
    assert not reached


def test_what_was_read_late_is_asked_for_again() -> None:
    engine = Scripted(in_pace)
    assert [s.seconds for s in timed(engine, 1, watch=Late(7.0, 0.9))] == [1.0] * 8
    assert engine.asked == [9, 9, 9]  # 7 s of 8 is too much, 0.9 s too, none is not
    assert engine.outcomes == {("batch 1", "timed"): 1}
    timed(engine, 1, watch=Late(0.7))
    assert engine.asked == [9] * 4


def test_a_single_request_that_is_always_read_late_is_told_by_the_least_late_and_noted() -> None:
    engine = Scripted(lambda number, n: each(number * i for i in range(n)))
    found = timed(engine, 1, watch=Late(*[900.0] * 5, 20.0, *[900.0] * 6))
    assert engine.asked == [9] * 4 + [32] * 4 + [128] * 4
    assert [s.seconds for s in found] == [6.0] * 8
    assert timing_notes(cast(OpenAIEngine, engine)) == [
        "warning: 1 timings of batch 1 were read late, because this machine was overloaded"
    ]


def test_a_batch_that_is_always_read_late_is_left_out() -> None:
    engine = Scripted(in_pace)
    assert timed(engine, 2, watch=Late(*[900.0] * 12)) == []
    assert engine.outcomes == {("batch 2", "left out"): 1}
    assert timed(engine, 2, watch=Late(900.0)) == []  # looked at once more only, in vain
    assert len(engine.asked) == 2 * 12 + 2
    assert len(timed(engine, 2)) == 8  # and once more
    engine.n_answered, engine.n_late = 100, 1
    assert timing_notes(cast(OpenAIEngine, engine)) == []
    engine.n_late = 2
    assert "2 of 100 requests of answers" in timing_notes(cast(OpenAIEngine, engine))[0]


def test_batches_that_rounds_lack_are_noted() -> None:
    one, two = (DecodeSample(batch=batch, context=1, seconds=1.0) for batch in (1, 2))
    drafted = two.model_copy(update={"tokens": 4, "by": "draft-model"})  # another server's
    assert left_out_notes((1, 2), [[one], [one, two], [one, drafted]]) == [
        "batch 2 was left out in 2 of 3 rounds: its requests did not run at the same time"
    ]
    (note,) = left_out_notes((1, 2), [[one], [one]])
    assert note.startswith("warning: batch 2 was left out: its requests did not run at the same time; give a smaller")
    assert "as long as an iteration of one request where only batch 1 was timed" in note


def test_a_batch_that_never_runs_together_is_given_up() -> None:
    """Answers follow each other: the second one's first token comes when the first has ended."""
    engine = Scripted(lambda number, n: each(1000.0 * number + i for i in range(n)), wait_s=80.0)
    assert [timed(engine, 2) for _ in range(5)] == [[]] * 5
    # It waits for longer than a server takes to begin: the longest company is not tried.
    assert engine.asked == [17, 9, 80, 32] + [80, 32] * 2
    assert engine.outcomes["batch 2", "left out"] == 5


def test_requests_that_are_not_together_are_made_longer() -> None:
    """The timed one begins a hundred tokens after its company."""
    engine = Scripted(lambda number, n: each(range(100 * (1 - number % 2), 100 * (1 - number % 2) + n)))
    assert [s.seconds for s in timed(engine, 2)] == [1.0] * 8
    assert engine.asked == [17, 9, 80, 32, 640, 128]


@pytest.mark.parametrize(
    ("arrivals", "said"),
    [
        (lambda number, n: [(1.0, n)], "its tokens came in 1 piece"),
        (lambda number, n: each(range(2)), "ended the answer after 2, though"),
    ],
)
def test_a_single_request_that_cannot_be_told_is_an_error(arrivals: Callable[[int, int], Arrivals], said: str) -> None:
    with pytest.raises(CalibrationError, match=rf"draft: a request of 128 tokens cannot be timed: .*{said}"):
        timed(Scripted(arrivals), 1)


def test_first_tokens_that_were_read_late_are_asked_for_again() -> None:
    engine = Scripted(lambda number, n: [(float(number), n)])

    async def work(*stalls: float) -> tuple[float, Streamed]:
        prompts, watch = repeat(lambda n: "a" * n), cast(StallWatch, Late(*stalls))
        return await from_outside._timed_prefill(cast(OpenAIEngine, engine), prompts, 4, watch)

    assert run_virtually(work(1e9, 1e8))[1].arrivals == [(3.0, 1)]
    assert not engine.outcomes
    assert run_virtually(work(1e9, 1e8, 1e9, 1e9))[1].arrivals == [(5.0, 1)]
    assert engine.outcomes == {("prefills", "late"): 1}


# With a server


def measured(
    options: MeasureOptions, planted: Planted, speculating: Planted | None = None
) -> tuple[EngineRecord, list[str]]:
    """The record of a server in virtual time, perhaps with one that speculates with n-grams, and what is noted."""

    async def work(servers: list[OpenAIServer]) -> tuple[EngineRecord, list[str]]:
        engine, *others = [await OpenAIEngine.start(HttpConfig(name="draft", url=server.url)) for server in servers]
        for other in others:
            other.speculates = Speculation(method="ngram", k2=4)
            engine.speculating = {other.speculates: other}
        try:
            return await measure_server(engine, "here", options), timing_notes(engine)
        finally:
            for one in (engine, *others):
                await one.close()

    return on_servers(work, planted, *([speculating] if speculating else []))


def batches(samples: Sequence[DecodeSample]) -> dict[int, list[float]]:
    """Seconds by batch. The first one is a part of an iteration: a first token comes when its prompt is read."""
    found: dict[int, list[float]] = {}
    for sample in samples:
        found.setdefault(sample.batch, []).append(sample.seconds)
    return found


def test_planted_latencies_come_back() -> None:
    """Where nothing is late, as they were planted."""
    planted = Planted(iteration_s=0.004, sequence_s=0.003, prefill_s=0.004, prefill_token_s=2e-4)
    options = replace(OPTIONS, batches=(1, 2, 4), contexts=(8,), iterations=24, prefills=(4, 104), repeats=5)
    record, notes = measured(options, planted)
    assert notes == []
    for batch, seconds in batches(record.decode).items():
        assert 12 <= len(seconds) <= 24
        assert seconds[1:] == pytest.approx([0.004 + 0.003 * batch] * len(seconds[1:]), rel=OFF)
    apart = [sample for sample in record.prefill if not sample.beside]
    assert [sample.tokens for sample in apart] == [4] * 5 + [104] * 5
    assert [sample.seconds for sample in apart] == pytest.approx([0.0048] * 5 + [0.0248] * 5, rel=OFF)
    assert fit_cost(record).cost.prefill_token_s == pytest.approx(2e-4, rel=OFF)


def test_a_server_that_runs_one_request_at_a_time_costs_the_batch_and_not_the_calibration() -> None:
    record, notes = measured(replace(OPTIONS, contexts=(4, 8), iterations=4), Planted(max_running=1, iteration_s=5e-4))
    assert {batch: len(seconds) for batch, seconds in batches(record.decode).items()} == {1: 8}
    assert not [note for note in notes if "batch 2" in note]
    assert len(record.prefill) == len(record.request_s) == 2, "prompts that wait for their turn join nothing"


def test_prompts_that_join_a_stream_cost_what_its_gaps_grow_by() -> None:
    """Alone a prompt takes 30 ms, beside a stream of 4 ms an iteration 8 ms more than that."""
    planted = Planted(iteration_s=0.004, prefill_s=0.03, joining_s=0.008)
    record, _ = measured(replace(OPTIONS, batches=(1,), prefills=(4, 16), repeats=8), planted)
    joining = [sample.seconds for sample in record.prefill if sample.beside]
    assert len(joining) >= 4
    assert joining == pytest.approx([0.008] * len(joining), rel=OFF)
    assert {round(sample.seconds, 4) for sample in record.prefill if not sample.beside} == {0.03}


def test_passes_of_a_server_that_speculates_are_timed_as_planted() -> None:
    """2 ms and 4 ms for each request: 6, 10 and 18 ms a pass, of a request of up to 4 tokens."""
    options = replace(OPTIONS, batches=(1, 2, 4), iterations=16)
    record, _ = measured(options, Planted(iteration_s=1e-3), Planted(iteration_s=0.002, sequence_s=0.004, k2=4))
    passes = [sample for sample in record.decode if sample.by]
    assert {(sample.by, sample.tokens) for sample in passes} == {("prompt-lookup", 4)}
    assert {sample.tokens for sample in record.decode if not sample.by} == {1}
    found = batches(passes)
    assert found.keys() == {1, 2, 4}
    for batch, seconds in found.items():
        assert len(seconds) >= 8
        assert seconds[1:] == pytest.approx([0.002 + 0.004 * batch] * len(seconds[1:]), rel=OFF)
