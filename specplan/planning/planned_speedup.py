"""How well a growing profile knows the speedup of what would be planned with it: when a calibration may stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calibrate.measuring.engine_work import summed
from calibrate.measuring.stopping import Precision
from calibrate.record.engine_records import FIELD_OF_USE
from calibrate.record.profile import Profile
from calibrate.replay.corruption import corruption
from sim.configuration import PLAIN, Configuration
from specplan.planning.candidates import Request
from specplan.planning.planner import accuracy_loss, plan
from specplan.planning.predict import Predictor

__all__ = ["PlannedSpeedup", "planned"]

_SHORTLIST: Final = 5


class PlannedSpeedup:
    """How well a growing profile knows the speedup of what would be planned with it.

    At the first look the planner ranks everything; from then on the best of its first five are compared again. What is
    best is chosen on the same data, so the speedup itself is a little optimistic; its half-width is not affected.
    """

    def __init__(self) -> None:
        self._shortlist: list[Configuration] = []

    def __call__(self, profile: Profile) -> Precision:
        """Return the precision of the best speculating configuration's speedup, by its sources.

        The Predictor's error has a part from few answers and one from few timings. Timings made in use grow with the
        answers: what remains of the second part with those taken as exact is what more timing rounds would narrow.
        """
        if not self._shortlist:
            self._shortlist = _ranked(profile)
        known = corruption(profile.all_answers)
        best = _best(Predictor(profile, uncertainty=False), self._shortlist)
        prediction = Predictor(profile).predict(best)
        engines = {  # what they did during the answers summed up to one entry, which resampling does not change
            name: record.model_copy(update={FIELD_OF_USE[use]: summed(record.work_in(use)) for use in FIELD_OF_USE})
            for name, record in profile.engines.items()
        }
        exact = profile.model_copy(update={"engines": engines})
        swept = Predictor(exact, corruption=known.value if known else None).predict(best)
        timings = min(swept.errors["profile"], prediction.errors["profile"])
        answers = prediction.errors["sampling"] ** 2 + prediction.errors["profile"] ** 2 - timings**2
        return Precision(planned=best.name, speedup=prediction.speedup.value, answers=answers**0.5, timings=timings)


def planned(profile: Profile) -> Configuration:
    """Return the speculating configuration that would be planned with a profile."""
    return _best(Predictor(profile, uncertainty=False), _ranked(profile))


def _ranked(profile: Profile) -> list[Configuration]:
    """The planner's first choices among what speculates."""
    rows = plan(profile, Request(n_answers=len(profile.all_answers))).rows
    speculating = [row.prediction.configuration for row in rows if row.prediction.configuration.speculates]
    return speculating[:_SHORTLIST]


def _best(predictor: Predictor, shortlist: Sequence[Configuration]) -> Configuration:
    """The fastest that costs no more accuracy than the planner allows by default."""
    plain = predictor.predict(PLAIN)
    predictions = [predictor.predict(configuration) for configuration in shortlist]
    allowed = [p for p in predictions if accuracy_loss(p, plain) <= Request().max_accuracy_loss] or predictions
    return max(allowed, key=lambda p: p.speedup.value).configuration
