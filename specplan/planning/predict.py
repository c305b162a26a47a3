"""Predictions: the time of a configuration by simulation, with an interval that says what it covers.

Three errors are kept apart and added in squares, as shares of the speedup: sampling (few answers), the profile's own
uncertainty (timings resampled, published figures drawn from their half-widths), and for published profiles the model's
error, measured on the other rows of the same table (`specplan.planning.model_error`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrate.record.profile import Profile
from calibrate.replay.accuracy import expected_accuracy, spoiling
from calibrate.replay.corruption import known_corruption
from calibrate.replay.system import System, as_seen_by, system_of
from sim.algorithms.rules import PRESETS, Rules
from sim.answers.drawn import Behaviour, SyntheticBehaviour
from sim.estimate import Estimate, proportion, ratio_of_totals, student_quantile
from sim.operations import JUDGE
from sim.replicate import false_accepts, run_answer
from sim.timeline import Counts, Timeline
from sim.virtual_clock import Session
from specplan.configuration import METHOD_NAMES, Configuration, RuleName
from specplan.planning.model_error import ModelError, model_error
from specplan.planning.token_level import TokenLevel, TokenModel, with_token_speculation
from theory.errors import ParameterError

__all__ = ["METHODS", "RULES", "Configuration", "Prediction", "Predictor", "RuleName", "Screened"]

METHODS: Final = METHOD_NAMES

RULES: Final[Mapping[str, Rules]] = PRESETS

_RESAMPLES = 8
_RESAMPLE_ANSWERS = 8
_SYNTHETIC_ANSWERS = 40
_SIBLINGS = 0.63
"""Correlation of the verdicts on drafts of one position, fitted to LR Table 3 (GSM8K, 7B judge)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a configuration is expected to do."""

    configuration: Configuration
    speedup: Estimate
    """Seconds of the target alone / seconds of the method, ratio of totals; its interval has all errors."""
    simulated: float
    """The speedup as simulated, before the correction that the other rows of a published table ask for."""
    seconds_per_answer: float
    """Mean time of an answer, s, by the corrected speedup."""
    baseline_seconds: float
    """Mean time of an answer by the target alone, s."""
    accepted: float
    """Share of committed steps that the draft wrote, in [0, 1]."""
    wasted_draft: float
    """Draft tokens generated in vain per committed token, [-]."""
    wasted_target: float
    """Target tokens generated that do not stand in the answer, per committed token, [-]."""
    peak_sequences: int
    """Most target sequences in flight at one time in the simulated answers."""
    tokens_per_pass: float
    """Tokens that a target pass commits per sequence, the last one of a step uncut, >= 1."""
    errors: dict[str, float]
    """Half-widths as shares of the speedup: sampling, profile, model."""
    notes: tuple[str, ...]
    """Assumptions behind it."""
    false_accepts: Estimate | None = None
    """Wrong draft steps that are let stand, per answer; None where the profile's task has no ground truth."""
    accuracy: Estimate | None = None
    """Share of right answers; None where the profile's task has no ground truth."""
    baseline_accuracy: Estimate | None = None
    """Share of right answers of the target alone, as recorded; None without ground truth."""
    token_settings: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    """Settings of the token-level method that the prediction rests on; empty without one, and for published ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """What a configuration is roughly expected to do."""

    speedup: float
    """Over plain decoding, uncorrected, [-]."""
    accuracy: float | None
    """Share of right answers; None where the profile's task has no ground truth."""


@dataclass(frozen=True, slots=True)
class _Runs:
    """Times and counts of simulated answers."""

    seconds: NDArray[np.float64]
    counts: list[Counts]


