"""What acceptance to expect where nothing is measured, with an interval as wide as published pairs differ.

Token drafts: the probability that position i of a draft is accepted, given that all before it were, is
``1 / (1 + exp(-(level + slope ln i)))``; level and slope differ between models. Steps: one probability per pair and
task. A world draws its level and slope once, so that all numbers of drafted tokens share them; a drafter of blocks also
draws how much its acceptance depends on the length of a block (`theory.block_drafting`). The constants are fitted by
``python -m workshop.fit_priors`` on published rows; the intervals are checked there on models left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sim.catalogue import choice
from specplan.worlds.prior_constants import (
    DOMAIN_OF,
    LongPromptConstants,
    LookupConstants,
    PriorConstants,
    StepConstants,
    constants,
    domain_shares,
    kind_of,
)
from theory.block_drafting import at_length
from theory.errors import ParameterError

__all__ = [
    "MOST_DRAFTS",
    "Prior",
    "TokenCurves",
    "curves_from",
    "long_prompt_prior",
    "long_prompt_prior_from",
    "step_length_prior",
    "step_prior",
    "step_prior_from",
    "token_curves",
]

Floats: TypeAlias = NDArray[np.float64]

MOST_DRAFTS: Final = 32
"""Drafted tokens per round up to which curves are carried; measured are 1 to 8."""
_DRAWS: Final = 4000
"""Draws behind an interval: its ends have a standard error of 0.003 in probability, a tenth of what is left out."""
_MARKS: Final = 401
_COVERED: Final = (0.025, 0.975)
_LEAST, _MOST = 0.001, 0.995  # a conditional acceptance beyond has been seen nowhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is expected of something that was not measured."""

    value: float
    low: float
    high: float
    source: str
    marks: tuple[float, ...]
    """Quantiles at equal steps of probability from 0 to 1."""

    def quantile(self, u: float) -> float:
        """Return the value below which a share u of the worlds lies."""
        if not 0.0 <= u <= 1.0:
            raise ParameterError("u", u, "must be in [0, 1]")
        return float(np.interp(u, np.linspace(0.0, 1.0, len(self.marks)), self.marks))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCurves:
    """The worlds of a method and a domain."""

    worlds: Floats
    """Probabilities by position, shape (draws, positions)."""
    source: str
    drafted: int = 0
    """Tokens of the blocks whose positions these are; 0: chains."""
    slopes: Floats | None = None
    """Of blocks: beta of each world, shape (draws, 1)."""

    def chosen(self, which: slice | NDArray[np.intp]) -> TokenCurves:
        """Return some of the worlds."""
        slopes = None if self.slopes is None else self.slopes[which]
        return replace(self, worlds=self.worlds[which], slopes=slopes)

    def at(self, k: int) -> Floats:
        """Return the probabilities by position where k tokens are drafted, shape (draws, k)."""
        if self.slopes is None or not k:
            return self.worlds[:, :k]
        return at_length(self.worlds[:, :k], self.drafted, k, self.slopes)

    def tokens(self, k2: int) -> Prior:
        """Return what to expect of the tokens that a round commits, k2 at most: one more than are drafted.

        Raises
        ------
        ParameterError : k2 outside [1, `MOST_DRAFTS` + 1].
        """
        if isinstance(k2, bool) or not isinstance(k2, int) or not 1 <= k2 <= MOST_DRAFTS + 1:
            raise ParameterError("k2", k2, f"must be an integer in [1, {MOST_DRAFTS + 1}]")
        lengths = 1.0 + np.cumprod(self.at(k2 - 1), axis=1).sum(axis=1)
        return _prior(lengths, self.source)


@cache
def token_curves(method: str, domain: str | None = None) -> TokenCurves:
    """Return the worlds of a method that drafts tokens, each of one curve for all k2.

    Parameters
    ----------
    method : ``eagle3``, ``eagle``, ``mtp``, ``dflash``, ``dspark``, ``draft-model`` or ``prompt-lookup``.
    domain : a data set or a kind of text (`DOMAIN_OF`); None: unknown.

    Raises
    ------
    ParameterError : an unknown method or domain.

    >>> prior = token_curves("eagle3", "code").tokens(4)
    >>> 1.0 < prior.low < prior.value < prior.high < 4.0
    True
    """
    return curves_from(constants(), method, domain)


