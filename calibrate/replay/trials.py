"""Trials to simulate, made from a profile and a configuration.

Parts that the trials of a profile share are built once: the systems of its resampled variants, the answers by verifier,
and the models of token-level methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from calibrate.costs.fit import CostFit
from calibrate.record.profile import Profile
from calibrate.replay.corruption import Recorded
from calibrate.replay.missing import Known
from calibrate.replay.recursion import unshared_seconds
from calibrate.replay.system import System, as_seen_by, system_of
from calibrate.replay.token_level import TokenLevel, TokenModel, with_token_speculation
from sim.algorithms.rules import PRESETS
from sim.answers.drawn import Behaviour, SyntheticBehaviour
from sim.answers.replayed import TraceBehaviour
from sim.configuration import Configuration
from sim.engines.costs import PacedCost
from sim.roles import JUDGE, TARGET
from sim.trial import Trial
from theory.errors import ParameterError

__all__ = ["Trials"]


class Trials:
    """The trials of one profile; all of them use the same answers.

    Parameters
    ----------
    corruption : share of acceptance lost after a wrong step, in [0, 1]; default the estimate from its answers.
    slower : engine name -> time of its work / time by the profile, [-]; default 1.
    places : role -> role to whose processor its engine is moved (`calibrate.replay.system.System.placed`).
    behaviour : answers in place of the profile's.

    Raises
    ------
    CalibrationError : the profile's timings are not enough to fit a cost model.
    ParameterError : the profile has only timings.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        corruption: float | None = None,
        slower: Mapping[str, float] = MappingProxyType({}),
        places: Mapping[str, str] = MappingProxyType({}),
        behaviour: Behaviour | None = None,
    ) -> None:
        self.profile = profile
        self.corruption = corruption
        self.token_level = TokenLevel(profile)
        self._known = Known(profile, self.token_level)
        self._own_answers = behaviour is None
        self._complete: set[Configuration] = set()
        self.recorded = Recorded(profile.all_answers)
        self._places = places
        made = replace(self._system_of(None), pace=slower)
        self.system = made if behaviour is None else replace(made, behaviour=behaviour)
        self._variants: dict[int | None, System] = {None: self.system}
        self._seen: dict[tuple[str, float | None, int | None], Behaviour] = {}

    def trial(
        self,
        configuration: Configuration,
        *,
        variant: int | None = None,
        tokens_per_pass: float | None = None,
        same_passes: bool = False,
        in_flight: float = 1.0,
    ) -> Trial:
        """Return the trial of a configuration.

        Parameters
        ----------
        variant : seed of a resampled profile (see `calibrate.replay.system.system_of`); None for the best estimates.
        tokens_per_pass : in place of the value of the token-level method's model, >= 1.
        same_passes : whether a variant uses the passes of the best estimates, with times scaled to its own mean tokens
            per pass, so that few answers suffice to estimate its effect.
        in_flight : answers in flight, whose engine times it has where they were measured, >= 1.

        Raises
        ------
        ParameterError : the profile lacks data for it, a token-level method's record among them.
        """
        system = self._made(configuration, variant, tokens_per_pass)
        if same_passes and system.passes:
            own = self.token_model(configuration)
            other = self.token_level.model(configuration, self._suited(configuration, variant), variant)
            assert own is not None
            assert own.source is not None
            assert other is not None
            target = system.placement[TARGET]
            slower = PacedCost(system.costs[target], own.tokens_per_pass / other.tokens_per_pass)
            passes = {**system.passes, TARGET: own.source}
            system = replace(system, costs={**system.costs, target: slower}, passes=passes)
        return system.with_clients(in_flight).trial(configuration.algorithm(), configuration.spec.meets)

    def unshared_seconds(
        self,
        configuration: Configuration,
        indices: Sequence[int],
        *,
        variant: int | None = None,
        tokens_per_pass: float | None = None,
    ) -> NDArray[np.float64] | None:
        """Return the seconds of `trial` if no iteration were shared; None for configurations without a recursion.

        Parameters and errors are those of `trial`; ``indices`` are those of the answers.
        """
        return unshared_seconds(self._made(configuration, variant, tokens_per_pass), configuration, indices)

    def _made(self, configuration: Configuration, variant: int | None, tokens_per_pass: float | None) -> System:
        """The system for a configuration."""
        self._refuse_unknown(configuration)
        system = self._suited(configuration, variant)
        behaviour = system.behaviour
        if configuration.decider != (JUDGE, None):
            key = *configuration.decider, variant
            if key not in self._seen:
                self._seen[key] = as_seen_by(
                    system, self.recorded, *configuration.decider, resample=variant, corruption=self.corruption
                ).behaviour
            behaviour = self._seen[key]
        if isinstance(behaviour, TraceBehaviour):  # texts have one draft of a position
            behaviour = replace(behaviour, traces=behaviour.traces[: self.n_answers(configuration)])
        elif isinstance(behaviour, SyntheticBehaviour):
            behaviour = behaviour.judged_under(PRESETS[configuration.rules])
        system = replace(system, behaviour=behaviour)
        model = self.token_level.model(configuration, system, variant)
        if model is not None and tokens_per_pass is not None:
            model = replace(model, tokens_per_pass=tokens_per_pass)
        return with_token_speculation(system, model, steps=configuration.spec.drafts_steps)

    @property
    def baseline(self) -> str:
        """What plain decoding is here, for tables: speedups are over it."""
        if self.profile.published is not None:
            return (
                "plain decoding writes the answer step by step, as in the papers' closed forms and LR's released code"
            )
        what = "plain decoding and token-level methods are one request per answer"
        target = self.profile.engines[self.profile.placement[TARGET]]
        if target.plain_in_use and target.stepwise is target.plain_in_use:
            what += ", of the iterations and one prefill of this older profile's answers, which were a request per step"
        return what

    def token_model(self, configuration: Configuration) -> TokenModel | None:
        """Return the model of a configuration's token level; None if it has none. Errors are those of `trial`."""
        self._refuse_unknown(configuration)
        return self.token_level.model(configuration, self._suited(configuration, None))

    def n_answers(self, configuration: Configuration) -> int | None:
        """Return how many recorded answers have all drafts that a configuration uses; None: drawn without limit."""
        known, n = self.system.behaviour.n_answers, len(self.profile.answers)
        several = configuration.spec.drafts_seen(**configuration.knobs) > 1
        return n if several and self._own_answers and known is not None and 0 < n < known else known

    def fits(self, configuration: Configuration) -> Mapping[str, CostFit]:
        """Return the fits of the engines' costs in a configuration's use, with its token level; empty: no timings.

        Errors are those of `trial`.
        """
        system, model = self._suited(configuration, None), self.token_model(configuration)
        fits = system.fits.get(system.use, {})
        if not fits or model is None or model.cost is None:
            return fits
        target = system.placement[TARGET]
        return {**fits, target: replace(fits[target], passes=model.cost)}

    def missing(self, configuration: Configuration) -> tuple[str, ...]:
        """Return the data that a configuration needs and the profile lacks (`calibrate.replay.missing.Known`)."""
        return self._known.missing(configuration, answers=self._own_answers)

    def _refuse_unknown(self, configuration: Configuration) -> None:
        unknown = () if configuration in self._complete else self.missing(configuration)
        if unknown:
            rule = f"needs what profile {self.profile.name!r} does not know: {'; '.join(unknown)}"
            raise ParameterError("configuration", configuration.name, rule)
        self._complete.add(configuration)

    def _suited(self, configuration: Configuration, variant: int | None) -> System:
        if variant not in self._variants:
            self._variants[variant] = self._system_of(variant)
        return self._variants[variant].suited(configuration.spec, configuration.knobs)

    def _system_of(self, variant: int | None) -> System:
        made = system_of(self.profile, resample=variant, corruption=self.corruption, recorded=self.recorded)
        return made.placed(self._places)
