"""A plan from a profile for many answers at once: what each method gains where engines are shared, and at which k1.

The engines are those of the profile, with its devices. At one answer at once a gain is the plan's speedup. For more,
closed loops (`sim.serving.load_run`) tell it, corrected as the plan corrects the speedup that it has simulated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, Final

from calibrate.costs.by_load import most_at_once
from calibrate.replay.trials import PLAIN, Trials
from sim.configuration import Configuration
from sim.estimate import Estimate
from sim.operations import TARGET
from sim.serving.load_run import CHOICE, REPORT, LoadRun, Window, gain, throughput, until_known
from specplan.planning.predict import Prediction

__all__ = ["AtOnce", "Crowds"]

_PRECISION: Final = 0.03
"""Standard error that simulation may leave of a gain, as a share, and as a share of what the plan's interval has: half
of it makes the interval 1.12 times as wide."""
_OF_INTERVAL: Final = 0.5
_Z: Final = 1.96
_RECORDED: Final = 0.25
"""Share of the recorded answers that a replication meets at least."""
_ANSWERS: Final = 40
"""Drawn answers whose mean length is taken for that of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOnce:
    """What a kind of configuration does for so many answers at once."""

    answers: int
    """In flight at any time."""
    configuration: Configuration
    """The best of its kind there."""
    gain: Estimate
    """Tokens per second / those of plain decoding with as many answers at once; the plan's errors and sampling."""
    seconds: float
    """Mean time of an answer: answers at once / answers per second (Little's law)."""
    baseline_seconds: float
    """The same by plain decoding."""
    busy: dict[str, float]
    """Role to the share of the time in which its engine worked, in [0, 1]."""
    timed: int | None = None
    """Answers at once up to which the target's passes were timed, plain and as configured; None without timings."""

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "configuration": self.configuration.name}


class Crowds:
    """Answers at once on the engines of a profile.

    Parameters
    ----------
    trials : of the profile.
    alone : what the plan predicts for one answer at a time: the best configuration of each kind.
    """

    def __init__(self, trials: Trials, alone: Sequence[Prediction]) -> None:
        self._trials = trials
        self._alone = [one for one in alone if one.configuration.speculates]
        self._runs: dict[tuple[Configuration, int, int], LoadRun] = {}

    def at_once(self, answers: int) -> tuple[AtOnce, ...]:
        """Return the best of each kind with so many answers at once, fastest first; of smaller k1 too."""
        found = []
        for alone in self._alone:
            options = [alone.configuration] if answers == 1 else _smaller(alone.configuration)
            best = max(options, key=lambda one: float(self._run(one, answers, CHOICE).throughputs(1)[0]))
            found.append(self._row(alone, best, answers))
        return tuple(sorted(found, key=lambda row: -row.gain.value))

    def of(self, alone: Prediction, answers: int) -> AtOnce:
        """Return what the very configuration of a prediction does with so many answers at once."""
        return self._row(alone, alone.configuration, answers)

    def _row(self, alone: Prediction, best: Configuration, answers: int) -> AtOnce:
        gain = self._gain(alone, best, answers)
        baseline = alone.baseline_seconds if answers == 1 else self.plain_seconds(answers)
        run = self._run(best, answers)
        run.run(1)
        return AtOnce(
            answers=answers,
            configuration=best,
            gain=gain,
            seconds=baseline / gain.value,
            baseline_seconds=baseline,
            busy=run.busy(),
            timed=self._timed(best),
        )

    def _timed(self, configuration: Configuration) -> int | None:
        """Answers at once up to which passes were timed, plain and by the configuration's token-level method."""
        profile = self._trials.profile
        if not profile.engines:
            return None
        target = profile.engines[profile.placement[TARGET]]
        return min(most_at_once(target), most_at_once(target, configuration.token or ""))

    def plain_seconds(self, answers: int) -> float:
        """Return the mean seconds of an answer by plain decoding with so many answers in flight."""
        rate = until_known(throughput(self._run(PLAIN, answers).throughputs), precision=_PRECISION)[0].value
        return answers * self._tokens / rate

    @cached_property
    def _tokens(self) -> float:
        """Mean tokens of an answer."""
        recorded = self._trials.profile.all_answers
        if self._trials.plain().n_answers is not None:
            return sum(step.tokens for answer in recorded for step in answer.baseline) / len(recorded)
        behaviour = self._trials.system.behaviour
        return fmean(sum(behaviour.answer(i).written_lengths()) for i in range(_ANSWERS))  # type: ignore[attr-defined]

    def _gain(self, alone: Prediction, best: Configuration, answers: int) -> Estimate:
        """Tokens per second over those of plain decoding, with the errors of the plan."""
        speedup = alone.speedup
        if answers == 1:
            return speedup
        planned = math.log(speedup.high / speedup.low) / 2.0
        loaded = self.simulated(best, answers, max(_PRECISION, _OF_INTERVAL * planned / _Z))
        half = math.hypot(loaded.relative_half_width, planned)
        value = loaded.value * speedup.value / alone.simulated
        return replace(
            speedup,
            value=value,
            stderr=value * half / _Z,
            low=value * math.exp(-half),
            high=value * math.exp(half),
            estimator="ratio of tokens per second in closed loops, simulated; errors of one answer's speedup added",
        )

    def simulated(self, configuration: Configuration, answers: int, precision: float) -> Estimate:
        """Return tokens per second over those of plain decoding on the same answers, as simulated.

        Parameters
        ----------
        configuration : what decodes.
        answers : in flight at any time, >= 1.
        precision : standard error that is wanted, as a share, > 0.
        """
        own, plain = (self._run(one, answers).throughputs for one in (configuration, PLAIN))
        return until_known(gain(own, plain), precision=precision)[0]

    def _run(self, configuration: Configuration, answers: int, first: int = REPORT) -> LoadRun:
        key = configuration, answers, first
        if key not in self._runs:
            trial = self._trials.trial(configuration)
            least = math.ceil(_RECORDED * self._tokens * (trial.n_answers or 0))
            window = Window.of_steps(answers)
            window = replace(window, tokens=max(window.tokens, least))
            self._runs[key] = LoadRun(trial, answers, window, first)
        return self._runs[key]


def _smaller(alone: Configuration) -> list[Configuration]:
    """The configuration, and those of its kind with half the depth and so on."""
    found, depth = [alone], alone.k1 // 2
    while alone.spec.has("k1") and depth >= 2:
        less = Configuration(method=alone.method, knobs={**alone.knobs, "k1": depth})
        below = alone.token if alone.is_hybrid else None
        found.append(less if below is None else less.with_token(below, alone.token_knobs))
        depth //= 2
    return found
