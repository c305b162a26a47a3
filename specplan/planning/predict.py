"""Predictions: the time of a configuration by simulation, with an interval that says what it covers.

Three errors are kept apart and added in squares, as shares of the speedup: sampling (few answers), the profile's own
uncertainty (timings resampled, published figures and assumptions drawn from their half-widths), and the model's own:
on measured profiles what validations left over (`specplan.planning.model_error`), of Lookahead Reasoning on
published ones that on the other rows of its table (`specplan.planning.model_error`). Where it was not measured it is
left out, and a note says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate.record.profile import Profile
from calibrate.replay.accuracy import expected_accuracy
from calibrate.replay.assumptions import ASSUMED
from calibrate.replay.missing import needed_roles
from calibrate.replay.recursion import FACTOR_KNOWN, SIMULATED, sharing_factor
from calibrate.replay.token_level import TokenModel
from calibrate.replay.trials import Trials
from sim.answers.drawn import Behaviour
from sim.configuration import PLAIN, Configuration
from sim.estimate import Estimate, proportion, ratio_of_totals, student_quantile, with_errors
from sim.roles import JUDGE
from sim.timeline import Counts, Timeline
from sim.trial import Runs, false_accepts, run_trial, session_of, trial_seconds
from specplan.planning.model_error import PUBLISHED_RULES, ModelError, measured_error, model_error
from theory.errors import ParameterError

__all__ = ["Configuration", "Prediction", "Predictor"]

_RESAMPLES = 8
_RESAMPLE_ANSWERS = 8
_SPARING_ANSWERS = 4
_GRADED_ANSWERS = 16
_DRAWN_ANSWERS = 40
_PILOT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a configuration is expected to do."""

    configuration: Configuration
    speedup: Estimate
    """Seconds of plain decoding / seconds of the method, ratio of totals; its interval has all errors."""
    simulated: float
    """The speedup as simulated, before the correction that the other rows of a published table ask for."""
    seconds_per_answer: float
    """Mean time of an answer, s, by the corrected speedup."""
    baseline_seconds: float
    """Mean time of an answer by plain decoding, s."""
    accepted: float
    """Share of committed steps that the draft wrote, in [0, 1]."""
    acceptance: float
    """Share of judged drafts that were accepted, in [0, 1]; NaN if none was judged."""
    wasted_draft: float
    """Draft tokens generated in vain per committed token, [-]."""
    wasted_target: float
    """Target tokens generated that do not stand in the answer, per committed token, [-]."""
    peak_sequences: int
    """Most target sequences in flight at one time in the simulated answers."""
    tokens_per_pass: float
    """Tokens that a target pass commits per sequence, the last one of a step uncut, >= 1."""
    errors: dict[str, float]
    """Half-widths as shares of the speedup: sampling, profile, and model where its error was measured."""
    answer_spread: float
    """Spread of the speedup over n fresh questions: standard error times sqrt(n) / speedup, [-]."""
    notes: tuple[str, ...]
    false_accepts: Estimate | None = None
    """Wrong draft steps that are let stand, per answer; None where the profile's task has no ground truth."""
    accuracy: Estimate | None = None
    """Share of right answers; None where the profile's task has no ground truth."""
    baseline_accuracy: Estimate | None = None
    """Share of right answers of plain decoding, as recorded; None without ground truth."""
    token_settings: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    """Settings of the token-level method that the prediction rests on; empty without one, and for published ones."""

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "configuration": self.configuration.plain()}


@dataclass(frozen=True, slots=True)
class _Timed:
    """How long all answers take."""

    runs: Runs
    seconds: NDArray[np.float64]
    """Time of each answer, shape (n_answers,)."""
    half_width: float = 0.0
    """Half-width of the factor by which they were extended, as a share of it."""


