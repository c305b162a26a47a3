"""An interval for the next measurement: what a speedup measured on n fresh questions is expected to be.

The prediction's own errors (sampling of the profile, profile, model) say where the true speedup lies. A measurement on
n questions has a sampling error besides, of three parts that the profile tells, as shares of the speedup and per
question:

- which questions, and how they are answered: the spread of the simulated answers' ratio to plain decoding of them;
- where one text is replayed for both, though the method will write another (a draft model at a temperature above 0):
  the spread of the tokens of its recorded answers against plain decoding's;
- the pace of the machine from one answer to the next: recorded over simulated time of plain decoding, of which the
  differences between neighbours are taken, since a validation runs a question every way before the next. It counts
  twice, for the method and for plain decoding.

All are added in squares, on the logarithm. By the delta method: a bootstrap of the simulated totals gives the same.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import numpy as np

from calibrate.record.profile import Profile
from calibrate.record.token_records import TokenRecord
from calibrate.replay.token_passes import counts_of
from calibrate.replay.trials import PLAIN
from sim.configuration import Configuration
from sim.estimate import Estimate, on_logarithm, ratio_of_totals, student_quantile
from specplan.planning.predict import Prediction, Predictor
from theory.errors import ParameterError

__all__ = ["Measurements"]

_LEAST: Final = 3
"""Fewer answers show no spread."""


class Measurements:
    """What measurements of a profile's models are expected to be.

    Parameters
    ----------
    profile : measured.

    Attributes
    ----------
    pace : spread of an answer's time at a given text, [-]: standard deviation, times what long answers weigh more.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.pace = _pace(profile)

    def spread(self, prediction: Prediction) -> float:
        """Return the standard error of a speedup measured on n questions times sqrt(n), as a share of it."""
        return math.hypot(prediction.answer_spread, self.beyond_questions(prediction.configuration))

    def beyond_questions(self, configuration: Configuration) -> float:
        """Return the part of `spread` that is no draw of questions: texts that are written anew, and the pace."""
        return math.hypot(_redrawn(self._profile, configuration), math.sqrt(2.0) * self.pace)

    def expected(self, prediction: Prediction, n: int) -> Estimate:
        """Return the predicted speedup with a 95 % interval for its measurement.

        Parameters
        ----------
        prediction : its ``errors`` are 95 % half-widths on the logarithm.
        n : fresh questions, >= 2.

        Raises
        ------
        ParameterError : ``n`` below 2.
        """
        if n < 2:
            raise ParameterError("n", n, "must be an integer >= 2")
        value, quantile = prediction.speedup.value, student_quantile(0.95, n - 1)
        half = math.hypot(quantile * self.spread(prediction) / math.sqrt(n), *prediction.errors.values())
        estimator = "prediction; interval: " + ", ".join(sorted([*prediction.errors, "measurement"]))
        return on_logarithm(value, half, n, estimator=estimator, seed=prediction.speedup.seed)


def _pace(profile: Profile) -> float:
    """Noise of the pace between neighbouring answers: a slow drift, which interleaving takes out, does not count."""
    recorded = np.array([sum(step.seconds for step in answer.baseline) for answer in profile.answers])
    known = np.flatnonzero(recorded > 0.0)
    if known.size < _LEAST:
        return 0.0
    seconds = Predictor(profile, uncertainty=False).simulated(PLAIN, recorded.size).seconds
    steps = [after - before for before, after in pairwise(np.log(recorded[known] / seconds[known]))]
    weight = float((seconds**2).mean() / seconds.mean() ** 2)
    return math.sqrt(weight * float(np.square(steps).mean()) / 2.0)


def _redrawn(profile: Profile, configuration: Configuration) -> float:
    """Noise of texts drawn anew by token-level methods, simulated with the text of plain decoding; 0 where equal."""
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
