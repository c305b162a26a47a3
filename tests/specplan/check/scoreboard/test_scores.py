"""Errors, coverage and regret, counted by hand."""

from dataclasses import replace

import pytest

from specplan.check.scoreboard.score import Choice, Outcome, by_label, regrets, score
from theory.hardware.half_widths import around


def outcome(measured: float, predicted: float, model: str = "m", half_width: float = 0.1, **labels: str) -> Outcome:
    return Outcome(
        where="t:1", quantity="time", unit="ms", model=model, labels=labels, measured=measured, predicted=predicted,
        interval=around(predicted, half_width),
    )  # fmt: skip


def choice(alike: str, option: str, measured: float, predicted: float) -> Outcome:
    one = Choice(goal="k", alike=(alike,), option=option, measured=measured, predicted=predicted)
    return replace(outcome(measured, predicted), choices=(one,))


def test_a_score_by_hand() -> None:
    found = score([outcome(10, 11), outcome(10, 8), outcome(10, 10), outcome(10, 13)])
    assert found.n == 4
    assert found.mean == pytest.approx((0.1 + 0.2 + 0.0 + 0.3) / 4)
    assert found.median == pytest.approx(0.15)
    assert found.signed == pytest.approx((0.1 - 0.2 + 0.0 + 0.3) / 4)
    assert found.coverage == 0.5  # exp(0.1) is 1.105
    assert found.half_width == pytest.approx(0.1)


def test_rows_by_what_they_have_in_common_numbers_in_order() -> None:
    rows = [outcome(1, 1, concurrency=c) for c in ("16", "8", "128")] + [outcome(1, 2, model="a")]
    assert list(by_label(rows, "concurrency")) == ["8", "16", "128"]
    assert {name: found.n for name, found in by_label(rows, "model").items()} == {"a": 1, "m": 3}


def test_regret_of_the_option_that_looks_best() -> None:
    rows = [
        choice("x", "3", 1.5, 1.9), choice("x", "5", 1.8, 1.7), choice("x", "7", 1.2, 1.0),
        choice("y", "3", 1.5, 1.9), choice("y", "5", 1.4, 1.7),
        choice("z", "3", 9.0, 1.0),
    ]  # fmt: skip
    (one, other) = regrets(rows)["k"]  # of a single option there is no choice
    assert (one.options, one.chosen, one.best) == (3, "3", "5")
    assert one.loss == pytest.approx(1.8 / 1.5 - 1.0)
    assert (other.chosen, other.best, other.loss) == ("3", "3", 0.0)
    twice = [choice("x", "3", 1.0, 2.0), choice("x", "3", 2.0, 2.0), choice("x", "5", 1.4, 1.0)]
    assert regrets(twice)["k"][0].loss == 0.0  # the mean counts
