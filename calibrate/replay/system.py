"""Simulator inputs made from a profile: a behaviour (the models' answers) and engines (their times).

A measured profile is replayed: its recorded answers, on engines fitted to its timings. A published profile is modelled:
lognormal correlated step lengths and independent acceptance around the published means, on engines scaled to the
published step times, with the cost of parallel steps measured on comparable hardware.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Final, get_args

import numpy as np

from calibrate.costs.fit import CostFit, fit_cost, reread_tokens
from calibrate.record.engine_records import Use
from calibrate.record.profile import Profile, Published, PublishedValue
from calibrate.replay.assumptions import ASSUMED, HALF_WIDTHS, Assumptions
from calibrate.replay.corruption import Recorded, least_corruption
from sim.answers.acceptance import Acceptance
from sim.answers.drawn import Behaviour, SyntheticBehaviour, TraceBehaviour
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.answers.token_passes import PassSource
from sim.catalogue import Level, Meets, Method
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost, PacedCost
from sim.engines.device import Device
from sim.engines.fixed import FixedEngine
from sim.engines.per_candidate import PerCandidate
from sim.engines.protocol import Cost, Engine
from sim.operations import MakeAlgorithm
from sim.roles import CHOOSER, DRAFT, EMBEDDING, JUDGE, REWARD, SCORER, TARGET
from sim.serving.engine import ServingEngine
from sim.serving.limits import ENDLESS, Joined, JoinLaw
from sim.trial import Trial
from theory.errors import ParameterError

__all__ = ["System", "as_seen_by", "system_of", "use_of"]

_USE_OF_LEVEL: Final[Mapping[Level, Use]] = {"baseline": "plain", "token": "plain", "step": "steps", "beam": "beams"}
_OWN: Final = "own"
"""Place that means a processor of the engine's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A set of models on their engines, as simulated.

    Attributes
    ----------
    costs : engine name -> its cost model.
    placement : role -> engine name.
    devices : engine name -> name of its processor.
    fits : use -> engine name -> fit of its cost, for profiles with timings.
    use : current use of the engines; ``costs`` and ``beside`` are from the fits for that use.
    seconds : mean time of roles without an engine, s.
    shared : role without an engine -> name of the processor on which it takes that time; others have their own.
    graded_choice : whether a choice among candidates is a request for each of them, not one for all.
    passes : role -> source of the tokens that each pass of its engine commits; default a token per iteration.
    beside : engine name -> its time while another engine works / while none does, [-]; other engines are slowed only by
        engines of the same processor, which they share equally.
    waking : engine name -> additional time of its first prefill after a rest, s; default 0.
    joins : engine name -> what its passes take that read prompts; those without an entry read them between passes.
    pace : engine name -> time of its iterations and prefills / time by ``costs``, [-]; default 1.
    moved : engines that share their processor with others than in the measurement: neither ``beside`` nor the times
        with several clients apply to them.
    """

    behaviour: Behaviour
    costs: Mapping[str, Cost]
    placement: Mapping[str, str]
    devices: Mapping[str, str]
    fits: Mapping[Use, Mapping[str, CostFit]] = field(default_factory=dict)
    use: Use = "steps"
    seconds: Mapping[str, float] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)
    graded_choice: bool = False
    passes: Mapping[str, PassSource] = field(default_factory=dict)
    beside: Mapping[str, float] = field(default_factory=dict)
    waking: Mapping[str, float] = field(default_factory=dict)
    joins: Mapping[str, JoinLaw] = field(default_factory=dict)
    pace: Mapping[str, float] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()

    def trial(self, algorithm: MakeAlgorithm, meets: Meets) -> Trial:
        """Return the trial of an algorithm on these answers and engines."""
        return Trial.of(algorithm, self.behaviour, self.engines(), meets=meets).speculating(self.passes)

    def suited(self, method: Method, knobs: Mapping[str, Any] | None = None) -> System:
        """Return the system in the use of a method; ``knobs``: its knobs that differ from their defaults."""
        use = use_of(method, knobs or {})
        if use == self.use or not self.fits:
            return self
        return replace(self, use=use, **_in(self.fits[use]))

    def with_clients(self, in_flight: float) -> System:
        """Return the system with the engine times of so many answers in flight; times that were given stay."""
        if self.use != "steps" or in_flight <= 1.0 or self.pace:
            return self
        fits = self.fits.get(self.use, {})
        return replace(self, pace={name: fits[name].slowdown(in_flight) for name in fits.keys() - self.moved})

    def placed(self, places: Mapping[str, str]) -> System:
        """Return the system with engines moved to other processors, whose engines share them equally while they work.

        Parameters
        ----------
        places : role -> role to whose processor its engine is moved, or ``own``: a processor of its own.

        Raises
        ------
        ParameterError : an unknown role, or a role whose engine has other roles too.
        """
        if not places:
            return self
        devices = dict(self.devices)
        for role, place in places.items():
            for one in (role, *(() if place == _OWN else (place,))):
                if one not in self.placement:
                    rule = f"must be one of {', '.join(self.placement)}; at the right also {_OWN}"
                    raise ParameterError("place", one, rule)
            engine = self.placement[role]
            others = [other for other, home in self.placement.items() if home == engine and other != role]
            if others:
                rule = f"runs on the engine of the {others[0]}: it cannot be moved without it"
                raise ParameterError("place", role, rule)
            devices[engine] = f"{engine}, own" if place == _OWN else devices[self.placement[place]]

        def mates(name: str, of: Mapping[str, str]) -> set[str]:
            return {other for other, device in of.items() if device == of[name]}

        moved = frozenset(name for name in devices if mates(name, devices) != mates(name, self.devices))
        return replace(self, devices=devices, moved=moved)

    def engines(self) -> dict[str, Engine]:
        """Return fresh engines by role; roles that share an engine get the same one, engines of a device share it."""
        homes = {name: self._home(name) for name in self.costs}
        devices = {home: Device() for home in homes.values()}
        for one, other in combinations(devices.values(), 2):
            one.join(other)
        engines = {name: self._engine(name, devices[home]) for name, home in homes.items()}
        by_role: dict[str, Engine] = {role: engines[name] for role, name in self.placement.items()}
        if self.graded_choice:
            by_role[CHOOSER] = PerCandidate(by_role[TARGET])
        for role, seconds in self.seconds.items():
            home = devices.get(self.shared.get(role, ""))
            # Encoders serve one request after the other, on a processor that is slower while other engines use it.
            one_pass = LinearCost(base_s=0.0, prefill_s=seconds)
            by_role[role] = FixedEngine(seconds) if home is None else BatchEngine(one_pass, home)
        return by_role

    def _engine(self, name: str, device: Device) -> BatchEngine:
        pace = self.pace.get(name, 1.0)
        cost: Cost = self.costs[name] if pace == 1.0 else PacedCost(self.costs[name], pace)
        beside = 1.0 if name in self.moved else self.beside.get(name, 1.0)
        timed = {"beside": beside, "waking_s": self.waking.get(name, 0.0) * pace}
        if name not in self.joins:
            return BatchEngine(cost, device, **timed)
        return ServingEngine(Joined(cost, self.joins[name].slower(pace)), device, limits=ENDLESS, **timed)

    def _home(self, name: str) -> str:
        """Name of the device that an engine shares equally; its own where the influence of others was measured."""
        device = self.devices[name]
        shared = sum(other == device for other in self.devices.values()) > 1
        return name if shared and name in self.beside and name not in self.moved else device


def system_of(
    profile: Profile,
    *,
    resample: int | None = None,
    corruption: float | None = None,
    recorded: Recorded | None = None,
) -> System:
    """Build the system that a profile describes.

    Parameters
    ----------
    resample : seed of a resampled variant, for error bars: a measured profile's timings are bootstrapped (its answers
        are not: the simulator estimates their variance), the figures and assumptions of a published profile are drawn
        within their half-widths. None for the best estimate.
    corruption : share of acceptance lost after a wrong step, in [0, 1]; default the estimate from recorded answers.

    Raises
    ------
    CalibrationError : the profile's timings are not enough to fit a cost model.
    ParameterError : the profile has only timings.
    """
    if profile.source == "latency":
        rule = "holds timings only: give a profile with acceptance, and this one as its latency"
        raise ParameterError("profile", profile.name, rule)
    rng = _generator(resample)
    if profile.published is not None and not profile.answers:
        modelled = _published(profile.published, rng, _assumed(rng))
        return replace(modelled, **_timed(profile, rng)) if profile.engines else modelled
    recorded = recorded or Recorded(profile.all_answers)
    behaviour = TraceBehaviour(recorded.traces, _corruption(recorded, rng, corruption))
    return System(behaviour=behaviour, **_timed(profile, rng))


def _timed(profile: Profile, rng: np.random.Generator | None) -> dict[str, Any]:
    """The fields of a `System` that depend on its engines' timings."""
    engines = sorted(profile.engines.items())  # each draws from the same generator: their order must be fixed
    fits: dict[Use, dict[str, CostFit]] = {}
    for use in get_args(Use):
        same = deepcopy(rng)  # the same resample for all fits, so that common errors cancel
        reread = reread_tokens(profile, use)
        fits[use] = {name: fit_cost(record, same, use=use, reread=reread) for name, record in engines}
    on_draft = profile.engines[profile.placement[DRAFT]].device  # an embedding model shares the core of a draft on one
    return {
        **_in(fits["steps"]),
        "placement": {role: profile.placement[role] for role in (TARGET, DRAFT, JUDGE)},
        "devices": {name: record.device for name, record in engines},
        "fits": fits,
        "seconds": {role: sum(raw) / len(raw) for role, raw in profile.role_seconds.items() if raw},
        "shared": {EMBEDDING: on_draft} if on_draft.startswith("cpu") else {},
        "graded_choice": "bundled" in (profile.settings.get("target"), profile.settings.get("task")),
    }


