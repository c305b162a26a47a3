"""What is assumed of models that nobody has measured together: how often drafts are accepted, and how long steps are.

Each belief has a value and a 95 % interval; a standard normal score says where in it a world lies. What the user knows
takes the place of a belief, and has no interval.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

from specplan.worlds.drafters.naming import drafter_name
from specplan.worlds.prior_constants import SHORT
from specplan.worlds.priors import TokenCurves, long_prompt_prior, step_length_prior, step_prior, token_curves
from theory.adaptive.verification import SPREAD, SPREAD_ERROR
from theory.block_drafting import LAWS

if TYPE_CHECKING:
    from specplan.worlds.drafters.known_acceptance import KnownAcceptance
    from specplan.worlds.request import Deployment

__all__ = ["CONFIDENCE", "LONG_PROMPTS", "MEASURE", "STEP_ACCEPTANCE", "STEP_LENGTHS", "TOKEN_ACCEPTANCE", "Beliefs"]

STEP_ACCEPTANCE: Final = "step acceptance"
TOKEN_ACCEPTANCE: Final = "token acceptance"
LONG_PROMPTS: Final = "acceptance after long prompts"
STEP_LENGTHS: Final = "step lengths"
CONFIDENCE: Final = "what the drafter knows of its drafts"

MEASURE: Final = {
    STEP_ACCEPTANCE: "specplan calibrate on questions of yours, then --alpha1",
    TOKEN_ACCEPTANCE: "--acceptance METHOD=after.prom with a server's /metrics",
    LONG_PROMPTS: "--acceptance METHOD=after.prom with the /metrics of a server that read prompts as long",
    STEP_LENGTHS: "specplan calibrate on questions of yours",
    CONFIDENCE: "run the load with and without enable_adaptive_verification",
}
"""Name of a belief to what narrows it."""
_NEAR: Final = 0.02
"""Share of the worlds on either side of a quantile that stand for it."""
_RANKED_AT: Final = 4

_IN_VAIN: Final = 0.5
"""Share of the rounds without a right first token in which a lookup of 1 to 3 tokens, as in commands of plans, finds
some text all the same: 0.57 by the counts of the bundled profiles of an H100, 0.37 by those of the tests' CPU pair. Of
longer ones: 2 to 5 tokens 0.19 while code is edited (vllm-project/vllm#24344); as vLLM 0.12 looks up unasked, 0.03 in
chat and code and 0.10 in edits (counters of 14 servers, `workshop.fit_priors`)."""

_LOSING: Final = ("eagle", "eagle3", "mtp", *LAWS)
"""Drafters that were trained on texts of some length; models of their own and lookups read what the target reads."""


@cache
def _ranked(method: str, task: str | None) -> TokenCurves:
    """The worlds of a method, those with fewer tokens accepted first."""
    curves = token_curves(method, task)
    order = np.argsort(np.cumprod(curves.worlds[:, :_RANKED_AT], axis=1).sum(axis=1), kind="stable")
    return curves.chosen(order)


class Beliefs:
    """Beliefs about a deployment."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._alpha1 = deployment.alpha1
        self._task = deployment.task

    def moves(self, *, steps: bool, token: str | None, adaptive: bool = False) -> tuple[str, ...]:
        """Names of the beliefs that matter to a method, without those that the user knows.

        Parameters
        ----------
        token : the token-level method that it is or has below; None: none.
        """
        names = [STEP_ACCEPTANCE] if steps and self._alpha1 is None else []
        names += [STEP_LENGTHS] if steps else []
        names += [CONFIDENCE] if adaptive else []
        if token is None or self._known(token) is not None:
            return tuple(names)
        return (*names, *([LONG_PROMPTS] if self._doublings(token) else []), TOKEN_ACCEPTANCE)

    def _doublings(self, token: str) -> float:
        """How often a prompt is twice as long as those behind the prior; 0 for methods that lose nothing by it."""
        reads = drafter_name(self._deployment, token) in _LOSING
        return max(math.log2(self._deployment.prompt_tokens / SHORT), 0.0) if reads else 0.0

    def _known(self, token: str) -> KnownAcceptance | None:
        """What the user knows of this method, and of no other."""
        return self._deployment.acceptance.get(drafter_name(self._deployment, token))

    def _prior(self, token: str) -> str:
        """The method's name among the priors."""
        return drafter_name(self._deployment, token) if token in ("eagle", "block-drafter") else token

    def source(self, token: str) -> str:
        """Where the acceptance of a token-level method is from, in words."""
        known = self._known(token)
        if known is not None:
            return known.source
        prompts = f"; less after prompts beyond {SHORT:,} tokens: {long_prompt_prior().source}"
        told = token_curves(self._prior(token), self._task).source
        return f"prior: {told}" + (prompts if self._doublings(token) else "")

    def alpha1(self, z: float = 0.0) -> float:
        """Probability that a draft step is accepted, [-]."""
        if self._alpha1 is not None:
            return self._alpha1
        return step_prior(self._task).quantile(NormalDist().cdf(z))

    def step_tokens(self, z: float = 0.0) -> float:
        """Mean tokens of a step before it is cut."""
        return step_length_prior().quantile(NormalDist().cdf(z))

    def accepted(self, method: str, k2: int, z: float = 0.0, z_long: float = 0.0) -> tuple[float, ...]:
        """Probability that each of the k2 - 1 drafted tokens is right if those before it were, [-].

        Parameters
        ----------
        z, z_long : scores of what is believed of acceptance, and of its loss after long prompts (higher: less loss).
        """
        known, prior = self._known(method), self._prior(method)
        if known is not None:
            return known.of_block(k2 - 1, LAWS[prior]) if prior in LAWS else known.first(k2 - 1)
        ranked = _ranked(prior, self._task)
        u, n = NormalDist().cdf(z), len(ranked.worlds)
        first, last = max(int((u - _NEAR) * n), 0), min(int((u + _NEAR) * n), n)
        rates = ranked.chosen(slice(first, last)).at(k2 - 1).mean(axis=0)
        doublings = self._doublings(method)
        if doublings:
            lost = doublings * long_prompt_prior().quantile(NormalDist().cdf(-z_long))
            rates = rates / (rates + (1.0 - rates) * math.exp(lost))
        return tuple(float(right) for right in rates)

    def drafting(self, method: str, z: float = 0.0) -> float:
        """Share of the rounds that verify drafts: less than 1 where a lookup may find nothing, and the engine minds."""
        if method != "prompt-lookup" or not self._deployment.engine.drafts_found:
            return 1.0
        known = self._known(method)
        if known is not None and known.drafting is not None:
            return known.drafting
        right = self.accepted(method, 2, z)[0]
        return right + _IN_VAIN * (1.0 - right)

    def spread(self, z: float = 0.0) -> float:
        """How far apart the rounds of a drafter are that it can tell apart, see `theory.adaptive.verification`."""
        return SPREAD * math.exp(SPREAD_ERROR * z)

    def pmf(self, method: str, k2: int, z: float = 0.0, z_long: float = 0.0) -> tuple[float, ...]:
        """Probability that a pass commits 1, 2, ..., k2 tokens, [-]."""
        reached, found = 1.0, []
        for right in self.accepted(method, k2, z, z_long):
            found.append(reached * (1.0 - right))
            reached *= right
        return (*found, reached)

    def tokens_per_pass(self, method: str, k2: int, z: float = 0.0, z_long: float = 0.0) -> float:
        """Mean tokens that a pass commits."""
        return sum(tokens * share for tokens, share in enumerate(self.pmf(method, k2, z, z_long), 1))
