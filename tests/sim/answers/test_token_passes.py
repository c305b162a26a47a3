"""Passes below the step level: the closed form to three standard errors, the recorded ones exactly, and their laws."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pass_laws import mean_passes, tokens_of_a_pass
from refusals import refused
from scipy import stats
from sim_worlds import drawn_answers

from sim.algorithms import autoregressive, lookahead_async
from sim.answers.acceptance import Acceptance
from sim.answers.drawn import SyntheticBehaviour
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.answers.token_passes import DrawnPasses, PassedStep, RecordedPasses, SpeculatedAnswer, cut
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.engines.pass_costs import PassCost, PassTable, RowsAsBatch
from sim.operations import WAIT, Cancel, Generate, Step, prompt
from sim.roles import DRAFT, JUDGE, TARGET
from sim.trial import run_answer

THREE_SIGMA = 2 * stats.norm.sf(3.0)  # 2.7e-3: how often a true closed form would fail one comparison
VECTORS = {
    "draft model": tokens_of_a_pass([0.8] * 3),
    "eagle": tokens_of_a_pass([0.85, 0.7, 0.6, 0.5]),
    "lookup": np.array([0.7, 0.057, 0.0486, 0.1944]),
    "nothing": tokens_of_a_pass([0.0]),
    "perfect": tokens_of_a_pass([1.0] * 5),
}


def behaviour(mean: float, *, cv: float = 0.0, steps: int = 6, seed: int = 0) -> SyntheticBehaviour:
    length = Fixed(int(mean)) if cv == 0.0 else Lognormal(mean=mean, cv=cv)
    return drawn_answers(length, alpha=0.7, steps=steps, seed=seed)


def seconds(
    source: DrawnPasses | RecordedPasses | None, one: SyntheticBehaviour, index: int, cost: LinearCost
) -> float:
    answer = one.answer(index)
    if source is not None:
        answer = SpeculatedAnswer(answer, {TARGET: source}, index)  # type: ignore[assignment]
    session = run_answer(autoregressive, answer, {TARGET: BatchEngine(cost)})
    assert session.finished is not None
    return session.finished


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("n_tokens", [2, 21])
def test_passes_agree_with_the_closed_form(name: str, n_tokens: int) -> None:
    """Iterations of 1 s, nothing else: an answer's seconds are its passes, N(n - 1) for each of its 6 steps.

    The mean of 200 answers lies within 3 standard errors: a true closed form fails with probability 2.7e-3 in each of
    ten comparisons over seeds (the seed is fixed). The standard error is at most 2 % of the mean (checked).
    """
    pmf = VECTORS[name]
    source, one = DrawnPasses(pmf=tuple(pmf), seed=3), behaviour(n_tokens)
    found = np.array([seconds(source, one, i, LinearCost(base_s=1.0)) for i in range(200)])
    expected = 6 * mean_passes(n_tokens - 1, pmf)
    stderr = found.std(ddof=1) / np.sqrt(found.size)
    assert stderr <= 0.02 * expected
    assert abs(found.mean() - expected) <= max(3 * stderr, 1e-9)


def test_steps_are_decoded_as_requests_of_their_length_were() -> None:
    short, long = ((2, (2,)),) * 20, ((40, (1,) * 40),) * 20
    source = RecordedPasses(requests=short + long, neighbours=12)
    generate = Generate(TARGET, prompt(3))
    assert all(source.passes(i, generate, 2).tokens == (2,) for i in range(30))
    assert all(source.passes(i, generate, 40).tokens == (1,) * 40 for i in range(30))


def test_resampling_keeps_the_recorded_tokens_per_pass() -> None:
    """At a recorded length with many requests: the mean number of passes is the recorded mean, 3 sigma of 2000."""
    rng = np.random.default_rng(5)
    requests = tuple((12, cut(rng.integers(1, 5, 12).tolist(), 12)) for _ in range(50))
    source = RecordedPasses(requests=requests, neighbours=50)
    generate = Generate(TARGET, prompt(3))
    found = np.array([len(source.passes(i, generate, 12)) for i in range(2000)])
    expected = np.mean([len(passes) for _, passes in requests])
    assert abs(found.mean() - expected) <= 3 * found.std() / np.sqrt(2000)


@given(passes=st.lists(st.integers(1, 9), min_size=1, max_size=30), n=st.integers(0, 40), index=st.integers(0, 2**32))
def test_passes_sum_to_the_tokens_and_only_the_last_is_cut(passes: list[int], n: int, index: int) -> None:
    source = RecordedPasses(requests=((sum(passes), tuple(passes)),))
    found = source.passes(index, Generate(TARGET, prompt(1)), n).tokens
    assert sum(found) == n
    assert all(part >= 1 for part in found)
    endless = passes * (n + 1)
    assert list(found[:-1]) == endless[: max(len(found) - 1, 0)]


@pytest.mark.parametrize("name", VECTORS)
def test_a_step_has_as_many_passes_whether_it_is_drawn_alone_or_among_others(name: str) -> None:
    """Steps of no token, of few, and one longer than what is drawn at once; of some the first draw is too short."""
    source, rng = DrawnPasses(pmf=tuple(VECTORS[name]), seed=4), np.random.default_rng(7)
    n_tokens = np.array([0, 1, 2, 400_000, *rng.integers(0, 60, 400), *rng.integers(0, 900, 60)])
    indices, depths = rng.integers(0, 2**40, n_tokens.size), rng.integers(-1, 50, n_tokens.size)
    found = source.numbers(indices, TARGET, depths, n_tokens)
    for i, depth, n, number in zip(indices.tolist(), depths.tolist(), n_tokens.tolist(), found.tolist(), strict=True):
        prefix = prompt(1)
        prefix.depth = depth
        passes = source.passes(i, Generate(TARGET, prefix), n)
        assert len(passes) == number
        assert passes.committed(number) == n


def test_tokens_of_passes_are_those_of_the_distribution() -> None:
    """Chi-square of 200,000 passes over many steps, and none longer than 5 where that has no probability."""
    pmf = (0.3, 0.0, 0.25, 0.2, 0.25, 0.0)
    source = DrawnPasses(pmf=pmf, seed=1)
    drawn = np.concatenate([source.passes(i, Generate(TARGET, prompt(1)), 3_000).tokens[:-1] for i in range(220)])
    counts = np.bincount(drawn, minlength=7)[1:]
    present = np.array(pmf) > 0.0
    assert counts[~present].sum() == 0
    assert stats.chisquare(counts[present], drawn.size * np.array(pmf)[present]).pvalue > THREE_SIGMA
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) <= 3.0 / np.sqrt(drawn.size)


@given(index=st.integers(0, 10**6), k1=st.integers(1, 4))
def test_every_schedule_meets_the_same_passes(index: int, k1: int) -> None:
    one = behaviour(12.0, cv=0.5)
    source = DrawnPasses(pmf=tuple(VECTORS["eagle"]))
    engines = {role: BatchEngine(LinearCost(base_s=s, prefill_s=s)) for role, s in ((TARGET, 1.0), (DRAFT, 0.2))}
    engines[JUDGE] = engines[TARGET]

    def met(k: int) -> dict[int, tuple[int, ...]]:
        answer = SpeculatedAnswer(one.answer(index), {TARGET: source}, index)
        session = run_answer(lambda root: lookahead_async(root, k1=k), answer, engines)
        return {
            op.result.depth: op.result.passes.tokens
            for op in session.operations
            if isinstance(op, Generate) and isinstance(op.result, PassedStep) and op.result.passes
        }

    other = met(5)
    assert all(other.get(depth, passes) == passes for depth, passes in met(k1).items())


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

    one = SyntheticBehaviour(
        lengths=Lengths(target=Fixed(20), draft=Fixed(11)), acceptance=Acceptance(alpha=1.0), steps=Fixed(1)
    )
    answer = SpeculatedAnswer(one.answer(0), {TARGET: DrawnPasses(pmf=(0.0, 0.0, 1.0))}, 0)
    engines = {TARGET: BatchEngine(LinearCost(base_s=1.0)), DRAFT: BatchEngine(LinearCost(base_s=0.25))}
    run_answer(algorithm, answer, engines)
    assert found == [7]
    checked_runs.clear()  # no method: it commits nothing


# What a pass costs


def test_a_pass_costs_the_mean_over_the_rows_of_the_neediest() -> None:
    """Half the passes draft 3 tokens: alone 0.5 (1 + 4), in twos 0.25 x 1 + 0.75 x 4; drafting takes 0.1 each.

    Where each sequence gets its own rows, two cost 2.5 on average as well: 1, 2.5 (twice) or 4.
    """
    plain = LinearCost(base_s=1.0)
    cost = PassCost(
        inner=plain, wide=PassTable({1: plain, 4: LinearCost(base_s=4.0)}), rows={1: 0.5, 4: 0.5}, draft_s=0.1
    )
    assert cost.iteration(1, 0.0) == pytest.approx(2.5 + 0.1)
    assert cost.iteration(2, 0.0) == pytest.approx(0.25 + 3.0 + 0.2)
    ragged = replace(cost, padded=False)
    assert ragged.iteration(1, 0.0) == pytest.approx(2.5 + 0.1)
    assert ragged.iteration(2, 0.0) == pytest.approx(2.5 + 0.2)


def test_a_draft_model_drafts_for_a_batch_at_once() -> None:
    plain, drafter = LinearCost(base_s=1.0), LinearCost(base_s=0.2, sequence_s=0.1)
    cost = PassCost(inner=plain, wide=RowsAsBatch(plain), rows={3: 1.0}, draft_s=0.6, drafter=drafter)
    assert cost.iteration(2, 0.0) - cost.iteration(1, 0.0) == pytest.approx(0.6 * (0.4 / 0.3 - 1.0))


@given(context=st.floats(0.0, 1e5), batch=st.integers(1, 8))
def test_costs_are_linear_in_the_context(context: float, batch: int) -> None:
    """Kept as two points: the rounding of a difference over 1024 tokens, 1e-12 relative with room."""
    plain = LinearCost(base_s=0.01, context_s=1e-6)
    cost = PassCost(inner=plain, wide=RowsAsBatch(plain), rows={2: 1.0}, factor=1.3)
    assert cost.iteration(batch, context) == pytest.approx(1.3 * plain.iteration(2 * batch, context), rel=1e-11)


test_what_makes_no_sense_is_refused = refused(
    lambda make: make(),
    (lambda: DrawnPasses(pmf=(0.5, 0.4)), "^pmf="),
    (lambda: DrawnPasses(pmf=()), "^pmf="),
    (lambda: RecordedPasses(requests=()), "^requests="),
    (lambda: RecordedPasses(requests=((5, (2, 2)),)), "^requests="),
    (lambda: PassTable({2: LinearCost(base_s=1.0)}), "^by_rows="),
    (lambda: PassCost(inner=LinearCost(base_s=1.0), wide=RowsAsBatch(LinearCost(base_s=1.0)), rows={1: 0.5}), "rows"),
)
