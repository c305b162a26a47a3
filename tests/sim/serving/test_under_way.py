"""Answers met in the middle of their lives: where, how often, and that a loop which begins so stays as it is."""

import numpy as np
import pytest
from sim_worlds import drawn_answers

from sim.algorithms.autoregressive import autoregressive
from sim.answers.lengths import Fixed, Lognormal, Marginal
from sim.answers.token_passes import DrawnPasses
from sim.engines.costs import LinearCost
from sim.operations import Generate
from sim.roles import TARGET
from sim.serving.engine import ServingEngine
from sim.serving.limits import ADDED, Joined, ServingLimits
from sim.serving.run import closed_loop
from sim.serving.under_way import sizes_under_way, under_way
from sim.trial import Trial

COST = LinearCost(base_s=0.02, sequence_s=0.001, context_s=1e-6, prefill_s=0.01, prefill_token_s=1e-5)
MEAN = 300


def trial(length: Marginal, steps: int = 1, prompt: int = 100, k: int = 0) -> Trial:
    behaviour = drawn_answers(length, alpha=0.0, steps=steps, prompt_tokens=prompt, seed=3)
    made = Trial.of(autoregressive, behaviour, {TARGET: ServingEngine(Joined(COST, ADDED))}, meets="plain")
    return made.speculating({TARGET: DrawnPasses(pmf=(0.5, *(0.5 / k for _ in range(k))), seed=3)} if k else {})


@pytest.mark.parametrize("n", [3, 10, 40])
def test_equal_answers_are_met_at_evenly_spaced_tokens(n: int) -> None:
    """At the same token they would end together and go on in step for ever."""
    met, following = under_way(trial(Fixed(120)), n, 0)
    ages = sorted(text.context_tokens - 100 for _, text in met)
    assert following > n
    assert len(ages) == n
    assert set(np.diff(ages)) <= {120 // n}


def test_a_loop_of_equal_answers_keeps_littles_law() -> None:
    """Prompts that stop others while they are read: in step, those that are seen to end would take longer than most."""
    n, tokens = 40, 200
    load = closed_loop(trial(Fixed(tokens), prompt=2_000), concurrency=n, tokens=2 * n * tokens, met_under_way=True)
    assert load.tokens_per_s * load.seconds_per_token().value == pytest.approx(n, rel=0.01)


def test_long_answers_are_met_more_often_and_anywhere_in_them() -> None:
    """The mean age is E[L^2] / 2 E[L]: of lognormal lengths (1 + cv^2) / 2 means (renewal theory)."""
    one = trial(Lognormal(mean=float(MEAN), cv=0.8))
    ages = [text.context_tokens - 100 for first in range(40) for _, text in under_way(one, 50, first << 24)[0]]
    expected = MEAN * (1.0 + 0.8**2) / 2.0
    assert abs(np.mean(ages) - expected) < 5.0 * np.std(ages) / len(ages) ** 0.5


@pytest.mark.parametrize("k", [0, 3])
def test_the_rest_has_the_tokens_that_are_left(k: int) -> None:
    one = trial(Lognormal(mean=float(MEAN), cv=0.8), k=k)
    for answer, text in under_way(one, 20, 0)[0]:
        rest = answer.generate(Generate(TARGET, text))
        whole = sum(answer.written_lengths())  # type: ignore[attr-defined]
        assert rest.n_tokens + text.context_tokens - 100 == whole
        assert rest.final
        if rest.passes is not None:
            assert sum(rest.passes.tokens) == rest.n_tokens - 1


@pytest.mark.parametrize(
    "limits", [ServingLimits(), ServingLimits(cache_tokens=4_000.0), ServingLimits(max_sequences=7)]
)
def test_sizes_tell_the_same_as_the_answers(limits: ServingLimits) -> None:
    one = trial(Lognormal(mean=float(MEAN), cv=0.8))
    met, following = under_way(one, 20, 1 << 30, limits)
    indices, (prompts, written, left), after = sizes_under_way(one, 20, 1 << 30, limits)
    assert after == following
    assert [text.context_tokens for _, text in met] == (prompts + written).tolist()
    assert [answer.index for answer, _ in met] == indices.tolist()  # type: ignore[attr-defined]
    assert [answer.generate(Generate(TARGET, text)).n_tokens for answer, text in met] == left.tolist()


def test_answers_of_steps_go_on_after_a_whole_step() -> None:
    for answer, text in under_way(trial(Fixed(5), steps=10), 7, 0)[0]:
        assert (text.context_tokens - 100) % 5 == 0
        assert answer.generate(Generate(TARGET, text)).depth == (text.context_tokens - 100) // 5


def test_no_more_are_met_than_the_engine_has_places_for() -> None:
    one = trial(Fixed(100))
    assert len(under_way(one, 50, 0, ServingLimits(max_sequences=8))[0]) == 8
    met, _ = under_way(one, 50, 0, ServingLimits(cache_tokens=1_000.0))
    assert sum(text.context_tokens for _, text in met) <= 1_000


@pytest.mark.parametrize("k", [0, 3])
def test_a_loop_that_begins_under_way_is_in_its_equilibrium(k: int) -> None:
    """Windows after a quarter of a life deliver what those after four lives do: the difference is below 2 %."""
    one = trial(Lognormal(mean=float(MEAN), cv=0.8), k=k)

    def throughputs(lives: float) -> np.ndarray:
        before, life = round(lives * MEAN * 16), MEAN * 16
        loads = [
            closed_loop(
                one, concurrency=16, tokens=before + life, warmup_tokens=before, met_under_way=True, first=number << 24
            )
            for number in range(24)
        ]
        return np.array([load.tokens_per_s for load in loads])

    early, late = throughputs(0.25), throughputs(4.0)
    error = np.hypot(early.std(ddof=1), late.std(ddof=1)) / 24**0.5
    assert error < 0.01 * late.mean()
    assert abs(early.mean() - late.mean()) < 3.0 * error + 0.005 * late.mean()
