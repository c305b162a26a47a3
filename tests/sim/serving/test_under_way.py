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
PROMPT, MEAN = 100, 300
VARIED = Lognormal(mean=float(MEAN), cv=0.8)


def trial(length: Marginal, steps: int = 1, k: int = 0) -> Trial:
    behaviour = drawn_answers(length, alpha=0.0, steps=steps, prompt_tokens=PROMPT, seed=3)
    made = Trial.of(autoregressive, behaviour, {TARGET: ServingEngine(Joined(COST, ADDED))}, meets="plain")
    return made.speculating({TARGET: DrawnPasses(pmf=(0.5, *(0.5 / k for _ in range(k))), seed=3)} if k else {})


@pytest.mark.parametrize("n", [3, 10, 40])
def test_equal_answers_are_met_at_evenly_spaced_tokens(n: int) -> None:
    """At the same token they would end together and go on in step for ever."""
    met, following = under_way(trial(Fixed(120)), n, 0)
    ages = sorted(text.context_tokens - PROMPT for _, text in met)
    assert following > n
    assert len(ages) == n
    assert set(np.diff(ages)) <= {120 // n}


def test_long_answers_are_met_more_often_and_anywhere_in_them() -> None:
    """The mean age is E[L^2] / 2 E[L]: of lognormal lengths (1 + cv^2) / 2 means (renewal theory)."""
    met = [text for first in range(40) for _, text in under_way(trial(VARIED), 50, first << 24)[0]]
    ages = np.array([text.context_tokens - PROMPT for text in met])
    expected = MEAN * (1.0 + 0.8**2) / 2.0
    assert abs(ages.mean() - expected) < 5.0 * ages.std() / len(ages) ** 0.5


@pytest.mark.parametrize("k", [0, 3])
def test_the_rest_has_the_tokens_that_are_left(k: int) -> None:
    for answer, text in under_way(trial(VARIED, k=k), 20, 0)[0]:
        rest = answer.generate(Generate(TARGET, text))
        whole = sum(answer.written_lengths())  # type: ignore[attr-defined]
        assert rest.n_tokens + text.context_tokens - PROMPT == whole
        assert rest.final
        assert rest.passes is None if not k else sum(rest.passes.tokens) == rest.n_tokens - 1


@pytest.mark.parametrize(
    "limits", [ServingLimits(), ServingLimits(cache_tokens=4_000.0), ServingLimits(max_sequences=7)]
)
def test_sizes_tell_the_same_as_the_answers_of_which_the_engine_has_places_for_no_more(limits: ServingLimits) -> None:
    one = trial(VARIED)
    met, following = under_way(one, 20, 1 << 30, limits)
    indices, (prompts, written, left), after = sizes_under_way(one, 20, 1 << 30, limits)
    texts = [text.context_tokens for _, text in met]
    assert after == following
    assert texts == (prompts + written).tolist()
    assert [answer.index for answer, _ in met] == indices.tolist()  # type: ignore[attr-defined]
    assert [answer.generate(Generate(TARGET, text)).n_tokens for answer, text in met] == left.tolist()
    assert len(texts) == 20 if limits == ServingLimits() else len(texts) < 20
    assert len(texts) <= limits.max_sequences
    assert sum(texts) + len(texts) <= limits.cache_tokens


def test_answers_of_steps_go_on_after_a_whole_step() -> None:
    for answer, text in under_way(trial(Fixed(5), steps=10), 7, 0)[0]:
        depth, part = divmod(text.context_tokens - PROMPT, 5)
        assert part == 0
        assert answer.generate(Generate(TARGET, text)).depth == depth


@pytest.mark.parametrize("k", [0, 3])
def test_a_loop_that_begins_under_way_is_in_its_equilibrium(k: int) -> None:
    """Windows after a quarter of a life deliver what those after four lives do: the difference is below 2 %."""
    one, life = trial(VARIED, k=k), MEAN * 16

    def throughputs(before: int) -> np.ndarray:
        window = {"concurrency": 16, "tokens": before + life, "warmup_tokens": before}
        loads = [closed_loop(one, **window, met_under_way=True, first=number << 24) for number in range(24)]
        return np.array([load.tokens_per_s for load in loads])

    early, late = throughputs(life // 4), throughputs(4 * life)
    error = np.hypot(early.std(ddof=1), late.std(ddof=1)) / 24**0.5
    assert error < 0.01 * late.mean()
    assert abs(early.mean() - late.mean()) < 3.0 * error + 0.005 * late.mean()
