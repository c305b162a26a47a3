"""Stopping rule of a calibration: looks at the precision, their correction, and the allocation of time between them.

A calibration evaluates its precision after predetermined numbers of answers (geometrically spaced) and stops when the
relative half-width of the planned speedup is at most the requested one. An interval that is evaluated several times
until it is narrow enough has less than its nominal coverage. Therefore the half-width is widened so that the intervals
of *all* looks hold at once (Pocock 1977): with z-statistics of correlation ``sqrt(n_i / n_j)`` between the looks
i <= j, the critical value c has ``P(max |Z_k| <= c) = confidence``. It is computed by the recursion of Armitage,
McPherson and Rowe 1969: the density of Z_k inside (-c, c) is propagated from look to look by quadrature.

Between two looks the time is allocated to the part that narrows the interval most. With half-width^2 = a / n + b / r
for n answers and r timing rounds of s_a and s_r seconds each, the least time to reach a half-width w is given by
Neyman's allocation ``n = sqrt(a / s_a) (sqrt(a s_a) + sqrt(b s_r)) / w^2``, and likewise for r.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np

from sim.estimate import student_quantile
from theory.errors import ParameterError, check_integers

__all__ = ["LookOutcome", "Precision", "Status", "Stopping", "cheapest_mix", "simultaneous_quantile"]

_EXTRA_LOOKS: Final = 2
"""Most looks after which only timings are added; they are counted as if answers had been added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Precision of the speedup of the configuration that would be planned with a profile.

    Half-widths are shares of the speedup at 95 % confidence.
    """

    planned: str
    """Name of the configuration."""
    speedup: float
    answers: float
    """The part of the half-width that more answers reduce."""
    timings: float
    """The part of the half-width that more timing rounds reduce."""

    def __post_init__(self) -> None:
        for name in ("answers", "timings"):
            if not getattr(self, name) >= 0.0:
                raise ParameterError(name, getattr(self, name), "must be a share >= 0")

    @property
    def half_width(self) -> float:
        """Half-width of both parts together: root of the sum of squares."""
        return math.hypot(self.answers, self.timings)

    def enough_timings(self, n_rounds: int, planned: int) -> str:
        """Return a sentence on why the timing rounds ended before those that were planned."""
        return (
            f"{n_rounds} of {planned} timing rounds: they leave ±{self.timings:.1%} of the speedup of {self.planned} "
            f"open, the answers ±{self.answers:.1%}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LookOutcome:
    """Outcome of a look at the precision."""

    n_answers: int
    n_rounds: int
    precision: Precision
    widened: float
    """Its half-width, corrected for repeated looks."""
    seconds_left: float
    """Estimated time until the precision or the limits are reached, s; 0 at the end."""
    reason: str = ""
    """Reason why the calibration stops at this look; empty if it continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Progress of a calibration."""

    done: int
    """Finished parts, including those of earlier runs."""
    n_parts: int
    """Estimated number of parts in all."""
    seconds_left: float | None
    """Estimated time left, s; None before anything was timed."""
    last_look: LookOutcome | None
    """Outcome of the latest look at the precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """Stopping rule, fixed before the measurement."""

    precision: float
    """Largest relative half-width of the planned speedup, in (0, 1)."""
    min_answers: int = 24
    max_answers: int = 120
    max_rounds: int = 48
    growth: float = 1.4
    """Number of answers at a look / at the look before."""
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not 0.0 < self.precision < 1.0:
            raise ParameterError("precision", self.precision, "must be a share in (0, 1), e.g. 0.05")
        if not 2 <= self.min_answers <= self.max_answers:
            raise ParameterError("min_answers", self.min_answers, f"must be in [2, {self.max_answers}]")
        check_integers(self, max_rounds=1)
        if not 1.0 < self.growth <= 4.0:
            raise ParameterError("growth", self.growth, "must be in (1, 4]")

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of answers at which the precision is evaluated, including the first and the last."""
        counts = [self.min_answers]
        while counts[-1] < self.max_answers:
            counts.append(min(max(math.ceil(counts[-1] * self.growth), counts[-1] + 1), self.max_answers))
        return tuple(counts)

    @property
    def max_looks(self) -> int:
        """Most looks, including those after which only timings are added."""
        return len(self.looks) + _EXTRA_LOOKS

    def widening(self, n_answers: int) -> float:
        """Factor on a half-width at ``confidence`` that makes the intervals of all looks hold at once, >= 1.

        A look after more timings without more answers is strongly correlated with the look before, so counting it like
        a look after more answers is conservative.
        """
        ratios = tuple(self.growth**k for k in range(self.max_looks))
        c = simultaneous_quantile(ratios, self.confidence)
        level = math.erf(c / math.sqrt(2.0))
        degrees = max(n_answers - 1, 1)
        return student_quantile(level, degrees) / student_quantile(self.confidence, degrees)

    def decide(
        self, precision: Precision, n_answers: int, n_rounds: int, *, n_looks: int, answer_s: float, round_s: float
    ) -> tuple[LookOutcome, tuple[int, int]]:
        """Decide after a look whether to continue.

        Returns
        -------
        Outcome of the look (``reason`` is set at the end), and the answers and timing rounds to have before the next.
        """
        factor = self.widening(n_answers)
        widened = factor * precision.half_width
        mix = cheapest_mix(
            precision, n_answers, n_rounds, target=self.precision / factor, answer_s=answer_s, round_s=round_s
        )
        wanted = min(mix[0], self.max_answers), min(mix[1], self.max_rounds)
        following = self._following(wanted, n_answers, n_rounds, n_looks)
        reason = ""
        if widened <= self.precision:
            reason = f"the requested precision is reached: ±{widened:.1%} of at most ±{self.precision:.1%}"
        elif following == (n_answers, n_rounds):
            reason = f"the limits are reached: ±{widened:.1%} instead of the requested ±{self.precision:.1%}"
        left = max(wanted[0] - n_answers, 0) * answer_s + max(wanted[1] - n_rounds, 0) * round_s
        outcome = LookOutcome(
            n_answers=n_answers,
            n_rounds=n_rounds,
            precision=precision,
            widened=widened,
            seconds_left=0.0 if reason else left,
            reason=reason,
        )
        return outcome, following

    def summary(self, outcome: LookOutcome, n_looks: int) -> str:
        """Return a sentence on why the calibration stopped."""
        known = outcome.precision
        return (
            f"stopped after {outcome.n_answers} answers, {outcome.n_rounds} timing rounds and {n_looks} looks: "
            f"{outcome.reason}, for {known.planned} (answers ±{known.answers:.1%}, timings ±{known.timings:.1%}; "
            f"widened {self.widening(outcome.n_answers):.2f} times, for at most {self.max_looks} looks)"
        )

    def _following(self, wanted: tuple[int, int], n_answers: int, n_rounds: int, n_looks: int) -> tuple[int, int]:
        """Counts of the next look: the next scheduled number of answers, or only more timings if these suffice.

        Rounds are at most doubled.
        """
        later = [count for count in self.looks if count > n_answers]
        rounds = max(min(wanted[1], 2 * n_rounds), n_rounds)
        spare = self.max_looks - n_looks > len(later)
        only_timings = wanted[0] <= n_answers and rounds > n_rounds and spare
        if wanted[0] <= n_answers and rounds == n_rounds == self.max_rounds:
            return n_answers, n_rounds  # timings are missing, but their limit is reached
        if not later or only_timings:
            return n_answers, rounds if spare else n_rounds
        return later[0], rounds


def cheapest_mix(
    precision: Precision, n_answers: int, n_rounds: int, *, target: float, answer_s: float, round_s: float
) -> tuple[int, int]:
    """Answers and timing rounds that reach a half-width in the least time, given the present numbers.

    Parameters
    ----------
    precision : half-widths with ``n_answers`` and ``n_rounds``; each part falls with the square root of its count.
    answer_s, round_s : seconds of an answer and of a round, > 0.

    Returns
    -------
    Counts, at least the present ones. If a part already exceeds its allocation, it stays and the other is recomputed.

    >>> cheapest_mix(Precision(planned="", speedup=1.0, answers=0.1, timings=0.0), 20, 6, target=0.05, answer_s=1.0,
    ...              round_s=1.0)
    (80, 6)
    """
    a, b = precision.answers**2 * n_answers, precision.timings**2 * n_rounds
    both = math.sqrt(a * answer_s) + math.sqrt(b * round_s)
    square = target * target
    n = math.sqrt(a / answer_s) * both / square
    r = math.sqrt(b / round_s) * both / square
    # No room is left for the other part only because of rounding: it is practically exact.
    if n < n_answers and square > a / n_answers:
        r = b / (square - a / n_answers)
    elif r < n_rounds and square > b / n_rounds:
        n = a / (square - b / n_rounds)
    top = 10**9
    return max(math.ceil(min(n, top) - 1e-9), n_answers), max(math.ceil(min(r, top) - 1e-9), n_rounds)


@lru_cache(maxsize=64)
def simultaneous_quantile(information: tuple[float, ...], confidence: float = 0.95) -> float:
    """Return c with ``P(|Z_k| <= c for all k) = confidence`` for z-statistics of one growing sample.

    Parameters
    ----------
    information : sample sizes at the looks, or numbers proportional to them; increasing, > 0.

    Returns
    -------
    Critical value, [-], within 1e-6; Pocock's constants for equal steps.

    References
    ----------
    Pocock 1977, Biometrika 64(2), Table 1; Armitage, McPherson, Rowe 1969, J. R. Stat. Soc. A 132(2).

    >>> round(simultaneous_quantile((1.0, 2.0)), 3)
    2.178
    """
    from scipy.optimize import brentq

    return float(brentq(lambda c: _inside(c, information) - confidence, 0.1, 10.0, xtol=1e-8))


def _inside(c: float, information: tuple[float, ...]) -> float:
    """P(|Z_k| <= c for all k)."""
    nodes, weights = np.polynomial.legendre.leggauss(96)
    x, w = c * nodes, c * weights
    density = np.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)
    for before, now in pairwise(information):
        rho = math.sqrt(before / now)
        spread = math.sqrt(1.0 - before / now)
        gap = (x[:, None] - rho * x[None, :]) / spread
        density = (np.exp(-gap * gap / 2.0) / (spread * math.sqrt(2.0 * math.pi))) @ (w * density)
    return float(w @ density)
