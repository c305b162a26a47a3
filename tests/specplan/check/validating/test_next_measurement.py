"""Intervals for the next measurement: of what they are made, against resampling, and how often they hold."""

import math

import numpy as np
import pytest
from measured_profiles import measured, speculated

from calibrate.record.profile import Profile
from sim.configuration import Configuration
from specplan.check.validating.next_measurement import Measurements
from specplan.planning.predict import Predictor

ALL = [True] * 4


def paced(profile: Profile, paces: list[float]) -> Profile:
    """As many answers as paces, by which their recorded time is multiplied."""
    first = profile.answers[0]
    answers = [
        first.model_copy(
            update={
                "problem": str(number),
                "baseline": [step.model_copy(update={"seconds": step.seconds * pace}) for step in first.baseline],
            }
        )
        for number, pace in enumerate(paces)
    ]
    return profile.model_copy(update={"answers": answers})


def test_a_machine_of_one_pace_and_one_that_drifts_slowly_add_nothing() -> None:
    assert Measurements(paced(measured(ALL), [1.0] * 10)).time_noise == 0.0
    assert Measurements(paced(measured(ALL), [1.3] * 10)).time_noise == pytest.approx(0.0)
    drift = Measurements(paced(measured(ALL), list(np.exp(np.linspace(0.0, 1.0, 101))))).time_noise
    assert drift == pytest.approx(0.01 / math.sqrt(2.0))


def test_texts_that_a_method_draws_anew_count() -> None:
    profile = speculated(measured([True] * 8))
    configuration = Configuration.parse("draft-model k2=3")
    prediction = Predictor(profile, uncertainty=False).predict(configuration)
    same = Measurements(profile).spread(prediction)
    assert same == pytest.approx(0.0, abs=1e-9)
    record = profile.token[0]
    shorter = record.answers[0].model_copy(update={"requests": record.answers[0].requests[:4]})
    changed = record.model_copy(update={"answers": [shorter, *record.answers[1:]]})
    other = profile.model_copy(update={"token": [changed]})
    assert Measurements(other).spread(prediction) > 0.3


def test_the_interval_adds_all_in_squares_and_narrows_with_questions() -> None:
    profile = paced(measured([True, False]), [1.0, 1.2, 0.9, 1.1])
    prediction = Predictor(profile).predict(Configuration(method="lr-async", k1=3))
    measurements = Measurements(profile)
    few, many, endless = (measurements.expected(prediction, n) for n in (10, 100, 10**5))
    assert few.low < many.low < prediction.speedup.value == few.value < many.high < few.high
    assert (endless.low, endless.high) == pytest.approx((prediction.speedup.low, prediction.speedup.high), rel=2e-3)
    chance = 1.984217 * measurements.spread(prediction) / 10.0  # Student's at 99 degrees
    half = math.hypot(chance, *prediction.errors.values())
    assert math.log(many.high / many.value) == pytest.approx(half, rel=1e-6)


def test_measurements_lie_inside_as_often_as_they_should() -> None:
    """400 measurements of a speedup known exactly: outside with 5 %, beyond 36 by chance with probability 2e-4."""
    profile = paced(measured([True] * 8), list(np.random.default_rng(2).lognormal(0.0, 0.25, 400)))
    prediction = Predictor(profile, uncertainty=False).predict(Configuration.parse("lr-async k1=2"))
    prediction.errors.clear()
    expected = Measurements(profile).expected(prediction, 20)
    rng = np.random.default_rng(3)
    noise = rng.lognormal(0.0, 0.25, (2, 400, 20)).sum(axis=2)
    outside = sum(not expected.contains(prediction.speedup.value * a / b) for a, b in zip(*noise, strict=True))
    assert 6 <= outside <= 36
