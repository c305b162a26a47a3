"""The assembled gateway: what all its answers share, answering and the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from calibrate.record.profile import Profile
from calibrate.running.session import WallSession
from sim.configuration import Configuration
from sim.roles import DRAFT, TARGET
from specplan.live.comparing.measured import Measured
from specplan.live.drift.expected import Band, acceptance, lengths, token_times
from specplan.live.drift.replan import Recorder
from specplan.live.drift.watch import FALSE_ALARM, DriftWatch, Finding
from specplan.live.gateway.answering import Answering
from specplan.live.gateway.app import application
from specplan.live.gateway.control import Control, Limits
from specplan.live.gateway.metrics import GatewayMetrics
from specplan.live.gateway.plans import PLAIN, ServingPlan
from specplan.live.gateway.ran import Ran, Summary
from specplan.live.gateway.servers import Servers

__all__ = ["Serving", "Shared"]

_PLANNED: Final = 0.05
"""Assumed half-width of the planned acceptance rate where no profile gives its error."""


class Shared:
    """What all answers of a gateway share: the choice of the configuration, the counters, and the watch for drift.

    Parameters
    ----------
    plan : configurations by load.
    limits : limits of requests.
    profile : profile that the plan was made from; without it lengths of steps and timings are not watched.
    false_alarm : probability of ever reporting a drift while everything is as predicted, in (0, 1).
    trust_plan : run the plan's best configuration at each load, whatever it takes; else speculation must gain.
    tell : called with a line for each drift and each decision.

    Attributes
    ----------
    recorder : records answers for a new profile; None without a profile.
    """

    def __init__(
        self,
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
        self.metrics = GatewayMetrics(self.control, self.watch)
        self._summary = Summary(plan, profiled=profile is not None)
        self._tell = tell

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
        self.take(self._summary.of(configuration, session))

    def take(self, ran: Ran) -> None:
        """Handle what a generator did."""
        self.metrics.ran(ran.counts, ran.verdicts)
        if self.recorder is not None:
            self.recorder.keep(ran.answer, ran.n_left_out)
        for role, tokens, accepted in ran.seen:
            moved = self.watch.wrote(role, tokens) if accepted is None else self.watch.judged(accepted, tokens)
            self._said(moved)

    def timed(self, role: str, in_flight: int, seconds: float | None) -> None:
        """Compare the seconds per token of a step with their prediction."""
        if seconds is not None:
            self._said(self.watch.timed(role, in_flight, seconds))

    def ended(self, finish: str, seconds: float) -> None:
        """Count an answer."""
        self.metrics.ended(finish, seconds)

    def count(self, name: str, *labels: str) -> None:
        """Count one more of a counter."""
        self.metrics.count(name, *labels)

    async def page(self) -> bytes:
        """Return the metrics page."""
        return self.metrics.page()

    async def health(self) -> dict[str, Any]:
        """Return `state`."""
        return self.state()

    def state(self) -> dict[str, Any]:
        """Return the state of the gateway, as plain data."""
        control = self.control
        state: dict[str, Any] = {"status": "ok", "in_flight": control.in_flight, "method": control.wanted().name}
        if control.measured is not None:
            state |= {"measured": control.measured.state(), "lost_answers": round(control.measured.budget.lost, 3)}
        return state | {"paused": control.paused, "drift": [finding.text for finding in self.watch.findings]}

    def _said(self, finding: Finding | None) -> None:
        if finding is not None:
            self._tell(f"drift: {finding.text} (since observation {finding.since} of {finding.at})")


class Serving(Shared):
    """A gateway in front of servers, in this process.

    Parameters
    ----------
    servers : running servers.
    plan, limits, more : as of `Shared`.

    Attributes
    ----------
    app : the ASGI application.
    """

    def __init__(self, servers: Servers, plan: ServingPlan, limits: Limits, **more: Any) -> None:
        super().__init__(plan, limits, **more)
        counts_prompts = self.recorder is not None
        self.answering = Answering(servers, self.control, limits, observer=self, counts_prompts=counts_prompts)
        self.app = application(self.answering)


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
