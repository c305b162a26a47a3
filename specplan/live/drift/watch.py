"""Watches observations against predictions, and reports what moved."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from specplan.live.drift.betting import MeanBets, TwoWays
from specplan.live.drift.expected import TIME_MARGIN, Band, TokenTime
from specplan.live.drift.shares import ShareBets
from theory.errors import ParameterError

__all__ = ["FALSE_ALARM", "LEAST_DRIFT", "DriftWatch", "Finding"]

FALSE_ALARM: Final = 0.05
"""Probability that a gateway ever raises any alarm while everything is as predicted."""

LEAST_DRIFT: Final = 0.1
"""Least drift of a share worth reporting, [-]; for lengths and timings, beyond the predicted interval."""

_LATEST: Final = 200
_ACCEPTANCE: Final = "acceptance"
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

    def __init__(self, what: str, band: Band, bets: TwoWays) -> None:
        self.what = what
        self.band = band
        self.bets = bets
        self.n = 0
        self.latest: deque[float] = deque(maxlen=_LATEST)
        self.finding: Finding | None = None
        self._runs = [0.0, 0.0]
        self._since = [0, 0]

    def take(self, observed: float, tell: Callable[[float, int], str]) -> Finding | None:
        """Take in an observation; return the finding when it raises the alarm."""
        if self.finding is not None:
            return None  # reported once per profile
        self.n += 1
        self.latest.append(observed)
        for i, bet in enumerate(self.bets.bets):
            if self._runs[i] <= 0.0:
                self._runs[i], self._since[i] = 0.0, self.n
            self._runs[i] += math.log(max(float(bet.factor(observed)), 1e-12))
        self.bets.take(observed)
        if self.bets.evidence < 1.0:
            return None
        richer = max((0, 1), key=lambda i: self.bets.bets[i].money)
        since = self._since[richer]
        recent = list(self.latest)[-max(self.n - since + 1, 1) :]
        text = tell(sum(recent) / len(recent), len(recent))
        self.finding = Finding(what=self.what, at=self.n, since=since, text=text)
        return self.finding


class DriftWatch:
    """Watches acceptance, lengths of steps and engine timings.

    Parameters
    ----------
    accepted : predicted acceptance rate; None: unknown.
    lengths : by role, the band of the rank of a step's length, and the function from length to rank.
    token_times : by role, predicted seconds per token.
    false_alarm : probability of ever raising an alarm while everything is as predicted, in (0, 1).
    drift : least drift of a share worth reporting.
    """

    def __init__(
        self,
        *,
        accepted: Band | None = None,
        lengths: Mapping[str, tuple[Band, Callable[[int], float]]] | None = None,
        token_times: Mapping[str, TokenTime] | None = None,
        false_alarm: float = FALSE_ALARM,
        drift: float = LEAST_DRIFT,
    ) -> None:
        if not 0.0 < false_alarm < 1.0:
            raise ParameterError("false_alarm", false_alarm, "must be in (0, 1)")
        self._lengths = dict(lengths or {})
        self._token_times = dict(token_times or {})
        half = Band(value=0.5, low=0.0, high=0.5)
        bands = {f"{role} length": band for role, (band, _) in self._lengths.items()}
        bands |= {f"{role} {how}": half for role in self._token_times for how in ("slower", "faster")}
        share = false_alarm * (_SHARE_OF_ACCEPTANCE if bands else 1.0)
        rest = false_alarm - share if accepted is not None else false_alarm
        self._watched: dict[str, _Watched] = {}
        if accepted is not None:
            self._shares = ShareBets(accepted.records, alike=accepted.alike, drift=drift, false_alarm=share)
            self._watched[_ACCEPTANCE] = _Watched(_ACCEPTANCE, accepted, self._shares)
        for what, band in bands.items():
            margin = drift if what.endswith("length") else 2.0 * drift
            means = MeanBets(band.low, band.high, drift=margin, false_alarm=rest / len(bands))
            self._watched[what] = _Watched(what, band, means)
        self._ratios: dict[str, deque[float]] = {role: deque(maxlen=_LATEST) for role in self._token_times}

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
        watched = self._watched.get(_ACCEPTANCE)
        if watched is None:
            return None
        band = watched.band
        if band.kinds is not None:
            self._shares.of_kind(band.kinds.of(tokens))

        def tell(seen: float, n: int) -> str:
            return (
                f"acceptance of drafts is {seen:.2f} over the latest {n}; "
                f"predicted was {band.value:.2f} [{band.low:.2f}, {band.high:.2f}]"
            )

        return watched.take(float(accepted), tell)

    def wrote(self, role: str, tokens: int) -> Finding | None:
        """Take in the length of a step, tokens."""
        if role not in self._lengths:
            return None

        def tell(seen: float, n: int) -> str:
            longer = "longer" if seen > 0.5 else "shorter"
            return (
                f"steps of the {role} are {longer} than recorded: the latest {n} are longer than {100 * seen:.0f} % of "
                "the recorded ones on average, predicted was 50 %"
            )

        return self._watched[f"{role} length"].take(self._lengths[role][1](tokens), tell)

    def timed(self, role: str, batch: int, seconds_per_token: float) -> Finding | None:
        """Take in the seconds per token of a step that was decoded in a batch of ``batch`` sequences."""
        predicted = self._token_times[role].at(batch) if role in self._token_times else None
        if predicted is None or not predicted > 0.0:
            return None
        ratio = seconds_per_token / predicted
        self._ratios[role].append(ratio)

        def tell(seen: float, n: int) -> str:
            usual = self.time_ratio(role)
            return f"the {role} takes {usual:.2f} times the predicted seconds per token (median of the latest steps)"

        slower = self._watched[f"{role} slower"].take(float(ratio > TIME_MARGIN), tell)
        faster = self._watched[f"{role} faster"].take(float(ratio < 1.0 / TIME_MARGIN), tell)
        return slower or faster

    def time_ratio(self, role: str) -> float:
        """Return the median of the latest seconds per token / predicted seconds per token, [-]; 1 without any."""
        ratios = sorted(self._ratios.get(role, ()))
        return ratios[len(ratios) // 2] if ratios else 1.0
