r"""Tokens that a round commits at any k: counted up to the last position, extrapolated beyond it.

The first tokens of a chain (MTP, EAGLE, a draft model, n-grams) do not depend on how many follow, so the counts of k
positions give the acceptance at every smaller k exactly, and those of a baseline with a larger k give the positions up
to that k. A block drafter's do (DFlash, DSpark): its counts hold for its block's length, and `theory.block_drafting`
says what other lengths would accept. Beyond the counted positions, the logit
:math:`x_i` of the acceptance of position i, given that all before it were accepted, is a Gaussian process in
:math:`t = \ln i`,

.. math:: x_i \sim N\big(\mu, \; \sigma_0^2 + \sigma_1^2\, t_i t_j + \sigma_2^2 \min(t_i, t_j)
          + \sigma_3^2\,[i = j]\big),

with a level, a slope, a random walk and an independent part of each position, conditioned on the counted positions. Its
constants are wide enough for published heads, whose acceptance falls along a draft, and for pairs of models, whose
acceptance rises, since the first position follows a rejected token (`benchmarks.explain_procedure`).

Rounds of one answer are correlated, so their effective number is smaller by the design effect
``1 + (rounds per answer - 1) * ICC``. Several windows measure it; with one window the intra-class correlation `ICC` is
assumed.
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
from specplan.live.explaining.window import Window, spanned
from theory.block_drafting import LAWS, BlockLaw, at_length
from theory.errors import ParameterError

__all__ = ["Acceptance", "acceptance"]

ICC: Final = 0.02
"""Share of the variance of acceptance that lies between answers, [-], assumed where windows do not measure it."""
_LEAST_PARTS: Final = 5
"""Least number of windows from which the spread between them is estimated."""
_LOGIT: Final = 1.0
"""Mean of the logit of the conditional acceptance, mu."""
_LEVEL, _SLOPE, _WANDERING, _DEPARTURE = 0.5, 0.3, 0.3, 0.03
"""Variances of the logit: sigma_0 to sigma_3 squared."""
_BLOCK_NOTE: Final = (
    "a block drafter: acceptance at other block sizes is by a form fitted to few published curves; engines refuse "
    "sizes that the drafter was not trained for"
)
_LEAST_RATE: Final = 1e-3
"""Conditional acceptance is kept at least this far from 0 and 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Acceptance by position, with the counts behind it."""

    by_position: tuple[Estimate, ...]
    """Share of drafts accepted up to each position, over all drafts."""
    drafts: float
    hit_rate: float
    """Drafts per round, in [0, 1]: below 1 where a prompt lookup has no match."""
    design_effect: float
    """Variance over the variance of independent rounds, >= 1."""
    further: tuple[tuple[float, float], ...] = ()
    """Counts at further positions, from baselines: drafts accepted up to the position, and up to the one before."""
    law: BlockLaw | None = None
    """What acceptance at other sizes is where k tokens are drafted at once, whose counts hold for that size only."""
    notes: tuple[str, ...] = ()

    @property
    def k(self) -> int:
        """Positions that were measured at the current k."""
        return len(self.by_position)

    @property
    def known(self) -> int:
        """Positions that were measured, baselines included."""
        return self.k + len(self.further)

    def committed(self, k: int) -> float:
        """Return the tokens that a round commits by its first ``k`` positions, at most the measured ones.

        Of a chain these are the tokens when ``k`` are drafted.
        """
        return 1.0 + self.hit_rate * math.fsum(estimate.value for estimate in self.by_position[:k])

    def draws(self, n: int, most: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return ``n`` draws of committed tokens per round at k = 0 ... ``most``, shape (n, most + 1)."""
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
        if self.law is not None:
            return self._of_blocks(rates, self.law, rng)
        return np.hstack([np.ones((n, 1)), 1.0 + self.hit_rate * np.cumsum(rates, axis=1)])

    def _of_blocks(self, rates: NDArray[np.float64], law: BlockLaw, rng: np.random.Generator) -> NDArray[np.float64]:
        """Committed tokens per round of blocks of 0 to as many tokens as there are columns, shape (n, columns + 1)."""
        n, most = rates.shape
        before = np.column_stack([np.ones(n), rates[:, :-1]])
        conditional = np.clip(rates / np.maximum(before, 1e-12), 0.0, 1.0)
        slope = law.slope + law.error * rng.standard_normal((n, 1))
        committed = [np.ones(n)]
        for k in range(1, most + 1):
            of_block = at_length(conditional[:, :k], self.k, k, slope)
            committed.append(1.0 + self.hit_rate * np.cumprod(of_block, axis=1).sum(axis=1))
        return np.column_stack(committed)

    def _beyond(self, rates: NDArray[np.float64], further: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Rates of further positions, given those of the measured ones, shape (n, further)."""
        n, known = rates.shape
        before = np.column_stack([np.ones(n), rates[:, :-1]])
        conditional = np.clip(rates / np.maximum(before, 1e-12), _LEAST_RATE, 1.0 - _LEAST_RATE)
        logits = np.log(conditional / (1.0 - conditional))
        t = np.log(np.arange(1.0, known + further + 1.0))
        prior = _LEVEL + _SLOPE * np.outer(t, t) + _WANDERING * np.minimum.outer(t, t) + _DEPARTURE * np.eye(t.size)
        seen = prior[:known, :known] + np.diag(logits.var(axis=0))  # the draws contain the error of the counts
        weights = np.linalg.solve(seen, prior[:known, known:]).T
        left = prior[known:, known:] - weights @ prior[:known, known:]
        means = _LOGIT + (logits - _LOGIT) @ weights.T
        drawn = means + rng.standard_normal((n, further)) @ np.linalg.cholesky(left).T
        return rates[:, -1:] * np.cumprod(1.0 / (1.0 + np.exp(-drawn)), axis=1)


def acceptance(
    window: Window, parts: Sequence[Window], k: int, deeper: Sequence[SpecDecode] = (), *, drafter: str = "chain"
) -> Acceptance:
    """Return the acceptance of a window.

    Parameters
    ----------
    window : all readings together.
    parts : the windows between neighbouring readings; from five or more, errors come from their spread.
    k : tokens drafted per round, for servers that do not report it (SGLang); 0: unknown.
    deeper : counts of baselines; those with a larger k give further positions of a chain.
    drafter : ``chain``, or the block drafter of the server: ``dflash``, ``dspark``.

    Raises
    ------
    ParameterError : a block of a server that counts no positions.
    """
    law = LAWS.get(drafter)
    if window.spec is None and law is not None:
        raise ParameterError("drafter", drafter, "needs acceptance by position, which this server does not count")
    if window.spec is None:
        return _from_length(window, k)
    counted = _counted(window, window.spec, parts)
    if law is not None:
        return replace(counted, law=law, notes=(*counted.notes, _BLOCK_NOTE))
    further = []
    for j in range(window.k, max((len(one.accepted_at) for one in deeper), default=0)):
        counts = [(one.accepted_at[j], one.accepted_at[j - 1]) for one in deeper if len(one.accepted_at) > j]
        further.append((float(sum(up_to for up_to, _ in counts)), float(sum(before for _, before in counts))))
    return replace(counted, further=tuple(further))


def _counted(window: Window, counts: SpecDecode, parts: Sequence[Window]) -> Acceptance:
    """Acceptance by position as the window counted it."""
    drafts = counts.drafts
    if drafts == 0:
        return Acceptance(by_position=(), drafts=0.0, hit_rate=0.0, design_effect=1.0)
    hit = min(drafts / window.rounds, 1.0) if window.rounds else 0.0
    spread = [part.spec for part in parts if part.spec is not None and part.spec.drafts]
    if len(spread) >= _LEAST_PARTS:
        effect, of = 1.0, [float(one.drafts) for one in spread]
        how = f"ratio of totals over {len(spread)} windows"
        rates = [
            ratio_of_totals([float(one.accepted_at[j]) for one in spread], of, estimator=how) for j in range(window.k)
        ]
        independent = rates[0].value * (1.0 - rates[0].value) / drafts if rates else 0.0
        if independent > 0.0 and math.isfinite(rates[0].stderr):
            effect = max(rates[0].stderr ** 2 / independent, 1.0)
    else:
        effect = 1.0 + max(drafts / max(window.answers, window.running, 1.0) - 1.0, 0.0) * ICC
        named = f"proportion (Wilson), rounds of an answer correlated (ICC {ICC:g} assumed)"
        rates = [_widened(count, drafts, effect, named) for count in counts.accepted_at]
    return Acceptance(by_position=tuple(rates), drafts=drafts, hit_rate=hit, design_effect=effect)


def _widened(count: int, drafts: int, effect: float, named: str) -> Estimate:
    """Proportion ``count / drafts`` with the interval of ``drafts / effect`` independent drafts."""
    fewer = max(round(drafts / effect), 1)
    alike = proportion(min(round(count / drafts * fewer), fewer), fewer)
    value = count / drafts
    stderr = math.sqrt(max(value * (1.0 - value), 0.0) / fewer)
    return spanned((min(alike.low, value), value, max(alike.high, value)), stderr, drafts, named)


def _from_length(window: Window, k: int) -> Acceptance:
    """Acceptance from its mean length, taken to be the same at every position (an assumption)."""
    length = window.accept_length
    if not k or not length >= 1.0:
        return Acceptance(by_position=(), drafts=0.0, hit_rate=1.0, design_effect=1.0)
    rate = _geometric(min(length, k + 1.0), k)
    rounds = max(window.rounds, 1.0)
    effect = 1.0 + max(rounds / max(window.answers, 1.0) - 1.0, 0.0) * ICC
    named = f"from the acceptance length, the same at every position (assumed), ICC {ICC:g} assumed"
    rates = [_widened(round(rate**j * rounds), round(rounds), effect, named) for j in range(1, k + 1)]
    note = "this server does not count acceptance by position: the same rate is assumed at all positions"
    return Acceptance(by_position=tuple(rates), drafts=rounds, hit_rate=1.0, design_effect=effect, notes=(note,))


def _geometric(length: float, k: int) -> float:
    """The rate a with 1 + a + ... + a^k = length, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if math.fsum(middle**j for j in range(k + 1)) < length else (low, middle)
    return (low + high) / 2.0
