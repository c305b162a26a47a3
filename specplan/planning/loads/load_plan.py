"""The plan under load: at each load the best option, what it gains over plain decoding on the same GPUs, and how sure.

Plain decoding is as free as the others in how it uses the GPUs: a method that needs GPUs of its own competes with more
copies, and with more GPUs per copy, of the target alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from calibrate.replay.trials import PLAIN
from sim.estimate import Estimate, on_logarithm
from sim.operations import DRAFT, TARGET
from sim.serving.answers import ServedLoad
from sim.serving.load_run import ArrivalRun, sooner
from specplan.planning.loads.limits import Limit, limit_of
from specplan.planning.loads.options import Considered, Option, Place, considered, rank
from specplan.planning.loads.schedule import Depths
from specplan.planning.loads.search import Best, best_of_each_kind, worth_simulating
from specplan.planning.loads.simulating import Simulator, shares_of
from specplan.worlds.drafters.naming import drafting_model
from theory.errors import ParameterError
from theory.hardware.half_widths import GAIN, half_width
from theory.hardware.work import Work

if TYPE_CHECKING:
    from specplan.worlds.request import Deployment, Limits, Load

__all__ = ["Curve", "LoadPlan", "LoadRow", "plan_loads"]

_SHOWN: Final = 4
"""Kinds of options that are simulated at length at each load."""
_Z: Final = 1.96
_STEP_HALF_WIDTH: Final = 0.22
"""95 % half-width of the logarithm of a step-level gain, acceptance known: Lookahead Reasoning's Table 1 from the names
of its models, 14 rows (`python -m workshop.names_table`)."""
_MOST_CURVE: Final = 128
"""Answers at once up to which the curve goes, unless a load asks for more."""
_ENDLESS: Final = on_logarithm(math.inf, 0.0, 1, estimator="plain decoding cannot keep up")
_REPLICATIONS: Final = 4
"""Replications of arrivals that are too many for plain decoding, so that no gain says when they are enough."""
_ARRIVALS_PRECISION: Final = 0.03
"""Standard error that simulation may leave of a gain of arrivals, as a share."""
_MOST_OF_CAPACITY: Final = 0.98
"""Share of what an option finishes at which arrivals overload it, [-]: nearer, queues are longer than any trial."""
_CROWDS: Final = (32, 128)
"""Answers at once at which an option finishes most."""
_SLO_SHARE: Final = 90
"""Percentile of the answers that must meet a bound."""

Progress = Callable[[str, int], AbstractContextManager[Callable[[], None]]]


def _silent(what: str, n_steps: int) -> AbstractContextManager[Callable[[], None]]:
    return nullcontext(lambda: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """What one option does at one load."""

    option: Option
    gain: Estimate
    """Tokens per second of all GPUs / those of plain decoding at its best on the same GPUs; its interval has all
    errors. Of arrivals: mean seconds of an answer by plain decoding / those of the option."""
    errors: Mapping[str, float]
    """Source of error to the 95 % half-width of the logarithm of the gain that is its own, [-]."""
    served: ServedLoad = field(repr=False)
    """What its fullest copy does, and what users see of all copies."""
    tokens_per_s: float
    """Tokens per second of all GPUs."""
    answers_per_s: float
    in_vain: Mapping[str, float]
    """Role (draft, target) to what it writes or checks in vain per token that stands, [-]: tokens of steps, and
    positions of passes."""
    limit: Limit
    """What runs out first."""
    meets: bool
    """Whether 90 % of the answers meet the bounds."""
    goodput: float
    """Answers per second of all GPUs that meet the bounds."""

    @property
    def prior_share(self) -> float:
        """Share of the interval's square that beliefs about acceptance and steps take, in [0, 1]."""
        total = sum(part * part for part in self.errors.values())
        known = sum(self.errors.get(name, 0.0) ** 2 for name in ("sampling", "cost of passes"))
        return (total - known) / total if total > 0.0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Gains by answers at once, of the best option of each kind, by short simulations."""

    answers: tuple[int, ...]
    gains: Mapping[str, tuple[float | None, ...]]
    """Kind to its gain at each number of answers; None where it was given up before."""
    options: Mapping[str, tuple[Option | None, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The whole answer."""

    deployment: Deployment
    limits: Limits
    loads: tuple[tuple[Load, tuple[LoadRow, ...]], ...]
    """Each load with its rows, best first; plain decoding is among them."""
    beyond: tuple[str, ...]
    """Why the other loads were not planned: more arrives than the GPUs finish, or an interruption."""
    curve: Curve
    depths: Depths = field(repr=False)
    """How many tokens each method drafts per round, by batch."""
    unknown: Mapping[str, tuple[str, ...]]
    """Name of a method that could not be evaluated to what is missing."""
    interrupted: bool = False
    """Whether an interruption left loads out, or a part of the curve."""


