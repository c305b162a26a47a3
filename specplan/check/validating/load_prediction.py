"""Predictions of rounds under load: the same rounds, simulated on the recorded answers, with intervals.

A measured round is finite, with fewer clients at work at its end, and so are the simulated ones: what is predicted is
that round, not a load without end. It is simulated as often as the standard error of its gain and throughput needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final

import numpy as np

from calibrate.costs.by_load import most_at_once
from calibrate.record.profile import Profile
from calibrate.replay.trials import Trials
from sim.configuration import PLAIN, Configuration
from sim.estimate import Estimate, ratio_of_totals, student_quantile
from sim.random_streams import stream
from sim.roles import DRAFT, TARGET
from sim.serving.load_run import until_known
from sim.serving.rounds import Round, check_clients, limited, simulated_round
from specplan.check.validating.next_measurement import Measurements

__all__ = ["METRICS", "PERCENTILES", "UNITS", "LoadPredictor", "Totals", "share_beyond", "swept_batches", "totals_of"]

_ROUNDS: Final = 16
"""Simulated rounds at least and at most, each with as many recorded answers as a real one has questions."""
_MOST_ROUNDS: Final = 64
_FIRST_ROUNDS: Final = 8
"""Rounds that say how many answers are in flight."""
_PRECISION: Final = 0.02
"""Standard error that their number may leave of gain and throughput, as a share."""
_VARIANTS: Final = 6
"""Number of resampled profiles."""
_VARIANT_ROUNDS: Final = 4
"""Rounds simulated with each resampled profile: the same rounds, so that only the profile differs."""
_RESAMPLES: Final = 400

UNITS: Final = {"gain": "", "answers_per_s": "1/s", "tokens_per_s": "1/s"}
"""Units of metrics; of the others s."""
_LEAST_S: Final = 1e-9
"""Least time that has a logarithm, s."""

_Metric = Callable[[Sequence[Round], Sequence[Round]], float]
"""A function of the rounds of a configuration and those of plain decoding with the same questions and clients."""

Totals = Callable[[Sequence[Round], Sequence[Round]], tuple[Sequence[float], Sequence[float]]]
"""Takes the same rounds; returns amounts by round, and what they are per."""


def _spans(rounds: Sequence[Round]) -> list[float]:
    return [one.makespan for one in rounds]


def _spans_of_as_many_tokens(own: Sequence[Round], plain: Sequence[Round]) -> list[float]:
    """Durations of rounds, each times the tokens of plain decoding in that round / its own tokens."""
    return [one.makespan * sum(other.tokens) / max(sum(one.tokens), 1) for one, other in zip(own, plain, strict=True)]


_TOTALS: Final[Mapping[str, Totals]] = {
    "answers_per_s": lambda own, plain: ([len(one.seconds) for one in own], _spans(own)),
    "tokens_per_s": lambda own, plain: ([sum(one.tokens) for one in own], _spans(own)),
    "token_s": lambda own, plain: (
        [sum(one.seconds) - sum(one.first) for one in own],
        [max(sum(one.tokens) - len(one.tokens), 1) for one in own],
    ),
    "first_s": lambda own, plain: ([sum(one.first) for one in own], [len(one.first) for one in own]),
}
"""Metrics that are ratios of totals over rounds; times per token and to the first token are those of answers."""


def totals_of(configuration: Configuration) -> Mapping[str, Totals]:
    """Return the metrics that are ratios of totals over rounds, by name.

    The gain is that of equal work. What verifies tokens only writes texts of plain decoding's distribution: there the
    work is the tokens, since other lengths are chance. Methods that write steps change the texts: there it is answers.
    """
    if configuration.spec.drafts_steps:
        return {"gain": lambda own, plain: (_spans(plain), _spans(own)), **_TOTALS}
    return {"gain": lambda own, plain: (_spans(plain), _spans_of_as_many_tokens(own, plain)), **_TOTALS}


def _of_totals(totals: Totals, own: Sequence[Round], plain: Sequence[Round]) -> float:
    amounts, per = totals(own, plain)
    return max(sum(amounts) / sum(per), _LEAST_S)


def _percentile(q: float, own: Sequence[Round], _: Sequence[Round]) -> float:
    return float(np.percentile([seconds for one in own for seconds in one.seconds], q))


PERCENTILES: Final[Mapping[str, float]] = {"p50_s": 50.0, "p90_s": 90.0}
"""Percentiles of the times of answers by metric name (numpy's, linear between neighbours)."""

METRICS: Final = ("gain", *_TOTALS, *PERCENTILES)
"""Names of the metrics of a configuration under load, which have the same estimators for simulated and real rounds."""


def _metrics_of(configuration: Configuration) -> dict[str, _Metric]:
    """The metrics by name, in the order of `METRICS`."""
    return {
        **{name: partial(_of_totals, totals) for name, totals in totals_of(configuration).items()},
        **{name: partial(_percentile, q) for name, q in PERCENTILES.items()},
    }


def swept_batches(profile: Profile) -> dict[str, int]:
    """Return the largest timed batch of target and draft, by role."""
    engines = {role: profile.engines[profile.placement[role]] for role in (TARGET, DRAFT)}
    return {role: most_at_once(record) for role, record in engines.items()}


@dataclass
class LoadPredictor:
    """Predicts rounds from a profile; all configurations meet the same answers in the same order.

    Parameters
    ----------
    trials : trials of the profile.
    sizes : number of questions of each real round.
    most : largest batch of the engine of a role; roles left out have no limit.
    """

    trials: Trials
    sizes: Sequence[int]
    most: Mapping[str, int] = field(default_factory=dict)
    _known: dict[tuple[Configuration, int, int | None], list[Round]] = field(default_factory=dict, init=False)
    _expected: dict[tuple[Configuration, int], dict[str, Estimate]] = field(default_factory=dict, init=False)
    _means: dict[tuple[Configuration, int], float] = field(default_factory=dict, init=False)

    @cached_property
    def _measurements(self) -> Measurements:
        return Measurements(self.trials.profile)

    def rounds(
        self, configuration: Configuration, load: int, variant: int | None = None, n: int = _ROUNDS
    ) -> list[Round]:
        """Return the first ``n`` simulated rounds of a configuration with ``load`` clients."""
        known = self._known.setdefault((configuration, load, variant), [])
        if len(known) < n:
            in_flight = self._in_flight(configuration, load)
            known += self._simulated(configuration, load, variant, range(len(known), n), in_flight)
        return known[:n]

    def _simulated(
        self, configuration: Configuration, load: int, variant: int | None, numbers: range, in_flight: float
    ) -> list[Round]:
        """Rounds with the engine times of so many answers in flight."""
        trial = limited(self.trials.trial(configuration, variant=variant, in_flight=in_flight), self.most)
        return [simulated_round(trial, self._answers(number), load) for number in numbers]

    def _in_flight(self, configuration: Configuration, load: int) -> float:
        """Answers in flight, mean over a round, in the first rounds with the engine times of ``load`` answers.

        A round that ends has fewer of them than clients, and calibrations name their engine times by that mean.
        """
        if load == 1 or not configuration.spec.drafts_steps:
            return float(load)  # those times are of methods that write steps
        if (configuration, load) not in self._means:
            first = self._simulated(configuration, load, None, range(_FIRST_ROUNDS), float(load))
            seconds, spans = (sum(of) for of in zip(*((sum(one.seconds), one.makespan) for one in first), strict=True))
            self._means[configuration, load] = seconds / spans
        return self._means[configuration, load]

    def _enough(self, configuration: Configuration, load: int) -> int:
        """How many simulated rounds make gain and throughput precise enough."""
        totals = totals_of(configuration)

        def known(name: str) -> Callable[[int], Estimate]:
            return lambda n: ratio_of_totals(
                *totals[name](*(self.rounds(one, load, n=n) for one in (configuration, PLAIN)))
            )

        wanted = known("gain"), known("tokens_per_s")
        return until_known(*wanted, precision=_PRECISION, least=_ROUNDS, most=_MOST_ROUNDS)[0].n

    def _answers(self, number: int) -> list[int]:
        """The answers of a simulated round, drawn uniformly from the recorded ones with replacement."""
        size = self.sizes[number % len(self.sizes)]
        recorded = len(self.trials.profile.all_answers)
        drawn: list[int] = stream(0, "rounds under load", number).integers(0, recorded, size).tolist()
        return drawn

    def expected(self, configuration: Configuration, load: int) -> dict[str, Estimate]:
        """Return the prediction of the next measurement with ``load`` clients, by the names of `METRICS`.

        The interval adds three parts in squares on the logarithm: questions (the profile's and fresh ones are samples
        of the same distribution; rounds are resampled from the simulated ones), the profile's resampled timings, and
        for a gain the further noise of a measurement: newly drawn texts, and the variation of speed between answers
        (`specplan.check.validating.next_measurement`).
        """
        if (configuration, load) in self._expected:
            return self._expected[configuration, load]
        check_clients(load, min(self.sizes))
        enough = self._enough(configuration, load)
        own, plain = (self.rounds(one, load, n=enough) for one in (configuration, PLAIN))
        further = 0.0  # the noise of a measured gain besides the questions
        if configuration != PLAIN:
            further = 1.96 * self._measurements.beyond_questions(configuration) / math.sqrt(sum(self.sizes))
        estimates = {}
        for name, metric in _metrics_of(configuration).items():
            value = metric(own, plain)
            half = math.hypot(
                self._by_questions(metric, own, plain),
                self._by_profile(metric, configuration, load),
                further if name == "gain" else 0.0,
            )
            estimates[name] = Estimate(
                value=value,
                stderr=value * half / 1.96,
                low=value * math.exp(-half),
                high=value * math.exp(half),
                n=sum(len(one.seconds) for one in own),
                estimator=f"{len(own)} simulated rounds; interval of the next {len(self.sizes)} rounds",
                unit=UNITS.get(name, "s"),
            )
        self._expected[configuration, load] = estimates
        return estimates

    def _by_questions(self, metric: _Metric, own: Sequence[Round], plain: Sequence[Round]) -> float:
        """Half-width from the choice of questions (fresh, recorded, of the simulated rounds), on the logarithm."""
        rng = stream(0, "questions under load", 0)
        picks = rng.integers(0, len(own), (_RESAMPLES, len(self.sizes)))
        logs = [math.log(metric([own[i] for i in pick], [plain[i] for i in pick])) for pick in picks]
        recorded = len(self.trials.profile.all_answers)
        return 1.96 * float(np.std(logs)) * math.sqrt(1.0 + sum(self.sizes) / recorded + len(self.sizes) / len(own))

    def _by_profile(self, metric: _Metric, configuration: Configuration, load: int) -> float:
        """Half-width from the timings of the engines, on the logarithm."""
        logs = [
            math.log(metric(*(self.rounds(one, load, variant, _VARIANT_ROUNDS) for one in (configuration, PLAIN))))
            for variant in range(_VARIANTS)
        ]
        return student_quantile(0.95, _VARIANTS - 1) * float(np.std(logs, ddof=1))

    def gains_at_pace(
        self, configurations: Sequence[Configuration], load: int, slowdown: Mapping[str, float]
    ) -> list[float | None]:
        """Return the gains on engines whose times are multiplied by ``slowdown``, by engine; None without factors."""
        if not slowdown:
            return [None] * len(configurations)
        trials = Trials(self.trials.profile, slower=slowdown)
        slower = LoadPredictor(trials, self.sizes, self.most)
        plain = slower.rounds(PLAIN, load)
        return [_metrics_of(one)["gain"](slower.rounds(one, load), plain) for one in configurations]


def share_beyond(rounds: Sequence[Round], role: str, most: int) -> float:
    """Return the share of the time in which more than ``most`` steps of a role are in flight, in [0, 1]."""
    beyond = sum(seconds for one in rounds for n, seconds in one.in_flight.get(role, ()) if n > most)
    return beyond / sum(one.makespan for one in rounds)
