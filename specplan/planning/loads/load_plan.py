"""The plan under load: at each load the best option of each kind, its gain over plain decoding there, and how sure.

Of models by name plain decoding is as free as the others in how it uses the GPUs: a method that needs GPUs of its own
competes with more copies, and with more GPUs per copy, of the target without a drafter. With a profile all methods
share its engines.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

from sim.configuration import PLAIN
from sim.estimate import Estimate, on_logarithm, with_errors
from sim.serving.answers import ServedLoad
from sim.serving.load_run import ArrivalRun, sooner
from specplan.output import Progress, silent
from specplan.planning.loads.from_names import FromNames
from specplan.planning.loads.limits import Limit
from specplan.planning.loads.options import Budget, Option, Place, rank
from specplan.planning.loads.search import Best, Curve
from specplan.planning.loads.simulating import Simulator, shares_of
from specplan.worlds.request import Limits
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.planning.loads.schedule import Depths
    from specplan.worlds.request import Deployment, Load

__all__ = ["BeyondError", "LoadPlan", "LoadRow", "NamesPlan", "Planner", "plan_loads", "row_at"]

_MOST_CURVE: Final = 128
"""Answers at once up to which a curve from names goes, unless a load asks for more."""
_MOST: Final = 4096
"""Answers at once up to which arrivals are looked for."""
_ENDLESS: Final = on_logarithm(math.inf, 0.0, 1, estimator="plain decoding cannot keep up")
_REPLICATIONS: Final = 4
"""Replications of arrivals that are too many for plain decoding, so that no gain says when they are enough."""
_ARRIVALS_PRECISION: Final = 0.03
"""Standard error that simulation may leave of a gain of arrivals, as a share."""
_MOST_OF_CAPACITY: Final = 0.98
"""Share of what an option finishes at which arrivals overload it, [-]: nearer, queues are longer than any trial."""
_MANY: Final = (32, 128)
"""Answers at once at which an option finishes most."""
_SLO_SHARE: Final = 90
"""Percentile of the answers that must meet a bound."""
_Speed = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """What one option does at one load."""

    option: Option
    arriving: bool = False
    """Whether answers arrive, which says how many tokens and answers there are per second."""
    gain: Estimate
    """Tokens per second / those of plain decoding at its best on the same GPUs or engines; its interval has all errors.
    Of arrivals: mean seconds of an answer by plain decoding / those of the option."""
    errors: Mapping[str, float]
    """Source of error to the 95 % half-width of the logarithm of the gain that is its own, [-]."""
    served: ServedLoad = field(repr=False)
    """What its fullest copy does, and what users see of all copies."""
    tokens_per_s: float
    answers_per_s: float
    mean_s: float
    """Mean seconds: by Little's law in a closed loop, whose windows miss the longest; else of those seen."""
    in_vain: Mapping[str, float]
    """Role (draft, target) to what it writes or checks in vain per token that stands, [-]: tokens of steps, and
    positions of passes; empty where it was not counted."""
    limit: Limit | None = None
    meets: bool
    goodput: float
    timed: int | None = None
    """Answers at once up to which the target's passes were timed; None without timings."""

    @property
    def place(self) -> Place:
        """Its place in a table."""
        return rank(self.option.configuration, meets=self.meets, gain=self.gain.value, seconds=self.mean_s)

    @property
    def prior_share(self) -> float:
        """Share of the interval's square that beliefs about acceptance and steps take, in [0, 1]."""
        total = sum(part * part for part in self.errors.values())
        known = sum(self.errors.get(name, 0.0) ** 2 for name in ("sampling", "cost of passes"))
        return (total - known) / total if total > 0.0 else 0.0


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """The best options at each load."""

    simulator: Simulator = field(repr=False)
    limits: Limits
    loads: tuple[tuple[Load, tuple[LoadRow, ...]], ...]
    """Each load with its rows, best first; plain decoding is among them."""
    beyond: tuple[str, ...]
    """Why the other loads were not planned: more arrives than is finished, or an interruption."""
    left_out: bool
    rough: tuple[Load, ...] = ()
    """Loads whose rows are by mean values, as far as these are known, without methods that write steps."""
    planner: Planner = field(repr=False, compare=False)
    grid: tuple[int, ...] = field(repr=False)
    progress: Progress = field(repr=False, compare=False)

    @cached_property
    def curve(self) -> Curve:
        """Gains by answers at once; simulated at the first use, after the rows.

        Of a curve that is interrupted, what is known is returned.
        """
        return self.planner.curve(self.grid, self.progress)

    def compares(self, load: Load) -> bool:
        """Whether other methods were tried than plain decoding, even if too slow for a row."""
        return load.concurrency is None or len(self.planner.best_at(load.concurrency)) > 1

    @property
    def interrupted(self) -> bool:
        """Whether an interruption left loads out, or a part of the curve."""
        return self.left_out or self.curve.interrupted

    @classmethod
    def of(
        cls,
        simulator: Simulator,
        loads: Sequence[Load],
        limits: Limits,
        *,
        guide: Collection[int] = (),
        grid: Collection[int] = (),
        progress: Progress = silent,
    ) -> Self:
        """Plan for each load, fewest answers at once first; of a plan that is interrupted, what is known is returned.

        The rows do not depend on the grid, which comes after them.

        Parameters
        ----------
        guide : answers at once at which the best options are looked for first: they guide the search at more.
        grid : answers at once at which the gains are drawn; none: those of the loads.

        Raises
        ------
        ParameterError : a load is too much for every option.
        KeyboardInterrupt : interrupted before the first load was planned.
        """
        planner = Planner(simulator, limits)
        given = {load.concurrency for load in loads if load.concurrency}
        first = sorted({*guide, *given})
        rows: dict[int, tuple[LoadRow, ...]] = {}  # by place among the loads
        beyond: list[str] = []
        left_out = False

        def plan(place: int) -> None:
            try:
                rows[place] = planner.rows(loads[place])
            except BeyondError as error:
                beyond.append(str(error))
                if len(beyond) == len(loads):
                    raise
            step_done()

        with progress("planning", len(first) + len(loads)) as step_done:
            try:
                for n in first:
                    planner.best_at(n)
                    step_done()
                    for place in [i for i, load in enumerate(loads) if load.concurrency == n]:
                        plan(place)
                for place in [i for i, load in enumerate(loads) if load.concurrency is None]:
                    plan(place)
            except KeyboardInterrupt:
                if not rows:
                    raise
                left_out = True
                left = (load.text for i, load in enumerate(loads) if i not in rows)
                beyond += [f"load {load}, before which you interrupted" for load in left]
        drawn = sorted(grid or given)
        return cls(
            simulator=simulator,
            limits=limits,
            loads=tuple((load, rows[i]) for i, load in enumerate(loads) if i in rows),
            beyond=tuple(beyond),
            left_out=left_out,
            planner=planner,
            grid=tuple(n for n in drawn if n in planner.searched) if left_out else tuple(drawn),
            progress=progress,
        )