def plan_loads(
    deployment: Deployment,
    loads: Sequence[Load],
    limits: Limits,
    methods: Sequence[str],
    *,
    progress: Progress = _silent,
) -> LoadPlan:
    """Plan for each load, fewest answers at once first; of a plan that is interrupted, what is known is returned.

    Parameters
    ----------
    deployment : models, GPUs, sizes.
    loads : at least one.
    limits : bounds on times.
    methods : names of methods to consider; plain decoding always is.
    progress : tells how far it is.

    Raises
    ------
    ParameterError : the target does not fit, or a load is too much for every option.
    KeyboardInterrupt : interrupted before the first load was planned.
    """
    planner = _Planner(deployment, limits, considered(deployment, methods))
    most = max([load.concurrency or 0 for load in loads])
    grid = [2**i for i in range(13) if 2**i <= max(_MOST_CURVE, 2 * most)]
    points = sorted({*grid, *(load.concurrency for load in loads if load.concurrency)})
    found: dict[int, tuple[LoadRow, ...]] = {}  # by place among the loads
    beyond: list[str] = []
    interrupted = False

    def rows_of(place: int) -> None:
        try:
            found[place] = planner.rows(loads[place])
        except _BeyondError as error:
            beyond.append(str(error))
            if len(beyond) == len(loads):
                raise
        step_done()

    with progress("planning", len(points) + len(loads)) as step_done:
        try:
            for n in points:
                planner.best_at(n)
                step_done()
                for place in [i for i, load in enumerate(loads) if load.concurrency == n]:
                    rows_of(place)
            for place in [i for i, load in enumerate(loads) if load.concurrency is None]:
                rows_of(place)
        except KeyboardInterrupt:
            if not found:
                raise
            interrupted = True
            left = (load.text for i, load in enumerate(loads) if i not in found)
            beyond += [f"load {load}, before which you interrupted" for load in left]
    return LoadPlan(
        deployment=deployment,
        limits=limits,
        loads=tuple((load, found[i]) for i, load in enumerate(loads) if i in found),
        beyond=tuple(beyond),
        curve=planner.curve([n for n in grid if n in planner.searched]),
        depths=planner.depths,
        unknown=planner.found.unknown,
        interrupted=interrupted,
    )


class _BeyondError(ParameterError):
    """More arrives than any option finishes."""