class Predictor:
    """Predicts configurations of one profile; all meet the same answers (common random numbers).

    Parameters
    ----------
    profile : measured or published.
    n_answers : answers to simulate; default all recorded ones, or 40 drawn ones of 100 steps.
    uncertainty : whether to resample the profile, for the intervals.
    corruption : share of acceptance lost after a wrong step, in [0, 1]; default what the profile's answers show.

    Raises
    ------
    ParameterError : ``n_answers`` below 2.
    CalibrationError : the profile's timings are not enough.

    Attributes
    ----------
    tokens : what the profile knows of token-level methods.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        n_answers: int | None = None,
        uncertainty: bool = True,
        corruption: float | None = None,
    ) -> None:
        if n_answers is not None and n_answers < 2:
            raise ParameterError("n_answers", n_answers, "must be an integer >= 2")
        self.profile = profile
        self.corruption = corruption
        self.system = system_of(profile, corruption=corruption)
        self.tokens = TokenLevel(profile)
        self.n_answers = n_answers or self.system.behaviour.n_answers or _SYNTHETIC_ANSWERS
        self._behaviours: dict[tuple[str, float | None, int | None], Behaviour] = {}
        self._baseline: NDArray[np.float64] = np.empty(0)
        self._resampled = [self._variant(seed) for seed in range(_RESAMPLES)] if uncertainty else []
        self._resampled_baseline: list[NDArray[np.float64]] = []

    def _variant(self, seed: int) -> System:
        """A resampled system that meets the same answers, so that only what is uncertain differs."""
        system = system_of(self.profile, resample=seed, corruption=self.corruption)
        behaviour, own = system.behaviour, self.system.behaviour
        if isinstance(behaviour, SyntheticBehaviour) and isinstance(own, SyntheticBehaviour):
            return replace(system, behaviour=replace(behaviour, seed=own.seed))
        return system

    def screen(self, configuration: Configuration, *, n_answers: int = 6) -> float:
        """A rough speedup from few answers; comparable between configurations, because all meet the same answers."""
        return self.outline(configuration, n_answers=n_answers).speedup

    def outline(self, configuration: Configuration, *, n_answers: int = 6) -> Screened:
        """As `screen`, with the share of right answers."""
        n = min(n_answers, self.n_answers) if self.system.behaviour.n_answers is None else self.n_answers
        runs = self._run(self.system, configuration, n)
        right = self._accuracy(configuration, runs.counts)
        return Screened(
            speedup=float(self._baseline_seconds(n).sum() / runs.seconds.sum()),
            accuracy=None if right is None else right.value,
        )

    def predict(self, configuration: Configuration) -> Prediction:
        """Simulate a configuration and say how sure the speedup is.

        Raises
        ------
        ParameterError : a token-level method about which the profile says nothing, or width > 1 on replays.
        """
        model = self.tokens.model(configuration, self.system)
        runs = self._run(self.system, configuration, self.n_answers)
        base = self._baseline_seconds(self.n_answers)
        raw = ratio_of_totals(base, runs.seconds, seed=self.system.behaviour.seed)
        error = self._model_error(configuration)
        value = error.corrected(raw.value) if configuration.speculates else raw.value
        errors = self._errors(configuration, raw, model, error)
        committed = max(_total(runs.counts, "committed_tokens"), 1)
        return Prediction(
            configuration=configuration,
            speedup=_with_interval(value, raw, errors),
            simulated=raw.value,
            seconds_per_answer=float(base.mean()) / value,
            baseline_seconds=float(base.mean()),
            notes=self._notes(configuration, model, error),
            tokens_per_pass=model.tokens_per_pass if model else 1.0,
            token_settings=dict(model.decoding.settings) if model and model.decoding else {},
            errors=errors,
            accepted=_total(runs.counts, "accepted") / max(_total(runs.counts, "steps"), 1),
            wasted_draft=_total(runs.counts, "wasted_draft_tokens") / committed,
            wasted_target=_total(runs.counts, "wasted_target_tokens") / committed,
            peak_sequences=max(counts.peak_targets for counts in runs.counts),
            false_accepts=false_accepts(runs.counts),
            accuracy=self._accuracy(configuration, runs.counts),
            baseline_accuracy=self._baseline_accuracy(),
        )

    def timeline(self, configuration: Configuration, index: int = 0) -> Timeline:
        """Simulate one answer and return what happened when.

        Parameters
        ----------
        configuration : what to run.
        index : which answer; recorded answers are taken modulo their count.

        Raises
        ------
        ParameterError : as `predict`.
        """
        session = self._sessions(self.system, configuration, [index])[0]
        return Timeline.of(session, f"simulated, {configuration.name}")

    def _accuracy(self, configuration: Configuration, counts: Sequence[Counts]) -> Estimate | None:
        if not configuration.spec.drafts_steps:  # the text is the target's own, whatever decodes it
            return self._baseline_accuracy()
        found = spoiling(self.profile.answers)
        graded = all(one.graded_steps == one.steps for one in counts)
        return expected_accuracy(counts, found) if found is not None and graded else None

    def _baseline_accuracy(self) -> Estimate | None:
        known = [answer.baseline_correct for answer in self.profile.answers if answer.baseline_correct is not None]
        return proportion(sum(known), len(known)) if known else None

    def _run(
        self,
        system: System,
        configuration: Configuration,
        n: int,
        *,
        resample: int | None = None,
        tokens_per_pass: float | None = None,
    ) -> _Runs:
        sessions = self._sessions(system, configuration, range(n), resample, tokens_per_pass)
        seconds = np.array([float(s.finished or 0.0) - s.started for s in sessions])
        return _Runs(seconds, [Counts.of(session) for session in sessions])

    def _sessions(
        self,
        system: System,
        configuration: Configuration,
        indices: Sequence[int],
        resample: int | None = None,
        tokens_per_pass: float | None = None,
    ) -> list[Session]:
        system = self._decided(system.suited(configuration.spec, configuration.knobs), configuration, resample)
        model = self.tokens.model(configuration, system, resample)
        if model is not None and tokens_per_pass is not None:
            model = replace(model, tokens_per_pass=tokens_per_pass)
        system = _with_siblings(with_token_speculation(system, model), configuration.width)
        algorithm = configuration.algorithm()
        answer = system.answers(configuration.spec)
        engines = system.engines()
        return [run_answer(algorithm, answer(i), engines) for i in indices]

    def _decided(self, system: System, configuration: Configuration, resample: int | None) -> System:
        """The system with answers as the configuration's verifier decides on them; worked out once for each."""
        if configuration.decider == (JUDGE, None):
            return system
        key = *configuration.decider, resample
        if key not in self._behaviours:
            seen = as_seen_by(
                system, self.profile, *configuration.decider, resample=resample, corruption=self.corruption
            )
            self._behaviours[key] = seen.behaviour
        return replace(system, behaviour=self._behaviours[key])

    def _baseline_seconds(self, n: int) -> NDArray[np.float64]:
        if self._baseline.size < n:
            self._baseline = self._run(self.system, Configuration(method="autoregressive"), n).seconds
        return self._baseline[:n]

    def _errors(
        self, configuration: Configuration, raw: Estimate, model: TokenModel | None, error: ModelError
    ) -> dict[str, float]:
        if not configuration.speculates:
            return {"sampling": 0.0, "profile": 0.0, "model": 0.0}
        sampling = raw.relative_half_width
        return {
            "sampling": sampling,
            "profile": math.hypot(self._profile_error(configuration), self._token_error(configuration, model, raw)),
            "model": error.half_width,
        }

    def _profile_error(self, configuration: Configuration) -> float:
        if not self._resampled:
            return 0.0
        n = min(_RESAMPLE_ANSWERS, self.n_answers) if self.system.behaviour.n_answers is None else self.n_answers
        if not self._resampled_baseline:
            plain = Configuration(method="autoregressive")
            self._resampled_baseline = [self._run(system, plain, n).seconds for system in self._resampled]
        found = [
            math.log(base.sum() / self._run(system, configuration, n, resample=seed).seconds.sum())
            for seed, (system, base) in enumerate(zip(self._resampled, self._resampled_baseline, strict=True))
        ]
        return student_quantile(0.95, len(found) - 1) * float(np.std(found, ddof=1))

    def _token_error(self, configuration: Configuration, model: TokenModel | None, raw: Estimate) -> float:
        """The range between the two models of token acceptance, as a half-width of the speedup."""
        if model is None or model.high - model.low <= 0.0:
            return 0.0
        n = min(_RESAMPLE_ANSWERS, self.n_answers)
        ends = [
            self._run(self.system, configuration, n, tokens_per_pass=tokens).seconds.sum()
            for tokens in (model.low, model.high)
        ]
        return abs(math.log(ends[0] / ends[1])) / 2.0

    def _model_error(self, configuration: Configuration) -> ModelError:
        if self.profile.published is None or configuration.method not in ("lr-sync", "lr-async"):
            return ModelError(gain=1.0, spread=0.0, n=0)
        return model_error(self.profile.name, combined=configuration.k2 > 1, rules=configuration.rules)

    def _notes(self, configuration: Configuration, model: TokenModel | None, error: ModelError) -> tuple[str, ...]:
        notes = []
        if model is not None:
            notes.append(model.note)
        lost = self._corruption_note(configuration)
        if lost:
            notes.append(lost)
        if configuration.width > 1 and isinstance(self.system.behaviour, SyntheticBehaviour):
            notes.append(f"drafts of one position correlated {_SIBLINGS}, as in LR Table 3 (GSM8K)")
        if error.n:
            what = "combined speedup" if configuration.k2 > 1 else "LR speedup"
            notes.append(
                f"{what} scaled to log(published) = {error.gain:.2f} log(simulated), as on the {error.n} other rows of "
                f"the table; model error ±{100 * error.half_width:.0f} % measured on them"
            )
        return tuple(notes)

    def _corruption_note(self, configuration: Configuration) -> str:
        """What a wrong step that stands is taken to do, where the task has ground truth."""
        if not configuration.spec.drafts_steps or spoiling(self.profile.answers) is None:
            return ""
        what = "once a wrong step stands, the share of acceptance that is lost (corruption) is"
        if self.corruption is not None:
            return f"{what} {self.corruption:.2f}, as given"
        known = known_corruption(self.profile.answers, *configuration.decider)
        if known is None:
            return f"{what} taken to be 0: too few wrong steps are recorded"
        role, found = known
        return (
            f"{what} {found.value:.2f} [{found.low:.2f}, {found.high:.2f}], estimated on {found.n} recorded verdicts "
            f"of the {role}" + (" (negative: refusals are lost)" if found.value < 0.0 else "")
        )


def _with_siblings(system: System, width: int) -> System:
    """Drafts of one position are alike: independence, 1 - (1 - alpha)**W, predicts .9996 where LR measured .83."""
    behaviour = system.behaviour
    if width == 1 or not isinstance(behaviour, SyntheticBehaviour):
        return system
    acceptance = replace(behaviour.acceptance, siblings=_SIBLINGS)
    return replace(system, behaviour=replace(behaviour, acceptance=acceptance))


def _total(counts: Sequence[Counts], name: str) -> int:
    return sum(getattr(c, name) for c in counts)


def _with_interval(value: float, raw: Estimate, errors: dict[str, float]) -> Estimate:
    """All errors in squares, on the logarithm: a speedup cannot be negative."""
    total = math.sqrt(sum(part * part for part in errors.values()))
    return Estimate(
        value=value,
        stderr=value * total / student_quantile(0.95, max(raw.n - 1, 1)),
        low=value * math.exp(-total),
        high=value * math.exp(total),
        n=raw.n,
        estimator="ratio of totals over answers, simulated; interval: " + ", ".join(sorted(errors)),
        seed=raw.seed,
    )