@dataclass(frozen=True, kw_only=True)
class NamesPlan(LoadPlan):
    """The best options at each load for models by name."""

    simulator: FromNames = field(repr=False)

    @cached_property
    def deployment(self) -> Deployment:
        """Models, GPUs and sizes."""
        return self.simulator.deployment

    @cached_property
    def depths(self) -> Depths:
        """How many tokens each method drafts per round, by batch."""
        return self.simulator.depths

    @cached_property
    def unknown(self) -> Mapping[str, tuple[str, ...]]:
        """Name of a method that could not be evaluated to what is missing."""
        return self.simulator.considered.unknown

    def rate_errors(self, row: LoadRow) -> dict[str, float]:
        """Return 95 % half-widths of the logarithm of a row's tokens per second, by cause; none of what arrives."""
        return {} if row.arriving else self.simulator.rate_errors(row.option, row.errors, row.served.in_flight)


def plan_loads(
    deployment: Deployment,
    loads: Sequence[Load],
    limits: Limits,
    methods: Sequence[str],
    *,
    budget: Budget | None = None,
    curve: bool = True,
    progress: Progress = silent,
) -> NamesPlan:
    """Plan for models by name.

    Parameters
    ----------
    curve : whether to draw the gains at 1, 2, 4, ... answers at once besides, not only at those of the loads.

    Raises
    ------
    ParameterError : the target does not fit, or a load is too much for every option.
    KeyboardInterrupt : interrupted before the first load was planned.
    """
    simulator = FromNames(deployment, methods, budget)
    assert simulator.considered.plain, "the target fits somewhere"
    most = max(_MOST_CURVE, 2 * max(load.concurrency or 0 for load in loads))
    grid = _powers(most) if curve else ()
    try:
        return NamesPlan.of(simulator, loads, limits, guide=(1,), grid=grid, progress=progress)
    except BeyondError as error:
        error.gpus = deployment.gpus
        raise


