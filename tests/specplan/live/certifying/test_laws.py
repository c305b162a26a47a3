"""Laws of defects by hand, and the target's law where nothing is wrong."""

import numpy as np
import pytest
from speculating import laws

from specplan.live.certifying.certificate import stakes
from specplan.live.certifying.laws import DEFECTS, Drawn, Place, speculative

BY_NAME = {defect.name: defect for defect in DEFECTS}
RNG = np.random.default_rng(20261127)


def one_position(**given: object) -> Drawn:
    """A judged position with small laws of which the last cell is empty."""
    laws = {"target": [[0.5, 0.3, 0.2, 0.0]], "draft": [[0.2, 0.7, 0.1, 0.0]], "wrong": [[[0.1, 0.1, 0.8, 0.0]]]}
    tokens = {"tokens": [0], "place": [Place.DRAFTED], "likeliest": [1], "accepted": [1.0]}
    fields = {name: np.array(value) for name, value in {**laws, **tokens}.items()}
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
    # 1 / T = 1.25: weights 0.4204, 0.2220 and 0.1337; 1 / T = 2: q becomes 0.04, 0.49 and 0.01 of 0.54
    assert forms("target's temperature")[1] == pytest.approx([0.5416, 0.2860, 0.1723, 0.0], abs=1e-4)
    taken = np.array([0.04, 0.49 * 3.0 / 7.0, 0.01]) / 0.54
    expected = [*(taken + (1.0 - taken.sum()) * np.array([0.75, 0.0, 0.25])), 0.0]
    assert forms("draft's temperature")[0] == pytest.approx(expected)


@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_sampling_that_is_right_has_the_targets_law(factor: float) -> None:
    """Also where p = q but for rounding, and where p or q gives a token nothing."""
    world = laws(500, RNG)
    p, q = world.target, factor * world.draft + (1.0 - factor) * world.target
    p[:100, 3], q[50:150, 5] = 0.0, 0.0
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
    np.testing.assert_allclose(speculative(p, q), p, atol=1e-12)


def test_defects_that_the_data_cannot_show_do_not_apply() -> None:
    def shown(drawn: Drawn) -> set[str]:
        return {defect.name for defect in DEFECTS if stakes(drawn, defect) is not None}

    without_draft = {"stale cache", "truncated top-p", "target's temperature"}
    assert shown(one_position(draft=None, likeliest=None)) == without_draft
    assert shown(one_position()) == BY_NAME.keys() - {"bonus from draft"}
    assert shown(one_position(place=np.array([Place.UNKNOWN]))) == BY_NAME.keys() - {"bonus from draft"}
    assert shown(one_position(place=np.array([Place.BONUS]))) == without_draft | {"bonus from draft"}
