"""Token-level speculation below the step level: how many tokens a target pass gives, and what such a pass costs.

Prompt lookup drafts from the text itself, so a draft costs nothing and c2 = 0; what remains is the acceptance and the
cost of a pass over k2 tokens per sequence. Acceptance is not geometric (a hit rate, then a high continuation
probability), so measured profiles use the counts per position; a published profile has one number only, and gets a
range between two models that both reproduce it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from statistics import fmean

from calibrate.profile import EngineRecord, NGramRecord, Profile
from calibrate.system import System
from sim.engines import Cost
from sim.operations import DRAFT, TARGET
from theory.errors import ParameterError

__all__ = ["PassCost", "TokenModel", "fitted_alpha2", "k2_limit", "token_model", "with_token_speculation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenModel:
    """What token-level speculation does at one k2."""

    k2: int
    """Tokens per target pass at most, k2 - 1 of them drafted; 1 is plain decoding."""

    tokens_per_pass: float
    """Mean tokens that a pass commits, >= 1; for published profiles net of what it costs more than a plain pass."""

    low: float
    """Lower end of ``tokens_per_pass`` by the model's assumption (equal to it where positions were counted)."""

    high: float
    """Upper end."""

    rows_per_sequence: int
    """Rows that a sequence adds to an iteration, for its cost: k2 where the cost of a batch stands for it, else 1."""

    factor: float
    """Measured time of an iteration over k2 tokens per sequence / over one, [-]; 1 where it is not measured."""

    also_draft: bool
    """Whether the draft model decodes with it too (LR's released code does)."""

    first_token_too: bool
    """Whether the first token of a step comes as cheaply: published step times do not tell prefill from decoding."""

    note: str
    """Where the numbers come from."""


@dataclass(frozen=True, slots=True)
class PassCost:
    """The cost of an engine that decodes with token-level speculation, per committed token."""

    inner: Cost
    model: TokenModel
    request_s: float
    """Latency of a request outside the engine, s."""

    def iteration(self, batch: int, context: float) -> float:
        """Seconds per committed token of each sequence."""
        seconds = self.inner.iteration(batch * self.model.rows_per_sequence, context)
        return seconds * self.model.factor / self.model.tokens_per_pass

    def prefill(self, n_tokens: int) -> float:
        """Seconds until the first token."""
        seconds = self.inner.prefill(n_tokens)
        return seconds / self.model.tokens_per_pass if self.model.first_token_too else seconds


def token_model(profile: Profile, k2: int) -> TokenModel | None:
    """What prompt lookup gives at ``k2`` tokens per pass; None if the profile says nothing about it.

    Raises
    ------
    ParameterError : k2 below 1.
    """
    if k2 < 1:
        raise ParameterError("k2", k2, "must be an integer >= 1")
    if profile.published is not None:
        return _published(profile, k2)
    return _counted(profile, k2)


def k2_limit(profile: Profile) -> int:
    """The largest k2 that the profile has data for; 1 if none."""
    if profile.published is not None:
        known = profile.published.token_speedup is not None
        return profile.published.token_k2 or 1 if known else 1
    return 1 + max((record.n_speculative for record in profile.ngram), default=0)


def fitted_alpha2(speedup: float, k2: int) -> float:
    """The acceptance probability for which g(alpha2, 0, k2) is ``speedup``; 0 where speculation brought nothing.

    >>> round(fitted_alpha2(1.875, 4), 12)
    0.5
    """
    from scipy.optimize import brentq

    from theory.speedup import g

    if speedup <= 1.0:
        return 0.0
    if speedup >= k2:
        return 1.0
    return float(brentq(lambda alpha: float(g(alpha, 0.0, k2)) - speedup, 0.0, 1.0, xtol=1e-14))


def with_token_speculation(system: System, model: TokenModel | None) -> System:
    """The system with its target (and draft, where the model says so) decoding that many tokens per pass."""
    if model is None or model.k2 == 1:
        return system
    roles = (TARGET, DRAFT) if model.also_draft else (TARGET,)
    engines = {system.placement[role] for role in roles}
    first = model.tokens_per_pass if model.first_token_too else 1.0
    costs = {
        name: PassCost(cost, model, cost.request_s / first) if name in engines else cost
        for name, cost in system.costs.items()
    }
    return replace(system, costs=costs)


def _published(profile: Profile, k2: int) -> TokenModel | None:
    from theory.speedup import g

    figures = profile.published
    if figures is None or figures.token_speedup is None or figures.token_k2 is None:
        return None
    known, at = figures.token_speedup, figures.token_k2
    alpha2 = fitted_alpha2(known.value, at)
    geometric = float(g(alpha2, 0.0, k2))
    # The other extreme: a draft that is hit at all is right to its end, so that every position brings the same.
    share = (known.value - 1.0) / (at - 1)
    linear = 1.0 + share * (k2 - 1)
    rounding = known.half_width
    return TokenModel(
        k2=k2,
        tokens_per_pass=geometric,
        low=min(geometric, linear) - rounding,
        high=max(geometric, linear) + rounding,
        rows_per_sequence=1,
        factor=1.0,
        also_draft=True,
        first_token_too=True,
        note=f"alpha2 = {alpha2:.3f} fitted to the published speedup {known.value:g} at k2 = {at} with c2 = 0",
    )


def _counted(profile: Profile, k2: int) -> TokenModel | None:
    records = [record for record in profile.ngram if record.n_speculative >= k2 - 1 and record.passes]
    if not records:
        return None
    best = max(records, key=lambda record: _tokens_per_pass(record, k2))
    tokens = _tokens_per_pass(best, k2)
    factor = _measured_factor(profile.engines[profile.placement[TARGET]], k2)
    cost = "iteration time measured" if factor else f"an iteration over {k2} tokens costed as a batch of {k2}"
    return TokenModel(
        k2=k2,
        tokens_per_pass=tokens,
        low=tokens,
        high=tokens,
        rows_per_sequence=1 if factor else k2,
        factor=factor or 1.0,
        also_draft=False,
        first_token_too=False,
        note=f"{tokens:.2f} tokens per pass counted per position (n-grams up to {best.max_ngram}); {cost}",
    )


def _tokens_per_pass(record: NGramRecord, k2: int) -> float:
    return 1.0 + sum(record.accepted_at[: k2 - 1]) / record.passes


def _measured_factor(engine: EngineRecord, k2: int) -> float | None:
    """Iteration time at k2 tokens over that at one, batch 1; None beyond the largest number of tokens measured.

    Averaged over the contexts at which both were measured, interpolated between measured numbers of tokens.
    """
    cells: dict[int, dict[int, list[float]]] = {}
    for sample in engine.decode:
        if sample.batch == 1:
            cells.setdefault(sample.tokens, {}).setdefault(sample.context // 64, []).append(sample.seconds)
    plain = cells.get(1, {})
    factors = {1: 1.0}
    for tokens, contexts in cells.items():
        ratios = [fmean(seconds) / fmean(plain[context]) for context, seconds in contexts.items() if context in plain]
        if ratios:
            factors[tokens] = fmean(ratios)
    if k2 > max(factors):
        return None
    known = sorted(factors)
    right = bisect_left(known, k2)
    if known[right] == k2:
        return factors[k2]
    low, high = known[right - 1], known[right]
    return factors[low] + (factors[high] - factors[low]) * (k2 - low) / (high - low)
