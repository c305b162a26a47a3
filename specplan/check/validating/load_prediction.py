"""What rounds under load are expected to show: the same rounds, simulated on the recorded answers, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from calibrate.record.profile import Profile
from calibrate.replay.trials import PLAIN, Trials
from sim.configuration import Configuration
from sim.estimate import Estimate, student_quantile
from sim.operations import DRAFT, TARGET
from sim.random_streams import stream
from sim.serving.rounds import Round, check_clients, limited, simulated_round
from specplan.check.validating.next_measurement import Measurements

__all__ = ["METRICS", "PERCENTILES", "LoadPredictor", "Metric", "share_beyond", "swept_batches"]

_ROUNDS: Final = 16
"""Simulated rounds, each of as many recorded answers as a real one has questions."""

_VARIANTS: Final = 6
"""Resampled profiles."""

_VARIANT_ROUNDS: Final = 4
"""Rounds simulated with each of them: the same ones, so that what is uncertain is the profile alone."""

_RESAMPLES: Final = 400

_UNITS: Final = {"gain": "", "answers_per_s": "1/s", "tokens_per_s": "1/s"}

Metric = Callable[[Sequence[Round], Sequence[Round]], float]
"""Takes the rounds of a configuration and those of plain decoding with the same questions and clients."""


def _answers_per_s(own: Sequence[Round], plain: Sequence[Round]) -> float:
    return sum(len(one.seconds) for one in own) / sum(one.makespan for one in own)


def _tokens_per_s(own: Sequence[Round], plain: Sequence[Round]) -> float:
    return sum(sum(one.tokens) for one in own) / sum(one.makespan for one in own)


def _gain(own: Sequence[Round], plain: Sequence[Round]) -> float:
    return sum(one.makespan for one in plain) / sum(one.makespan for one in own)


def _percentile(q: float) -> Metric:
    return lambda own, plain: float(np.percentile([seconds for one in own for seconds in one.seconds], q))


PERCENTILES: Final[Mapping[str, float]] = {"p50_s": 50.0, "p90_s": 90.0}
"""Names of what is told of the times of answers, to the percentile (numpy's, linear between neighbours)."""

METRICS: Final[Mapping[str, Metric]] = {
    "gain": _gain,
    "answers_per_s": _answers_per_s,
    "tokens_per_s": _tokens_per_s,
    **{name: _percentile(q) for name, q in PERCENTILES.items()},
}
"""What is told of a configuration under a load, by the same estimators of simulated and of measured rounds."""


def swept_batches(profile: Profile) -> dict[str, int]:
    """Return by role, target and draft, the largest batch whose iterations the profile has timed."""
    engines = {role: profile.engines[profile.placement[role]] for role in (TARGET, DRAFT)}
    return {role: max(s.batch for s in record.decode if s.tokens == 1) for role, record in engines.items()}


@dataclass(slots=True)
class LoadPredictor:
    """Predicts rounds from a profile; all configurations meet the same answers in the same order.

    Parameters
    ----------
    trials : of the profile.
    sizes : questions of each real round.
    most : sequences that the engine of a role decodes at once; roles left out have no limit.
    """

    trials: Trials
    sizes: Sequence[int]
    most: Mapping[str, int] = field(default_factory=dict)
    _known: dict[tuple[Configuration, int, int | None], list[Round]] = field(default_factory=dict, init=False)
    _expected: dict[tuple[Configuration, int], dict[str, Estimate]] = field(default_factory=dict, init=False)
    _measurements: Measurements | None = field(default=None, init=False)

    def rounds(self, configuration: Configuration, load: int, variant: int | None = None) -> list[Round]:
        """Return simulated rounds of a configuration with so many clients."""
        key = configuration, load, variant
        if key not in self._known:
            trial = limited(self.trials.trial(configuration, variant=variant), self.most)
            n = _ROUNDS if variant is None else _VARIANT_ROUNDS
            self._known[key] = [simulated_round(trial, self._answers(number), load) for number in range(n)]
        return self._known[key]

    def _answers(self, number: int) -> list[int]:
        """The answers of a simulated round: drawn from the recorded ones, each as likely every time."""
        size = self.sizes[number % len(self.sizes)]
        recorded = len(self.trials.profile.all_answers)
        drawn: list[int] = stream(0, "rounds under load", number).integers(0, recorded, size).tolist()
        return drawn

    def expected(self, configuration: Configuration, load: int) -> dict[str, Estimate]:
        """Return what the next measurement with so many clients is expected to show, by the names of `METRICS`.

        The interval has three parts, in squares on the logarithm: questions (those of the profile and fresh ones are
        samples of the same; rounds are drawn anew from the simulated ones), the profile's timings, resampled, and of a
        gain what else a measurement meets: texts that are written anew, and the pace from one answer to the next
        (`specplan.check.validating.next_measurement`).
        """
        if (configuration, load) not in self._expected:
            self._expected[configuration, load] = self._expectation(configuration, load)
        return self._expected[configuration, load]

    def _expectation(self, configuration: Configuration, load: int) -> dict[str, Estimate]:
        check_clients(load, min(self.sizes))
        own, plain = self.rounds(configuration, load), self.rounds(PLAIN, load)
        found = {}
        for name, metric in METRICS.items():
            value = metric(own, plain)
            half = math.hypot(
                self._by_questions(metric, own, plain),
                self._by_profile(metric, configuration, load),
                self._beyond_questions(configuration) if name == "gain" else 0.0,
            )
            found[name] = Estimate(
                value=value,
                stderr=value * half / 1.96,
                low=value * math.exp(-half),
                high=value * math.exp(half),
                n=sum(len(one.seconds) for one in own),
                estimator=f"{len(own)} simulated rounds; interval of the next {len(self.sizes)} rounds",
                unit=_UNITS.get(name, "s"),
            )
        return found

    def _by_questions(self, metric: Metric, own: Sequence[Round], plain: Sequence[Round]) -> float:
        """Half-width, on the logarithm, of what other questions would make of it.

        Three samples have a part in it: the fresh questions, those of the profile, and the simulated rounds.
        """
        rng = stream(0, "questions under load", 0)
        picks = rng.integers(0, len(own), (_RESAMPLES, len(self.sizes)))
        logs = [math.log(metric([own[i] for i in pick], [plain[i] for i in pick])) for pick in picks]
        recorded = len(self.trials.profile.all_answers)
        return 1.96 * float(np.std(logs)) * math.sqrt(1.0 + sum(self.sizes) / recorded + len(self.sizes) / len(own))

    def _beyond_questions(self, configuration: Configuration) -> float:
        """Half-width, on the logarithm, of what the next measurement of a gain meets besides; plain decoding's is 1."""
        if configuration == PLAIN:
            return 0.0
        if self._measurements is None:
            self._measurements = Measurements(self.trials.profile)
        return 1.96 * self._measurements.beyond_questions(configuration) / math.sqrt(sum(self.sizes))

    def _by_profile(self, metric: Metric, configuration: Configuration, load: int) -> float:
        """Half-width, on the logarithm, of what other timings of the same engines would make of it."""
        logs = [
            math.log(metric(self.rounds(configuration, load, variant), self.rounds(PLAIN, load, variant)))
            for variant in range(_VARIANTS)
        ]
        return student_quantile(0.95, _VARIANTS - 1) * float(np.std(logs, ddof=1))

    def gains_at_pace(
        self, configurations: Sequence[Configuration], load: int, pace: Mapping[str, float]
    ) -> list[float | None]:
        """Return the gains on engines that take a multiple of their time, by name; None if no multiple is known."""
        if not pace:
            return [None] * len(configurations)
        trials = Trials(self.trials.profile, slower=pace)
        slower = LoadPredictor(trials, self.sizes, self.most)
        plain = slower.rounds(PLAIN, load)
        return [_gain(slower.rounds(one, load), plain) for one in configurations]

    def beyond(self, configuration: Configuration, load: int, swept: Mapping[str, int]) -> dict[str, float]:
        """Return by role the share of a round's time in which batches are larger than any that was timed."""
        return {role: share_beyond(self.rounds(configuration, load), role, most) for role, most in swept.items()}


def share_beyond(rounds: Sequence[Round], role: str, most: int) -> float:
    """Return the share of the time in which a role was asked for more than so many steps at once, in [0, 1]."""
    beyond = sum(seconds for one in rounds for n, seconds in one.in_flight.get(role, ()) if n > most)
    return beyond / sum(one.makespan for one in rounds)
