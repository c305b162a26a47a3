"""A plan from a profile for many answers at once: what each method gains where engines are shared, and at which k1.

The engines are those of the profile, with its devices. The speedup for one answer is the plan's; closed loops
(`sim.serving.run`) tell by what it changes where answers share the engines, so that at one answer at once both are the
same. Drawn answers begin spread over their lives, recorded ones at their beginnings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, Final

from calibrate.replay.trials import PLAIN, Trials
from sim.configuration import Configuration
from sim.estimate import Estimate
from sim.serving.answers import ServedLoad
from sim.serving.run import closed_loop, resumed
from specplan.planning.predict import Prediction

__all__ = ["AtOnce", "Crowds"]

_LIVES: Final = 1.5
"""Lives of recorded answers that a simulation counts, after one that it does not."""
_TOKENS_EACH: Final = 600
"""Committed tokens per answer in flight that a simulation of drawn answers counts; a quarter as many before."""
_LEAST_TOKENS: Final = 24_000
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
        self._known: dict[tuple[Configuration, int], ServedLoad] = {}

    def at_once(self, answers: int) -> tuple[AtOnce, ...]:
        """Return the best of each kind with so many answers at once, fastest first; of smaller k1 too."""
        found = []
        for alone in self._alone:
            options = [alone.configuration] if answers == 1 else _smaller(alone.configuration)
            best = max(options, key=lambda one: self._served(one, answers).tokens_per_s)
            found.append(self._row(alone, best, answers))
        return tuple(sorted(found, key=lambda row: -row.gain.value))

    def of(self, alone: Prediction, answers: int) -> AtOnce:
        """Return what the very configuration of a prediction does with so many answers at once."""
        return self._row(alone, alone.configuration, answers)

    def _row(self, alone: Prediction, best: Configuration, answers: int) -> AtOnce:
        gain = self._gain(alone, best, answers)
        pace = self._served(PLAIN, answers).tokens_per_s
        baseline = alone.baseline_seconds if answers == 1 else answers * self._tokens / pace
        return AtOnce(
            answers=answers,
            configuration=best,
            gain=gain,
            seconds=baseline / gain.value,
            baseline_seconds=baseline,
            busy=self._served(best, answers).busy,
        )

    @cached_property
    def _tokens(self) -> float:
        """Mean tokens of an answer."""
        recorded = self._trials.profile.all_answers
        if self._trials.plain().n_answers is not None:
            return sum(step.tokens for answer in recorded for step in answer.baseline) / len(recorded)
        behaviour = self._trials.system.behaviour
        return fmean(sum(behaviour.answer(i).written_lengths()) for i in range(_ANSWERS))  # type: ignore[attr-defined]

    def _gain(self, alone: Prediction, best: Configuration, answers: int) -> Estimate:
        """The speedup of one answer, changed as the closed loops change."""
        speedup = alone.speedup
        if answers == 1:
            return speedup
        loops = [(best, answers), (PLAIN, answers), (alone.configuration, 1), (PLAIN, 1)]
        paces = [self._served(*loop).pace for loop in loops]
        change = paces[0].value / paces[1].value * paces[3].value / paces[2].value
        sampling = math.hypot(*(pace.relative_half_width for pace in paces))
        half = math.hypot(sampling, math.log(speedup.high / speedup.low) / 2.0)
        value = speedup.value * change
        return replace(
            speedup,
            value=value,
            stderr=value * half / 1.96,
            low=value * math.exp(-half),
            high=value * math.exp(half),
            estimator="speedup of one answer x change of the pace in closed loops, simulated",
        )

    def _served(self, configuration: Configuration, answers: int) -> ServedLoad:
        key = configuration, answers
        if key not in self._known:
            self._known[key] = self._simulated(configuration, answers)
        return self._known[key]

    def _simulated(self, configuration: Configuration, answers: int) -> ServedLoad:
        trial = self._trials.trial(configuration)
        if trial.n_answers is None:
            tokens = max(_TOKENS_EACH * answers, _LEAST_TOKENS)
            return closed_loop(trial, concurrency=answers, tokens=tokens, warmup_tokens=tokens // 4, resume=resumed)
        life, recorded = self._tokens, self._trials.profile.all_answers
        return closed_loop(
            trial,
            concurrency=answers,
            tokens=math.ceil(life * (answers + _LIVES * max(answers, len(recorded)))),
            warmup_tokens=math.ceil(life * answers),
        )


def _smaller(alone: Configuration) -> list[Configuration]:
    """The configuration, and those of its kind with half the depth and so on."""
    found, depth = [alone], alone.k1 // 2
    while alone.spec.has("k1") and depth >= 2:
        less = Configuration(method=alone.method, knobs={**alone.knobs, "k1": depth})
        below = alone.token if alone.is_hybrid else None
        found.append(less if below is None else less.with_token(below, alone.token_knobs))
        depth //= 2
    return found
