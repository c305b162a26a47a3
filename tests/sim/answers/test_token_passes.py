"""Passes below the step level: the laws of drawn ones, recorded ones exactly, and what they cost."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pass_laws import tokens_of_a_pass, tokens_of_guesses
from refusals import refused
from scipy import stats
from sim_worlds import drawn_answers

from sim.answers.token_passes import DrawnPasses, RecordedPasses, SpeculatedAnswer, cut
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.engines.pass_costs import PassCost, PassTable, RowsAsBatch
from sim.operations import WAIT, Cancel, Generate, Step, prompt
from sim.roles import DRAFT, TARGET
from sim.trial import run_answer

THREE_SIGMA = 2 * stats.norm.sf(3.0)  # 2.7e-3: how often a true law would fail one comparison; seeds are fixed
LAWS = {
    "draft model": tokens_of_a_pass([0.8] * 3),
    "eagle": tokens_of_a_pass([0.85, 0.7, 0.6, 0.5]),
    "lookup": np.array([0.7, 0.057, 0.0486, 0.1944]),
    "n-grams": tokens_of_guesses(0.425, 3.106, 7, 5),
    "gaps": np.array([0.3, 0.0, 0.25, 0.2, 0.25, 0.0]),
    "nothing": tokens_of_a_pass([0.0]),
    "perfect": tokens_of_a_pass([1.0] * 5),
}
ASKED = Generate(TARGET, prompt(3))
PLAIN = LinearCost(base_s=1.0)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_tokens_of_passes_are_those_of_the_distribution(law: np.ndarray) -> None:
    """Chi-square of 220 long steps, none that has no probability, and no correlation of neighbours."""
    source = DrawnPasses(pmf=tuple(law), seed=1)
    drawn = np.concatenate([source.passes(i, ASKED, 3_000).tokens[:-1] for i in range(220)])
    counts = np.bincount(drawn, minlength=law.size + 1)[1:]
    assert counts[law == 0.0].sum() == 0
    if (law > 0.0).sum() > 1:
        assert stats.chisquare(counts[law > 0.0], drawn.size * law[law > 0.0]).pvalue > THREE_SIGMA
        assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) <= 3.0 / np.sqrt(drawn.size)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_a_step_has_as_many_passes_whether_it_is_drawn_alone_or_among_others(law: np.ndarray) -> None:
    """Steps of no token, of few, and one longer than what is drawn at once; of some the first draw is too short."""
    source, rng = DrawnPasses(pmf=tuple(law), seed=4), np.random.default_rng(7)
    n_tokens = np.array([0, 1, 2, 400_000, *rng.integers(0, 60, 400), *rng.integers(0, 900, 60)])
    indices, depths = rng.integers(0, 2**40, n_tokens.size), rng.integers(-1, 50, n_tokens.size)
    found = source.numbers(indices, TARGET, depths, n_tokens)
    for i, depth, n, number in zip(indices.tolist(), depths.tolist(), n_tokens.tolist(), found.tolist(), strict=True):
        prefix = prompt(1)
        prefix.depth = depth
        passes = source.passes(i, Generate(TARGET, prefix), n)
        assert len(passes) == number
        assert passes.committed(number) == n
        assert passes.committed(number - 1) < n or not n  # none is left over


def test_steps_are_decoded_as_requests_of_their_length_were() -> None:
    source = RecordedPasses(requests=((2, (2,)),) * 20 + ((40, (1,) * 40),) * 20, neighbours=12)
    assert all(source.passes(i, ASKED, 2).tokens == (2,) for i in range(30))
    assert all(source.passes(i, ASKED, 40).tokens == (1,) * 40 for i in range(30))


def test_resampling_keeps_the_recorded_tokens_per_pass() -> None:
    """At a recorded length with many requests: the mean number of passes is the recorded mean, 3 sigma of 2000."""
    rng = np.random.default_rng(5)
    requests = tuple((12, cut(rng.integers(1, 5, 12).tolist(), 12)) for _ in range(50))
    source = RecordedPasses(requests=requests, neighbours=50)
    found = np.array([len(source.passes(i, ASKED, 12)) for i in range(2000)])
    expected = np.mean([len(passes) for _, passes in requests])
    assert abs(found.mean() - expected) <= 3 * found.std() / np.sqrt(2000)


@given(passes=st.lists(st.integers(1, 9), min_size=1, max_size=30), n=st.integers(0, 40), index=st.integers(0, 2**32))
def test_passes_sum_to_the_tokens_and_only_the_last_is_cut(passes: list[int], n: int, index: int) -> None:
    source = RecordedPasses(requests=((sum(passes), tuple(passes)),))
    found = source.passes(index, ASKED, n).tokens
    assert sum(found) == n
    assert all(part >= 1 for part in found)
    assert list(found[:-1]) == (passes * (n + 1))[: max(len(found) - 1, 0)]


def test_a_cancelled_request_has_generated_what_its_passes_gave(checked_runs: dict[object, object]) -> None:
    """Passes of 3 tokens end at 1, 2, 3 s: cancelled at 2.5 s in the third, 1 + 3 + 3 tokens are there."""
    found: list[int] = []

    def algorithm(root: Step):  # type: ignore[no-untyped-def]
        long, short = Generate(TARGET, root), Generate(DRAFT, root)
        yield long
        yield short
        done = yield WAIT
        assert done is short
        yield Cancel(long)
        found.append(long.n_generated)

    inner = drawn_answers(20, alpha=1.0, steps=1).answer(0)
    answer = SpeculatedAnswer(inner, {TARGET: DrawnPasses(pmf=(0.0, 0.0, 1.0))}, 0)
    # The first token of the draft's 20 takes no time.
    engines = {TARGET: BatchEngine(PLAIN), DRAFT: BatchEngine(LinearCost(base_s=2.5 / 19))}
    run_answer(algorithm, answer, engines)
    assert found == [7]
    checked_runs.clear()  # no method: it commits nothing


# What a pass costs


@pytest.mark.parametrize(("padded", "two"), [(True, 0.25 + 3.0 + 0.2), (False, 2.5 + 0.2)])
def test_a_pass_costs_the_mean_over_the_rows_of_the_neediest(padded: bool, two: float) -> None:
    """Half the passes draft 3 tokens: alone 0.5 (1 + 4), in twos 0.25 x 1 + 0.75 x 4; drafting takes 0.1 each.

    Where each sequence gets its own rows, two cost 2.5 on average as well: 1, 2.5 (twice) or 4.
    """
    wide = PassTable({1: PLAIN, 4: LinearCost(base_s=4.0)})
    cost = PassCost(inner=PLAIN, wide=wide, rows={1: 0.5, 4: 0.5}, draft_s=0.1, padded=padded)
    assert cost.iteration(1, 0.0) == pytest.approx(2.5 + 0.1)
    assert cost.iteration(2, 0.0) == pytest.approx(two)


@given(context=st.floats(0.0, 1e5), batch=st.integers(1, 8))
def test_costs_are_linear_in_the_context_and_a_draft_model_drafts_for_a_batch_at_once(
    context: float, batch: int
) -> None:
    """Kept as two points: the rounding of a difference over 1024 tokens, 1e-12 relative with room."""
    plain, drafter = LinearCost(base_s=0.01, context_s=1e-6), LinearCost(base_s=0.2, sequence_s=0.1)
    cost = PassCost(inner=plain, wide=RowsAsBatch(plain), rows={2: 1.0}, factor=1.3)
    wide = 1.3 * plain.iteration(2 * batch, context)
    assert cost.iteration(batch, context) == pytest.approx(wide, rel=1e-11)
    drafting = replace(cost, draft_s=0.6, drafter=drafter)
    assert drafting.iteration(batch, context) == pytest.approx(wide + 0.6 * (0.2 + 0.1 * batch) / 0.3, rel=1e-11)


test_what_makes_no_sense_is_refused = refused(
    lambda make: make(),
    (lambda: DrawnPasses(pmf=(0.5, 0.4)), "^pmf="),
    (lambda: DrawnPasses(pmf=()), "^pmf="),
    (lambda: RecordedPasses(requests=()), "^requests="),
    (lambda: RecordedPasses(requests=((5, (2, 2)),)), "^requests="),
    (lambda: PassTable({2: PLAIN}), "^by_rows="),
    (lambda: PassCost(inner=PLAIN, wide=RowsAsBatch(PLAIN), rows={1: 0.5}), "rows"),
)
