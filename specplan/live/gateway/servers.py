"""The servers behind the gateway: the engine of each role, and the clock of a request."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from calibrate.engines.http.addresses import hosts_in_clear
from calibrate.engines.http.embeddings import EmbeddingServer
from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.waits import Wait, Waits
from calibrate.engines.http.wire import HttpConfig, RefusedError
from calibrate.engines.protocol import Progress
from calibrate.engines.speculation import Speculation
from calibrate.engines.token_vocabulary import parsed_settings
from calibrate.engines.vllm.config import setting_of, speculation_of
from calibrate.models.servers import RemoteModels
from calibrate.running.session import Reply, WallSession
from calibrate.running.wall_clock import StepLimits, WallClock
from sim.configuration import Configuration
from sim.operations import Generate, Operation
from sim.roles import CHOOSER, DRAFT, EMBEDDING, GATE, JUDGE, REWARD, SCORER, TARGET
from specplan.live.gateway.plans import SPECULATIVE, RequestDefaults, ServingPlan, helpers_of
from specplan.live.gateway.ran import seconds_per_token
from specplan.live.gateway.requests import AnswerRequest
from theory.errors import CalibrationError, ParameterError

__all__ = ["Bounded", "Endpoints", "HelperError", "Servers", "helper_error", "models_of", "opened"]

_HELPER_RETRIES: Final = 1
"""Retries of a request to a helper; few, since plain decoding can replace it."""

_SCORING: Final = (SCORER, REWARD, CHOOSER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Addresses of the servers, each as ``URL[#model]``; empty: there is none."""

    target: str
    draft: str = ""
    judge: str = ""
    scorer: str = ""
    """Empty: the target's server grades steps."""
    embedding: str = ""
    """Server of the sentence embeddings by which steps are compared."""
    speculative: str = ""
    """Servers of the target with token-level methods, as ``calibrate openai --speculative`` takes them."""
    api_key_env: str = ""
    """Variable with the key of the gateway's own requests at its start; clients' requests use the clients' keys."""
    timeout_s: float = 120.0
    """Longest silence of the target's server, s."""

    @property
    def in_clear(self) -> tuple[str, ...]:
        """Other machines, as host and port, to which clients' keys are sent over plain http."""
        speculating = (str(one["server"]) for one in parsed_settings(self.speculative))
        named = (self.target, self.draft, self.judge, self.scorer, self.embedding, *speculating)
        return hosts_in_clear(filter(None, named))

    @property
    def helpers(self) -> frozenset[str]:
        """Roles that have a server; the target can grade steps."""
        return frozenset({SCORER, *(role for role in (DRAFT, JUDGE, EMBEDDING) if getattr(self, role))})

    def check(self, plan: ServingPlan) -> None:
        """Refuse a plan that needs a server without an address.

        Raises
        ------
        ParameterError : such a plan, or a method of the plan cannot be served.
        """
        for configuration in plan.configurations:
            for role in sorted(helpers_of(configuration) - {SCORER}):
                if not getattr(self, role):
                    hint = f"; the target can judge: --judge {self.target}" if role == JUDGE else ""
                    rule = f"must be given as URL[#model]: {configuration.method} of the plan needs a {role}{hint}"
                    raise ParameterError(role, "", rule)


class HelperError(CalibrationError):
    """A helper failed or took too long: a draft, judge or scorer, or a server of the target that speculates.

    Parameters
    ----------
    role : the helper's role; `SPECULATIVE` for such a server.
    reason : ``failed``; ``late``; or ``refused``: its server rejects this answer's requests, e.g. for their key.
    """

    def __init__(self, message: str, *, role: str, reason: Literal["failed", "late", "refused"]) -> None:
        super().__init__(message)
        self.role = role
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Bounded:
    """Performs operations on a wall clock, those of helpers with a time limit."""

    clock: WallClock
    waits: Waits
    running: Counter[str]
    """Requests in flight by role, over all answers."""
    timed: Callable[[str, int, float | None], None]
    """Called with the role of each step, its requests in flight at the step's start, and the seconds per token."""

    async def perform(self, operation: Operation, session: WallSession, progress: Progress) -> Reply[Any, Any]:
        """Perform an operation, as `WallClock.perform` does.

        Raises
        ------
        HelperError : a helper failed or took too long.
        """
        role = operation.role
        by_target = role == TARGET and isinstance(operation, Generate)
        self.running[role] += 1
        in_flight = self.running[role]
        try:
            with nullcontext() if by_target else Wait(self.waits):
                reply = await self.clock.perform(operation, session, progress)
        except (TimeoutError, CalibrationError) as error:
            if by_target:
                if TARGET in session.speculation:
                    raise helper_error(error, SPECULATIVE) from error
                raise
            if isinstance(error, TimeoutError):
                text = str(error) or f"no answer within {self.waits.seconds:g} s (--patience)"
                raise HelperError(text, role=role, reason="late") from error
            raise helper_error(error, role) from error
        finally:
            self.running[role] -= 1
        if isinstance(operation, Generate):
            self.timed(role, in_flight, seconds_per_token(reply.record))
        return reply


def helper_error(error: BaseException, role: str) -> HelperError:
    """Return an error of a helper's server as one of its role."""
    own = isinstance(error, RefusedError) and not error.transient
    return HelperError(str(error), role=role, reason="refused" if own else "failed")


