r"""How many tokens a round would commit at any k: by position as counted, beyond the last position extrapolated.

A draft's first tokens do not depend on how many follow, so the counts of k positions tell every smaller k exactly, and
those of a baseline with a larger k tell the positions up to there. Beyond, the logit :math:`x_i` of the acceptance of
position i, given that all before it were accepted, is a Gaussian process in :math:`t = \ln i`,

.. math:: x_i \sim N\big(\mu, \; \sigma_0^2 + \sigma_1^2\, t_i t_j + \sigma_2^2 \min(t_i, t_j)
          + \sigma_3^2\,[i = j]\big),

a level, a slope, a wandering and a departure of each position, given what was counted of the others. Its constants are
wide enough for published heads, whose acceptance falls along a draft, and for pairs of models, whose acceptance rises,
since the first position follows a token that was refused (`benchmarks.explain_procedure`).

Rounds of one answer resemble each other: their number counts for less, by the design effect
``1 + (rounds per answer - 1) * ICC``. Several windows tell it; from one it is taken with the intra-class correlation
that `ICC` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrate.engines.prometheus import SpecDecode
from sim.estimate import Estimate, proportion, ratio_of_totals
from specplan.live.explaining.window import Window

__all__ = ["ICC", "Acceptance", "acceptance"]

ICC: Final = 0.02
"""Share of the variance of acceptance that lies between answers, [-], where a window cannot tell: an assumption."""
_LEAST_PARTS: Final = 5
"""Windows from which the spread between them is told."""
_LOGIT: Final = 1.0
"""Mean of the logit of the conditional acceptance, mu."""
_LEVEL, _SLOPE, _WANDERING, _DEPARTURE = 0.5, 0.3, 0.3, 0.03
"""Variances of the logit: sigma_0 to sigma_3 squared."""
_LEAST_RATE: Final = 1e-3
"""Conditional acceptance is taken to be at least that far from 0 and 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Acceptance by position, and what it rests on."""

    by_position: tuple[Estimate, ...]
    """Share of drafts accepted up to each position, over all drafts."""
    drafts: float
    hit_rate: float
    """Drafts per round, in [0, 1]: below 1 where lookups find nothing."""
    design_effect: float
    """Variance over that of independent rounds, >= 1."""
    further: tuple[tuple[float, float], ...] = ()
    """Counts at further positions, from a baseline: drafts that were accepted up to there, and up to the one
    before."""
    notes: tuple[str, ...] = ()

    @property
    def k(self) -> int:
        """Positions that were measured with the k that runs."""
        return len(self.by_position)

    @property
    def known(self) -> int:
        """Positions that were measured, baselines included."""
        return self.k + len(self.further)

    def committed(self, k: int) -> float:
        """Tokens that a round commits with ``k`` drafted ones, ``k`` at most what was measured."""
        return 1.0 + self.hit_rate * math.fsum(estimate.value for estimate in self.by_position[:k])

    def draws(self, n: int, most: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return committed tokens per round at k = 0 ... ``most``, shape (n, most + 1), drawn."""
        u = np.array([1.0, *(estimate.value for estimate in self.by_position)])
        ends = np.append(u[:-1] - u[1:], u[-1])  # a draft ends before a position, or is accepted whole
        drawn = rng.dirichlet(np.maximum(ends, 0.0) * self.drafts / self.design_effect + 0.5, n)
        rates = 1.0 - np.cumsum(drawn, axis=1)[:, :-1]
        for accepted, of in self.further:
            hits, misses = (count / self.design_effect + 0.5 for count in (accepted, of - accepted))
            rates = np.column_stack([rates, rates[:, -1] * rng.beta(hits, misses, n)])
        if most > self.known:
            rates = np.hstack([rates, self._beyond(rates, most - self.known, rng)])
        rates = np.clip(rates[:, :most], 0.0, 1.0)
        return np.hstack([np.ones((n, 1)), 1.0 + self.hit_rate * np.cumsum(rates, axis=1)])

    def _beyond(self, rates: NDArray[np.float64], further: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Rates of further positions, given those of the measured ones, shape (n, further)."""
        n, known = rates.shape
        before = np.column_stack([np.ones(n), rates[:, :-1]])
        conditional = np.clip(rates / np.maximum(before, 1e-12), _LEAST_RATE, 1.0 - _LEAST_RATE)
        logits = np.log(conditional / (1.0 - conditional))
        t = np.log(np.arange(1.0, known + further + 1.0))
        prior = _LEVEL + _SLOPE * np.outer(t, t) + _WANDERING * np.minimum.outer(t, t) + _DEPARTURE * np.eye(t.size)
        seen = prior[:known, :known] + np.diag(logits.var(axis=0))  # what is drawn has the error of the counts in it
        weights = np.linalg.solve(seen, prior[:known, known:]).T
        left = prior[known:, known:] - weights @ prior[:known, known:]
        means = _LOGIT + (logits - _LOGIT) @ weights.T
        drawn = means + rng.standard_normal((n, further)) @ np.linalg.cholesky(left).T
        return rates[:, -1:] * np.cumprod(1.0 / (1.0 + np.exp(-drawn)), axis=1)


def acceptance(window: Window, parts: Sequence[Window], k: int | None, deeper: Sequence[SpecDecode] = ()) -> Acceptance:
    """Return the acceptance of a window.

    Parameters
    ----------
    window : the whole of it.
    parts : the windows that make it up; five or more tell the errors by their spread.
    k : tokens drafted per round, for servers that do not tell (SGLang).
    deeper : what baselines counted; those with a larger k tell further positions.
    """
    if window.spec is None:
        return _from_length(window, k or 0)
    return replace(_counted(window, window.spec, parts), further=_further(window.k, deeper))


def _further(k: int, deeper: Sequence[SpecDecode]) -> tuple[tuple[float, float], ...]:
    """Counts of positions beyond k, all baselines together."""
    found = []
    for j in range(k, max((len(one.accepted_at) for one in deeper), default=0)):
        counts = [(one.accepted_at[j], one.accepted_at[j - 1]) for one in deeper if len(one.accepted_at) > j]
        found.append((float(sum(up_to for up_to, _ in counts)), float(sum(before for _, before in counts))))
    return tuple(found)


def _counted(window: Window, counts: SpecDecode, parts: Sequence[Window]) -> Acceptance:
    """Acceptance by position as the window counted it."""
    drafts = counts.drafts
    hit = min(drafts / window.rounds, 1.0) if window.rounds else 0.0
    spread = [part for part in parts if part.spec is not None and part.spec.drafts]
    if drafts == 0:
        return Acceptance(by_position=(), drafts=0.0, hit_rate=0.0, design_effect=1.0)
    if len(spread) >= _LEAST_PARTS:
        found = [_over_parts(spread, j) for j in range(window.k)]
        effect = max(_effect(found[0], drafts), 1.0) if found else 1.0
        return Acceptance(by_position=tuple(found), drafts=drafts, hit_rate=hit, design_effect=effect)
    each = drafts / max(window.answers, window.running, 1.0)
    effect = 1.0 + max(each - 1.0, 0.0) * ICC
    named = f"proportion (Wilson), rounds of an answer alike (ICC {ICC:g} assumed)"
    rates = [_widened(count, drafts, effect, named) for count in counts.accepted_at]
    return Acceptance(by_position=tuple(rates), drafts=drafts, hit_rate=hit, design_effect=effect)


def _widened(count: int, drafts: int, effect: float, named: str) -> Estimate:
    """A proportion of so many drafts, that count for fewer."""
    fewer = max(round(drafts / effect), 1)
    alike = proportion(min(round(count / drafts * fewer), fewer), fewer)
    value = count / drafts
    return Estimate(
        value=value,
        stderr=math.sqrt(max(value * (1.0 - value), 0.0) / fewer),
        low=min(alike.low, value),
        high=max(alike.high, value),
        n=drafts,
        estimator=named,
    )


def _over_parts(parts: Sequence[Window], j: int) -> Estimate:
    counts = [(part.spec.accepted_at[j], part.spec.drafts) for part in parts if part.spec is not None]
    return ratio_of_totals(
        [float(accepted) for accepted, _ in counts],
        [float(drafts) for _, drafts in counts],
        estimator=f"ratio of totals over {len(counts)} windows",
    )


def _effect(rate: Estimate, drafts: float) -> float:
    """Variance that was seen over that of so many independent drafts."""
    plain = rate.value * (1.0 - rate.value) / drafts
    return rate.stderr**2 / plain if plain > 0.0 and math.isfinite(rate.stderr) else 1.0


def _from_length(window: Window, k: int) -> Acceptance:
    """Acceptance from its mean length alone: the same at every position (an assumption)."""
    length = window.accept_length
    if not k or not length >= 1.0:
        return Acceptance(by_position=(), drafts=0.0, hit_rate=1.0, design_effect=1.0)
    rate = _geometric(min(length, k + 1.0), k)
    rounds = max(window.rounds, 1.0)
    effect = 1.0 + max(rounds / max(window.answers, 1.0) - 1.0, 0.0) * ICC
    named = f"from the acceptance length, the same at every position (assumed), ICC {ICC:g} assumed"
    rates = [_widened(round(rate**j * rounds), round(rounds), effect, named) for j in range(1, k + 1)]
    note = "acceptance by position is not counted by this server: one rate for all positions is assumed"
    return Acceptance(by_position=tuple(rates), drafts=rounds, hit_rate=1.0, design_effect=effect, notes=(note,))


def _geometric(length: float, k: int) -> float:
    """The rate a with 1 + a + ... + a^k = length, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if math.fsum(middle**j for j in range(k + 1)) < length else (low, middle)
    return (low + high) / 2.0
