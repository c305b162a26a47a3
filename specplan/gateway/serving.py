"""The gateway put together: control, answering, metrics and the application."""

from __future__ import annotations

from dataclasses import dataclass

from calibrate.running.session import WallSession
from sim.configuration import Configuration
from specplan.gateway.answering import Answer, Answering, HelperError
from specplan.gateway.app import Bounds, application
from specplan.gateway.control import Control
from specplan.gateway.metrics import GatewayMetrics
from specplan.gateway.plans import ServingPlan
from specplan.gateway.servers import Servers

__all__ = ["Limits", "Serving"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the gateway."""

    in_flight: int = 64
    """Answers at once."""
    answer_tokens: int = 16_384
    answer_seconds: float = 600.0
    """An answer ends there as if its tokens were used up."""
    body_bytes: int = 4 * 2**20
    patience_s: float = 10.0
    """Longest time of one operation of a draft, judge or scorer, s."""
    timeout_s: float = 120.0
    """Longest silence of the target's server, s."""


class Serving:
    """A gateway in front of servers.

    Parameters
    ----------
    servers : running.
    plan : what is run.
    limits : of requests.

    Attributes
    ----------
    app : the ASGI application.
    """

    def __init__(self, servers: Servers, plan: ServingPlan, limits: Limits) -> None:
        self.control = Control(plan, limits.in_flight)
        self.metrics = GatewayMetrics(plan, self.control)
        self.answering = Answering(
            servers,
            self.control,
            patience_s=limits.patience_s,
            most_seconds=limits.answer_seconds,
            observer=self,
        )
        bounds = Bounds(body_bytes=limits.body_bytes, answer_tokens=limits.answer_tokens, timeout_s=limits.timeout_s)
        self.app = application(
            self.answering,
            asking=plan.asking,
            bounds=bounds,
            metrics=self.metrics.page,
            refused=self.metrics.refused,
        )

    def ran(self, configuration: Configuration, session: WallSession, in_flight: int) -> None:
        """Count what a generator did."""
        self.metrics.ran(configuration, session)

    def fell_back(self, error: HelperError) -> None:
        """Count an answer that goes on with plain decoding."""
        self.metrics.fell_back(error.role, error.reason)

    def ended(self, answer: Answer) -> None:
        """Count an answer."""
        self.metrics.ended(answer)
