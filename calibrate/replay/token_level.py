"""Token-level speculation below the step level: the tokens that a target pass commits, and the time of a pass.

A measured profile's passes are simulated one by one, with the cost of their rows (`calibrate.replay.token_passes`). A
published profile has one number only, for prompt lookup, whose drafts cost nothing (c2 = 0): its passes are averaged,
and the range between two models that both reproduce the number is given. Where steps are generated concurrently, the
drafts of each further sequence add rows, and the last pass of a step commits tokens beyond its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace

import numpy as np

from calibrate.costs.by_load import join_law
from calibrate.costs.sweep import fit_passes
from calibrate.record.profile import Profile
from calibrate.replay.system import System
from calibrate.replay.token_passes import NESTED, TokenModel, token_decoding
from calibrate.token_acceptance.curves import fitted_alpha2
from sim.catalogue import KnobValue, method
from sim.configuration import DEFAULT_TOKEN_METHOD, Configuration
from sim.engines.costs import TableCost
from sim.roles import DRAFT, TARGET
from theory.errors import ParameterError

__all__ = ["TokenLevel", "TokenModel", "known_settings", "with_token_speculation"]

_SEED = 0x746F6B65


class TokenLevel:
    """Models of the token-level methods that a profile has records of; caches them."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._known: dict[tuple[object, ...], TokenModel | None] = {}
        self._tables: dict[tuple[str, int | None], tuple[dict[int, TableCost], np.random.Generator | None]] = {}
        """Times of passes by their tokens, and the generator in its state after the fit."""
        self._timed_methods: frozenset[str] | None = None

    def model(self, configuration: Configuration, system: System, resample: int | None = None) -> TokenModel | None:
        """Return the model of a configuration's token level; None if it has none.

        Raises
        ------
        ParameterError : the profile has no record of that method at those settings.
        """
        token, knobs = configuration.token, configuration.token_knobs
        if token is None:
            return None
        key = (token, *sorted(knobs.items()), resample, system.use)
        if key not in self._known:
            self._known[key] = self.find(token, knobs, system, resample)
        model = self._known[key]
        if model is None:
            rule = f"is not measured for {token} in profile {self.profile.name!r}"
            raise ParameterError("k2", configuration.k2, rule)
        return model

    def choices(self, token: str) -> list[dict[str, KnobValue | None]]:
        """Return the settings of a method that the profile can predict, smallest k2 first."""
        spec = method(token)
        if self.profile.published is None:
            settings = known_settings(self.profile, token)
            return [{name: value for name, value in one.items() if spec.has(name)} for one in settings]
        figures = self.profile.published
        if token != DEFAULT_TOKEN_METHOD or figures.token_speedup is None:
            return []
        return [{"k2": k2} for k2 in range(2, (figures.token_k2 or 1) + 1)]

    def find(
        self, token: str, knobs: Mapping[str, KnobValue | None], system: System, resample: int | None = None
    ) -> TokenModel | None:
        """Return the model of a token-level method; None if the profile has no record of it at those settings."""
        if self.profile.published is not None:
            k2 = knobs.get("k2")
            return _published(self.profile, int(k2)) if token == DEFAULT_TOKEN_METHOD and k2 is not None else None
        target = self.profile.engines[self.profile.placement[TARGET]]
        if self._timed_methods is None:
            self._timed_methods = target.timed_methods
        own = token if token in self._timed_methods else ""
        if (own, resample) not in self._tables:
            rng = None if resample is None else np.random.default_rng([_SEED, resample])
            self._tables[own, resample] = fit_passes(target, rng, method=own), rng
        tables, used = self._tables[own, resample]
        decoding = token_decoding(
            self.profile, token, knobs, system.fits, deepcopy(used), use=system.use, tables=tables
        )
        if decoding is None:
            return None
        assert decoding.cost is not None
        return replace(decoding, join=join_law(target, decoding.cost, token))


def known_settings(profile: Profile, method: str) -> list[dict[str, int | float | str | bool]]:
    """Return the settings of a method that the profile can predict, with each smaller ``k2``; smallest k2 first."""
    by_settings = {}
    for record in profile.token:
        if record.method != method or not record.passes:
            continue
        depths = range(2, record.k2 + 1) if method in NESTED else (record.k2,)
        for k2 in depths:
            one = {**record.settings, "k2": k2}
            by_settings[tuple(sorted(one.items()))] = one
    for ngram in profile.ngram if method == "prompt-lookup" else ():
        for k2 in range(2, ngram.n_speculative + 2):
            one = {"k2": k2, "max_ngram": ngram.max_ngram}
            if not any(all(other.get(name) == value for name, value in one.items()) for other in by_settings.values()):
                by_settings[tuple(sorted(one.items()))] = one
    return sorted(by_settings.values(), key=lambda one: (one["k2"], str(sorted(one.items()))))


def with_token_speculation(system: System, model: TokenModel | None, *, steps: bool = False) -> System:
    """Return the system with its target (and the draft, for a published profile) decoding with speculation.

    Parameters
    ----------
    steps : whether each step is a request, at whose end averaged passes of a published profile are cut.
    """
    if model is None or model.k2 == 1:
        return system
    target = system.placement[TARGET]
    if model.source is not None and model.cost is not None:
        costs = {**system.costs, target: model.cost}
        joins = system.joins if model.join is None else {**system.joins, target: model.join}
        return replace(system, costs=costs, passes={**system.passes, TARGET: model.source}, joins=joins)
    sped_up = {target, system.placement[DRAFT]}
    costs = {name: model.averaged(cost, cut=steps) if name in sped_up else cost for name, cost in system.costs.items()}
    return replace(system, costs=costs)


def _published(profile: Profile, k2: int) -> TokenModel | None:
    from theory.speedup import g

    figures = profile.published
    if figures is None or figures.token_speedup is None or figures.token_k2 is None:
        return None
    known, at = figures.token_speedup, figures.token_k2
    alpha2 = fitted_alpha2(known.value, at)
    geometric = float(g(alpha2, 0.0, k2))
    # The other extreme: a draft is right to its end or not at all, so that every position adds the same.
    linear = 1.0 + (known.value - 1.0) / (at - 1) * (k2 - 1)
    return TokenModel(
        k2=k2,
        tokens_per_pass=geometric,
        low=min(geometric, linear) - known.half_width,
        high=max(geometric, linear) + known.half_width,
        cut_tokens=_cut_tokens(alpha2, k2),
        note=f"alpha2 = {alpha2:.3f} fitted to the published speedup {known.value:g} at k2 = {at} with c2 = 0",
    )


def _cut_tokens(alpha2: float, k2: int) -> float:
    """Mean tokens by which the last pass of a step overshoots its end, which is uniform over the tokens.

    Renewal theory: (E[N^2] / E[N] - 1) / 2 for passes of N tokens, here 1 + accepted drafts of k2 - 1.

    >>> _cut_tokens(0.0, 9), _cut_tokens(1.0, 9)
    (0.0, 4.0)
    """
    n = np.arange(1, k2 + 1)
    law = np.where(n < k2, (1.0 - alpha2) * alpha2 ** (n - 1.0), alpha2 ** (k2 - 1.0))
    return float(((law * n**2).sum() / (law * n).sum() - 1.0) / 2.0)
