"""Options under load, by `sim.serving.load_run`: how fast each is with so many answers in flight, and what users see.

The answers are dealt out evenly to the copies of an arrangement; copies do not meet. Options are compared by one
replication each, of the same answers; what is reported of the chosen ones comes from other replications, as many as its
standard error needs, and the times of answers from a window that is long enough to see their ends.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from sim.serving.answers import ServedLoad
from sim.serving.arrivals import bursty_times
from sim.serving.load_run import CHOICE, CURVE, REPORT, ArrivalRun, LoadRun, Throughputs, Window
from specplan.worlds.sizes import Traced
from theory.errors import SpecplanError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.configuration import Configuration
    from sim.estimate import Estimate
    from sim.trial import Trial
    from specplan.planning.loads.options import Option
    from specplan.planning.loads.search import Best
    from specplan.worlds.request import Load

__all__ = ["NO_MOVES", "Simulator", "SpentError", "shares_of"]

_LEAST_ARRIVALS: Final = 60
"""Arrivals of a replication at least."""
_MOST_OF_A_TRACE: Final = 500
"""Arrivals that one copy meets, of a load without end and of a trace."""
NO_MOVES: Final[Mapping[str, float]] = MappingProxyType({})


class SpentError(SpecplanError):
    """The time for simulations is over."""


class Simulator(ABC):
    """Simulations of options under load; what was simulated once is kept. Subclasses say what runs, and how sure it is.

    Parameters
    ----------
    answer_tokens : of an answer, mean.
    place : what the answers share, for messages.
    name_of : takes a configuration; returns its method's name for a reader.
    """

    ends = math.inf
    """When closed loops end with `SpentError`, s of `time.monotonic`."""

    more: ClassVar[str]
    """The option that takes more of what the answers share."""

    def __init__(self, answer_tokens: float, place: str, name_of: Callable[[Configuration], str]) -> None:
        self.answer_tokens = answer_tokens
        self.place = place
        self.name_of = name_of
        self._runs: dict[tuple[object, ...], LoadRun] = {}

    @abstractmethod
    def best_of_each_kind(self, answers: int, before: Best) -> Best:
        """Return by kind the best option with so many answers in flight; ``before``: the best with fewer answers."""

    def shown(self, best: Best) -> list[Option]:
        """Return the options that are reported of the best of each kind, plain decoding among them: here all."""
        return [option for option, _ in best.values()]

    @abstractmethod
    def trial(
        self,
        option: Option,
        answers: int | None,
        moved: Mapping[str, float] = NO_MOVES,
        sizes: Traced | None = None,
        *,
        in_flight: float | None = None,
    ) -> Trial:
        """Return the trial of one copy.

        Parameters
        ----------
        answers : in flight that its engines are started for; None: as many as there are places.
        sizes : of the answers, in place of those that are known.
        in_flight : answers in flight about; default ``answers``.
        """

    @abstractmethod
    def window(self, option: Option, answers: int, first: int) -> Window:
        """Return what a replication counts."""

    @abstractmethod
    def window_of_ends(self, option: Option, answers: int) -> Window | None:
        """Return a window that sees answers end; None: the one that is reported does, or the ends are not wanted."""

    @abstractmethod
    def reported(self, option: Option, plain: Option, answers: int) -> tuple[Estimate, Estimate]:
        """Return the gain of an option over plain decoding, and its tokens per second, with the wanted precision."""

    @abstractmethod
    def errors(self, option: Option, answers: int, simulated: Estimate) -> dict[str, float]:
        """Return the half-widths of the logarithm of a gain by source."""

    @abstractmethod
    def facts(self, option: Option, answers: int, served: ServedLoad) -> dict[str, Any]:
        """Return further fields of a row as far as they are known, for so many answers in the fullest copy."""

    def corrected(self, option: Option, gain: Estimate) -> Estimate:
        """Return a gain of arrivals, as simulated, with what is known of the simulator's bias."""
        return gain

    def speed(self, option: Option, answers: int, moved: Mapping[str, float] = NO_MOVES) -> float:
        """Return the tokens per second of all copies with so many answers in flight, to compare options."""
        return float(self.throughputs(option, answers, CHOICE, moved)(1)[0])

    def gain(self, option: Option, plain: Option, answers: int) -> float:
        """Return the gain of an option on answers that had no part in choosing it, by one replication."""
        own, other = (self.throughputs(one, answers, CURVE)(1) for one in (option, plain))
        return float(own[0] / other[0])

    def throughputs(
        self, option: Option, answers: int, first: int = REPORT, moved: Mapping[str, float] = NO_MOVES
    ) -> Throughputs:
        """Return the tokens per second of all copies by replications, from one of a number on."""
        shares = shares_of(answers, option.arrangement.replicas)
        runs = [(self.run(option, n, first, moved), copies) for n, copies in shares.items() if n]

        def throughputs(n: int) -> NDArray[np.float64]:
            if time.monotonic() > self.ends:
                raise SpentError("the time for simulations is over")
            total: NDArray[np.float64] = np.sum([copies * run.throughputs(n) for run, copies in runs], axis=0)
            return total

        return throughputs

    def run(self, option: Option, answers: int, first: int = REPORT, moved: Mapping[str, float] = NO_MOVES) -> LoadRun:
        """Return the replications of one copy with so many answers in flight."""
        key = option.configuration, option.arrangement.each, answers, first, tuple(sorted(moved.items()))
        if key not in self._runs:
            trial = self.trial(option, answers, moved)
            self._runs[key] = LoadRun(trial, answers, self.window(option, answers, first), first)
        return self._runs[key]

    def served(self, option: Option, answers: int, rate: Estimate) -> ServedLoad:
        """Return what the fullest copy does and what users see of all copies.

        Parameters
        ----------
        rate : tokens per second of all copies, which the answers have to agree with where it is not corrected.
        """
        seen: list[ServedLoad] = []
        fullest: Sequence[ServedLoad] = ()
        for n, copies in shares_of(answers, option.arrangement.replicas).items():
            if not n:
                continue
            window, run = self.window_of_ends(option, n), self.run(option, n)
            if window is not None:
                run = LoadRun(self.trial(option, n), n, window, REPORT, counts=True)
            fullest = run.loads or run.run(1)
            seen += copies * list(fullest)
        return replace(
            ServedLoad.together(fullest),
            answers=tuple(one for load in seen for one in load.answers),
            unended_s=tuple(one for load in seen for one in load.unended_s),
        )

    def arriving(self, option: Option, load: Load, in_flight: int) -> ArrivalRun:
        """Return what one copy does with answers that arrive.

        Parameters
        ----------
        load : arrivals at random, or a trace, of which a copy meets its part.
        in_flight : answers that are in flight about, >= 1, in all copies: a replication has six times as many.
        """
        copies = option.arrangement.replicas
        part = load.part(copies, _MOST_OF_A_TRACE)
        sizes = None if part is None else Traced(part)
        trial = self.trial(option, None, sizes=sizes, in_flight=in_flight / copies)
        if part is not None:
            moments: list[float] = part.times_s.tolist()
            return ArrivalRun(trial, lambda _: moments, warmup=len(part) // 10, most=1)
        n, rate = max(_LEAST_ARRIVALS, round(6 * in_flight / copies)), load.per_second
        assert rate is not None

        def moments_s(replication: int) -> list[float]:
            drawn: list[float] = bursty_times(rate / copies, load.burstiness, n, replication=replication).tolist()
            return drawn

        return ArrivalRun(trial, moments_s, warmup=n // 5)


def shares_of(answers: int, copies: int) -> dict[int, int]:
    """Return how many answers a copy has in flight, to how many copies have so many; the most answers last.

    >>> shares_of(7, 2), shares_of(1, 4)
    ({3: 1, 4: 1}, {0: 3, 1: 1})
    """
    each, more = divmod(answers, copies)
    return {each: copies - more, each + 1: more} if more else {each: copies}