class Servers:
    """Running engines by role.

    Parameters
    ----------
    models : prompts, thresholds and lengths of steps.
    roles : engine by role.
    plan : settings of token-level methods.
    encoder : embeds steps to compare them; None where the plan does not need it.
    """

    def __init__(
        self,
        models: RemoteModels,
        roles: Mapping[str, OpenAIEngine],
        plan: ServingPlan,
        encoder: EmbeddingServer | None = None,
    ) -> None:
        self.roles = dict(roles)
        self._encoder = encoder
        self._models = models
        self._plan = plan

    @property
    def target(self) -> OpenAIEngine:
        """The target's engine."""
        return self.roles[TARGET]

    @property
    def defaults(self) -> RequestDefaults:
        """Values of fields that a request leaves out."""
        models = self._models
        return self._plan.defaults.model_copy(update={"temperature": models.temperature, "top_p": models.top_p})

    def clock(self, request: AnswerRequest) -> WallClock:
        """Return a wall clock as in a validation of these models, with the sampling and seed of a request."""
        models = replace(self._models, temperature=request.temperature, top_p=request.top_p, seed=request.seed)
        clock = models.clock(self.roles, self._encoder)
        clock.limits = self.limits(request)
        return clock

    def limits(self, request: AnswerRequest) -> StepLimits:
        """Return the longest steps and the longest answer of a request."""
        return StepLimits(
            max_step_tokens=self._models.max_step_tokens,
            max_steps=request.max_tokens + 1,
            max_answer_tokens=request.max_tokens,
        )

    @property
    def context(self) -> float:
        """Tokens of the target's context; infinite where its server does not report them."""
        limit = self.target.card.get("max_model_len")
        return limit if isinstance(limit, int) and limit > 0 else math.inf

    def speculation(self, configuration: Configuration) -> dict[str, Speculation]:
        """Return the token-level speculation of each role; empty: the servers speculate as they were started.

        Raises
        ------
        ParameterError : no server was started with this speculation.
        """
        token = configuration.token
        if token is None or not self._models.speculative:
            return {}
        expected = self._plan.expected.get(configuration)
        given = {name: value for name, value in configuration.token_knobs.items() if value is not None}
        settings = {**(expected.token_settings if expected is not None else {}), **given}
        return {TARGET: self._models.speculation(token, settings)}


@asynccontextmanager
async def opened(
    endpoints: Endpoints, models: RemoteModels, plan: ServingPlan, *, timed: bool
) -> AsyncIterator[Servers]:
    """Connect to the servers that the plan needs, and close the connections at the end.

    ``timed``: the times of tokens are watched.

    Raises
    ------
    CalibrationError : a server is unreachable, lacks the model, or gives no log-probabilities though it judges.
    ParameterError : no server has the plan's token-level method.
    """
    engines: list[OpenAIEngine] = []
    encoder: EmbeddingServer | None = None

    def config_of(role: str, endpoint: str, retries: int) -> HttpConfig:
        return HttpConfig.of(
            role, endpoint, api_key_env=endpoints.api_key_env, timeout_s=endpoints.timeout_s, retries=retries
        )

    async def start(role: str, endpoint: str, retries: int) -> OpenAIEngine:
        engine = await OpenAIEngine.start(config_of(role, endpoint, retries))
        engine.keep_nothing(timed=timed)
        engines.append(engine)
        return engine

    try:
        target = await start(TARGET, endpoints.target, retries=4)
        roles = {TARGET: target}
        needed = set[str]().union(*(helpers_of(one) for one in plan.configurations))
        for role in (DRAFT, JUDGE, SCORER):
            endpoint = getattr(endpoints, role)
            if role in needed and endpoint:
                engine = target if endpoint == endpoints.target else await start(role, endpoint, _HELPER_RETRIES)
                roles |= dict.fromkeys(_SCORING if role == SCORER else (role,), engine)
        for server, config in models.speculating_servers():
            name = f"{TARGET} with {setting_of(config).key}"
            other = await start(name, server, _HELPER_RETRIES)
            other.speculates, other.whole_ids = speculation_of(config), target.whole_ids
            target.speculating[other.speculates] = other
        if EMBEDDING in needed:
            encoder = await EmbeddingServer.start(config_of(EMBEDDING, endpoints.embedding, _HELPER_RETRIES))
        servers = Servers(models, roles, plan, encoder)
        for configuration in plan.configurations:
            servers.speculation(configuration)
        judging = [roles.get(role, target) for role in needed if role not in (DRAFT, EMBEDDING)]
        if any(GATE in one.spec.roles or one.knobs.get("verifier") == "cascade" for one in plan.configurations):
            judging.append(roles[DRAFT])
        for engine in {id(engine): engine for engine in judging}.values():
            await engine.check_logprobs()
        yield servers
    finally:
        await asyncio.gather(*(engine.close() for engine in engines))
        if encoder is not None:
            await encoder.close()


def models_of(endpoints: Endpoints, plan: ServingPlan, settings: Mapping[str, Any]) -> RemoteModels:
    """Return the models on the servers, with the settings of the profile, else those of the plan.

    Parameters
    ----------
    endpoints : addresses of the servers.
    plan : its sampling and step length hold where the profile has none.
    settings : settings of the profile; empty without one.
    """
    defaults = plan.defaults
    bundled = "bundled" in (settings.get("task"), settings.get("target"))
    return RemoteModels(
        target=endpoints.target,
        draft=endpoints.draft or endpoints.target,
        judge=endpoints.judge,
        temperature=float(settings.get("temperature", defaults.temperature)),
        top_p=float(settings.get("top_p", defaults.top_p)),
        max_step_tokens=int(settings.get("max_step_tokens", defaults.max_step_tokens)),
        judge_threshold=float(settings.get("judge_threshold", defaults.judge_threshold)),
        task="bundled" if bundled else "general",
        speculative=endpoints.speculative,
        api_key_env=endpoints.api_key_env,
        timeout_s=endpoints.timeout_s,
    )
