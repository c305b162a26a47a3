"""What a measured profile's summary says of acceptance."""

from __future__ import annotations

from measured_profiles import measured

from calibrate.replay.summary import acceptance


def test_the_interval_of_few_answers_stays_a_share() -> None:
    """Three answers of 3 of 3 and three of 1 of 3: by their spread alone the interval would end at 1.05."""
    answers = [*measured([True] * 3).answers, *measured([True, False, False]).answers]
    found = acceptance(answers).alpha1
    assert found.value + 2.5 * found.stderr > 1.0
    assert 0.0 < found.low < found.value < found.high == 1.0