class Predictor:
    """Predicts configurations of one profile; all meet the same answers (common random numbers).

    Parameters
    ----------
    n_answers : answers to simulate; default all recorded ones, or 40 drawn ones of 100 steps.
    uncertainty : whether to resample the profile, for the intervals.
    sparing : whether to simulate few answers where the recursion without shared iterations extends them to all, and
        to resample with few answers: for comparing many configurations.
    corruption, slower, places, behaviour : as of `calibrate.replay.trials.Trials`.

    Raises
    ------
    ParameterError : ``n_answers`` below 2.
    CalibrationError : the profile's timings are not enough.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        n_answers: int | None = None,
        uncertainty: bool = True,
        sparing: bool = False,
        corruption: float | None = None,
        slower: Mapping[str, float] = MappingProxyType({}),
        places: Mapping[str, str] = MappingProxyType({}),
        behaviour: Behaviour | None = None,
    ) -> None:
        if n_answers is not None and n_answers < 2:
            raise ParameterError("n_answers", n_answers, "must be an integer >= 2")
        self.profile = profile
        self.trials = Trials(profile, corruption=corruption, slower=slower, places=places, behaviour=behaviour)
        self._recorded = self.trials.system.behaviour.n_answers
        self.n_answers = n_answers or self._recorded or _DRAWN_ANSWERS
        self._sparing = sparing
        self._extends = sparing and self._recorded is None
        self._known: dict[Configuration, Runs] = {}
        self._variants = range(_RESAMPLES if uncertainty else 0)
        self._profile_errors: dict[Configuration, float] = {}
        self._variant_baselines: dict[int, NDArray[np.float64]] = {}

    def speedup(self, configuration: Configuration, *, factor_known: float = FACTOR_KNOWN) -> float:
        """Return seconds of plain decoding / seconds of a configuration, ratio of totals over all answers, [-].

        Parameters
        ----------
        factor_known : half-width, as a share, at which the factor from the recursion to the simulation is known well
            enough, where a sparing predictor extends few simulated answers to all.
        """
        seconds = self._timed(configuration, factor_known=factor_known).seconds
        return float(self._timed(PLAIN).seconds[: seconds.size].sum() / seconds.sum())

    def accuracy(self, configuration: Configuration) -> float | None:
        """The share of right answers on some of them; None where the profile's task has no ground truth."""
        graded = self.simulated(configuration, min(_GRADED_ANSWERS, self.n_answers))
        right = self._accuracy(configuration, graded.counts)
        return None if right is None else right.value

    def predict(self, configuration: Configuration, *, n_answers: int | None = None) -> Prediction:
        """Simulate a configuration and say how sure the speedup is.

        Parameters
        ----------
        n_answers : answers to simulate; default the predictor's, which is also the most.

        Raises
        ------
        ParameterError : a token-level method about which the profile says nothing, or width > 1 on replays.
        """
        model = self.trials.token_model(configuration)
        timed, plain = self._timed(configuration, n_answers), self._timed(PLAIN)
        runs, base = timed.runs, plain.seconds[: timed.seconds.size]
        raw = ratio_of_totals(base, timed.seconds, seed=self.trials.system.behaviour.seed)
        error = self._model_error(configuration)
        value = error.corrected(raw.value) if configuration.speculates else raw.value
        sampling = math.hypot(raw.relative_half_width, timed.half_width, plain.half_width)
        errors = self._errors(configuration, sampling, model, error)
        return Prediction(
            configuration=configuration,
            speedup=with_errors(value, errors, raw.n, of="ratio of totals over answers", seed=raw.seed),
            simulated=raw.value,
            seconds_per_answer=float(base.mean()) / value,
            baseline_seconds=float(base.mean()),
            notes=self._notes(configuration, model, error, timed),
            tokens_per_pass=model.tokens_per_pass if model else 1.0,
            token_settings=dict(model.settings) if model else {},
            errors=errors,
            answer_spread=raw.stderr * math.sqrt(raw.n) / raw.value,
            accepted=runs.accepted,
            acceptance=runs.acceptance,
            wasted_draft=runs.wasted_draft,
            wasted_target=runs.wasted_target,
            peak_sequences=runs.peak_targets,
            false_accepts=false_accepts(runs.counts),
            accuracy=self._accuracy(configuration, runs.counts),
            baseline_accuracy=self._baseline_accuracy(),
        )

    def timeline(self, configuration: Configuration, index: int = 0) -> Timeline:
        """Simulate one answer and return what happened when.

        Parameters
        ----------
        index : which answer; recorded answers are taken modulo their count.

        Raises
        ------
        ParameterError : as `predict`.
        """
        return Timeline.of(session_of(self.trials.trial(configuration), index), f"simulated, {configuration.name}")

    def simulated(self, configuration: Configuration, n: int) -> Runs:
        """Return the first ``n`` answers, simulated; those that were simulated before are not simulated again."""
        n = self._met(configuration, n)
        known = self._known.get(configuration)
        if known is None or len(known.counts) < n:
            done = 0 if known is None else len(known.counts)
            more = run_trial(self.trials.trial(configuration), range(done, n))
            self._known[configuration] = known = more if known is None else known + more
        return known[:n]

    def unshared_seconds(self, configuration: Configuration) -> NDArray[np.float64] | None:
        """Return the seconds of all answers without shared iterations (`calibrate.replay.recursion`), where wanted."""
        return self.trials.unshared_seconds(configuration, range(self.n_answers)) if self._extends else None

    def sharing(self, configuration: Configuration) -> float:
        """Simulated seconds over `unshared_seconds`, on few answers, [-]."""
        unshared = self.unshared_seconds(configuration)
        n = min(_PILOT, self.n_answers)
        return 1.0 if unshared is None else float(self.simulated(configuration, n).seconds.sum() / unshared[:n].sum())

    def _timed(
        self, configuration: Configuration, n_answers: int | None = None, factor_known: float = FACTOR_KNOWN
    ) -> _Timed:
        """Seconds of all answers: simulated, or a few of them, and the recursion scaled to these."""
        unshared = self.unshared_seconds(configuration)
        if unshared is None:
            runs = self.simulated(configuration, min(n_answers or self.n_answers, self.n_answers))
            return _Timed(runs, runs.seconds)

        def simulate(answers: range) -> NDArray[np.float64]:
            return self.simulated(configuration, answers.stop).seconds[answers.start :]

        factor = sharing_factor(simulate, unshared, factor_known)
        return _Timed(self.simulated(configuration, factor.n), factor.value * unshared, factor.relative_half_width)

    def _met(self, configuration: Configuration, n: int) -> int:
        """Answers that it can meet: not all recorded ones have as many drafts as some methods want."""
        recorded = self.trials.n_answers(configuration)
        return n if recorded is None else min(n, recorded)

    def _accuracy(self, configuration: Configuration, counts: Sequence[Counts]) -> Estimate | None:
        if not configuration.spec.drafts_steps:  # the text is the target's own, whatever decodes it
            return self._baseline_accuracy()
        spoilt = self.trials.recorded.spoiling
        graded = all(answer.graded_steps == answer.steps for answer in counts)
        return expected_accuracy(counts, spoilt) if spoilt is not None and graded else None

    def _baseline_accuracy(self) -> Estimate | None:
        known = [answer.baseline_correct for answer in self.profile.all_answers if answer.baseline_correct is not None]
        return proportion(sum(known), len(known)) if known else None

    def _errors(
        self, configuration: Configuration, sampling: float, model: TokenModel | None, error: ModelError
    ) -> dict[str, float]:
        if not configuration.speculates:
            return {"sampling": 0.0, "profile": 0.0}
        profile = self._profile_error(configuration)
        if model is not None and model.high > model.low:  # the range between the two models of token acceptance
            n = min(_RESAMPLE_ANSWERS, self.n_answers)
            low, high = (
                self._resampled(configuration, n, tokens_per_pass=tokens).sum() for tokens in (model.low, model.high)
            )
            profile = math.hypot(profile, abs(math.log(low / high)) / 2.0)
        return {"sampling": sampling, "profile": profile, **({"model": error.half_width} if error.n else {})}

    def _profile_error(self, configuration: Configuration) -> float:
        """Half-width of the logarithm of the speedup between resampled profiles."""
        if not self._variants:
            return 0.0
        if configuration not in self._profile_errors:
            n = min(_RESAMPLE_ANSWERS, self.n_answers) if self._recorded is None else self.n_answers
            if self._sparing and not self._extends:
                n = min(_SPARING_ANSWERS, n)
            speedups = []
            for variant in self._variants:
                if variant not in self._variant_baselines:
                    self._variant_baselines[variant] = self._resampled(PLAIN, n, variant=variant)
                seconds = self._resampled(configuration, n, variant=variant)
                speedups.append(self._variant_baselines[variant][: seconds.size].sum() / seconds.sum())
            logs = np.log(speedups)
            error = student_quantile(0.95, len(logs) - 1) * float(np.std(logs, ddof=1))
            self._profile_errors[configuration] = error
        return self._profile_errors[configuration]

    def _resampled(
        self, configuration: Configuration, n: int, *, variant: int | None = None, tokens_per_pass: float | None = None
    ) -> NDArray[np.float64]:
        """Seconds of the first answers under other assumptions: by the recursion, if it knows, or simulated."""
        n = self._met(configuration, n)
        if self._extends:
            unshared = self.trials.unshared_seconds(
                configuration, range(n), variant=variant, tokens_per_pass=tokens_per_pass
            )
            if unshared is not None:
                return unshared
        assumed: dict[str, Any] = {"variant": variant, "tokens_per_pass": tokens_per_pass}
        return trial_seconds(self.trials.trial(configuration, same_passes=self._sparing, **assumed), range(n))

    def _model_error(self, configuration: Configuration) -> ModelError:
        """The error that validations left over, or that of the table's other rows: Lookahead Reasoning with its judge.

        Every schedule has the error of the measured one: a correction of its own would take its gain for an error.
        """
        if self.profile.published is None:
            return measured_error(configuration)
        if configuration.method not in ("lr-sync", "lr-async") or configuration.decider != (JUDGE, None):
            return ModelError(gain=1.0, spread=0.0, n=0)
        return model_error(self.profile.name, combined=configuration.k2 > 1, rules=PUBLISHED_RULES)

    def _notes(
        self, configuration: Configuration, model: TokenModel | None, error: ModelError, timed: _Timed
    ) -> tuple[str, ...]:
        notes = [self.trials.baseline] if configuration.speculates else []
        if configuration.speculates and len(timed.runs.counts) < timed.seconds.size:
            few, of = f"{SIMULATED[0]} to {SIMULATED[-1]}", timed.seconds.size
            notes.append(f"{few} answers simulated, extended to {of} by recursion without shared iterations")
        if model is not None:
            notes.append(model.note)
        if JUDGE in needed_roles(configuration):
            seconds = self.trials.system.seconds.get(JUDGE)
            alone = "the judge's engine reads one request at a time: simultaneous verdicts wait for each other"
            many = "verdicts overlap: {:.1f} ms each, however many are in flight"
            notes.append(alone if seconds is None else many.format(1e3 * seconds))
        if lost := self._corruption_note(configuration):
            notes.append(lost)
        if configuration.width > 1 and self._recorded is None:
            notes.append(f"drafts of one position correlated {ASSUMED.siblings}, as in LR Table 3 (GSM8K)")
        if configuration.speculates:
            notes.append(error.note)
        return tuple(notes)

    def _corruption_note(self, configuration: Configuration) -> str:
        """The assumed effect of a wrong committed step, where the task has ground truth."""
        if not (configuration.spec.drafts_steps and self.profile.answers and self.trials.recorded.spoiling):
            return ""
        what = "once a wrong step stands, the share of acceptance that is lost (corruption) is"
        if self.trials.corruption is not None:
            return f"{what} {self.trials.corruption:.2f}, as given"
        known = self.trials.recorded.corruption(*configuration.decider)
        if known is None:
            return f"{what} taken to be 0: too few wrong steps are recorded"
        role, share = known
        return (
            f"{what} {share.value:.2f} [{share.low:.2f}, {share.high:.2f}], estimated on {share.n} recorded verdicts "
            f"of the {role}" + (" (negative: refusals are lost)" if share.value < 0.0 else "")
        )
