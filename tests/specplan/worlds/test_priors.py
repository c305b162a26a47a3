"""Priors of acceptance: laws that every world obeys, one latent world behind all k2, and refusals."""

from itertools import pairwise

import numpy as np
import pytest
from refusals import refused

from specplan.worlds.priors import MOST_DRAFTS, Prior, step_prior, token_curves
from theory.errors import ParameterError


def token_prior(method: str, k2: int, domain: str | None = None) -> Prior:
    """What to expect of the tokens of a round."""
    return token_curves(method, domain).tokens(k2)


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


@pytest.mark.parametrize("method", BLOCKS)
@pytest.mark.parametrize("domain", DOMAINS[:2])
def test_longer_blocks_are_less_often_right_at_each_position(method: str, domain: str | None) -> None:
    curves = token_curves(method, domain)
    assert curves.at(curves.drafted) == pytest.approx(curves.worlds[:, : curves.drafted])
    assert curves.at(0).shape == (len(curves.worlds), 0)
    falling = curves.slopes[:, 0] > 0.0
    assert falling.mean() > 0.8
    for k in (1, 3, 7):
        assert np.all(curves.at(k)[falling] >= curves.at(k + 1)[falling, :k])
    for k2 in (2, 6, 8):
        prior = token_prior(method, k2, domain)
        assert 1.0 < prior.low < prior.value < prior.high < k2
    assert curves.chosen(np.array([3])).at(5)[0] == pytest.approx(curves.at(5)[3])


def test_worlds_have_the_prior_s_mean_and_interval() -> None:
    curves, prior = token_curves("eagle3", "code"), token_prior("eagle3", 6, "code")
    few, tokens, many = (1.0 + np.cumprod(curves.at(k), axis=1).sum(axis=1) for k in (3, 5, 8))
    assert tokens.mean() == pytest.approx(prior.value)
    assert np.mean((prior.low <= tokens) & (tokens <= prior.high)) == pytest.approx(0.95, abs=1e-3)
    assert np.corrcoef(few, many)[0, 1] > 0.9  # one level and slope behind both


def test_quantiles() -> None:
    prior = step_prior("gsm8k")
    assert prior.quantile(0.025) == pytest.approx(prior.low, abs=1e-3)
    assert prior.quantile(0.0) < prior.low < prior.quantile(0.5) < prior.high < prior.quantile(1.0)
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
    prior = token_prior("prompt-lookup", 9, "math")
    assert prior.low < 1.05 * 1.25
    assert prior.high > 1.05 * 1.53
    assert prior.quantile(0.5) == pytest.approx(1.05 * 1.40, rel=0.03)
    by_kind = [token_prior("prompt-lookup", 6, kind).quantile(0.5) for kind in ("chat", "code", None)]
    assert 1.12 < by_kind[0] < by_kind[1] < by_kind[2], "fewer than the paper's where vLLM counted (1.12 and 1.31)"
    copied = token_prior("prompt-lookup", 6, "copying")  # served Qwen2.5-7B: gains of 2.78 on A100, 3.51 on H100
    assert prior.quantile(0.5) < copied.quantile(0.5) < 3.51 < copied.high
    assert token_prior("eagle3", 6, "copying") == token_prior("eagle3", 6)
    first, *others = np.median(token_curves("prompt-lookup").worlds, axis=0)
    assert first < others[0] == others[-1]  # seldom a hit, and then it goes on


test_refusals = refused(
    token_prior,
    ("egle3", 4, r"method='egle3' must be one of .*; did you mean 'eagle3'"),
    ("eagle3", 4, "mathh", r"domain='mathh' must be one of .*; did you mean 'math'"),
    *(("eagle3", k2, "k2=") for k2 in (0, MOST_DRAFTS + 2, True)),
)
