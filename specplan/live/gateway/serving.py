"""The assembled gateway: control, answering, metrics and application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from calibrate.engines.protocol import Generation
from calibrate.record.profile import Profile
from calibrate.running.session import WallSession
from sim.configuration import Configuration
from sim.operations import Generate, Outcome, Score, Verify
from sim.roles import DRAFT, TARGET
from specplan.live.comparing.measured import Measured
from specplan.live.drift.expected import Band, acceptance, lengths, token_times
from specplan.live.drift.replan import Recorder
from specplan.live.drift.watch import FALSE_ALARM, DriftWatch, Finding
from specplan.live.gateway.answering import Answer, Answering
from specplan.live.gateway.app import application
from specplan.live.gateway.control import Control, Limits
from specplan.live.gateway.metrics import GatewayMetrics
from specplan.live.gateway.plans import PLAIN, ServingPlan
from specplan.live.gateway.servers import HelperError, Servers

__all__ = ["Serving"]

_DECIDED: Final = (Outcome.ACCEPTED, Outcome.REJECTED)

_PLANNED: Final = 0.05
"""Assumed half-width of the planned acceptance rate where no profile gives its error."""


class Serving:
    """A gateway in front of servers.

    Parameters
    ----------
    servers : running servers.
    plan : configurations by load.
    limits : limits of requests.
    profile : profile that the plan was made from; without it lengths of steps and timings are not watched.
    false_alarm : probability of ever reporting a drift while everything is as predicted, in (0, 1).
    trust_plan : run the plan's best configuration at each load, whatever it takes; else speculation must gain.
    tell : called with a line for each drift and each decision.

    Attributes
    ----------
    app : the ASGI application.
    recorder : records answers for a new profile; None without a profile.
    """

    def __init__(
        self,
        servers: Servers,
        plan: ServingPlan,
        limits: Limits,
        *,
        profile: Profile | None = None,
        false_alarm: float = FALSE_ALARM,
        trust_plan: bool = False,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        measured = Measured(plan.candidate, PLAIN, tell=tell)
        self.control = Control(plan, limits.in_flight, measured=None if trust_plan else measured)
        self.watch = _drift_watch(plan, profile, false_alarm)
        self.recorder = None if profile is None else Recorder(profile)
        self._decider = next((one.decider for one in plan.configurations if one.spec.drafts_steps), None)
        self._tell = tell
        self.metrics = GatewayMetrics(self.control, self.watch)
        counts_prompts = self.recorder is not None
        self.answering = Answering(servers, self.control, limits, observer=self, counts_prompts=counts_prompts)
        self.app = application(self.answering, limits, self.metrics, self.watch)

    def new_profile(self) -> Profile:
        """Return a profile of the served answers.

        Raises
        ------
        CalibrationError : too few answers were served.
        """
        assert self.recorder is not None
        measured = self.control.measured
        ratios = {role: self.watch.time_ratio(role) for role in (TARGET, DRAFT)}
        return self.recorder.profile(ratios, [] if measured is None else measured.lines())

    def ran(self, configuration: Configuration, session: WallSession) -> None:
        """Count the operations of a generator, and compare them with the predictions."""
        self.metrics.ran(session)
        if self.recorder is not None:
            self.recorder.ran(session)
        if configuration.decider != self._decider or not configuration.spec.drafts_steps:
            return
        by_verdicts = self.recorder is not None
        if not by_verdicts:
            for step in session.committed:
                self._said(self.watch.judged(step.role == DRAFT, step.n_tokens))
        for one in session.operations:
            if isinstance(one, Generate):
                if one.result is not None and one.outcome is not Outcome.DISCARDED:
                    self._said(self.watch.wrote(one.role, one.result.n_tokens))
            elif by_verdicts and one.role == configuration.decider[0] and one.outcome in _DECIDED:
                tokens = one.candidate.n_tokens if isinstance(one, (Verify, Score)) else 0
                self._said(self.watch.judged(one.outcome is Outcome.ACCEPTED, tokens))

    def timed(self, role: str, in_flight: int, generation: Generation) -> None:
        """Compare the time per token of a step with its prediction."""
        times, n = generation.times, generation.n_generated - 1
        if n >= 1 and times.end > times.first_token:
            self._said(self.watch.timed(role, in_flight, (times.end - times.first_token) / n))

    def fell_back(self, error: HelperError) -> None:
        """Count an answer that continues with plain decoding."""
        self.metrics.fell_back(error.role, error.reason)

    def ended(self, answer: Answer) -> None:
        """Count an answer."""
        self.metrics.ended(answer)

    def _said(self, finding: Finding | None) -> None:
        if finding is not None:
            self._tell(f"drift: {finding.text} (since observation {finding.since} of {finding.at})")


def _drift_watch(plan: ServingPlan, profile: Profile | None, false_alarm: float) -> DriftWatch:
    """Return the watch of a plan: on all that the profile predicts, else on the plan's acceptance rate."""
    first = next((one for one in plan.configurations if one.spec.drafts_steps), None)
    if first is None:
        return DriftWatch(false_alarm=false_alarm)
    if profile is None:
        known = plan.expected.get(first)
        p = None if known is None else known.acceptance
        band = None if p is None else Band.of_half_width(p, _PLANNED)
        return DriftWatch(accepted=band, false_alarm=false_alarm)
    ranks = {role: lengths(profile, role) for role in (TARGET, DRAFT)}
    return DriftWatch(
        accepted=acceptance(profile, first),
        lengths={role: known for role, known in ranks.items() if known is not None},
        token_times=token_times(profile),
        false_alarm=false_alarm,
    )
