"""Drift from saved metrics: counts between readings against the predictions of a profile, by the same bets.

Counters give sums, not single observations. `specplan.live.drift.betting.Bets.take_sum` takes these in without loss
where observations are 0 or 1, and else as a lower bound, so the false-alarm rate holds as it does live. Each window
between two readings is a batch: more readings detect later drifts sooner, and date them better.

Compared are the share of drafts that are right up to each position, and the number of rounds that certainly took
longer, or less long, than predicted by a margin, by the buckets of the histogram.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from calibrate.record.profile import Profile
from calibrate.record.token_records import TokenRecord
from sim.estimate import proportion, ratio_of_totals
from specplan.live.drift.betting import Bets, MeanBets, ShareBets
from specplan.live.drift.expected import TIME_MARGIN, Band
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
    """``s``, or empty for a share."""

    def cells(self) -> list[str]:
        """Return a row of the table: what is compared, as seen and as predicted, and how near it is to an alarm."""
        band = self.predicted
        seen, value, low, high = (
            f"{1e3 * number:.2f} ms" if self.unit else f"{number:.3f}"
            for number in (self.seen, band.value, band.low, band.high)
        )
        near = f"{100 * min(self.evidence, 0.99):.0f} % of an alarm"
        moved = near if self.at is None else f"moved (window {self.at})"
        return [self.what, seen, f"{value} [{low}, {high}]", f"{self.n}", moved]


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
            f"alarm while everything is as predicted is at most {100 * self.false_alarm:.0f} %."
        )
        cells = table(["", "seen", "predicted", "n", ""], [one.cells() for one in self.compared])
        notes = "".join(f"\n- {note}" for note in self.notes)
        return f"{verdict or f'As {self.profile} predicts: no alarm.'} {coverage}\n\n{cells}{notes}"


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
    batch = round(sum(w.batch * w.rounds for w in windows) / sum(w.rounds for w in windows))
    passes = [one for answer in record.answers for one in answer.decode if one.batch == batch and one.n]
    share = false_alarm / (k + 2 if passes else k)
    compared = []
    for position in range(k):
        sums = [(float(w.spec.accepted_at[position]), w.spec.drafts) for w in windows if w.spec is not None]
        right = _share_right(record, position)
        bets = ShareBets(right.records, alike=right.alike, drift=LEAST_DRIFT, false_alarm=share)
        compared.append(_compared(f"drafts right up to position {position + 1}", right, bets, sums))
    if passes:
        predicted = math.fsum(one.seconds for one in passes) / sum(one.n for one in passes)
        compared += _timed(windows, predicted, share)
    notes = () if passes else (f"times of rounds are not compared: the profile has no passes with {batch} sequences",)
    return Drift(
        profile=profile.name,
        false_alarm=false_alarm,
        n_windows=len(windows),
        compared=tuple(compared),
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


def _timed(windows: Sequence[Window], predicted: float, false_alarm: float) -> Iterator[Compared]:
    """Rounds that certainly took longer, or less long, than predicted by a margin: at most half should.

    Sequences of a pass take the same time, so passes are the observations.
    """
    gaps = [window.histograms["gaps"] for window in windows]
    seen = math.fsum(one.total for one in gaps) / math.fsum(one.count for one in gaps)
    band = Band(value=predicted, low=predicted / TIME_MARGIN, high=predicted * TIME_MARGIN)
    counts = {
        "slower rounds": [one.above(band.high) for one in gaps],
        "faster rounds": [one.below(band.low) for one in gaps],
    }
    for what, counted in counts.items():
        passes = [max(round(one.count / window.batch), 1) for one, window in zip(gaps, windows, strict=True)]
        sums = [(n * count / one.count, n) for n, count, one in zip(passes, counted, gaps, strict=True)]
        bets = MeanBets(0.0, 0.5, drift=2.0 * LEAST_DRIFT, false_alarm=false_alarm)
        yield replace(_compared(what, band, bets, sums), seen=seen, unit="s")


def _compared(what: str, predicted: Band, bets: Bets, sums: Sequence[tuple[float, int]]) -> Compared:
    """Bet on the sums of observations of each window, in order."""
    evidence, at = 0.0, None
    for number, (total, n) in enumerate(sums, 1):
        bets.take_sum(total, n)
        evidence = max(evidence, float(bets.evidence))
        at = number if at is None and evidence >= 1.0 else at
    n = sum(n for _, n in sums)
    mean = math.fsum(total for total, _ in sums) / n if n else math.nan
    return Compared(what=what, predicted=predicted, seen=mean, n=n, evidence=evidence, at=at)