def use_of(method: Method, knobs: Mapping[str, Any]) -> Use:
    """Return the use of engines by a method; methods with several drafts per position count as ``beams``."""
    width = method.settings(knobs).get("width") or 1
    return "beams" if method.level == "step" and int(width) > 1 else _USE_OF_LEVEL[method.level]


def _in(fits: Mapping[str, CostFit]) -> dict[str, Any]:
    """The fields of a `System` that depend on the use of its engines."""
    return {
        "costs": {name: fit.cost for name, fit in fits.items()},
        "beside": {name: fit.factors.beside for name, fit in fits.items() if fit.factors.beside is not None},
        "waking": {name: fit.waking_s for name, fit in fits.items()},
        "joins": {name: fit.join for name, fit in fits.items() if fit.join is not None},
    }


def as_seen_by(
    system: System,
    recorded: Recorded,
    role: str,
    threshold: float | None,
    *,
    resample: int | None = None,
    corruption: float | None = None,
) -> System:
    """Return a system of replayed answers for a verifier other than the judge, which decided in the recording.

    The corruption is that of this verifier, and drafts accepted by a scorer may end an answer.
    """
    if not isinstance(system.behaviour, TraceBehaviour):
        return system
    lost = _corruption(recorded, _generator(resample), corruption, role, threshold)
    own = replace(system.behaviour, corruption=lost, ends_alone=role in (SCORER, REWARD))
    return replace(system, behaviour=own)


