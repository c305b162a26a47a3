"""Watches observations against predictions, and reports what moved."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from specplan.live.drift.betting import Bets, MeanBets, ShareBets
from specplan.live.drift.expected import TIME_MARGIN, Band, TokenTime

__all__ = ["FALSE_ALARM", "LEAST_DRIFT", "DriftWatch", "Finding"]

FALSE_ALARM: Final = 0.05
"""Probability that a gateway ever raises any alarm while everything is as predicted."""

LEAST_DRIFT: Final = 0.1
"""Least drift of a share worth reporting, [-]; for lengths and timings, beyond the predicted interval."""
_LATEST: Final = 200
_SHARE_OF_ACCEPTANCE: Final = 0.6
"""Share of the false-alarm rate given to acceptance, which matters most for the gain of a method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A quantity that moved from its prediction."""

    what: str
    """``acceptance``, ``target length``, ``draft slower``, ..."""
    at: int
    """Observation at which the alarm was raised."""
    since: int
    """Observation from which the evidence begins."""
    text: str
    """Observation and prediction, in a line."""


class _Watched:
    """A watched mean."""

    def __init__(self, what: str, bets: Bets, tell: Callable[[float, int], str]) -> None:
        self.bets = bets
        self.finding: Finding | None = None
        self._what = what
        self._tell = tell
        self._n = 0
        self._latest: deque[float] = deque(maxlen=_LATEST)
        self._runs = [0.0, 0.0]
        self._since = [0, 0]

    def take(self, observed: float) -> Finding | None:
        """Take in an observation; return the finding when it raises the alarm."""
        if self.finding is not None:
            return None  # reported once per profile
        self._n += 1
        self._latest.append(observed)
        for i, factor in enumerate(self.bets.factors(observed)):
            if self._runs[i] <= 0.0:
                self._runs[i], self._since[i] = 0.0, self._n
            self._runs[i] += math.log(max(float(factor), 1e-12))
        self.bets.take(observed)
        if self.bets.evidence < 1.0:
            return None
        up, down = self.bets.stakes
        since = self._since[0 if up.money >= down.money else 1]
        recent = list(self._latest)[-max(self._n - since + 1, 1) :]
        text = self._tell(sum(recent) / len(recent), len(recent))
        self.finding = Finding(what=self._what, at=self._n, since=since, text=text)
        return self.finding


class DriftWatch:
    """Watches acceptance, lengths of steps and engine timings for drifts of `LEAST_DRIFT`.

    Parameters
    ----------
    accepted : predicted acceptance rate; None: unknown.
    lengths : by role, the band of the rank of a step's length, and the function from length to rank.
    token_times : by role, predicted seconds per token.
    false_alarm : probability of ever raising an alarm while everything is as predicted, in (0, 1).
    """

    def __init__(
        self,
        *,
        accepted: Band | None = None,
        lengths: Mapping[str, tuple[Band, Callable[[int], float]]] | None = None,
        token_times: Mapping[str, TokenTime] | None = None,
        false_alarm: float = FALSE_ALARM,
    ) -> None:
        self._lengths = dict(lengths or {})
        self._token_times = dict(token_times or {})
        self._ratios: dict[str, deque[float]] = {role: deque(maxlen=_LATEST) for role in self._token_times}
        self._watched: dict[str, _Watched] = {}
        n_means = len(self._lengths) + 2 * len(self._token_times)
        share = false_alarm * (_SHARE_OF_ACCEPTANCE if n_means else 1.0)
        rest = false_alarm
        if accepted is not None:
            rest -= share
            self._kinds = accepted.kinds
            self._shares = ShareBets(accepted.records, alike=accepted.alike, drift=LEAST_DRIFT, false_alarm=share)
            self._watched["acceptance"] = _Watched("acceptance", self._shares, partial(_accepted, accepted))

        def watch(what: str, low: float, high: float, drift: float, tell: Callable[[float, int], str]) -> None:
            self._watched[what] = _Watched(what, MeanBets(low, high, drift=drift, false_alarm=rest / n_means), tell)

        for role, (band, _) in self._lengths.items():
            watch(f"{role} length", band.low, band.high, LEAST_DRIFT, partial(_longer, role))
        for role in self._token_times:
            for how in ("slower", "faster"):
                watch(f"{role} {how}", 0.0, 0.5, 2.0 * LEAST_DRIFT, partial(self._slower, role))

    @property
    def watched(self) -> tuple[str, ...]:
        """Names of the watched means."""
        return tuple(self._watched)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What has moved so far."""
        return tuple(one.finding for one in self._watched.values() if one.finding is not None)

    def evidence(self, what: str) -> float:
        """Return the evidence of a move over the evidence that raises the alarm, on a log scale, in [0, 1]."""
        watched = self._watched[what]
        if watched.finding is not None:
            return 1.0
        gained = math.log(max(float(watched.bets.evidence) * watched.bets.wanted, 1.0))
        return min(gained / math.log(watched.bets.wanted), 1.0)

    def judged(self, accepted: bool, tokens: int = 0) -> Finding | None:
        """Take in the verdict on a draft of ``tokens`` tokens, which matter where the prediction is by length."""
        watched = self._watched.get("acceptance")
        if watched is None:
            return None
        if self._kinds is not None:
            self._shares.kind = self._kinds.of(tokens)
        return watched.take(float(accepted))

    def wrote(self, role: str, tokens: int) -> Finding | None:
        """Take in the length of a step, tokens."""
        if role not in self._lengths:
            return None
        return self._watched[f"{role} length"].take(self._lengths[role][1](tokens))

    def timed(self, role: str, batch: int, seconds_per_token: float) -> Finding | None:
        """Take in the seconds per token of a step that was decoded in a batch of ``batch`` sequences."""
        predicted = self._token_times[role].at(batch) if role in self._token_times else None
        if predicted is None or not predicted > 0.0:
            return None
        ratio = seconds_per_token / predicted
        self._ratios[role].append(ratio)
        slower = self._watched[f"{role} slower"].take(float(ratio > TIME_MARGIN))
        faster = self._watched[f"{role} faster"].take(float(ratio < 1.0 / TIME_MARGIN))
        return slower or faster

    def time_ratio(self, role: str) -> float:
        """Return the median of the latest seconds per token / predicted seconds per token, [-]; 1 without any."""
        ratios = sorted(self._ratios.get(role, ()))
        return ratios[len(ratios) // 2] if ratios else 1.0

    def _slower(self, role: str, seen: float, n: int) -> str:
        usual = self.time_ratio(role)
        return f"the {role} takes {usual:.2f} times the predicted seconds per token (median of the latest steps)"


def _accepted(band: Band, seen: float, n: int) -> str:
    return (
        f"acceptance of drafts is {seen:.2f} over the latest {n}; "
        f"predicted was {band.value:.2f} [{band.low:.2f}, {band.high:.2f}]"
    )


def _longer(role: str, seen: float, n: int) -> str:
    return (
        f"steps of the {role} are {'longer' if seen > 0.5 else 'shorter'} than recorded: the latest {n} are longer "
        f"than {100 * seen:.0f} % of the recorded ones on average, predicted was 50 %"
    )
