"""Estimates by hand; Student's quantiles against scipy's; intervals of few answers hold what many further ones give."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from refusals import refused
from scipy import stats
from sim_worlds import drawn_answers

from sim.algorithms import autoregressive, lookahead_async
from sim.answers.lengths import Lognormal
from sim.engines.fixed import FixedEngine, PerToken
from sim.estimate import Estimate, mean, on_logarithm, proportion, ratio_of_totals, student_quantile
from sim.trial import Trial, trial_seconds


def test_estimates_by_hand() -> None:
    ratio = ratio_of_totals([4.0, 6.0], [1.0, 4.0])  # S = 2; residuals 2 and -2; se = sqrt(8 / 2) / 2.5
    assert (ratio.value, ratio.stderr, ratio.n) == (2.0, pytest.approx(0.8), 2)
    four = mean([1.0, 2.0, 3.0, 4.0])
    assert (four.value, four.stderr) == (2.5, pytest.approx(math.sqrt(5 / 3 / 4)))
    assert four.half_width == pytest.approx(3.1824463052842638 * four.stderr)  # t quantile, 3 degrees
    alone = mean([2.0])
    assert math.isnan(alone.stderr)
    assert (alone.low, alone.high, str(alone)) == (-math.inf, math.inf, "2 ± ?")
    wilson = proportion(5, 20)  # Newcombe 1998: 0.1119 to 0.4687
    assert (round(wilson.low, 4), round(wilson.high, 4)) == (0.1119, 0.4687)
    assert (proportion(0, 20).low, proportion(20, 20).high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("value", "stderr", "unit", "text"),
    [
        (1.4299, 0.0213, "", "1.430 ± 0.021"),
        (123.4, 15.0, "s", "123 ± 15 s"),
        (1.25, 0.0, "s", "1.25 (±0) s"),
        (0.00123456, 0.0000123, "", "0.001235 ± 0.000012"),
    ],
)
def test_printing(value: float, stderr: float, unit: str, text: str) -> None:
    assert str(Estimate(value=value, stderr=stderr, low=0.0, high=1.0, n=3, unit=unit)) == text


test_bad_samples_are_refused = refused(
    lambda call, *samples: call(*samples),
    (mean, [], "samples"),
    (mean, [math.nan], "samples"),
    (mean, [[1.0]], "samples"),
    (ratio_of_totals, [1.0], [0.0], "positive total"),
    (proportion, 3, 2, "3 of 2"),
)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("degrees", [*range(1, 12), 39, 100, 1001, 30_000])
def test_quantiles_are_those_of_student(degrees: int, confidence: float) -> None:
    expected = stats.t.ppf(0.5 + confidence / 2.0, degrees)
    assert student_quantile(confidence, degrees) == pytest.approx(expected, rel=1e-11)
    assert student_quantile(confidence, 0) == math.inf


POOL, FURTHER, CALIBRATIONS = 20_000, 500, 1_000
STEPS = Lognormal(mean=9.0, cv=0.35)
LOOKAHEAD = drawn_answers(
    27.0, cv=0.6, limit=100, alpha=0.8, persistence=0.4, steps=STEPS, prompt_tokens=45, seed=4, block=1_000
)
PLAIN = replace(LOOKAHEAD, seed=9)
"""Texts of plain decoding are other draws than those of a step-level method, with lengths of their own."""

ENGINES = {
    "target": FixedEngine(PerToken(0.0, 0.0100)),
    "draft": FixedEngine(PerToken(0.0, 0.0012)),
    "judge": FixedEngine(0.012),
}


@pytest.mark.parametrize("k1", [1, 2, 4, 8])
def test_intervals_of_few_answers_hold_what_further_answers_give(k1: int) -> None:
    """1,000 calibrations of 3, 5, 10 and 40 answers: 93 to 97 % hold, up to 3 standard errors of such a share (2.1 %).

    False alarm: 0.3 % for each of 16 shares; seeds are fixed.
    """
    plain = trial_seconds(Trial.of(autoregressive, PLAIN, ENGINES, meets="plain"), range(POOL))
    ahead = trial_seconds(Trial.of(partial(lookahead_async, k1=k1), LOOKAHEAD, ENGINES), range(POOL))
    rng = np.random.default_rng(k1)
    for n in (3, 5, 10, 40):
        held = 0
        for _ in range(CALIBRATIONS):
            own, further = rng.integers(0, POOL, n), rng.integers(0, POOL, FURTHER)
            known = ratio_of_totals(plain[own], ahead[own])
            interval = on_logarithm(known.value, known.relative_half_width, n, estimator="")
            held += interval.contains(float(plain[further].sum() / ahead[further].sum()))
        assert 0.93 - 0.021 <= held / CALIBRATIONS <= 0.97 + 0.021, (n, held)
