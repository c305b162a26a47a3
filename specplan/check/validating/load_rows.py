"""Rows and verdicts of a validation under load, with the same estimators for simulated and real rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from calibrate.running.closed_loop import Loaded, RealRound
from calibrate.running.interleaved import BASELINE
from sim.configuration import Configuration
from sim.estimate import Estimate, proportion, ratio_of_totals
from sim.random_streams import stream
from sim.roles import TARGET
from sim.serving.rounds import Round
from sim.timeline import acceptance
from specplan.check.validating.load_prediction import PERCENTILES, UNITS, LoadPredictor, Totals, share_beyond, totals_of
from specplan.check.validating.validation import TOLERANCE
from specplan.planning.loads.statements import Pays

__all__ = ["LoadRow", "Verdict", "off_from", "row_of", "verdict_on"]

_RESAMPLES: Final = 1000

Side = Literal["predicted", "measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """A configuration at a load."""

    name: str
    clients: int
    predicted: Mapping[str, Estimate]
    """By the names of `METRICS`."""
    measured: Mapping[str, Estimate]
    accuracy: Estimate | None
    """Measured share of right answers; None without ground truth."""
    acceptance: float
    """Measured acceptance rate of judged drafts, in [0, 1]; NaN if none was judged."""
    answers_at_once: tuple[float, float]
    """Mean answers in flight over a round, predicted and measured; fewer than clients while a round ends."""
    most_steps: tuple[int, int]
    """Most target steps in flight, predicted and measured."""
    beyond: Mapping[str, tuple[float, float]]
    """By role, the share of the time with more steps in flight than the largest timed batch, predicted and measured."""
    seconds: tuple[float, ...] = ()
    """Durations of the measured rounds, each of the work of plain decoding's (`totals_of`), s."""
    at_pace: float | None = None
    """The gain predicted with the engine times of this load; None where engines do not report them."""

    @property
    def error(self) -> float:
        """Predicted / measured gain - 1, [-]."""
        return self.predicted["gain"].value / self.measured["gain"].value - 1.0

    @property
    def inside(self) -> bool:
        """Whether the measured gain lies in the predicted interval."""
        return self.predicted["gain"].contains(self.measured["gain"].value)

    @property
    def good(self) -> bool:
        """Whether the error is within the tolerance, or the measured gain inside the predicted interval."""
        return self.inside or abs(self.error) <= TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The choice at a load."""

    clients: int
    chosen: str
    """Configuration with the largest predicted gain; plain decoding if none is above 1."""
    best: str
    """Configuration with the largest measured gain."""
    regret: Estimate
    """Measured gain of the best / of the chosen configuration - 1, [-], with an interval over rounds."""


def row_of(
    configuration: Configuration,
    load: int,
    expected: LoadPredictor,
    loaded: Loaded,
    swept: Mapping[str, int],
    at_pace: float | None,
) -> LoadRow:
    """Compare the prediction of a configuration at a load with the measurement."""
    simulated, real = expected.rounds(configuration, load), loaded[configuration.name, load]
    seen, plain = _seen(real), _seen(loaded[BASELINE, load])
    totals = totals_of(configuration)
    graded = [one for part in real for one in part.correct or ()]
    return LoadRow(
        name=configuration.name,
        clients=load,
        predicted=expected.expected(configuration, load),
        measured=_measured(totals, seen, plain),
        accuracy=proportion(sum(graded), len(graded)) if graded else None,
        acceptance=acceptance(one for part in real for one in part.counts),
        answers_at_once=(_at_once(simulated), _at_once(seen)),
        most_steps=(_most_steps(simulated), _most_steps(seen)),
        beyond={role: (share_beyond(simulated, role, n), share_beyond(seen, role, n)) for role, n in swept.items()},
        seconds=tuple(totals["gain"](seen, plain)[1]),
        at_pace=at_pace,
    )


def _seen(real: Sequence[RealRound]) -> list[Round]:
    return [one.round for one in real]


def _at_once(rounds: Sequence[Round]) -> float:
    return sum(sum(one.seconds) for one in rounds) / sum(one.makespan for one in rounds)


def _most_steps(rounds: Sequence[Round]) -> int:
    return max(one.most_steps(TARGET) for one in rounds)


def _measured(totals: Mapping[str, Totals], own: Sequence[Round], plain: Sequence[Round]) -> dict[str, Estimate]:
    """Metrics of the real rounds: gains and rates with Student's interval over rounds, others by resampled answers."""
    estimates = {
        name: ratio_of_totals(*of(own, plain), estimator="ratio of totals over rounds", unit=UNITS.get(name, "s"))
        for name, of in totals.items()
    }
    seconds = np.array([value for one in own for value in one.seconds])
    picks = stream(0, "resampled answers", 0).integers(0, seconds.size, (_RESAMPLES, seconds.size))
    for name, q in PERCENTILES.items():
        resampled = np.percentile(seconds[picks], q, axis=1)
        low, high = np.percentile(resampled, (2.5, 97.5))
        estimates[name] = Estimate(
            value=float(np.percentile(seconds, q)),
            stderr=float(resampled.std(ddof=1)),
            low=float(low),
            high=float(high),
            n=seconds.size,
            estimator=f"percentile {q:g} of all answers; bootstrap over answers",
            unit="s",
        )
    return estimates


def verdict_on(rows: Sequence[LoadRow]) -> Verdict:
    """Return the predicted choice among the rows of a load, and its regret."""
    chosen = max(rows, key=lambda row: row.predicted["gain"].value)
    best = max(rows, key=lambda row: row.measured["gain"].value)
    ratio = ratio_of_totals(chosen.seconds, best.seconds, estimator="ratio of totals over rounds, less 1")
    return Verdict(
        clients=chosen.clients,
        chosen=chosen.name,
        best=best.name,
        regret=replace(ratio, value=ratio.value - 1.0, low=ratio.low - 1.0, high=ratio.high - 1.0),
    )


def off_from(rows: Sequence[LoadRow], side: Side) -> int | None:
    """Return the least load from which no configuration has a gain above 1."""
    gains = {row.clients: 0.0 for row in rows}
    for row in (row for row in rows if row.name != BASELINE):
        gains[row.clients] = max(gains[row.clients], getattr(row, side)["gain"].value)
    return Pays(tuple((load, gain > 1.0) for load, gain in sorted(gains.items()))).off_from
