"""The first screen of a plan from a profile, in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from specplan.output import SCREEN, between, narrow, screen
from specplan.show.loads.results import by_load
from specplan.show.loads.words import beyond_timings, switch_off

if TYPE_CHECKING:
    from sim.estimate import Estimate
    from specplan.planning.latency import Timed
    from specplan.planning.loads.load_plan import LoadPlan
    from specplan.planning.planner import Plan, Row
    from specplan.planning.predict import Prediction

__all__ = ["Doubt", "first_screen", "summary", "widest"]

_SHOWN: Final = 12
"""Methods on the first screen, plain decoding besides."""
_WIDEST: Final = {
    "sampling": "sampling of {n} answers",
    "profile": "what the profile does not say about timings and step lengths",
    "model": "the error of earlier predictions of this kind",
}
"""Source of error to its words on the screen."""


def summary(ranking: Plan) -> str:
    """Return two sentences: what to do and what it brings, with how sure; what it costs."""
    best = ranking.best.prediction
    return f"{ranking.verdict} {_costs(best)}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What makes most of the best row's interval, and what to measure next."""

    what: str
    remedy: str


def widest(ranking: Plan) -> Doubt | None:
    """Return what the best row's interval is mostly made of; None where it has none."""
    errors = {name: part for name, part in ranking.best.prediction.errors.items() if part > 0.0}
    if not errors:
        return None
    name, part = max(errors.items(), key=lambda error: error[1])
    what = f"Most of the interval, ±{100 * part:.0f} %, comes from {_WIDEST[name].format(n=ranking.n_answers)}."
    more = 4 * ranking.n_answers
    if not ranking.measured:
        drawn = f"Draw four times as many (-n {more}), or measure" if name == "sampling" else "Measure"
        return Doubt(what=what, remedy=f"{drawn} your own models: specplan calibrate")
    if name == "model":
        return Doubt(what=what, remedy="Run the row that you choose: specplan validate")
    return Doubt(what=what, remedy=f"Answer four times as many questions: specplan calibrate -n {more}")


def first_screen(ranking: Plan, timings: Timed, loads: LoadPlan | None) -> str:
    """Return what fits a terminal of 80 columns: what to do, the best rows, what to measure next.

    Parameters
    ----------
    ranking : the plan at concurrency 1.
    timings : whose they are.
    loads : the best of each kind of configuration at each load.
    """
    shown = _chosen(ranking.rows)
    about = f"{ranking.profile}, one answer at a time, at most {ranking.max_parallel} positions per target pass:"
    by_load = [] if loads is None else [_by_load(loads)]
    below = [*_below(ranking, len(shown)), *timings.lines()[: timings.latency is not None]]
    return screen(summary(ranking), about, _short_table(shown), *by_load, below)


def _costs(best: Prediction) -> str:
    """Return what the best row needs: servers, tokens that the target generates, and how many answers are right."""
    if not best.configuration.speculates:
        return ""
    servers = ["target", *(role for role in best.configuration.spec.roles if role in ("draft", "judge"))]
    need = "one server" if len(servers) == 1 else f"{len(servers)} servers"
    roles = " and ".join(filter(None, [", ".join(servers[:-1]), servers[-1]]))
    kept = f"The target generates {1.0 + best.wasted_target:.2f} tokens for every token that it keeps"
    text = f"You need {need}: {roles}. {kept}"
    if best.accuracy is not None and best.baseline_accuracy is not None:
        text += f"; {between(best.accuracy)} of the answers are right, {best.baseline_accuracy.value:.2f} without it"
    return text + "."


def _chosen(rows: Sequence[Row]) -> list[Row]:
    """The best rows, and plain decoding wherever it stands."""
    return [row for i, row in enumerate(rows) if i < _SHOWN or not row.prediction.configuration.speculates]


def _short_table(rows: Sequence[Row]) -> str:
    """The rows in columns that say something: nothing is there twice, and none is empty."""
    depths = {name: [str(getattr(row.prediction.configuration, name)) for row in rows] for name in ("k1", "k2")}
    columns = [
        ("method", [row.label for row in rows]),
        *((name, cells) for name, cells in depths.items() if set(cells) != {"1"}),
        ("speedup", [_speedup(row.prediction) for row in rows]),
        ("right", [_value(row.prediction.accuracy) for row in rows]),
        ("target tokens", [f"{1.0 + row.prediction.wasted_target:.2f}" for row in rows]),
    ]
    return narrow(columns)


def _by_load(loads: LoadPlan) -> str:
    """The best at each load, and the load from which on plain decoding is best."""
    said = [*beyond_timings(loads), *(f"Not planned: {why}." for why in loads.beyond), switch_off(loads)]
    return "\n".join([by_load(loads), *(textwrap.fill(line, SCREEN) for line in said if line)])


def _below(ranking: Plan, n_shown: int) -> Iterator[str]:
    if (hidden := len(ranking.rows) - n_shown) > 0:
        yield f"{hidden} slower rows are not shown."
    if ranking.unknown:
        yield f"Not evaluated, for lack of measurements: {', '.join(ranking.unknown)}."
    if (doubt := widest(ranking)) is not None:
        yield f"{doubt.what} {doubt.remedy}."
    yield (
        "speedup: over plain decoding, one answer at a time, [95 % interval]; target tokens: generated per token kept. "
        "All rows, columns and assumptions, and the commands to run it: -v."
    )


def _speedup(p: Prediction) -> str:
    return between(p.speedup) if p.configuration.speculates else f"{p.speedup.value:.2f}"


def _value(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{estimate.value:.2f}"
