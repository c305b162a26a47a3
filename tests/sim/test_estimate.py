"""Quantiles of Student's t, which intervals of few answers rest on, against scipy's."""

import math

import pytest
from scipy import stats

from sim.estimate import student_quantile


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("degrees", [*range(1, 12), 39, 100, 1001, 30_000])
def test_quantiles_are_those_of_student(degrees: int, confidence: float) -> None:
    expected = stats.t.ppf(0.5 + confidence / 2.0, degrees)
    assert student_quantile(confidence, degrees) == pytest.approx(expected, rel=1e-11)


def test_nothing_is_known_without_degrees_of_freedom() -> None:
    assert student_quantile(0.95, 0) == math.inf
