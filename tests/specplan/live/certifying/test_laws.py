"""Laws of defects: exact against drawn tokens, and the target's law where nothing is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from speculating import PLANTED, Speculating, laws, streams

from specplan.live.certifying.certificate import stakes
from specplan.live.certifying.laws import DEFECTS, Drawn, Place, speculative

BY_NAME = {defect.name: defect for defect in DEFECTS}
RNG = np.random.default_rng(20261127)


def one_position(**given: object) -> Drawn:
    """A judged position with small laws of which the last cell is empty."""
    fields: dict[str, object] = {
        "tokens": np.array([0]),
        "place": np.array([Place.DRAFTED]),
        "target": np.array([[0.5, 0.3, 0.2, 0.0]]),
        "draft": np.array([[0.2, 0.7, 0.1, 0.0]]),
        "likeliest": np.array([1]),
        "wrong": np.array([[[0.1, 0.1, 0.8, 0.0]]]),
        "accepted": np.array([1.0]),
    }
    return Drawn(**{**fields, **given})  # type: ignore[arg-type]


def forms(name: str) -> list[list[float]]:
    return [law[0].round(12).tolist() for law in BY_NAME[name].laws(one_position())]


def test_laws_by_hand() -> None:
    # accepted of q: 0.2, 0.3 and 0.1, so 0.4 is drawn again; of a point mass at token 1: 0.3
    assert forms("residual from p")[0] == [0.4, 0.42, 0.18, 0.0]
    assert forms("residual from p")[1] == [0.35, 0.51, 0.14, 0.0]
    # max(p - q, 0) = 0.3, 0, 0.1; twice p accepts 0.2, 0.6 and 0.1 of q
    assert forms("relaxed acceptance")[1] == [0.275, 0.6, 0.125, 0.0]
    assert forms("greedy draft") == [[round(0.75 * 4 / 7, 12), round(3 / 7, 12), round(0.25 * 4 / 7, 12), 0.0]]
    assert forms("draft's tokens") == forms("bonus from draft") == [[0.2, 0.7, 0.1, 0.0], [0.0, 1.0, 0.0, 0.0]]
    assert forms("stale cache") == [[0.1, 0.1, 0.8, 0.0]]
    assert forms("truncated top-p")[0] == [0.625, 0.375, 0.0, 0.0]


@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_sampling_that_is_right_has_the_targets_law(factor: float) -> None:
    """Also where p = q but for rounding, and where p or q gives a token nothing."""
    world = laws(500, RNG)
    p, q = world.target, factor * world.draft + (1.0 - factor) * world.target
    p[:100, 3], q[50:150, 5] = 0.0, 0.0
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
    np.testing.assert_allclose(speculative(p, q), p, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "server", "form"),
    [
        ("residual from p", PLANTED["residual from p"], 0),
        ("residual from p", Speculating(one_hot=True, from_p=True), 1),
        ("relaxed acceptance", Speculating(relaxed=2.0), 1),
        ("relaxed acceptance", Speculating(relaxed=2.0, one_hot=True), 4),
        ("bonus from draft", PLANTED["bonus from draft"], 0),
        ("draft's temperature", Speculating(temperature=0.5), 0),
        ("greedy draft", PLANTED["greedy draft"], 0),
        ("draft's tokens", Speculating(unjudged=1.0), 0),
        ("stale cache", Speculating(stale=1.0), 0),
        ("truncated top-p", Speculating(top_p=0.9), 1),
        ("target's temperature", Speculating(hot=1.25), 2),
    ],
)
def test_drawn_tokens_have_the_law_of_their_defect(name: str, server: Speculating, form: int) -> None:
    """Chi-square over the cells of judged (or bonus) tokens at three positions, 10,000 streams of each server."""
    n = 10_000
    drawn = streams(server, laws(7, np.random.default_rng(3), cells=5), n, np.random.default_rng(4))
    defect = BY_NAME[name]
    law = list(defect.laws(drawn))[form].reshape(n, 7, 6)[0]
    tokens, place = drawn.tokens.reshape(-1, 7), drawn.place.reshape(-1, 7)
    for i in (1, 3, 5, 6):
        here = tokens[np.isin(place[:, i], list(defect.at - {Place.PLAIN})), i]
        if len(here) < 1000:
            continue
        seen, expected = np.bincount(here, minlength=6), len(here) * law[i]
        assert seen[expected == 0.0].sum() == 0
        kept = expected > 0.0
        if kept.sum() == 1:
            continue
        assert stats.chisquare(seen[kept], expected[kept] * seen.sum() / expected.sum()).pvalue > 1e-5, i


def test_defects_that_the_data_cannot_show_do_not_apply() -> None:
    def shown(drawn: Drawn) -> set[str]:
        return {defect.name for defect in DEFECTS if stakes(drawn, defect) is not None}

    without_draft = {"stale cache", "truncated top-p", "target's temperature"}
    assert shown(one_position(draft=None, likeliest=None)) == without_draft
    assert shown(one_position()) == BY_NAME.keys() - {"bonus from draft"}
    assert shown(one_position(place=np.array([Place.UNKNOWN]))) == BY_NAME.keys() - {"bonus from draft"}
    assert shown(one_position(place=np.array([Place.BONUS]))) == without_draft | {"bonus from draft"}
