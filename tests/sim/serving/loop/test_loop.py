"""The loop over arrays against the engine of events: the same answers begin and end at the same times.

Answers of one request or of several, with or without drafted passes, in a closed loop or as they arrive; caches that
hold few of them, so that places are lost and texts evicted; prompts cut to rows or read whole; requests that travel.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from sim_worlds import drawn_answers

from sim.algorithms.autoregressive import autoregressive, step_by_step
from sim.answers.drawn import SyntheticBehaviour
from sim.answers.lengths import Fixed, Lognormal
from sim.answers.replayed import BaselineAnswer
from sim.answers.token_passes import DrawnPasses, PassSource, RecordedPasses
from sim.answers.traces import AnswerTrace
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost, TableCost
from sim.engines.device import Device
from sim.roles import DRAFT, TARGET
from sim.serving import run
from sim.serving.answers import ServedLoad
from sim.serving.engine import ServingEngine
from sim.serving.limits import Joined, JoinLaw, ServingLimits
from sim.serving.loop import running
from sim.serving.loop.request_table import compiled_walk
from sim.trial import Trial
from sim.virtual_clock import Answer

LONGEST = 3_000
"""Tokens that a text of these settings has at most."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is served, and on what."""

    steps: int
    """Requests of a drawn answer; 0: whole answers of several recorded steps."""
    mean: int
    spread: float
    prompt: int
    passes: str
    law: JoinLaw
    request_s: float
    waking_s: float
    limits: ServingLimits
    seed: int

    def trial(self) -> Trial:
        """A new trial of the same answers; another engine shares its device and rests."""
        device, cost = Device(), Joined(self._cost(), self.law)
        target = ServingEngine(cost, device, limits=self.limits, waking_s=self.waking_s)
        engines = {TARGET: target, DRAFT: ServingEngine(cost, device)}
        drawn, source = self._drawn(), self._source()
        if self.steps:
            trial = Trial.of(autoregressive, drawn, engines, meets="plain")
        else:
            trial = Trial(algorithm=autoregressive, answer=self._whole(drawn), engines=engines, seed=self.seed)
        return trial.speculating({TARGET: source} if source else {})

    def _cost(self) -> TableCost | LinearCost:
        if self.seed % 2:
            return TableCost(
                batches=(1, 2, 5), seconds=(0.011, 0.0123, 0.0171), context_s=1e-7, prefill_s=0.0021,
                prefill_token_s=2.3e-5, bends=((90.0, 1e-5),), request_s=self.request_s,
            )  # fmt: skip
        return LinearCost(
            base_s=0.0101, sequence_s=0.00073, context_s=3e-7, prefill_s=0.0017, prefill_token_s=2.9e-5,
            request_s=self.request_s,
        )  # fmt: skip

    def _drawn(self) -> SyntheticBehaviour:
        lengths = Lognormal(mean=float(self.mean), cv=self.spread) if self.spread else Fixed(self.mean)
        return drawn_answers(
            lengths, alpha=0.5, steps=self.steps or 3, limit=2 * self.mean, prompt_tokens=self.prompt, seed=self.seed,
            block=1 + self.seed % 3,
        )  # fmt: skip

    def _whole(self, drawn: SyntheticBehaviour) -> Callable[[int], Answer]:
        def answer(index: int) -> Answer:
            steps = tuple(drawn.answer(index).written_lengths())
            return BaselineAnswer(AnswerTrace(prompt_tokens=self.prompt, steps=(), baseline=steps))

        return answer

    def _source(self) -> PassSource | None:
        if self.passes == "drawn":
            return DrawnPasses(pmf=(0.3, 0.2, 0.15, 0.35), seed=self.seed)
        recorded = ((9, (3, 1, 2, 3)), (30, (4, 4, 1, 3) * 3), (200, (2, 5) * 29))
        return RecordedPasses(requests=recorded, seed=self.seed) if self.passes == "recorded" else None


