"""The models of a profile under load, on the engines that it measured, or on several copies of them.

At concurrency 1 the gain is the plan's speedup. At more, closed loops are simulated, and corrected as the plan corrects
its simulated speedup; the plan's errors stay in the interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from calibrate.costs.by_load import most_at_once
from calibrate.replay.trials import Trials
from sim.answers.drawn import SyntheticBehaviour
from sim.configuration import PLAIN, Configuration
from sim.estimate import Estimate, on_logarithm
from sim.roles import DRAFT, TARGET
from sim.serving.load_run import Window, gain, throughput, until_known
from specplan.planning.loads.options import Option
from specplan.planning.loads.search import Best
from specplan.planning.loads.simulating import NO_MOVES, Simulator, shares_of
from specplan.planning.planner import label
from specplan.worlds.arrangements import Copies
from specplan.worlds.drafters.naming import kind

if TYPE_CHECKING:
    from sim.serving.answers import ServedLoad
    from sim.trial import Trial
    from specplan.planning.predict import Prediction
    from specplan.worlds.sizes import Traced

__all__ = ["FromProfile"]

_PRECISION: Final = 0.03
"""Standard error that simulation may leave of a gain, as a share, and as a share of what the plan's interval has: half
of it makes the interval 1.12 times as wide."""
_OF_INTERVAL: Final = 0.5
_Z: Final = 1.96
_RECORDED: Final = 0.25
"""Share of the recorded answers that a replication meets at least."""
_ANSWERS: Final = 40
"""Drawn answers whose mean length is taken for that of all."""
_ENDS: Final[Mapping[str, Any]] = {"lives": 3.0, "answers": 16}


class FromProfile(Simulator):
    """A profile under load.

    Parameters
    ----------
    planned : predictions of the plan at concurrency 1: of the best configuration of each kind, and of plain decoding.
    copies : of the engines, >= 1.
    ends : whether the times of answers matter, which takes longer windows.
    """

    more = "--copies"

    def __init__(self, trials: Trials, planned: Sequence[Prediction], *, copies: int = 1, ends: bool = False) -> None:
        self._trials = trials
        self._predicted = {kind(one.configuration): one for one in planned}
        self._copies = Copies(replicas=copies)
        self._ends = ends
        self._made: dict[tuple[Configuration, float], Trial] = {}
        of = "the engines" if copies == 1 else f"{copies} copies of the engines"
        super().__init__(_mean_tokens(trials), f"{of} of {trials.profile.name}", label)

    def option(self, configuration: Configuration) -> Option:
        """Return a configuration on the copies."""
        return Option(configuration, self._copies)

    @cached_property
    def plain(self) -> Option:
        """Plain decoding."""
        return self.option(PLAIN)

    def best_of_each_kind(self, answers: int, before: Best) -> Best:
        """Return the best of each kind of the plan, of smaller k1 too; see `Simulator`."""
        best = {}
        for name, planned in self._predicted.items():
            known = [planned.configuration] if self._fullest(answers) == 1 else _smaller(planned.configuration)
            rates = {one: self.speed(self.option(one), answers) for one in known}
            fastest = max(known, key=rates.__getitem__)
            best[name] = self.option(fastest), rates[fastest]
        return best

    def trial(
        self,
        option: Option,
        answers: int | None,
        moved: Mapping[str, float] = NO_MOVES,
        sizes: Traced | None = None,
        *,
        in_flight: float | None = None,
    ) -> Trial:
        """Return the trial of the profile, whose engines have places for all answers; see `Simulator`."""
        key = option.configuration, in_flight or answers or 1.0
        if key not in self._made:
            self._made[key] = self._trials.trial(option.configuration, in_flight=key[1])
        return self._made[key]

    def window(self, option: Option, answers: int, first: int) -> Window:
        """Return a window of steps that meets a share of the recorded answers; see `Simulator`."""
        recorded = self.trial(option, answers).n_answers or 0
        window = Window.of_steps(answers)
        return replace(window, tokens=max(window.tokens, math.ceil(_RECORDED * self.answer_tokens * recorded)))

    def window_of_ends(self, option: Option, answers: int) -> Window | None:
        """Return a longer window where the times of answers matter; see `Simulator`."""
        return Window.of_lives(answers, self.answer_tokens, **_ENDS) if self._ends else None

    def reported(self, option: Option, plain: Option, answers: int) -> tuple[Estimate, Estimate]:
        """Return the gain, corrected, and tokens per second by it and plain decoding's; see `Simulator`."""
        configuration = option.configuration
        if self._fullest(answers) == 1:
            planned = self._predicted[kind(configuration)]
            speedup, seconds = planned.speedup, planned.baseline_seconds
            own = on_logarithm(speedup.value, 0.0, speedup.n, estimator=speedup.estimator, seed=speedup.seed)
        else:
            planned_half = math.hypot(*self._predicted[option.kind].errors.values())
            precision = max(_PRECISION, _OF_INTERVAL * planned_half / _Z)
            own = self.corrected(option, self.simulated(configuration, answers, precision))
            seconds = self.plain_seconds(answers)
        rate = answers * self.answer_tokens / seconds * own.value
        return own, on_logarithm(rate, own.relative_half_width, own.n, estimator="that of plain decoding x gain")

    def errors(self, option: Option, answers: int, simulated: Estimate) -> dict[str, float]:
        """Return the half-widths of the plan, and that of the simulated load; see `Simulator`."""
        if not option.configuration.speculates:
            return {}
        loaded = simulated.relative_half_width if math.isfinite(simulated.value) else 0.0
        return {**self._predicted[option.kind].errors, **({"load": loaded} if loaded else {})}

    def corrected(self, option: Option, gain: Estimate) -> Estimate:
        """Return a simulated gain as the plan corrects the speedup; see `Simulator`."""
        planned = self._predicted[option.kind]
        factor = planned.speedup.value / planned.simulated
        ends = {name: factor * getattr(gain, name) for name in ("value", "stderr", "low", "high")}
        return replace(gain, **ends)

    def facts(self, option: Option, answers: int, served: ServedLoad) -> dict[str, Any]:
        """Return tokens of steps in vain, where they are counted, and how much was timed; see `Simulator`."""
        in_vain = {role: served.in_vain(role) for role in (DRAFT, TARGET)} if self._ends else {}
        profile = self._trials.profile
        if not profile.engines:
            return {"in_vain": in_vain}
        target = profile.engines[profile.placement[TARGET]]
        timed = [most_at_once(target), most_at_once(target, option.configuration.token or "")]
        if option.configuration.spec.drafts_steps:
            timed.append(max((one.clients for one in target.clients_in_use), default=1))
        return {"in_vain": in_vain, "timed": min(timed)}

    def simulated(self, configuration: Configuration, answers: int, precision: float) -> Estimate:
        """Return tokens per second over those of plain decoding on the same answers, as simulated.

        Parameters
        ----------
        precision : standard error that is wanted, as a share, > 0.
        """
        own, plain = (self.throughputs(one, answers) for one in (self.option(configuration), self.plain))
        return until_known(gain(own, plain), precision=precision)[0]

    def plain_seconds(self, answers: int) -> float:
        """Return the mean seconds of an answer by plain decoding with so many answers in flight (Little's law)."""
        rate = until_known(throughput(self.throughputs(self.plain, answers)), precision=_PRECISION)[0].value
        return answers * self.answer_tokens / rate

    def _fullest(self, answers: int) -> int:
        """Answers in flight in the fullest copy."""
        return max(shares_of(answers, self._copies.replicas))


def _mean_tokens(trials: Trials) -> float:
    recorded = trials.profile.all_answers
    if trials.trial(PLAIN).n_answers is not None:
        return sum(step.tokens for answer in recorded for step in answer.baseline) / len(recorded)
    behaviour = trials.system.behaviour
    assert isinstance(behaviour, SyntheticBehaviour), "answers that are not recorded are drawn"
    return fmean(sum(behaviour.answer(i).written_lengths()) for i in range(_ANSWERS))


def _smaller(configuration: Configuration) -> list[Configuration]:
    """The configuration, and those of its kind with half the depth and so on."""
    smaller, depth = [configuration], configuration.k1 // 2
    while configuration.spec.has("k1") and depth >= 2:
        less = Configuration(method=configuration.method, knobs={**configuration.knobs, "k1": depth})
        below = configuration.token if configuration.is_hybrid else None
        smaller.append(less if below is None else less.with_token(below, configuration.token_knobs))
        depth //= 2
    return smaller