def _generator(resample: int | None) -> np.random.Generator | None:
    return None if resample is None else np.random.default_rng([0x73706563, resample])


def _corruption(
    recorded: Recorded,
    rng: np.random.Generator | None,
    given: float | None,
    role: str = JUDGE,
    threshold: float | None = None,
) -> float:
    """Share of acceptance lost after a wrong step; the judge's where the role's own verdicts do not suffice."""
    if given is not None:
        return given
    known = recorded.corruption(role, threshold)
    if known is None:
        return 0.0
    who, estimate = known
    shift = 0.0 if rng is None else float(rng.normal()) * estimate.stderr
    return min(max(estimate.value + shift, least_corruption(who)), 1.0)


def _published(figures: Published, rng: np.random.Generator | None, assumptions: Assumptions) -> System:
    def draw(figure: PublishedValue | None, default: float = 0.0) -> float:
        if figure is None:
            return default
        shift = 0.0 if rng is None else float(rng.uniform(-1.0, 1.0)) * figure.half_width
        return float(figure.value + shift)

    alpha = min(max(draw(figures.alpha1), 0.0), 1.0)
    c1 = draw(figures.c1)
    target_s = draw(figures.target_step_s)
    verify_s = max(draw(figures.verify_s), 0.0)
    tokens = draw(figures.mean_step_tokens, assumptions.mean_step_tokens)
    cv = draw(figures.step_length_cv, assumptions.step_length_cv)
    if not (c1 > 0.0 and target_s > 0.0 and tokens > 1.0):
        raise ParameterError("published", (c1, target_s, tokens), "needs c1 > 0, target_step_s > 0 and step tokens > 1")
    step = Lognormal(mean=tokens, cv=cv)
    behaviour = SyntheticBehaviour(
        lengths=Lengths(
            target=step,
            draft=step,
            correlation=assumptions.draft_correlation,
            lag1=assumptions.lag1,
            limit=assumptions.step_limit,
        ),
        acceptance=Acceptance(alpha=alpha, siblings=assumptions.siblings, persistence=assumptions.persistence),
        steps=Fixed(assumptions.steps_per_answer),
        prompt_tokens=assumptions.prompt_tokens,
        seed=0,
    )
    # The mean step takes the published time; steps longer than the limit count with the limit.
    lengths = [n for i in range(64) for n in behaviour.answer(i).target_lengths()]
    iteration_s = target_s / float(np.minimum(lengths, assumptions.step_limit).mean())
    target = LinearCost(
        base_s=iteration_s * (1.0 - assumptions.sequence_cost),
        sequence_s=iteration_s * assumptions.sequence_cost,
        context_s=iteration_s * assumptions.context_cost,
        request_s=iteration_s,  # the first token; it does not delay other sequences
    )
    scaled = ("base_s", "sequence_s", "context_s", "request_s")
    draft = replace(target, **{name: getattr(target, name) * c1 for name in scaled})
    return System(
        behaviour=behaviour,
        costs={TARGET: target, DRAFT: draft},
        placement={role: role for role in (TARGET, DRAFT)},
        devices={role: role for role in (TARGET, DRAFT)},
        seconds={JUDGE: verify_s},  # concurrent: LR's released code does not wait for a verdict before the next request
    )


def _assumed(rng: np.random.Generator | None) -> Assumptions:
    """What is assumed, with ``rng`` drawn from its ranges, with counts rounded."""
    if rng is None:
        return ASSUMED
    drawn = {}
    for name, half_width in HALF_WIDTHS.items():
        assumed = getattr(ASSUMED, name)
        shift = float(rng.uniform(0.0 if name == "persistence" else -1.0, 1.0)) * half_width
        drawn[name] = type(assumed)(round(assumed + shift) if isinstance(assumed, int) else assumed + shift)
    return replace(ASSUMED, **drawn)
