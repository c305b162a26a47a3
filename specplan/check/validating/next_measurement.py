"""An interval for the next measurement of a speedup on n fresh questions.

The prediction's own errors (sampling of the profile, profile, model) bound the true speedup. A measurement on n
questions adds a sampling error with three parts, which the profile gives as shares of the speedup per question:

- the choice of questions and of answers to them: the spread of the simulated ratio of an answer to plain decoding;
- newly drawn texts, where the same text is simulated for both although the method will generate another (a draft model
  at a temperature above 0): the spread of the tokens of its recorded answers over those of plain decoding;
- the variation of the machine's speed between answers: recorded over simulated time of plain decoding, as differences
  between neighbours, since a validation runs all configurations on a question before the next. It counts twice, for the
  method and for plain decoding.

All are added in squares on the logarithm, by the delta method; a bootstrap of the simulated totals agrees.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import numpy as np

from calibrate.record.profile import Profile
from calibrate.record.token_records import TokenRecord
from calibrate.replay.token_passes import counts_of
from sim.configuration import PLAIN, Configuration
from sim.estimate import Estimate, on_logarithm, ratio_of_totals, student_quantile
from specplan.planning.predict import Prediction, Predictor

__all__ = ["Measurements"]

_LEAST: Final = 3
"""Least number of answers from which a spread is estimated."""


class Measurements:
    """Predicts measurements of the models of a measured profile."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.time_noise = _time_noise(profile)
        """Relative standard deviation of an answer's time at a given text, [-], weighted by the answers' times."""

    def spread(self, prediction: Prediction) -> float:
        """Return the standard error of a speedup measured on n questions times sqrt(n), as a share of it."""
        return math.hypot(prediction.answer_spread, self.beyond_questions(prediction.configuration))

    def beyond_questions(self, configuration: Configuration) -> float:
        """Return the part of `spread` besides the choice of questions: newly drawn texts, and the machine's speed."""
        return math.hypot(_redrawn(self._profile, configuration), math.sqrt(2.0) * self.time_noise)

    def expected(self, prediction: Prediction, n: int) -> Estimate:
        """Return the predicted speedup with a 95 % interval for its measurement on n >= 2 fresh questions."""
        value, quantile = prediction.speedup.value, student_quantile(0.95, n - 1)
        half = math.hypot(quantile * self.spread(prediction) / math.sqrt(n), *prediction.errors.values())
        estimator = "prediction; interval: " + ", ".join(sorted([*prediction.errors, "measurement"]))
        return on_logarithm(value, half, n, estimator=estimator, seed=prediction.speedup.seed)


def _time_noise(profile: Profile) -> float:
    """Noise of the machine's speed between neighbouring answers, without a slow drift, which interleaving cancels."""
    recorded = np.array([sum(step.seconds for step in answer.baseline) for answer in profile.answers])
    known = np.flatnonzero(recorded > 0.0)
    if known.size < _LEAST:
        return 0.0
    seconds = Predictor(profile, uncertainty=False).simulated(PLAIN, recorded.size).seconds
    steps = [after - before for before, after in pairwise(np.log(recorded[known] / seconds[known]))]
    weight = float((seconds**2).mean() / seconds.mean() ** 2)
    return math.sqrt(weight * float(np.square(steps).mean()) / 2.0)


def _redrawn(profile: Profile, configuration: Configuration) -> float:
    """Noise of texts that a token-level method draws anew, simulated with plain decoding's; 0 for equal texts."""
    if configuration.spec.level != "token":
        return 0.0
    counts = counts_of(profile, configuration.method, configuration.knobs)
    if not isinstance(counts, TokenRecord):
        return 0.0
    theirs = {answer.problem: sum(one.tokens for one in answer.requests) for answer in counts.answers}
    plain = {answer.problem: sum(step.tokens for step in answer.baseline) for answer in profile.answers}
    both = [name for name in theirs if plain.get(name)]
    if len(both) < _LEAST:
        return 0.0
    ratio = ratio_of_totals([plain[name] for name in both], [theirs[name] for name in both])
    return ratio.stderr * math.sqrt(ratio.n) / ratio.value