class _Planner:
    """Plans of one deployment; what was found at fewer answers guides the search at more."""

    def __init__(self, deployment: Deployment, limits: Limits, found: Considered) -> None:
        self.deployment = deployment
        self.limits = limits
        self.found = found
        self.simulator = Simulator(deployment)
        self.depths = Depths(self.simulator.world)
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
            depths, speed = self.depths, self.simulator.speed
            self._best[answers] = best_of_each_kind(self.found, speed, depths.k, answers, before, depths.adaptive)
        return self._best[answers]

    def rows(self, load: Load) -> tuple[LoadRow, ...]:
        """What the best kinds do at a load, best first."""
        if load.concurrency is None:
            return _Arriving(self, load).rows()
        n = load.concurrency
        best = self.best_at(n)
        plain = best[PLAIN.method]
        ranked = sorted(worth_simulating(best).values(), key=lambda pair: -pair[1])
        shown = ranked[:_SHOWN] + ([] if plain in ranked[:_SHOWN] else [plain])
        found = [self._row(option, plain[0], n) for option, _ in shown]
        return tuple(sorted(found, key=_place))

    def _row(self, option: Option, plain: Option, answers: int) -> LoadRow:
        """What an option that was chosen does, on answers that had no part in the choice."""
        simulated, rate = self.simulator.reported(option, plain, answers)
        self._gains[answers, option] = simulated.value
        fullest = max(shares_of(answers, option.arrangement.replicas))
        served = self.simulator.served(option, answers, rate)
        errors = self.errors(option, answers, simulated)
        return LoadRow(
            option=option,
            gain=with_errors(simulated.value, errors, simulated.n),
            errors=errors,
            served=served,
            tokens_per_s=rate.value,
            answers_per_s=rate.value / self.deployment.answer_tokens,
            in_vain=self.in_vain(option, served),
            limit=limit_of(self.simulator.world, option, fullest, served),
            meets=self.meets(served),
            goodput=self.goodput(option, served),
        )

    def errors(self, option: Option, answers: int, simulated: Estimate) -> dict[str, float]:
        """Half-widths of the logarithm of a gain by source."""
        configuration = option.configuration
        if not configuration.speculates:
            return {}
        beliefs = self.simulator.world.beliefs
        steps, adaptive = configuration.spec.drafts_steps, configuration.least > 0.0
        names = beliefs.moves(steps=steps, token=configuration.token, adaptive=adaptive)
        found = {}
        for name in names:
            ends = [self.simulator.speed(option, answers, {name: z}) for z in (-_Z, _Z)]
            found[name] = abs(math.log(ends[1] / ends[0])) / 2.0
        found["cost of passes"] = self.cost_error(option, answers)
        found["sampling"] = simulated.relative_half_width if math.isfinite(simulated.value) else 0.0
        return found

    def cost_error(self, option: Option, answers: int) -> float:
        """95 % half-width of the logarithm of a gain that the cost of passes leaves, as measured on public rows."""
        arrangement = option.arrangement
        target = self.simulator.world.cost(self.deployment.target, arrangement.split).model
        of_tokens = half_width(GAIN, target, Work(sequences=max(answers / arrangement.replicas, 1.0)))
        if not option.configuration.spec.drafts_steps:
            return of_tokens
        return max(of_tokens, _STEP_HALF_WIDTH if target.gpu.fitted else 2.0 * _STEP_HALF_WIDTH)

    def in_vain(self, option: Option, served: ServedLoad) -> dict[str, float]:
        """What draft and target do in vain per token that stands."""
        passes, k2 = self.simulator.world.passes(option.configuration), option.configuration.k2
        drafts = drafting_model(self.deployment, option.configuration.token) is not None
        drafted, checked = ((positions - passes.tokens) / passes.tokens for positions in (k2, passes.rows))
        return {DRAFT: served.in_vain(DRAFT) + drafts * drafted, TARGET: served.in_vain(TARGET) + checked}

    def meets(self, served: ServedLoad) -> bool:
        """Whether enough answers meet the bounds."""
        bounds = (("ttft_s", self.limits.ttft_s), ("tpot_s", self.limits.tpot_s))
        return all(
            bound is None or not served.answers or served.percentiles(name)[_SLO_SHARE] <= bound
            for name, bound in bounds
        )

    def goodput(self, option: Option, served: ServedLoad) -> float:
        """Answers per second of all copies that meet the bounds."""
        each = served.goodput(ttft_s=self.limits.ttft_s, tpot_s=self.limits.tpot_s)
        return option.arrangement.replicas * each

    def curve(self, grid: Sequence[int]) -> Curve:
        """Gains by answers at once."""
        kinds = list(dict.fromkeys(kind for n in grid for kind in self.best_at(n) if kind != PLAIN.method))
        gains: dict[str, list[float | None]] = {kind: [] for kind in kinds}
        options: dict[str, list[Option | None]] = {kind: [] for kind in kinds}
        for n in grid:
            best = self.best_at(n)
            for kind in kinds:
                option = best[kind][0] if kind in best else None
                gains[kind].append(None if option is None else self._gain(option, best[PLAIN.method][0], n))
                options[kind].append(option)
        return Curve(
            answers=tuple(grid),
            gains={kind: tuple(values) for kind, values in gains.items()},
            options={kind: tuple(values) for kind, values in options.items()},
        )

    def _gain(self, option: Option, plain: Option, answers: int) -> float:
        """The gain of an option that was chosen: that of its row, or by one replication."""
        known = self._gains.get((answers, option))
        if known is None:
            known = self._gains[answers, option] = self.simulator.gain(option, plain, answers)
        return known