SETTINGS = st.builds(
    Setting,
    steps=st.integers(0, 6),
    mean=st.sampled_from([2, 17, 60]),
    spread=st.sampled_from([0.0, 0.7]),
    prompt=st.sampled_from([0, 1, 40, 700]),
    passes=st.sampled_from(["", "drawn", "recorded"]),
    law=st.builds(
        JoinLaw,
        outside_s=st.sampled_from([0.0, 0.0013, -0.002]),
        share=st.sampled_from([0.0, 0.37, 1.0]),
        token_s=st.sampled_from([0.0, 1.1e-5]),
    ),
    request_s=st.sampled_from([0.0, 0.00317, 0.0447]),
    waking_s=st.sampled_from([0.0, 0.0091]),
    limits=st.builds(
        ServingLimits,
        max_batched_tokens=st.sampled_from([16, 120, 8192]),
        max_sequences=st.sampled_from([1, 3, 64]),
        # No fraction of few passes, so that nobody fits just so.
        cache_tokens=st.sampled_from([LONGEST + 0.3717, 2.5 * LONGEST + 0.3717, math.inf]),
        rows=st.sampled_from([1.0, 4.0]),
        apart=st.booleans(),
    ),
    seed=st.integers(0, 1000),
)
GAPS = st.lists(st.sampled_from([0.0, 0.0137, 0.05311, 0.9173, 3.3319]), min_size=2, max_size=30)


def both_ways(work: Callable[[], ServedLoad]) -> tuple[ServedLoad, ServedLoad]:
    """The load by the loop, and by the engine of events."""
    found = work()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "engine_of", lambda trial: None)
        return found, work()


def columns(load: ServedLoad) -> list[list[float]]:
    """Answers by their ends."""
    order = sorted(load.answers, key=lambda one: (one.ended_s, one.arrived_s))
    return [[one.arrived_s, one.first_s, one.ended_s, one.tokens] for one in order]


def near(rows: list[list[float]]) -> list[Any]:
    return [pytest.approx(row, rel=1e-9, abs=1e-12) for row in rows]


@settings(max_examples=100, deadline=None)
@given(setting=SETTINGS, gaps=GAPS, warmup=st.integers(0, 1))
def test_answers_that_arrive_end_when_they_do_with_events(setting: Setting, gaps: list[float], warmup: int) -> None:
    moments = list(accumulate(gaps))
    found, expected = both_ways(lambda: run.arriving(setting.trial(), moments, warmup=warmup, first=setting.seed))
    assert columns(found) == near(columns(expected))
    for name in ("n_ended", "tokens", "preempted", "unended_s", "seed"):
        assert getattr(found, name) == getattr(expected, name), name
    for name in ("seconds", "in_flight", "cache_share", "waited_s", "busy"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9, abs=1e-9), name


@settings(max_examples=100, deadline=None)
@given(setting=SETTINGS, concurrency=st.integers(1, 12), apart_s=st.sampled_from([0.0, 0.0613]), met=st.booleans())
def test_answers_that_follow_each_other_end_when_they_do_with_events(
    setting: Setting, concurrency: int, apart_s: float, met: bool
) -> None:
    found, expected = both_ways(
        lambda: run.closed_loop(
            setting.trial(),
            concurrency=concurrency,
            tokens=3 * concurrency * setting.mean * (setting.steps or 3),
            met_under_way=met,
            apart_s=apart_s,
            first=setting.seed,
        )
    )
    ours, theirs = columns(found), columns(expected)
    both = min(len(ours), len(theirs))  # a window ends with the iteration that reaches its tokens, or some events later
    assert ours[:both] == near(theirs[:both])
    for rows, end in ((ours, expected.seconds), (theirs, found.seconds)):
        assert all(row[2] > end * (1.0 - 1e-9) for row in rows[both:])
    assert found.n_ended >= len(ours)


