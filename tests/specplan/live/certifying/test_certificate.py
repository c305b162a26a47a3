"""Certificates of planted streams: defects are named, lossless servers are not, limits hold, noise is no defect."""

import math
from dataclasses import replace

import numpy as np
import pytest
from speculating import PLANTED, Speculating, laws, listed, stream

from specplan.commands.live.certify import certificate_as_json, certificate_as_text
from specplan.live.certifying.certificate import Stakes, certificate, log_wealth, stakes, strength_limit
from specplan.live.certifying.laws import DEFECTS
from specplan.output import SCREEN, to_json


@pytest.mark.parametrize("name", PLANTED)
def test_defects_are_named_within_2000_tokens(name: str) -> None:
    result = certificate(stream(PLANTED[name], 0))
    assert result.alarm_at is not None
    assert name in [defect.name for defect in result.named[:2]]


@pytest.mark.parametrize("server", [Speculating(), Speculating(one_hot=True), Speculating(k=1)])
def test_lossless_servers_are_certified(server: Speculating) -> None:
    result = certificate(stream(server, 8))
    assert not result.named
    assert result.alarm_at is None
    assert result.changed < 0.1
    assert {one.defect.name for one in result.examined} == {defect.name for defect in DEFECTS}


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_no_bet_gains_in_expectation_while_the_server_is_lossless(noise: float) -> None:
    """Over the tokens of each position, by the worst law within the noise: so by Ville's inequality few alarms come."""
    n = 40
    drawn = stream(Speculating(), 4, n)
    p, money = drawn.target, np.zeros(drawn.target.shape)
    for defect in DEFECTS:
        for cell in range(p.shape[1]):
            bets = stakes(replace(drawn, tokens=np.full(n, cell)), defect)
            assert bets is not None
            for i in range(n):
                money[i, cell] = math.exp(
                    log_wealth(Stakes(ratio=bets.ratio[:, [i]], spread=bets.spread[:, [i]]), noise)[0]
                )
        push = np.where(money > 1.0, 1.0, -1.0)
        push -= (push * p).sum(-1, keepdims=True)
        worst = p * (1.0 + noise * push / max(np.abs(push).max(), 1.0))
        assert (worst * money).sum(-1).max() <= 1.0 + 1e-4


def bets_on_raw(server: Speculating, seed: int, n: int) -> Stakes:
    bets = stakes(stream(server, seed, n=n), next(defect for defect in DEFECTS if defect.name == "draft's tokens"))
    assert bets is not None
    return bets


def test_limits_contain_the_planted_strength() -> None:
    """A fifth of the drafts is taken without judgement: the limit of that form is above it in at least 95 % of 40."""
    limits = [strength_limit(bets_on_raw(Speculating(unjudged=0.2), seed, 400), 0.0, 0.05)[0] for seed in range(40)]
    assert np.mean(np.array(limits) >= 0.2) >= 0.95


def test_what_is_excluded_is_an_interval_up_to_1() -> None:
    """The limit is where the money against a strength first reaches 20: below it never, above it always."""
    bets = bets_on_raw(Speculating(), 11, 500)
    limit = strength_limit(bets, 0.0, 0.05)[0]
    for strength in np.linspace(0.01, 1.0, 100):
        money = (np.log1p(-1e-5) - np.log1p(strength * (bets.ratio[0] - 1.0))).cumsum().max()
        if abs(strength - limit) > 0.01:
            assert (money >= math.log(20.0)) == (strength > limit)


def test_money_of_a_certain_bet_grows_as_computed() -> None:
    """Two cells of 0.5; a form that always gives the first, tokens that always are: money doubles at strength 1."""
    bets = Stakes(ratio=np.full((1, 10), 2.0), spread=np.ones((1, 10)))
    strengths = np.array([0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0])
    expected = np.log(((1.0 + strengths)[:, None] ** np.arange(1, 11)).mean(0)) + np.arange(1, 11) * np.log1p(-1e-5)
    np.testing.assert_allclose(log_wealth(bets, 0.0), expected, rtol=1e-12)
    assert log_wealth(bets, 0.5)[-1] < expected[-1]


def test_an_accepted_share_that_the_draft_does_not_explain_is_reported() -> None:
    drawn = stream(Speculating(), 2)
    for fits in (drawn, stream(Speculating(one_hot=True), 2)):
        acceptance = certificate(fits).acceptance
        assert acceptance is not None
        assert not acceptance.contradicts
    other = laws(2000, np.random.default_rng(9))
    mistaken = certificate(replace(drawn, draft=listed(other.draft), likeliest=other.draft.argmax(-1)))
    assert mistaken.acceptance is not None
    assert mistaken.acceptance.contradicts
    assert "bets with this draft see less" in " ".join(certificate_as_text(mistaken).split())
    assert not mistaken.named


@pytest.mark.parametrize("name", [None, "relaxed acceptance"])
def test_a_certificate_fits_a_screen_and_says_so_in_json(name: str | None) -> None:
    result = certificate(stream(PLANTED[name] if name else Speculating(), 1), noise=0.002)
    text = certificate_as_text(result, ["- 16 answers."])
    assert max(map(len, text.splitlines())) <= SCREEN
    assert len(text.splitlines()) < 30
    data = certificate_as_json(result)
    assert data["named"] == ([name] if name else [])
    assert (data["schema"], data["schema_version"]) == ("specplan.certificate", 1)
    assert text.startswith("No defect detected" if name is None else f"Not lossless: {name}.")
    assert "e+" in text or name is None
    assert to_json(data)
