"""How fast options are with so many answers in flight, by `sim.serving.load_run`.

The answers are dealt out evenly to the copies of an arrangement; copies do not meet. Options are compared by one
replication each, of the same answers; what is reported of the chosen ones comes from other replications, as many as its
standard error needs, and the times of answers from a window that is long enough to see their ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sim.serving.arrivals import bursty_times
from sim.serving.limits import ServingLimits
from sim.serving.load_run import (
    CHOICE,
    CURVE,
    REPORT,
    ArrivalRun,
    LoadRun,
    Throughputs,
    Window,
    check_little,
    gain,
    quotient,
    throughput,
    until_known,
)
from specplan.planning.loads.options import Option, room_of
from specplan.worlds.sizes import SLACK, Traced
from specplan.worlds.world import World

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.configuration import Configuration
    from sim.estimate import Estimate
    from sim.serving.answers import ServedLoad
    from sim.trial import Trial
    from specplan.worlds.request import Deployment, Load

__all__ = ["Simulator", "sequences_for", "shares_of"]

_PRECISION: Final = 0.01
"""Standard error that simulation may leave of a gain and of tokens per second, as a share, and of those by steps, whose
gain is known to a fifth at best."""
_STEP_PRECISION: Final = 0.02
_CHOICE: Final = {"lives": 1.0, "answers": 24}
"""What a replication counts of answers that are one request, to choose by."""
_REPORT: Final = {"lives": 2.5, "answers": 48}
"""The same to report from: 19 of 20 answers with a spread of 0.8 are shorter, so that their ends are seen."""
_ENDS_OF_STEPS: Final = {"lives": 3.0, "answers": 16}
"""The same of steps, where the ends of their answers are to be seen."""

_MOST_SEQUENCES: Final = 1024
"""Places of an engine at most: vLLM's default on large GPUs."""

_LEAST_ARRIVALS: Final = 60
"""Arrivals of a replication at least."""
_MOST_OF_A_TRACE: Final = 500
"""Arrivals that one copy meets, of a load without end and of a trace."""

_NO_MOVES: Final[Mapping[str, float]] = MappingProxyType({})


