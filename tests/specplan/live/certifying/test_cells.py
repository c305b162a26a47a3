"""From listed probabilities and events of streams to laws, places and noise."""

import math
from dataclasses import replace

import numpy as np
import pytest

from specplan.live.certifying.cells import Answer, Row, Scored, drawn_from, noise_between
from specplan.live.certifying.laws import Place
from theory.errors import CalibrationError

P, D, B, U = Place.PLAIN, Place.DRAFTED, Place.BONUS, Place.UNKNOWN


def scored(
    tokens: tuple[int, ...], *, passes: tuple[int, ...] = (), rows: list[Row] | None = None, **more: list[Row]
) -> Scored:
    rows, elsewhere = rows or [{1: 0.6, 2: 0.3}] * len(tokens), [{9: 1.0}] * len(tokens)
    answer = Answer(prompt=(7, 8), tokens=tokens, passes=passes or (1,) * len(tokens))
    given: dict[str, list[Row] | None] = {"again": rows, "draft": None, **more}
    return Scored(answer=answer, target=rows, before=rows, elsewhere=elsewhere, **given)  # type: ignore[arg-type]


def test_tokens_that_are_not_listed_are_one_cell() -> None:
    draft: list[Row] = [{2: 0.5, 9: 0.4}, {9: 0.9, 1: 0.1}, {1: 0.7}]
    drawn = drawn_from([scored((1, 9, 2), draft=draft)])
    assert drawn.tokens.tolist() == [0, 2, 1]
    np.testing.assert_allclose(drawn.target, [[0.6, 0.3, 0.1]] * 3)
    assert drawn.draft is not None
    assert drawn.likeliest is not None
    np.testing.assert_allclose(drawn.draft, [[0.0, 0.5, 0.5], [0.1, 0.0, 0.9], [0.7, 0.0, 0.3]], atol=1e-12)
    assert drawn.likeliest.tolist() == [1, 2, 0]
    np.testing.assert_allclose(drawn.wrong[1], [[0.0, 0.0, 1.0]] * 3)


def test_rows_of_different_lengths_are_padded_with_nothing() -> None:
    drawn = drawn_from([scored((1, 3), rows=[{1: 0.6, 2: 0.3}, {3: 1.0}])])
    np.testing.assert_allclose(drawn.target, [[0.6, 0.3, 0.1], [1.0, 0.0, 0.0]], atol=1e-12)
    assert drawn.draft is None


def test_probabilities_are_the_mean_of_two_batches_and_their_difference_the_noise() -> None:
    again: list[Row] = [{1: 0.62, 2: 0.28}] * 4
    both = [scored((1, 1, 2, 1), again=again)]
    np.testing.assert_allclose(drawn_from(both).target[0], [0.61, 0.29, 0.1])
    assert noise_between(both) == pytest.approx(0.02 / 0.29)
    assert noise_between([scored((1, 2))]) == 1e-3
    assert noise_between([scored((1, 2), again=[{1: 0.6}] * 2)]) == 1e-3  # the last of a list may be another


def test_noise_is_that_of_probable_tokens() -> None:
    """An improbable token that doubles, with 0.4 % of the mass, is beyond the 99th percentile."""
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


def test_a_first_event_with_tokens_of_the_first_pass_too() -> None:
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
