"""Cells of tokens and the laws of defects: by hand, and where the data cannot show one."""

import math
from dataclasses import replace

import numpy as np
import pytest
from speculating import laws

from specplan.live.certifying.cells import Answer, Row, Scored, drawn_from, noise_between
from specplan.live.certifying.certificate import stakes
from specplan.live.certifying.laws import DEFECTS, Drawn, Place, speculative
from theory.errors import CalibrationError

P, D, B, U = Place.PLAIN, Place.DRAFTED, Place.BONUS, Place.UNKNOWN


def scored(
    tokens: tuple[int, ...], *, passes: tuple[int, ...] = (), rows: list[Row] | None = None, **more: list[Row]
) -> Scored:
    rows, elsewhere = rows or [{1: 0.6, 2: 0.3}] * len(tokens), [{9: 1.0}] * len(tokens)
    answer = Answer(prompt=(7, 8), tokens=tokens, passes=passes or (1,) * len(tokens))
    given: dict[str, list[Row] | None] = {"again": rows, "draft": None, **more}
    return Scored(answer=answer, target=rows, before=rows, elsewhere=elsewhere, **given)  # type: ignore[arg-type]


def test_tokens_that_are_not_listed_are_one_cell_and_shorter_rows_are_padded() -> None:
    draft: list[Row] = [{2: 0.5, 9: 0.4}, {9: 0.9, 1: 0.1}, {1: 0.7}]
    drawn = drawn_from([scored((1, 9, 2), draft=draft)])
    assert drawn.tokens.tolist() == [0, 2, 1]
    np.testing.assert_allclose(drawn.target, [[0.6, 0.3, 0.1]] * 3)
    assert drawn.draft is not None
    assert drawn.likeliest is not None
    np.testing.assert_allclose(drawn.draft, [[0.0, 0.5, 0.5], [0.1, 0.0, 0.9], [0.7, 0.0, 0.3]], atol=1e-12)
    assert drawn.likeliest.tolist() == [1, 2, 0]
    np.testing.assert_allclose(drawn.wrong[1], [[0.0, 0.0, 1.0]] * 3)
    padded = drawn_from([scored((1, 3), rows=[{1: 0.6, 2: 0.3}, {3: 1.0}])])
    np.testing.assert_allclose(padded.target, [[0.6, 0.3, 0.1], [1.0, 0.0, 0.0]], atol=1e-12)
    assert padded.draft is None


def test_probabilities_are_the_mean_of_two_batches_and_their_difference_the_noise() -> None:
    again: list[Row] = [{1: 0.62, 2: 0.28}] * 4
    both = [scored((1, 1, 2, 1), again=again)]
    np.testing.assert_allclose(drawn_from(both).target[0], [0.61, 0.29, 0.1])
    assert noise_between(both) == pytest.approx(0.02 / 0.29)
    assert noise_between([scored((1, 2))]) == 1e-3
    assert noise_between([scored((1, 2), again=[{1: 0.6}] * 2)]) == 1e-3  # the last of a list may be another
    # an improbable token that doubles, with 0.4 % of the mass, is beyond the 99th percentile
    one: list[Row] = [{1: 0.5, 2: 0.496, 3: 0.004}]
    other: list[Row] = [{1: 0.505, 2: 0.487, 3: 0.008}]
    assert noise_between([scored((1,), rows=one, again=other)]) == pytest.approx(0.009 / 0.4915)


def test_places_follow_from_events_and_from_the_past_only() -> None:
    first = scored((1,) * 9, passes=(1, 3, 1, 2, 2))
    second = scored((2,) * 7, passes=(1, 3, 2, 1))
    drawn = drawn_from([first, second])
    # nothing is known of the draft's length in the first pass; from then on its third token is a bonus
    assert drawn.place.tolist() == [P, D, D, D, D, D, D, D, D, P, D, D, B, D, D, D]
    nan = math.nan
    expected = [nan, 1, 1, nan, 0, 1, 0, 1, nan, nan, 1, 1, nan, 1, 0, nan]
    np.testing.assert_array_equal(drawn.accepted, expected)
    # a first event with tokens of the first pass too
    assert drawn_from([scored((1,) * 6, passes=(3, 1, 2))]).place.tolist() == [P, D, D, D, D, B]


@pytest.mark.parametrize("passes", [(40, 40), (80,)])
def test_streams_that_are_no_passes_leave_places_unknown(passes: tuple[int, ...]) -> None:
    drawn = drawn_from([scored((1,) * 80, passes=passes)])
    assert set(drawn.place.tolist()) == {U}
    assert not drawn.shows_passes
    assert np.isnan(drawn.accepted).all()


def test_answers_that_are_repeated_are_refused_unless_chance_repeats_them() -> None:
    long = scored((2,) * 30)
    with pytest.raises(CalibrationError, match="repeats an answer of 30 tokens word for word"):
        drawn_from([long, scored((1,) * 30), long])
    other = replace(long, answer=replace(long.answer, prompt=(7, 9)))
    assert len(drawn_from([long, other]).tokens) == 60
    certain = scored((1,) * 30, rows=[{1: 0.999}] * 30)
    assert len(drawn_from([certain, certain]).tokens) == 60


BY_NAME = {defect.name: defect for defect in DEFECTS}
RNG = np.random.default_rng(20261127)


def one_position(**given: object) -> Drawn:
    """A judged position with small laws of which the last cell is empty."""
    laws = {"target": [[0.5, 0.3, 0.2, 0.0]], "draft": [[0.2, 0.7, 0.1, 0.0]], "wrong": [[[0.1, 0.1, 0.8, 0.0]]]}
    tokens = {"tokens": [0], "place": [Place.DRAFTED], "likeliest": [1], "accepted": [1.0]}
    fields = {name: np.array(value) for name, value in {**laws, **tokens}.items()}
    return Drawn(**{**fields, **given})


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
