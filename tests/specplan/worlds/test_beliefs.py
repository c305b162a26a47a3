"""Beliefs: shares that sum to one, rise with their score, and give way to what the user knows."""

import math
from statistics import NormalDist

import pytest
from deployments import deployment, head_of
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.worlds.beliefs import LONG_PROMPTS, STEP_ACCEPTANCE, STEP_LENGTHS, TOKEN_ACCEPTANCE, Beliefs
from specplan.worlds.drafters.known_acceptance import known_acceptances
from specplan.worlds.priors import long_prompt_prior

METHODS = st.sampled_from(("draft-model", "eagle", "prompt-lookup"))
SCORES = st.floats(-3.0, 3.0)
DEPTHS = st.integers(2, 8)
BELIEFS = Beliefs(deployment())
LONG = Beliefs(deployment(context=8 * 4096 + 200))


@settings(max_examples=30)
@given(method=METHODS, k2=DEPTHS, scores=st.tuples(SCORES, SCORES).map(sorted))
def test_a_pass_commits_up_to_k2_tokens_more_in_better_worlds_and_of_deeper_drafts(
    method: str, k2: int, scores: list[float]
) -> None:
    low, high = scores
    pmf = BELIEFS.pmf(method, k2, low)
    assert len(pmf) == k2
    assert all(share >= 0.0 for share in pmf)
    assert sum(pmf) == pytest.approx(1.0, abs=1e-12)
    tokens, better, deeper = (BELIEFS.tokens_per_pass(method, *one) for one in ((k2, low), (k2, high), (k2 + 1, low)))
    assert 1.0 <= tokens <= k2
    assert tokens <= better * (1 + 1e-9)
    assert tokens <= deeper + 1e-12
    assert BELIEFS.accepted(method, k2 + 1, low)[:-1] == pytest.approx(BELIEFS.accepted(method, k2, low), rel=1e-12)
    assert BELIEFS.alpha1(low) <= BELIEFS.alpha1(high)
    assert BELIEFS.step_tokens(low) <= BELIEFS.step_tokens(high)


@given(alpha=st.floats(0.0, 1.0), k2=DEPTHS, z=SCORES)
def test_what_the_user_knows_is_taken_as_it_is(alpha: float, k2: int, z: float) -> None:
    known = Beliefs(deployment(alpha1=alpha, acceptance=known_acceptances([f"eagle3={alpha:.17f}"])))
    assert known.alpha1(z) == alpha
    assert known.accepted("eagle", k2, z) == pytest.approx((alpha,) * (k2 - 1), abs=1e-15)
    assert known.tokens_per_pass("eagle", k2, z) == pytest.approx(sum(alpha**i for i in range(k2)))
    for other in ("draft-model", "prompt-lookup"):
        assert known.accepted(other, k2, z) == BELIEFS.accepted(other, k2, z), "known of one method, used for no other"


def test_what_is_known_does_not_move() -> None:
    assert BELIEFS.moves(steps=True, token="prompt-lookup") == (STEP_ACCEPTANCE, STEP_LENGTHS, TOKEN_ACCEPTANCE)
    assert BELIEFS.moves(steps=False, token="eagle") == (TOKEN_ACCEPTANCE,)
    assert BELIEFS.moves(steps=False, token=None) == ()
    known = Beliefs(deployment(alpha1=0.7, acceptance=known_acceptances(["ngram=0.8"])))
    assert known.moves(steps=True, token="prompt-lookup") == (STEP_LENGTHS,)
    assert known.moves(steps=False, token="prompt-lookup") == ()
    assert known.moves(steps=False, token="eagle") == (TOKEN_ACCEPTANCE,)


@settings(max_examples=30)
@given(method=st.sampled_from(("eagle", "block-drafter")), k2=DEPTHS, z=SCORES, z_long=SCORES)
def test_heads_and_blocks_lose_by_long_prompts(method: str, k2: int, z: float, z_long: float) -> None:
    """Prompts of 32768 tokens: three doublings beyond those behind the priors."""
    short, after = (one.accepted(method, k2, z, z_long) for one in (BELIEFS, LONG))
    lost = long_prompt_prior().quantile(NormalDist().cdf(-z_long))
    for before, less in zip(short, after, strict=True):
        assert math.log(before / (1.0 - before)) - math.log(less / (1.0 - less)) == pytest.approx(3.0 * lost, abs=1e-6)
    assert LONG.tokens_per_pass(method, k2, z, z_long) <= LONG.tokens_per_pass(method, k2, z, z_long + 0.5) + 1e-9


@pytest.mark.parametrize("method", ["draft-model", "prompt-lookup"])
def test_models_of_their_own_and_lookups_do_not(method: str) -> None:
    assert LONG.accepted(method, 6) == BELIEFS.accepted(method, 6)
    assert LONG_PROMPTS not in LONG.moves(steps=False, token=method)
    assert "prompts" not in LONG.source(method)


def test_what_was_measured_holds_at_the_users_prompts() -> None:
    known = Beliefs(deployment(context=33_000, acceptance=known_acceptances(["eagle3=0.7"])))
    assert known.accepted("eagle", 4) == (0.7,) * 3
    assert known.moves(steps=False, token="eagle") == ()
    assert "less after prompts beyond 4,096 tokens" in LONG.source("eagle")
    assert LONG.moves(steps=False, token="eagle") == (LONG_PROMPTS, TOKEN_ACCEPTANCE)


def test_a_task_and_a_head_are_heard() -> None:
    asked = Beliefs(deployment(task="gsm8k"))
    assert asked.alpha1() != BELIEFS.alpha1()
    headed = Beliefs(deployment(head=head_of("Qwen/Qwen3-8B")))
    assert headed.accepted("eagle", 4) == BELIEFS.accepted("eagle", 4), "a head of the usual size is the usual head"
