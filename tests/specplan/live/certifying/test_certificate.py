"""Certificates of planted streams: defects are named, lossless servers are not, limits hold, noise is no defect."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from speculating import PLANTED, Speculating, laws, listed, streams

from specplan.commands.live.certify import certificate_as_json, certificate_as_text
from specplan.live.certifying.certificate import Stakes, certificate, log_wealth, mean_money, stakes, strength_limit
from specplan.live.certifying.laws import DEFECTS, Drawn
from specplan.output import SCREEN, to_json

N = 2000


def stream(server: Speculating, seed: int, n: int = N) -> Drawn:
    rng = np.random.default_rng(seed)
    return streams(server, laws(n, rng), 1, rng)


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


def alarms(server: Speculating, noise: float, n_streams: int, n: int, seed: int) -> float:
    """Share of streams with an alarm, at 0.05."""
    rng = np.random.default_rng(seed)
    drawn = streams(server, laws(n, rng), n_streams, rng)
    money = []
    for defect in DEFECTS:
        bets = stakes(drawn, defect)
        assert bets is not None
        by_stream = [one.reshape(len(one), n_streams, n) for one in (bets.ratio, bets.spread)]
        money.append(log_wealth(Stakes(ratio=by_stream[0], spread=by_stream[1]), noise))
    return float((mean_money(np.stack(money)).max(-1) >= math.log(20.0)).mean())


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "n"), [(0.0, 50), (0.1, 10)])
def test_lossless_servers_rarely_raise_an_alarm(noise: float, n: int) -> None:
    """At most 5 % by Ville's inequality; laws are drawn anew for each 20 streams. Noise: of the target's logits."""
    assert np.mean([alarms(Speculating(noise=noise), noise, 20, 1000, seed) for seed in range(n)]) <= 0.05


def test_a_law_within_the_noise_is_no_defect() -> None:
    """The worst law within 10 % of p for a bet: all cells that it gains from are likelier by 10 %, others less so."""
    rng = np.random.default_rng(5)
    drawn = stream(Speculating(), 5, n=10_000)
    p, q = drawn.target, drawn.draft
    assert q is not None
    push = np.where(q > p, 0.1, -0.1)
    push -= (push * p).sum(-1, keepdims=True)
    worst = p * (1.0 + np.clip(push, -0.1, 0.1))
    worst /= worst.sum(-1, keepdims=True)
    tokens = (worst.cumsum(-1) <= rng.random((len(p), 1))).sum(-1)
    pushed = replace(drawn, tokens=tokens)
    assert certificate(pushed).named
    assert not certificate(pushed, noise=0.12).named


def bets_on_raw(server: Speculating, seed: int, n: int) -> Stakes:
    bets = stakes(stream(server, seed, n=n), next(defect for defect in DEFECTS if defect.name == "draft's tokens"))
    assert bets is not None
    return bets


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_limits_contain_the_planted_strength(share: float) -> None:
    """A share of drafts that is taken without judgement: the limit of that form is above it in at least 95 % of 60."""
    limits = [strength_limit(bets_on_raw(Speculating(unjudged=share), seed, 400), 0.0, 0.05)[0] for seed in range(60)]
    assert np.mean(np.array(limits) >= share) >= 0.95


def test_limits_shrink_as_tokens_are_drawn() -> None:
    few, many = (certificate(stream(Speculating(), 3, n=n)).changed for n in (200, 6000))
    assert many < min(few / 2.0, 0.03)


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
    rng = np.random.default_rng(2)
    drawn = streams(Speculating(), laws(N, rng), 1, rng)
    fits = certificate(drawn).acceptance
    assert fits is not None
    assert not fits.contradicts
    assert fits.sampled[0] <= fits.seen + 0.05
    greedy = certificate(stream(Speculating(one_hot=True), 2)).acceptance
    assert greedy is not None
    assert not greedy.contradicts
    other = laws(N, np.random.default_rng(9))
    mistaken = certificate(replace(drawn, draft=listed(other.draft, 1), likeliest=other.draft.argmax(-1)))
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