def curves_from(fitted: PriorConstants, method: str, domain: str | None) -> TokenCurves:
    """Return the worlds by some constants: `token_curves` by the shipped ones.

    Raises
    ------
    ParameterError : as `token_curves`.
    """
    kind = None if domain is None else kind_of(domain)
    chosen = choice("method", method, (*fitted.token, "prompt-lookup"))
    rng = np.random.default_rng(20_260_101)  # the same worlds whenever they are asked for
    if chosen == "prompt-lookup":
        return _lookup_curves(fitted.lookup, kind, rng)
    of = fitted.token[chosen]
    middle = np.array(of.level_slope)
    covariance = _matrix(of.covariance)
    if of.domains:
        effects = {name: np.array(effect) for name, effect in fitted.domain_level_slope.items()}
        effect = None if kind is None else effects.get(kind)
        if effect is None:  # unknown, or a kind that matters to lookups only
            shares = domain_shares(effects)
            middle = middle + sum(shares[name] * each for name, each in effects.items())
            covariance = covariance + _matrix(fitted.domain_covariance)
        else:
            middle = middle + effect
    normal = rng.standard_normal((_DRAWS, 2)) @ np.linalg.cholesky(covariance + 1e-12 * np.eye(2)).T
    level, slope = (middle + normal * np.sqrt(of.degrees / rng.chisquare(of.degrees, (_DRAWS, 1)))).T
    positions = np.log(np.arange(1, MOST_DRAFTS + 1))
    worlds = _share(level[:, None] + slope[:, None] * positions)
    if of.block is None:
        return TokenCurves(worlds=worlds, source=of.source)
    slopes = of.block.slope + of.block.error * rng.standard_normal((_DRAWS, 1))
    return TokenCurves(worlds=worlds, source=of.source, drafted=of.block.drafted, slopes=slopes)


@cache
def step_prior(task: str | None = None) -> Prior:
    """Return what to expect of alpha1, the probability that a draft's step is accepted.

    Parameters
    ----------
    task : a data set or a kind of text (`DOMAIN_OF`); None, or one without published steps: any.

    Raises
    ------
    ParameterError : an unknown task.
    """
    return step_prior_from(constants().step, task)


def step_prior_from(fitted: StepConstants, task: str | None) -> Prior:
    """Return the prior of alpha1 by some constants.

    Raises
    ------
    ParameterError : as `step_prior`.
    """
    named = None if task is None else task.strip().lower()
    key, spread = "all", fitted.spread_all
    if named is not None and named in DOMAIN_OF and named in fitted.tasks:
        key, spread = named, fitted.spread_task
    elif named is not None and kind_of(named) in fitted.tasks:
        key, spread = kind_of(named), fitted.spread_domain
    rng = np.random.default_rng(20_260_102)
    worlds = _share(fitted.tasks[key] + spread * rng.standard_t(fitted.degrees, 5 * _DRAWS))
    return _prior(worlds, fitted.source)


@cache
def step_length_prior() -> Prior:
    """Return what to expect of the mean length of a step, tokens."""
    fitted = constants()
    value, half_width = fitted.step_tokens
    rng = np.random.default_rng(20_260_103)
    sigma = np.log1p(half_width / value) / 1.96  # lognormal: lengths are positive
    return _prior(value * np.exp(sigma * rng.standard_normal(_DRAWS)), fitted.step_source)


@cache
def long_prompt_prior() -> Prior:
    """Return what the logit of the acceptance of drafts loses per doubling of a prompt beyond `SHORT` tokens."""
    return long_prompt_prior_from(constants().long_prompts)


def long_prompt_prior_from(fitted: LongPromptConstants) -> Prior:
    """Return the same by some constants."""
    rng = np.random.default_rng(20_260_104)
    worlds = np.maximum(fitted.loss + fitted.spread * rng.standard_t(fitted.degrees, 5 * _DRAWS), 0.0)
    return _prior(worlds, fitted.source)


def _lookup_curves(of: LookupConstants, kind: str | None, rng: np.random.Generator) -> TokenCurves:
    """Worlds in which a round hits with some probability and then goes on with a higher one."""
    known = kind in of.log_extra
    middle = of.log_extra[kind if known and kind is not None else "all"]
    spread = of.spread if known else of.spread_all
    extra = np.exp(middle + spread * rng.standard_t(of.degrees, _DRAWS))
    going_on = _share(of.going_on[0] + of.going_on[1] * rng.standard_normal(_DRAWS))
    sums = (1.0 - going_on ** (of.k2 - 1)) / (1.0 - going_on)
    hit = np.clip(extra / sums, _LEAST, _MOST)
    worlds = np.repeat(going_on[:, None], MOST_DRAFTS, axis=1)
    worlds[:, 0] = hit
    return TokenCurves(worlds=worlds, source=of.source)


def _prior(worlds: Floats, source: str) -> Prior:
    marks = np.quantile(worlds, np.linspace(0.0, 1.0, _MARKS))
    low, high = (float(end) for end in np.quantile(worlds, _COVERED))
    return Prior(value=float(worlds.mean()), low=low, high=high, source=source, marks=tuple(map(float, marks)))


def _share(logit: Floats) -> Floats:
    shares: Floats = np.clip(1.0 / (1.0 + np.exp(-np.clip(logit, -30.0, 30.0))), _LEAST, _MOST)
    return shares


def _matrix(covariance: tuple[float, float, float]) -> Floats:
    return np.array([[covariance[0], covariance[1]], [covariance[1], covariance[2]]])
