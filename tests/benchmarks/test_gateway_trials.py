"""The machine of the trials in virtual time is the same for whatever runs on it, and verdicts are counted."""

import pytest

from benchmarks.gateway_trials import SCENES, STALL_S, at_most, machine, pace, row


def test_a_machine_wanders_and_stalls_alike_for_all() -> None:
    moments = [0.05 * i for i in range(2000)]
    slower, again = machine(3), machine(3)
    found = [slower(moment) for moment in moments]
    assert found[::40] == [again(moment) for moment in moments[::40]]  # whenever it is asked
    stalled = sum(one > 3.0 for one in found)
    assert 0.05 * stalled == pytest.approx(5 * STALL_S, abs=3 * STALL_S)  # one in 20 s
    assert len({round(one, 6) for one in found}) > 10


def test_a_row_says_what_is_had_of_a_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.gateway_trials.pace", lambda *which: pace(*which, answers=300))
    good = row(SCENES[0], 1, seeds=1, answers=260)
    assert good[:2] == ["good", "1"]
    assert float(good[2]) > 1.4
    assert good[3] == "0 of 1"
    assert 0.6 < float(good[7]) < 1.1
    assert good[8] == f"{at_most(SCENES[0], 1, float(good[2]), 260):.2f}"


def test_what_is_had_at_most_of_a_gain_grows_with_the_answers_and_falls_with_the_clients() -> None:
    shares = [[at_most(SCENES[0], n, 1.6, answers) for answers in (250, 500, 5000)] for n in (8, 4, 1)]
    assert all(0.5 < first < then < last < 1.0 for first, then, last in shares)
    assert all(eight < four < one for eight, four, one in zip(*shares, strict=True))
