"""Plans on several types of GPUs, by what a token costs: the cheapest at each load, and where that changes.

Each type is planned for by itself. Without a number of GPUs a plan takes the fewest that hold the models; where these
finish less than arrives, miss the bounds on times or wait for room in the cache, twice as many are tried, up to one
machine, and kept if they meet the bounds or cost less. Without prices a GPU hour costs one unit on every type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from specplan.planning.loads.click_options import loads_of
from specplan.planning.loads.from_options import deployment_plan
from specplan.planning.loads.load_plan import BeyondError
from specplan.planning.loads.prices import Dollars, dollars_of, gpus_named, prices_of
from specplan.worlds.memory import MOST_TP
from theory.errors import ParameterError
from theory.hardware.half_widths import around

if TYPE_CHECKING:
    from specplan.planning.loads.load_plan import LoadRow, NamesPlan
    from specplan.worlds.request import Load

__all__ = ["GpuPlans", "Priced", "gpu_plans", "is_several"]

_LOADS: Final = "1,8,64"
"""Answers at once if no load is said: a break-even needs several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """The best option of one type of GPU at one load, and what it costs."""

    plan: NamesPlan
    load: Load
    row: LoadRow
    dollars: Dollars
    """What it costs; GPU hours where no prices were given."""
    low: float
    high: float
    """95 % interval of the cost per million tokens."""
    costs: float
    """95 % half-width of its logarithm by the cost of passes only: acceptance is common to all types, [-]."""

    @property
    def gpu(self) -> str:
        """Name of the GPU."""
        return self.plan.deployment.gpu.name

    @property
    def gpus(self) -> int:
        """How many."""
        return self.plan.deployment.gpus

    @property
    def per_million(self) -> float:
        """Dollars per million tokens of answers."""
        return self.dollars.per_million_tokens

    @property
    def size(self) -> float | None:
        """The load as a number: answers at once or per second; None: a trace."""
        return self.load.concurrency or self.load.per_second


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPlans:
    """Plans by load and type of GPU."""

    loads: tuple[tuple[Priced, ...], ...]
    """By load: the types that were planned for, those that meet the bounds first, then the cheapest first."""
    refused: Mapping[str, str]
    """Name of a GPU that was not planned for to the reason."""
    priced: bool

    @property
    def plans(self) -> list[NamesPlan]:
        """Each plan once, in the order of the loads."""
        each_once: list[NamesPlan] = []
        for row in (row for rows in self.loads for row in rows):
            if not any(row.plan is one for one in each_once):
                each_once.append(row.plan)
        return each_once

    def break_evens(self) -> list[tuple[float, Priced, Priced]]:
        """Return where the cheapest type changes: the load, what is cheapest below it, and above it.

        Between two loads the costs of both types are straight on logarithms, of loads as of dollars. What misses the
        bounds is no cheapest type.
        """
        changes = []
        for below, above in zip(self.loads, self.loads[1:], strict=False):
            before, after = below[0], above[0]
            meet = before.row.meets and after.row.meets
            if meet and before.gpu != after.gpu and before.size and after.size:
                gaps = [_gap(rows, before.gpu, after.gpu) for rows in (below, above)]
                share = gaps[0] / (gaps[0] - gaps[1]) if gaps[0] < 0.0 < gaps[1] else 1.0
                changes.append((before.size * (after.size / before.size) ** share, before, after))
        return changes


def _gap(rows: Sequence[Priced], one: str, other: str) -> float:
    """Logarithm of what one type costs over what another does; 0 where one of them misses the bounds."""
    dollars = {row.gpu: row.per_million for row in rows if row.row.meets}
    return math.log(dollars[one] / dollars[other]) if {one, other} <= dollars.keys() else 0.0


def is_several(gpu: str | None) -> bool:
    """Whether an option names several types of GPUs."""
    return gpu is not None and "," in gpu


def gpu_plans(options: Mapping[str, Any], names: Sequence[str]) -> GpuPlans:
    """Return the plans on each type of GPU.

    Parameters
    ----------
    options, names : as of `specplan.planning.loads.from_options.deployment_plan`; ``gpu`` names
        several.

    Raises
    ------
    ParameterError : an unknown GPU or one twice, prices that do not fit, or a plan that no type allows.
    """
    if options.get("budget") is not None:
        raise ParameterError("budget", options["budget"], "is for one type of GPU (--gpu)")
    gpus = gpus_named(options["gpu"])
    prices = prices_of(options["gpu_price"], gpus)
    if all(options[name] is None for name in ("concurrency", "rate", "trace")):
        options = {**options, "concurrency": _LOADS}
    by_load: dict[str, list[Priced]] = {}
    refused: dict[str, ParameterError] = {}
    for gpu in gpus:
        own = {**options, "gpu": gpu.name, "gpu_price": prices.get(gpu.name, 1.0)}
        try:
            rows = _meeting(own, names)
        except ParameterError as error:
            refused[gpu.name] = error
            continue
        for row in rows:
            by_load.setdefault(row.load.text, []).append(row)
    if not by_load:
        raise next(iter(refused.values()))
    return GpuPlans(
        loads=tuple(
            tuple(sorted(by_load[load.text], key=_place)) for load in loads_of(options) if load.text in by_load
        ),
        refused={name: str(error) for name, error in refused.items()},
        priced=bool(prices),
    )


def _meeting(options: Mapping[str, Any], names: Sequence[str]) -> list[Priced]:
    """Each load on the GPUs of a type that finish what arrives and meet the bounds at the least cost."""
    cheapest: dict[str, Priced] = {}
    while True:
        try:
            plan = deployment_plan(options, names)
        except BeyondError as error:
            if not cheapest and (options["gpus"] is not None or 2 * error.gpus > MOST_TP):
                raise
            gpus, more = error.gpus, loads_of(options)
        else:
            if plan.left_out:  # costs of some loads on some GPUs compare nothing
                raise KeyboardInterrupt
            now = [_priced(plan, load, rows[0]) for load, rows in plan.loads]
            for one in now:
                cheapest[one.load.text] = min(cheapest.get(one.load.text, one), one, key=_place)
            enough = {one.load.text for one in now if one.row.meets and one.row.limit != "cache full"}
            gpus, more = plan.deployment.gpus, [load for load in loads_of(options) if load.text not in enough]
        if not more or options["gpus"] is not None or 2 * gpus > MOST_TP:
            return list(cheapest.values())
        options = {**options, "fewest": 2 * gpus}
        for kind in ("concurrency", "rate"):
            if options[kind] is not None:
                options[kind] = ",".join(f"{load.concurrency or load.rate:g}" for load in more)


def _place(one: Priced) -> tuple[bool, float]:
    """What meets the bounds comes first, then what costs less."""
    return not one.row.meets, one.per_million


def _priced(plan: NamesPlan, load: Load, row: LoadRow) -> Priced:
    dollars = dollars_of(plan.deployment, row)
    assert dollars is not None, "without prices a GPU hour costs one unit"
    errors = plan.rate_errors(row)
    low, high = around(dollars.per_million_tokens, math.hypot(*errors.values()))
    costs = errors.get("cost of passes", 0.0)
    return Priced(plan=plan, load=load, row=row, dollars=dollars, low=low, high=high, costs=costs)
