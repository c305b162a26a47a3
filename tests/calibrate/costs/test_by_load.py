"""Costs from closed loops of whole answers: passes by batch and method, and what prompts add that join them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_profiles import swept

from calibrate.costs.by_load import join_law, loaded_samples, most_at_once
from calibrate.costs.fit import fit_cost
from calibrate.costs.sweep import fit_passes
from calibrate.record.engine_records import EngineRecord, JoinedSums, LoadedSums, LoadRecord, PrefillSample
from sim.engines.costs import TableCost
from sim.serving.limits import Joined, JoinLaw

PLANTED = TableCost(
    batches=(1, 2, 4, 8), seconds=(0.015, 0.0155, 0.017, 0.021), context_s=2e-6, prefill_s=0.020, prefill_token_s=5e-5
)
"""Costs by a sweep: another intercept for each batch than in use."""


SWEPT = swept(PLANTED)
LOADS = (1, 2, 4, 8, 16, 32)
SPECULATING = {"k2": 4}


def planted_pass(batch: int, rows: int) -> float:
    """Seconds of a pass without context: a row costs a third of a sequence."""
    return 0.010 + 3e-4 * batch + 1e-4 * batch * (rows - 1)


def loop(at_once: int, *, method: str = "", rows: int = 1, joined_s: float = 0.024) -> LoadRecord:
    """A closed loop with 150 cached tokens a sequence, some passes of one sequence less, and some that read prompts."""

    def passes(batch: int, n: int) -> LoadedSums:
        seconds = planted_pass(batch, rows) + PLANTED.context_s * 150 * batch
        return LoadedSums(batch, rows, n, n * 150 * batch, n * batch, n * seconds)

    def read(batch: int, joiners: int, n: int) -> JoinedSums:
        seconds = max(joined_s, 0.001 + planted_pass(batch, rows) + PLANTED.context_s * 150 * batch)
        return JoinedSums(batch, joiners, n, n, n * 150 * batch, n * joiners * 40, n * batch, n * seconds)

    beside = at_once - 1
    return LoadRecord(
        method=method,
        settings={} if rows == 1 else SPECULATING,
        at_once=at_once,
        running=at_once,
        most=at_once,
        seconds=4.0,
        answers=9,
        tokens=1000,
        prompt_tokens=360,
        answer_tokens=900,
        ended=9,
        passes=[passes(at_once, 60), *([passes(1, 2)] if at_once > 2 else ())],
        joined=[JoinedSums(0, 1, 3, 3, 0, 120, 0, 0.09), *([read(beside, 1, 5)] if beside else ())],
    )


def loaded(*levels: int, **options: Any) -> EngineRecord:
    """The sweep of `record`, which loads contradict, and loops, plain and by a draft model."""
    loops = [loop(n, **more) for n in levels for more in ({}, {"method": "draft-model", "rows": 4, "joined_s": 0.038})]
    return SWEPT.model_copy(update={"by_load": loops, **options})


def test_passes_by_load_are_the_times_by_batch() -> None:
    """A sweep tells what a token of context costs; within the loads nothing else, and beyond them their slope does."""
    cost = fit_cost(loaded(*LOADS)).cost
    assert cost.batches == LOADS
    assert cost.context_s == pytest.approx(PLANTED.context_s, rel=1e-9)
    for batch in (1, 3, 16, 24, 32, 64):
        assert cost.iteration(batch, 900.0) == pytest.approx(planted_pass(batch, 1) + 900 * PLANTED.context_s, rel=1e-3)
    above = fit_cost(loaded(4, 8)).cost
    assert above.iteration(1, 0.0) == pytest.approx(PLANTED.iteration(1, 0.0)), "below the loads the sweep's"
    assert above.iteration(8, 0.0) == pytest.approx(planted_pass(8, 1), rel=1e-3)


def test_passes_of_a_method_by_load_are_its_times_by_batch() -> None:
    tables = fit_passes(loaded(*LOADS), method="draft-model")
    assert set(tables) == {1, 4}
    for batch in (1, 8, 24, 32, 64):
        assert tables[4].iteration(batch, 0.0) == pytest.approx(planted_pass(batch, 4), rel=1e-3)
        assert tables[1].iteration(batch, 0.0) == pytest.approx(planted_pass(batch, 1), rel=1e-3)
    assert set(fit_passes(loaded(*LOADS), method="eagle")) == {1}
    assert most_at_once(loaded(*LOADS)) == most_at_once(loaded(*LOADS), "draft-model") == 32
    assert most_at_once(SWEPT) == 8


def rounds(
    seconds: Callable[[int, int], float], levels: Sequence[int] = (1, 2, 4, 8, 16), n_rounds: int = 4
) -> EngineRecord:
    """Rounds of loads whose passes take so long, by batch and round."""

    def timed(batch: int, number: int) -> LoadRecord:
        passes = LoadedSums(batch, 1, 100, 0, 100 * batch, 100 * seconds(batch, number))
        return loop(batch).model_copy(update={"passes": [passes]})

    return SWEPT.model_copy(update={"by_load": [timed(n, number) for n in levels for number in range(n_rounds)]})


def by_batch(record: EngineRecord) -> dict[int, float]:
    """Seconds of plain passes by batch."""
    return {one.batch: one.seconds for one in loaded_samples(record)}


def test_a_fast_moment_of_the_machine_does_not_make_more_answers_cheaper() -> None:
    record = rounds(lambda n, number: planted_pass(n, 1) * (0.8 if n == 4 else 1.0), (2, 4, 8), 1)
    mean = (planted_pass(2, 1) + 0.8 * planted_pass(4, 1)) / 2
    assert by_batch(record) == pytest.approx({2: mean, 4: mean, 8: planted_pass(8, 1)})


def test_loops_of_a_load_at_different_times_are_its_mean_and_its_error() -> None:
    """The machine was slower by a tenth in the second: resamples vary by half of the difference."""
    timed = rounds(lambda n, number: planted_pass(n, 1) * (1.0 + 0.1 * (number and n == 4)), (1, 4), 2)
    own = planted_pass(4, 1)
    assert [one.seconds for one in loaded_samples(timed) if one.batch == 4] == pytest.approx([1.05 * own] * 16)
    resamples = (loaded_samples(timed, rng=np.random.default_rng(i)) for i in range(64))
    found = [round(one.seconds / own, 9) for samples in resamples for one in samples if one.batch == 4]
    assert set(found) == {1.0, 1.1}
    assert np.mean(found) == pytest.approx(1.05, abs=0.02)  # 3.2 standard errors: fixed seeds


def test_noise_between_rounds_is_not_taken_for_a_law_of_the_batch() -> None:
    """Over 60 draws the error of the times is at most 0.8 times that of the means; 0.65 is expected: 2 of 5 remain."""
    rng, left, means = np.random.default_rng(5), [], []
    for _ in range(60):
        noise = {n: np.exp(0.1 * rng.standard_normal(4)) for n in (1, 2, 4, 8, 16)}
        samples = by_batch(rounds(lambda n, number, noise=noise: planted_pass(n, 1) * noise[n][number]))
        left += [samples[n] / planted_pass(n, 1) - 1.0 for n in noise]
        means += [float(one.mean()) - 1.0 for one in noise.values()]
    assert np.square(left).mean() < 0.8**2 * np.square(means).mean()


@given(st.floats(1.02, 2.0), st.floats(0.0, 0.002))
def test_steps_by_batch_that_all_rounds_show_stay(step: float, noise: float) -> None:
    def seconds(batch: int, number: int) -> float:
        return planted_pass(batch, 1) * (step if batch > 4 else 1.0) * (1.0 + noise * (-1) ** number)

    for batch, found in by_batch(rounds(seconds)).items():
        assert found == pytest.approx(seconds(batch, 0) / (1.0 + noise), rel=0.002 + noise)


def test_a_sweep_of_one_context_tells_nothing_of_context() -> None:
    """Else its few contexts, which grow with the batch, would take all of what passes take in use."""
    rng = np.random.default_rng(0)
    noisy = swept(PLANTED, noisy=lambda s: s * (1.0 + 0.2 * rng.random())).decode
    short = [one for one in noisy if one.context == 50 * one.batch]
    cost = fit_cost(loaded(*LOADS, decode=short)).cost
    assert cost.context_s == 0.0
    assert cost.iteration(16, 0.0) == pytest.approx(planted_pass(16, 1) + 16 * 150 * PLANTED.context_s, rel=1e-3)
    steep = [one.model_copy(update={"seconds": 1e-4 * one.context}) for one in SWEPT.decode]
    assert fit_cost(loaded(*LOADS, decode=steep)).cost.iteration(32, 0.0) > 0.0


def test_what_prompts_save_by_joining_comes_from_the_loads() -> None:
    """A pass that reads takes 24 ms, 38 with a drafter; passes of 31 sequences take longer, and tell nothing."""
    timed = loaded(*LOADS)
    sweep = fit_cost(timed).sweep
    assert sweep.join == JoinLaw(pytest.approx(PLANTED.prefill(40) - 0.024), pytest.approx(0.0, abs=1e-6), 0.0)
    assert sweep.shared_s == pytest.approx(PLANTED.prefill(40) - 0.024 + planted_pass(1, 1))
    slow = replace(fit_passes(timed, method="draft-model")[4], prefill_s=0.05)
    law = join_law(timed, slow, "draft-model")
    assert law.outside_s == pytest.approx(0.05 - 0.038)
    assert join_law(timed, slow, "eagle") is None
    beside = [PrefillSample(tokens=40, seconds=0.002, beside=1)] * 3
    unloaded = SWEPT.model_copy(update={"prefill": [*SWEPT.prefill, *beside]})
    assert fit_cost(unloaded).sweep.shared_s == pytest.approx(PLANTED.prefill(40) - 0.002)
    assert join_law(SWEPT, PLANTED) is None


@pytest.mark.parametrize(("share", "token_s"), [(0.0, 0.0), (0.4, 0.0), (0.4, 1e-3), (1.0, 1e-3)])
def test_how_much_of_a_pass_reading_adds_to_comes_from_several_loads(share: float, token_s: float) -> None:
    """Planted: a part of the pass, a fixed time, and a time for each token beyond that of a single prompt."""

    def read(batch: int, joiners: int) -> JoinedSums:
        tokens = 40 * joiners
        seconds = share * PLANTED.iteration(batch, 0.0) + PLANTED.prefill(tokens) + token_s * tokens + 0.01
        return JoinedSums(batch, joiners, 3, 3, 0, 3 * tokens, 3 * batch, 3 * seconds)

    joined = [read(batch, joiners) for batch in (1, 3, 7) for joiners in (1, 2, 3)]
    timed = SWEPT.model_copy(update={"by_load": [loop(8).model_copy(update={"joined": joined})]})
    law = join_law(timed, PLANTED)
    assert law == pytest.approx((-0.01, share, token_s), abs=1e-6)
    cost = Joined(PLANTED, law)
    (two,) = (one for one in joined if (one.batch, one.joiners) == (7, 2))
    assert cost.mixed(7, 0.0, 80.0, 0.0) == pytest.approx(two.seconds / two.n)
    assert Joined(PLANTED, law.slower(2.0)).mixed(0, 0.0, 80.0, 0.0) == PLANTED.prefill(80)
