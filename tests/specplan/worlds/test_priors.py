"""Priors of acceptance: laws that every world obeys, one latent world behind all k2, and refusals."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.worlds.prior_constants import DOMAIN_OF, constants
from specplan.worlds.priors import (
    MOST_DRAFTS,
    Prior,
    TokenCurve,
    step_length_prior,
    step_prior,
    token_curves,
    token_prior,
)
from theory.errors import ParameterError

METHODS = ("eagle3", "eagle", "mtp", "draft-model", "prompt-lookup")
BLOCKS = ("dflash", "dspark")
DOMAINS = (None, "gsm8k", "code", "finance")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("domain", DOMAINS)
def test_tokens_grow_with_k2_and_never_beyond_it(method: str, domain: str | None) -> None:
    priors = [token_prior(method, k2, domain) for k2 in range(1, MOST_DRAFTS + 2)]
    assert (priors[0].low, priors[0].value, priors[0].high) == (1.0, 1.0, 1.0)
    for k2, (fewer, more) in enumerate(pairwise(priors), start=2):
        assert fewer.value < more.value < k2
        assert fewer.low <= more.low
        assert more.low < more.value < more.high < k2


@given(st.sampled_from(METHODS), st.sampled_from(DOMAINS), st.integers(0, 2**32 - 1))
def test_a_world_is_one_curve_for_all_k2(method: str, domain: str | None, seed: int) -> None:
    curve = token_curves(method, domain).draw(np.random.default_rng(seed))
    assert curve == token_curves(method, domain).draw(np.random.default_rng(seed))
    tokens = [curve.tokens(k2) for k2 in range(1, 10)]
    gained = np.diff(tokens)
    assert np.all(gained > 0)
    assert np.all(np.diff(gained) <= 0)  # a later token is accepted only if all before it were


@pytest.mark.parametrize("method", BLOCKS)
@pytest.mark.parametrize("domain", DOMAINS)
def test_longer_blocks_are_less_often_right_at_each_position(method: str, domain: str | None) -> None:
    curves = token_curves(method, domain)
    assert curves.slopes is not None
    assert curves.at(curves.drafted) == pytest.approx(curves.worlds[:, : curves.drafted])
    assert curves.at(0).shape == (len(curves.worlds), 0)
    falling = curves.slopes[:, 0] > 0.0
    assert falling.mean() > 0.8
    for k in (1, 3, 7):
        assert np.all(curves.at(k)[falling] >= curves.at(k + 1)[falling, :k])
    for k2 in (2, 6, 8):
        prior = token_prior(method, k2, domain)
        assert 1.0 < prior.low < prior.value < prior.high < k2
    best = curves.chosen(np.array([3])).draw(np.random.default_rng(0))
    assert best.tokens(6) == pytest.approx(1.0 + np.cumprod(curves.at(5)[3]).sum())


def test_blocks_of_dflash_lose_more_by_their_length_than_those_of_dspark() -> None:
    lost = {}
    for method in ("dflash", "dspark"):
        curves = token_curves(method)
        lost[method] = float(np.median(curves.at(3)[:, 0] - curves.at(15)[:, 0]))
    assert lost["dflash"] == pytest.approx(0.10, abs=0.02), "of the first position's acceptance"
    assert lost["dspark"] == pytest.approx(0.015, abs=0.005)


def test_drawn_worlds_have_the_prior_s_mean_and_interval() -> None:
    curves, prior = token_curves("eagle3", "code"), token_prior("eagle3", 6, "code")
    rng = np.random.default_rng(1)
    drawn = np.array([curves.draw(rng).tokens(6) for _ in range(2000)])
    assert drawn.mean() == pytest.approx(prior.value, abs=5 * drawn.std() / np.sqrt(2000))
    inside = np.mean((prior.low <= drawn) & (drawn <= prior.high))
    assert inside == pytest.approx(0.95, abs=5 * np.sqrt(0.95 * 0.05 / 2000))
    pairs = np.array([(world.tokens(4), world.tokens(9)) for world in (curves.draw(rng) for _ in range(500))])
    assert np.corrcoef(pairs.T)[0, 1] > 0.9  # one level and slope behind both


def test_quantiles_and_draws() -> None:
    prior = step_prior("gsm8k")
    assert prior.quantile(0.025) == pytest.approx(prior.low, abs=1e-3)
    assert prior.quantile(0.0) < prior.low < prior.quantile(0.5) < prior.high < prior.quantile(1.0)
    drawn = np.array([prior.draw(rng) for rng in [np.random.default_rng(3)] for _ in range(2000)])
    assert drawn.mean() == pytest.approx(prior.value, abs=5 * drawn.std() / np.sqrt(2000))
    with pytest.raises(ParameterError, match=r"u=1.5 must be in \[0, 1\]"):
        prior.quantile(1.5)


def test_a_known_task_narrows_the_interval() -> None:
    def width(prior: Prior) -> float:
        return prior.high - prior.low

    assert width(step_prior("gsm8k")) < width(step_prior("math")) < width(step_prior())
    assert step_prior("financeqa") == step_prior()  # no steps were published there
    assert width(token_prior("eagle3", 4, "math")) < width(token_prior("eagle3", 4))


def test_published_pairs_lie_inside_and_harder_tasks_below() -> None:
    assert step_prior("gpqa").value < step_prior("aime24").value < step_prior("gsm8k").value
    for task, alphas in {"gsm8k": (0.63, 0.5), "gpqa": (0.35, 0.3), "aime24": (0.47, 0.43)}.items():  # LR, Table 1
        prior = step_prior(task)
        assert all(prior.low < alpha < prior.high for alpha in alphas)


def test_prompt_lookup_reproduces_its_rows() -> None:
    """LR, Table 1: speedups 1.25 to 1.53 at k2 = 9, with rounds of 1.05 plain passes."""
    prior = token_prior("prompt-lookup", 9)
    assert prior.low < 1.05 * 1.25
    assert prior.high > 1.05 * 1.53
    assert prior.value == pytest.approx(1.05 * 1.40, rel=0.03)
    first, *others = token_curves("prompt-lookup").middle.per_position
    assert first < others[0] == others[-1]  # seldom a hit, and then it goes on


def test_what_is_assumed_says_so() -> None:
    for method in ("eagle", "draft-model"):
        prior = token_prior(method, 4)
        assert prior.n == 0
        assert prior.source.startswith("assumed")
    assert token_prior("eagle3", 4).n == 9
    for prior in step_length_prior():
        assert 0.0 < prior.low < prior.value < prior.high


def test_every_data_set_has_a_kind_of_text() -> None:
    assert set(DOMAIN_OF.values()) == set(constants().domain_level_slope)


def test_refusals() -> None:
    with pytest.raises(ParameterError, match=r"method='egle3' must be one of .*; did you mean 'eagle3'"):
        token_prior("egle3", 4)
    with pytest.raises(ParameterError, match=r"domain='mathh' must be one of .*; did you mean 'math'"):
        token_prior("eagle3", 4, "mathh")
    with pytest.raises(ParameterError, match=r"domain='mathh' must be one of .*; did you mean 'math'"):
        step_prior("mathh")
    for k2 in (0, MOST_DRAFTS + 2, True):
        with pytest.raises(ParameterError, match="k2="):
            token_prior("eagle3", k2)
    with pytest.raises(ParameterError, match=r"k2=4 must be in \[1, 3\]"):
        TokenCurve((0.5, 0.5)).tokens(4)


def test_priors_need_neither_scipy_nor_the_optimisers() -> None:
    code = "import sys, specplan.worlds.priors; print(sorted(m for m in sys.modules if m.startswith('scipy')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