class Simulator:
    """Simulations of a deployment; what was simulated once is kept."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.world = World(deployment)
        self._moved: dict[tuple[tuple[str, float], ...], World] = {(): self.world}
        self._runs: dict[tuple[object, ...], LoadRun] = {}

    def speed(self, option: Option, answers: int, moved: Mapping[str, float] = _NO_MOVES) -> float:
        """Return the tokens per second of the whole deployment with so many answers in flight, to compare options."""
        return float(self.throughputs(option, answers, CHOICE, moved)(1)[0])

    def gain(self, option: Option, plain: Option, answers: int) -> float:
        """Return the gain of an option on answers that had no part in choosing it, by one replication."""
        own, other = (self.throughputs(one, answers, CURVE)(1) for one in (option, plain))
        return float(own[0] / other[0])

    def reported(self, option: Option, plain: Option, answers: int) -> tuple[Estimate, Estimate]:
        """Return the gain of an option over plain decoding, and its tokens per second, with the wanted standard error.

        Steps and whole answers are seen through different windows, which makes pairs of no use.
        """
        own, other = (self.throughputs(one, answers) for one in (option, plain))
        if not option.configuration.spec.drafts_steps:
            both, rate = until_known(gain(own, other), throughput(own), precision=_PRECISION)
            return both, rate
        rate, plain_rate = (until_known(throughput(one), precision=_STEP_PRECISION)[0] for one in (own, other))
        return quotient(rate, plain_rate), rate

    def throughputs(
        self, option: Option, answers: int, first: int = REPORT, moved: Mapping[str, float] = _NO_MOVES
    ) -> Throughputs:
        """Return the tokens per second of the whole deployment by replications, from one of a number on."""
        shares = shares_of(answers, option.arrangement.replicas)
        runs = [(self.run(option, n, first, moved), copies) for n, copies in shares.items() if n]

        def throughputs(n: int) -> NDArray[np.float64]:
            total: NDArray[np.float64] = np.sum([copies * run.throughputs(n) for run, copies in runs], axis=0)
            return total

        return throughputs

    def run(self, option: Option, answers: int, first: int, moved: Mapping[str, float] = _NO_MOVES) -> LoadRun:
        """Return the replications of one copy with so many answers in flight."""
        arrangement = option.arrangement
        place = arrangement.split, arrangement.own_gpus, arrangement.drafting
        key = option.configuration, place, answers, first, tuple(sorted(moved.items()))
        if key not in self._runs:
            trial = self._trial(option, answers, moved)
            self._runs[key] = LoadRun(trial, answers, self._window(option, answers, first), first)
        return self._runs[key]

    def served(self, option: Option, answers: int, throughput: Estimate) -> ServedLoad:
        """Return what the fullest copy does and what users see of all copies.

        Parameters
        ----------
        option : what runs.
        answers : in flight, in all copies.
        throughput : tokens per second of all copies, for Little's law.
        """
        seen = []
        for n, copies in shares_of(answers, option.arrangement.replicas).items():
            if n and option.configuration.spec.drafts_steps:
                run = LoadRun(self._trial(option, n), n, self._lives(n, _ENDS_OF_STEPS), REPORT, counts=True)
                seen += copies * run.run(1)
            elif n:
                seen += copies * self.run(option, n, REPORT).loads
        together = replace(
            seen[-1],  # the fullest
            answers=tuple(one for load in seen for one in load.answers),
            unended_s=tuple(one for load in seen for one in load.unended_s),
        )
        check_little(f"{option.text}, {answers} answers at once", answers, throughput, together)
        return together

    def arriving(self, option: Option, load: Load, in_flight: int) -> ArrivalRun:
        """Return what one copy does with answers that arrive.

        Parameters
        ----------
        option : what runs.
        load : arrivals at random, or a trace, of which a copy meets its part.
        in_flight : answers that are in flight about, >= 1, in all copies: a replication has six times as many.
        """
        copies = option.arrangement.replicas
        part = load.part(copies, _MOST_OF_A_TRACE)
        sizes = None if part is None else Traced(part)
        trial = self.world.trial(option.configuration, option.arrangement, self.limits(option, _MOST_SEQUENCES), sizes)
        if part is not None:
            moments: list[float] = part.times_s.tolist()
            return ArrivalRun(trial, lambda _: moments, warmup=len(part) // 10, most=1)
        n, rate = max(_LEAST_ARRIVALS, round(6 * in_flight / copies)), load.per_second
        assert rate is not None

        def moments_s(replication: int) -> list[float]:
            drawn: list[float] = bursty_times(rate / copies, load.burstiness, n, replication=replication).tolist()
            return drawn

        return ArrivalRun(trial, moments_s, warmup=n // 5)

    def limits(self, option: Option, answers: int) -> ServingLimits:
        """Return the bounds of the target's engine, which is started for so many answers."""
        room = room_of(self.deployment, option.configuration, option.arrangement)
        context = float(self.deployment.context)
        fit = min(one.answers(context) for one in room.rooms) * context
        rows = float(option.configuration.k2)
        places = sequences_for(self.deployment, option.configuration, answers)
        # `considered` made sure that one answer fits
        return ServingLimits(max_sequences=places, cache_tokens=max(fit, context + SLACK), rows=rows)

    def _trial(self, option: Option, answers: int, moved: Mapping[str, float] = _NO_MOVES) -> Trial:
        """The trial of one copy; worlds with the same beliefs moved share what they know."""
        key = tuple(sorted(moved.items()))
        if key not in self._moved:
            self._moved[key] = World(self.deployment, moved)
        limits = self.limits(option, answers)
        return self._moved[key].trial(option.configuration, option.arrangement, limits)

    def _window(self, option: Option, answers: int, first: int) -> Window:
        """What a replication counts."""
        if option.configuration.spec.drafts_steps:
            return Window.of_steps(answers)
        return self._lives(answers, _REPORT if first == REPORT else _CHOICE)

    def _lives(self, answers: int, least: Mapping[str, Any]) -> Window:
        return Window.of_lives(answers, self.deployment.answer_tokens, **least)


def sequences_for(deployment: Deployment, configuration: Configuration, answers: int) -> int:
    """Return the places that the target's engine needs for so many answers, as far as it may have them."""
    return min(answers * configuration.most_sequences, deployment.max_num_seqs or _MOST_SEQUENCES)


def shares_of(answers: int, copies: int) -> dict[int, int]:
    """Return how many answers a copy has in flight, to how many copies have so many; the most answers last.

    >>> shares_of(7, 2), shares_of(1, 4)
    ({3: 1, 4: 1}, {0: 3, 1: 1})
    """
    each, more = divmod(answers, copies)
    return {each: copies - more, each + 1: more} if more else {each: copies}
