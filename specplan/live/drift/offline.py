"""Drift from saved metrics: counts between readings against the predictions of a profile, by the same bets.

Counters give sums, not single observations. `specplan.live.drift.betting.Bet.take_sum` takes these in without loss
where observations are 0 or 1, and else as a lower bound, so the false-alarm rate holds as it does live. Each window
between two readings is a batch: more readings detect later drifts sooner, and date them better.

Compared are the share of drafts that are right up to each position, and the number of rounds that certainly took
longer, or less long, than predicted by a margin, by the buckets of the histogram.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from calibrate.record.profile import Profile
from calibrate.record.token_records import TokenRecord
from sim.estimate import proportion, ratio_of_totals
from specplan.live.drift.betting import MeanBets, TwoWays
from specplan.live.drift.expected import TIME_MARGIN, Band
from specplan.live.drift.shares import ShareBets
from specplan.live.drift.watch import FALSE_ALARM, LEAST_DRIFT
from specplan.live.explaining.window import Window
from specplan.output import table
from theory.errors import ParameterError, SchemaError

__all__ = ["Compared", "Drift", "token_drift"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A mean and its prediction."""

    what: str
    predicted: Band
    seen: float
    """Mean of the observations, in the unit of the prediction."""
    n: int
    """Observations."""
    evidence: float
    """Largest evidence after any window over the evidence that raises the alarm; at 1 the alarm is raised."""
    at: int | None
    """Window, from 1 on, after which the alarm was raised; None: no alarm."""
    unit: str = ""

    def cells(self) -> list[str]:
        """Return a row of the table: what is compared, as seen and as predicted, and how near it is to an alarm."""
        seen, value, low, high = map(
            self._shown, (self.seen, self.predicted.value, self.predicted.low, self.predicted.high)
        )
        moved = f"{min(self.evidence, 0.99):.0%} of an alarm" if self.at is None else f"moved (window {self.at})"
        return [self.what, seen, f"{value} [{low}, {high}]", f"{self.n}", moved]

    def _shown(self, value: float) -> str:
        if self.unit == "s":
            return f"{1e3 * value:.2f} ms"
        return f"{value:.1f}" if self.unit else f"{value:.3f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Comparison of counts with a profile's predictions."""

    profile: str
    false_alarm: float
    """Probability of any alarm while everything is as predicted."""
    n_windows: int
    compared: tuple[Compared, ...]
    notes: tuple[str, ...] = ()

    @property
    def moved(self) -> tuple[Compared, ...]:
        """The means that raised the alarm."""
        return tuple(one for one in self.compared if one.at is not None)

    def plain(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return {
            "profile": self.profile,
            "false_alarm": self.false_alarm,
            "windows": self.n_windows,
            "moved": [one.what for one in self.moved],
            "compared": [asdict(one) for one in self.compared],
            "notes": list(self.notes),
        }

    def text(self) -> str:
        """Return the comparison as text, with the drifts first."""
        moved = ", ".join(one.what for one in self.moved)
        verdict = f"Moved from the predictions of {self.profile}: {moved}." if moved else ""
        coverage = (
            f"Over {self.n_windows} {'window' if self.n_windows == 1 else 'windows'}; the probability of any "
            f"alarm while everything is as predicted is at most {self.false_alarm:.0%}."
        )
        cells = table(["", "seen", "predicted", "n", ""], [one.cells() for one in self.compared])
        notes = "".join(f"\n- {note}" for note in self.notes)
        return f"{verdict or f'As {self.profile} predicts: no alarm.'} {coverage}\n\n{cells}{notes}"


@dataclass(frozen=True, slots=True)
class _Batches:
    """Sums of observations in [0, 1] by window, and their prediction."""

    what: str
    band: Band
    sums: Sequence[tuple[float, int]]
    is_share: bool = False
    """Whether each observation is 0 or 1, and the band is that of their share."""
    drift: float = LEAST_DRIFT
    unit: str = ""
    shown: Band | None = None
    """Shown prediction, where it is not the band."""
    seen: float | None = None
    """Shown observation, where it is not the mean."""

    def _bets(self, false_alarm: float) -> TwoWays:
        band = self.band
        if self.is_share:
            return ShareBets(band.records, alike=band.alike, drift=self.drift, false_alarm=false_alarm)
        return MeanBets(band.low, band.high, drift=self.drift, false_alarm=false_alarm)

    def compared(self, false_alarm: float) -> Compared:
        """Bet on each window in order."""
        bets = self._bets(false_alarm)
        evidence, at = 0.0, None
        for number, (total, n) in enumerate(self.sums, 1):
            bets.take_sum(total, n)
            evidence = max(evidence, float(bets.evidence))
            at = number if at is None and evidence >= 1.0 else at
        n = sum(n for _, n in self.sums)
        mean = math.fsum(total for total, _ in self.sums) / n if n else math.nan
        return Compared(
            what=self.what,
            predicted=self.shown or self.band,
            seen=mean if self.seen is None else self.seen,
            n=n,
            evidence=evidence,
            at=at,
            unit=self.unit,
        )


def token_drift(
    windows: Sequence[Window], profile: Profile, *, method: str | None = None, false_alarm: float = FALSE_ALARM
) -> Drift:
    """Compare a server with a token-level method with a profile.

    Parameters
    ----------
    windows : windows between readings, in order of time, at least one.
    profile : profile with a record of the method at the server's k.
    method : name of the server's token-level method in the catalogue; None: the only method with its k.
    false_alarm : probability of any alarm while everything is as predicted, in (0, 1).

    Raises
    ------
    ParameterError : the profile has no such record, or several.
    SchemaError : the server counts no positions.
    """
    k = windows[0].k
    if not k:
        raise SchemaError(
            f"{windows[0].source}: does not count acceptance by position, which is compared with the profile"
        )
    record = _record(profile, k, method)
    batches = [_position(windows, record, position) for position in range(k)]
    timed, notes = _timed(windows, record)
    batches += timed
    share = false_alarm / len(batches)
    return Drift(
        profile=profile.name,
        false_alarm=false_alarm,
        n_windows=len(windows),
        compared=tuple(batch.compared(share) for batch in batches),
        notes=notes,
    )


def _record(profile: Profile, k: int, method: str | None) -> TokenRecord:
    records = [one for one in profile.token if one.k2 == k + 1 and method in (None, one.method)]
    known = ", ".join(f"{one.method} k2={one.k2}" for one in profile.token) or "none"
    if not records:
        rule = f"has no record of {method or 'a token-level method'} with k2={k + 1}, which the server runs (k = {k})"
        raise ParameterError("profile", profile.name, f"{rule}; it has: {known}")
    if len({one.method for one in records}) > 1:
        rule = f"has several methods with k2={k + 1}: name the server's with --method; it has: {known}"
        raise ParameterError("profile", profile.name, rule)
    return records[0]


def _position(windows: Sequence[Window], record: TokenRecord, position: int) -> _Batches:
    sums = [(float(w.spec.accepted_at[position]), w.spec.drafts) for w in windows if w.spec is not None]
    return _Batches(f"drafts right up to position {position + 1}", _share_right(record, position), sums, is_share=True)


def _share_right(record: TokenRecord, position: int) -> Band:
    """Share of recorded drafts that were right up to a position."""
    alike = proportion(record.accepted_at[position], record.drafts)
    if len(record.answers) < 2:
        return Band.of_share(alike, record.drafts)
    right, drafts = list[float](), list[float]()
    for answer in record.answers:
        passes = [one for request in answer.requests for one in request.passes if one.drafted]
        right.append(float(sum(one.right > position for one in passes)))
        drafts.append(float(len(passes)))
    return Band.of_share(replace(ratio_of_totals(right, drafts), value=alike.value), record.drafts)


def _timed(windows: Sequence[Window], record: TokenRecord) -> tuple[list[_Batches], tuple[str, ...]]:
    """Counts of rounds that certainly took longer, or less long, than predicted by a margin: at most half should."""
    batch = round(sum(w.batch * w.rounds for w in windows) / sum(w.rounds for w in windows))
    passes = [one for answer in record.answers for one in answer.decode if one.batch == batch and one.n]
    if not passes:
        return [], (f"times of rounds are not compared: the profile has no passes with {batch} sequences",)
    predicted = math.fsum(one.seconds for one in passes) / sum(one.n for one in passes)
    gaps = [window.histograms["gaps"] for window in windows]
    seen = math.fsum(one.total for one in gaps) / math.fsum(one.count for one in gaps)
    half = Band(value=0.5, low=0.0, high=0.5)
    shown = Band(value=predicted, low=predicted / TIME_MARGIN, high=predicted * TIME_MARGIN)
    counts = {
        "slower rounds": [one.above(TIME_MARGIN * predicted) for one in gaps],
        "faster rounds": [one.below(predicted / TIME_MARGIN) for one in gaps],
    }
    return [
        _Batches(
            what,
            half,
            [(count, round(one.count)) for count, one in zip(counted, gaps, strict=True)],
            drift=2.0 * LEAST_DRIFT,
            unit="s",
            shown=shown,
            seen=seen,
        )
        for what, counted in counts.items()
    ], ()
