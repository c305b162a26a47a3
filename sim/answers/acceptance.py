"""Acceptance of drafts: correlated along an answer and between siblings, with a rate that differs between problems.

The model has four parameters. The draft of branch 0 at position d is accepted by a two-state Markov chain whose
stationary probability is the problem's own ``alpha_i`` and whose lag-1 correlation is ``persistence``; ``alpha_i`` is
beta-distributed over problems; siblings at a position share a beta-distributed latent probability, so that each has the
same marginal as branch 0 and any two have correlation ``siblings`` (beta-binomial).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.random_streams import stream, uniforms
from theory.errors import ParameterError

__all__ = ["Acceptance"]

BoolArray = NDArray[np.bool_]
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Step acceptance of the drafts."""

    alpha: float
    """Probability that a draft is accepted, over problems and positions, in [0, 1]; the paper's alpha1."""
    persistence: float = 0.0
    """Lag-1 correlation of acceptance along an answer, in [0, 1); 0 is the papers' independence."""
    spread: float = 0.0
    """Standard deviation of ``alpha`` between problems, below sqrt(alpha (1 - alpha))."""
    siblings: float = 0.0
    """Correlation of the verdicts on two drafts of one position, in [0, 1]; 0 is LR's independence."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha <= 1.0:
            raise ParameterError("alpha", self.alpha, "must be in [0, 1]")
        if not 0.0 <= self.persistence < 1.0:
            raise ParameterError("persistence", self.persistence, "must be in [0, 1)")
        if not 0.0 <= self.siblings <= 1.0:
            raise ParameterError("siblings", self.siblings, "must be in [0, 1]")
        most = math.sqrt(self.alpha * (1.0 - self.alpha))
        if not (self.spread == 0.0 or 0.0 < self.spread < most):
            raise ParameterError("spread", self.spread, f"must be 0 or in (0, {most:.6g}) = sqrt(alpha (1 - alpha))")

    def problem_alpha(self, seed: int, index: int) -> float:
        """Draw problem ``index``'s own acceptance probability."""
        if self.spread == 0.0:
            return self.alpha
        weight = self.alpha * (1.0 - self.alpha) / self.spread**2 - 1.0
        return float(stream(seed, "acceptance/problem", index).beta(self.alpha * weight, (1.0 - self.alpha) * weight))

    def first(self, seed: int, index: int, n: int, block: int = 1) -> tuple[BoolArray, Array]:
        """Draw whether the draft of branch 0 is accepted at each of ``n`` positions; return the probabilities too.

        ``block`` answers share a stream.
        """
        alpha = self.problem_alpha(seed, index)
        u = uniforms(seed, "acceptance/branch/0", index, n, block)
        if self.persistence == 0.0:
            return u < alpha, np.full(n, alpha)
        low = alpha * (1.0 - self.persistence)
        high = low + self.persistence
        accepted = np.empty(n, dtype=np.bool_)
        probability = np.empty(n)
        p = alpha
        for d, x in enumerate(u.tolist()):
            probability[d] = p
            accepted[d] = yes = x < p
            p = high if yes else low
        return accepted, probability

    def sibling(
        self, seed: int, index: int, branch: int, first: BoolArray, probability: Array, block: int = 1
    ) -> BoolArray:
        """Draw whether branch ``branch`` >= 1 is accepted at each position, given branch 0.

        Given its latent probability p ~ Beta, a position's siblings are independent; given the verdict of branch 0, p
        is Beta with that verdict added as an observation (Polya's urn), so branch 0 is drawn without its siblings.
        """
        u = uniforms(seed, f"acceptance/branch/{branch}", index, first.size, block)
        if self.siblings == 0.0:
            return u < probability
        if self.siblings == 1.0:
            return first.copy()
        weight = 1.0 / self.siblings - 1.0
        latent = stream(seed, "acceptance/latent", index)
        a = np.maximum(probability * weight + first, 1e-300)
        b = np.maximum((1.0 - probability) * weight + ~first, 1e-300)
        return u < latent.beta(a, b)