def _place(row: LoadRow) -> Place:
    """The place of a row in its table."""
    seconds = row.served.mean("seconds")
    return rank(row.option.configuration, meets=row.meets, gain=row.gain.value, seconds=seconds)


class _Arriving:
    """Rows for answers that arrive, at random or as in a trace."""

    def __init__(self, planner: _Planner, load: Load) -> None:
        self.planner = planner
        self.load = load
        assert load.per_second is not None
        self.rate = load.per_second

    def rows(self) -> tuple[LoadRow, ...]:
        """What the best kinds do, by mean seconds of an answer."""
        planner = self.planner
        best = planner.best_at(self._in_flight())
        ranked = sorted(worth_simulating(best).values(), key=lambda pair: -pair[1])[:_SHOWN]
        if best[PLAIN.method] not in ranked:
            ranked.append(best[PLAIN.method])
        capacity = {option: self._capacity(option) for option, _ in ranked}
        going = [option for option in capacity if self.rate < _MOST_OF_CAPACITY * capacity[option]]
        runs = {option: planner.simulator.arriving(option, self.load, self._in_flight()) for option in going}
        plain = next((run for option, run in runs.items() if option.configuration == PLAIN), None)
        if not runs:
            most = max(capacity.values())
            rule = f"must be below {most:.3g}, the answers per second that {planner.deployment.gpus} x "
            rule += f"{planner.deployment.gpu.name} finish"
            if self.load.trace is not None and math.isinf(self.rate):
                arrivals = f"{len(self.load.trace)} answers"
                raise ParameterError("trace", arrivals, f"all arrive at one moment; the rate {rule}")
            raise _BeyondError("rate", f"{self.rate:g}", rule)
        found = [self._row(option, run, plain) for option, run in runs.items()]
        return tuple(sorted(found, key=_place))

    def _capacity(self, option: Option) -> float:
        """Answers per second that an option finishes, however many wait."""
        planner = self.planner
        most = max(planner.simulator.speed(option, n) for n in _CROWDS)
        return most / planner.deployment.answer_tokens

    def _in_flight(self) -> int:
        """Answers in flight at this rate by plain decoding: Little's law on the curve."""
        planner, tokens = self.planner, self.planner.deployment.answer_tokens
        for n in sorted(planner.searched):
            if planner.best_at(n)[PLAIN.method][1] / tokens >= self.rate:
                return n
        return max(planner.searched)

    def _row(self, option: Option, run: ArrivalRun, plain: ArrivalRun | None) -> LoadRow:
        planner = self.planner
        simulated = sooner(run, plain, precision=_ARRIVALS_PRECISION) if plain is not None else _ENDLESS
        served = ServedLoad.together(run.loads or run.run(min(_REPLICATIONS, run.most)))
        in_flight = max(round(served.in_flight), 1)
        errors = planner.errors(option, in_flight * option.arrangement.replicas, simulated)
        copies = option.arrangement.replicas
        return LoadRow(
            option=option,
            gain=with_errors(simulated.value, errors, simulated.n, of="mean seconds of an answer"),
            errors=errors,
            served=served,
            tokens_per_s=served.tokens_per_s * copies,
            answers_per_s=served.answers_per_s * copies,
            in_vain=planner.in_vain(option, served),
            limit=limit_of(planner.simulator.world, option, in_flight, served),
            meets=planner.meets(served),
            goodput=planner.goodput(option, served),
        )


def with_errors(value: float, errors: Mapping[str, float], n: int, *, of: str = "tokens per second") -> Estimate:
    """Return a gain with an interval of all its errors in squares, on the logarithm: a gain cannot be negative."""
    total = math.sqrt(sum(part * part for part in errors.values()))
    estimator = f"ratio of {of}, simulated; interval: " + (", ".join(sorted(errors)) or "none")
    return on_logarithm(value, total, n, estimator=estimator, seed=0)