BENCH = Setting(
    steps=1, mean=20, spread=0.0, prompt=10, passes="", law=JoinLaw(share=1.0), request_s=0.0, waking_s=0.0,
    limits=ServingLimits(), seed=0,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(find_spec("numba") is None, reason="needs numba: it is in the extra 'fast'")
def test_the_compiled_loop_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit: settings of each kind, met under way and as they arrive."""
    base = replace(BENCH, mean=40, spread=0.7, prompt=300, law=JoinLaw(share=0.4, outside_s=0.001), waking_s=0.01)
    limits = ServingLimits(max_batched_tokens=200, max_sequences=20)
    kinds = [
        base,
        replace(base, steps=5, passes="drawn", request_s=0.003, limits=replace(limits, cache_tokens=3_000.4)),
        replace(base, steps=0, passes="recorded", limits=replace(limits, cache_tokens=2_000.4, apart=True)),
        replace(base, passes="drawn", request_s=0.003, limits=replace(limits, cache_tokens=1_800.4)),
    ]
    kinds = [replace(one, seed=seed) for seed, one in enumerate(kinds)]

    def loads() -> list[ServedLoad]:
        closed = [run.closed_loop(one.trial(), concurrency=12, tokens=9_000, met_under_way=True) for one in kinds]
        return closed + [run.arriving(one.trial(), [0.07 * i for i in range(80)], warmup=9) for one in kinds]

    in_python = loads()
    assert sum(load.preempted for load in in_python) > 20
    monkeypatch.setattr(running, "WORTH_COMPILING", 0)
    assert loads() == in_python


@pytest.mark.skipif(find_spec("numba") is None, reason="needs numba: it is in the extra 'fast'")
@pytest.mark.parametrize("pmf", [(1.0,), (0.3, 0.2, 0.15, 0.35), (0.0, 1.0)])
def test_passes_are_the_same_ones_where_they_are_drawn_by_compiled_code(pmf: tuple[float, ...]) -> None:
    source, rng = DrawnPasses(pmf=pmf, seed=4), np.random.default_rng(7)
    tokens = np.array([0, 1, 2, 4_000, *rng.integers(0, 900, 60)])
    indices, depths = rng.integers(0, 2**40, tokens.size), rng.integers(-1, 50, tokens.size)
    walk, places = compiled_walk(), source.places(indices, TARGET, depths)
    numbers, committed = walk(places, source.edges, tokens, tokens)
    assert numbers.tolist() == source.numbers(indices, TARGET, depths, tokens).tolist()
    assert committed.tolist() == tokens.tolist()
    part = numbers // 2
    committed = walk(places, source.edges, tokens, part)[1]
    rows = zip(indices.tolist(), depths.tolist(), tokens.tolist(), part.tolist(), strict=True)
    assert committed.tolist() == [source.committed(index, TARGET, *rest) for index, *rest in rows]


def on(cost: Any, kind: type[BatchEngine] = ServingEngine) -> dict[str, Any]:
    return {"engines": {TARGET: kind(cost)}}


@pytest.mark.parametrize(
    ("change", "is_run"),
    [
        ({}, True),
        ({"algorithm": step_by_step}, False),
        (on(LinearCost(base_s=1.0), BatchEngine), False),
        (on(LinearCost(base_s=1.0)), False),  # it says nothing of the parts of an iteration that reads
    ],
)
def test_what_needs_events_gets_them(change: dict[str, Any], is_run: bool) -> None:
    """An algorithm that speculates on steps, an engine of another kind, a cost that says nothing of its parts."""
    one = replace(BENCH.trial(), **change)
    assert running.engine_of(one) is (one.engines[TARGET] if is_run else None)


@pytest.mark.parametrize("met", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_window_has_the_tokens_that_were_asked_for(steps: int, met: bool) -> None:
    """Answers of a token per iteration: the last iteration writes one for each of the seven at most."""
    one = replace(BENCH, steps=steps, spread=0.7)
    load = run.closed_loop(one.trial(), concurrency=7, tokens=900, met_under_way=met)
    assert 900 <= load.tokens <= 900 + 7


FREE = Joined(LinearCost(base_s=0.0, prefill_s=1.0), JoinLaw(share=1.0))
test_what_cannot_be_served_is_refused = refused(
    lambda trial: run.closed_loop(trial, concurrency=1, tokens=100),
    (replace(BENCH, limits=ServingLimits(cache_tokens=25)).trial(), "must hold a request of 30 tokens"),
    (replace(BENCH.trial(), **on(FREE)), "must take more than 0 s"),
)