def row_at(simulator: Simulator, option: Option, plain: Option, answers: int) -> LoadRow:
    """Return what an option does with so many answers at once, whether or not another is better."""
    return Planner(simulator, Limits()).closed(option, plain, answers)


def _powers(most: int) -> list[int]:
    """Powers of two up to a number, at most `_MOST`."""
    return [2**i for i in range(_MOST.bit_length()) if 2**i <= most]


class BeyondError(ParameterError):
    """More arrives than any option finishes."""

    gpus = 0
    """How many GPUs finish less than arrives; 0: those of a profile."""


class Planner:
    """Rows of one plan; the best options at fewer answers guide the search at more."""

    def __init__(self, simulator: Simulator, limits: Limits) -> None:
        self.simulator = simulator
        self.limits = limits
        self._best: dict[int, Best] = {}
        self._gains: dict[tuple[int, Option], float] = {}

    @property
    def searched(self) -> Collection[int]:
        """Answers at once at which the best options are known."""
        return self._best.keys()

    def best_at(self, answers: int) -> Best:
        """The best option of each kind with so many answers at once."""
        if answers not in self._best:
            fewer = [n for n in self._best if n < answers]
            before = self._best[max(fewer)] if fewer else {}
            self._best[answers] = self.simulator.best_of_each_kind(answers, before)
        return self._best[answers]

    def rows(self, load: Load) -> tuple[LoadRow, ...]:
        """What the best kinds do at a load, best first."""
        if load.concurrency is None:
            rows = self._arriving(load)
        else:
            best = self.best_at(load.concurrency)
            plain = best[PLAIN.method][0]
            rows = [self.closed(option, plain, load.concurrency) for option in self.simulator.shown(best)]
        return tuple(sorted(rows, key=lambda row: row.place))

    def closed(self, option: Option, plain: Option, answers: int) -> LoadRow:
        """The row of an option with so many answers at once, on answers that had no part in its choice."""
        simulated, rate = self.simulator.reported(option, plain, answers)
        self._gains[answers, option] = simulated.value
        served = self.simulator.served(option, answers, rate)
        each_s = self.simulator.answer_tokens / rate.value
        speed = rate.value, 1.0 / each_s, answers * each_s
        return self._row(option, answers, simulated, served, speed, arriving=False)

    def _arriving(self, load: Load) -> list[LoadRow]:
        """Rows for answers that arrive, at random or as in a trace, by mean seconds of an answer."""
        assert load.per_second is not None
        simulator, in_flight = self.simulator, self._in_flight(load.per_second)
        options = []  # each as it is best with the answers that itself has in flight
        for shown in simulator.shown(self.best_at(in_flight)):
            own = self.best_at(min(self._in_flight(load.per_second, shown.kind), in_flight))
            options.append(own[shown.kind][0] if shown.kind in own else shown)
        capacity = {  # answers per second that an option finishes, however many wait
            option: max(simulator.speed(option, n) for n in _MANY) / simulator.answer_tokens for option in options
        }
        going = [option for option in capacity if load.per_second < _MOST_OF_CAPACITY * capacity[option]]
        if not going:
            raise self._beyond(load, max(capacity.values()))
        runs = {option: simulator.arriving(option, load, in_flight) for option in going}
        plain = next((run for option, run in runs.items() if option.configuration == PLAIN), None)
        return [self._arrived(option, run, plain, load.per_second) for option, run in runs.items()]

    def _arrived(self, option: Option, run: ArrivalRun, plain: ArrivalRun | None, per_second: float) -> LoadRow:
        gain = _ENDLESS if plain is None else sooner(run, plain, precision=_ARRIVALS_PRECISION)
        served = ServedLoad.together(run.loads or run.run(min(_REPLICATIONS, run.most)))
        answers = max(round(served.in_flight), 1) * option.arrangement.replicas
        speed = per_second * self.simulator.answer_tokens, per_second, served.mean("seconds")
        gain = self.simulator.corrected(option, gain)
        return self._row(option, answers, gain, served, speed, arriving=True)

    def _row(
        self, option: Option, answers: int, simulated: Estimate, served: ServedLoad, speed: _Speed, *, arriving: bool
    ) -> LoadRow:
        simulator, errors = self.simulator, self.simulator.errors(option, answers, simulated)
        copies, of = option.arrangement.replicas, "mean seconds of an answer" if arriving else "tokens per second"
        bounds = {"ttft_s": self.limits.ttft_s, "tpot_s": self.limits.tpot_s}
        return LoadRow(
            option=option,
            arriving=arriving,
            gain=with_errors(simulated.value, errors, simulated.n, of=f"ratio of {of}"),
            errors=errors,
            served=served,
            tokens_per_s=speed[0],
            answers_per_s=speed[1],
            mean_s=speed[2],
            meets=all(
                bound is None or not served.answers or served.percentiles(name)[_SLO_SHARE] <= bound
                for name, bound in bounds.items()
            ),
            goodput=speed[1] * (served.good_share(**bounds) if self.limits.binding else 1.0),
            **simulator.facts(option, max(shares_of(answers, copies)), served),
        )

    def _in_flight(self, rate: float, kind: str = PLAIN.method) -> int:
        """Answers in flight at a rate by the best option of a kind: Little's law on the curve."""
        points = sorted({*self._best, *_powers(_MOST_CURVE)})
        for n in points:
            best = self.best_at(n)
            if kind in best and best[kind][1] / self.simulator.answer_tokens >= rate:
                return n
        return points[-1]

    def _beyond(self, load: Load, most: float) -> ParameterError:
        """More arrives than ``most``, the answers per second that the best option finishes."""
        place, more = self.simulator.place, self.simulator.more
        rule = f"must be below {most:.3g}, the answers per second that {place} finish: take more ({more})"
        if load.trace is not None and math.isinf(load.trace.rate):
            arrivals = f"{len(load.trace)} answers"
            return ParameterError("trace", arrivals, f"all arrive at one moment; the rate {rule}")
        if load.trace is not None:
            return BeyondError("trace", f"{load.per_second:.6g} answers per second", rule)
        return BeyondError("rate", f"{load.per_second:g}", rule)

    def curve(self, grid: Sequence[int], progress: Progress) -> Curve:
        """Gains by answers at once; interrupted: those that are known."""
        unknown, interrupted = [n for n in grid if n not in self._best], False
        if unknown:
            with progress("gains at other loads", len(unknown)) as step_done:
                try:
                    for n in unknown:
                        self.best_at(n)
                        step_done()
                except KeyboardInterrupt:
                    interrupted = True
                    grid = [n for n in grid if n in self._best]
        return Curve.of({n: self._best[n] for n in grid}, self._gain, interrupted=interrupted)

    def _gain(self, option: Option, plain: Option, answers: int) -> float:
        """The gain of an option that was chosen: that of its row, or by one replication."""
        known = self._gains.get((answers, option))
        if known is None:
            known = self._gains[answers, option] = self.simulator.gain(option, plain, answers)
        return known
