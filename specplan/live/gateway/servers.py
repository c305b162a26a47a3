"""The servers behind the gateway: which engine has which role, and how they are asked for one request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from calibrate.engines.http.addresses import is_local, split_endpoint
from calibrate.engines.http.embeddings import EmbeddingServer
from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.wire import HttpConfig
from calibrate.engines.speculation import Speculation
from calibrate.models.servers import RemoteModels
from calibrate.models.vllm_settings import setting_of, speculation_of
from calibrate.running.wall_clock import StepLimits, WallClock
from sim.configuration import Configuration
from sim.operations import CHOOSER, DRAFT, EMBEDDING, GATE, JUDGE, REWARD, SCORER, TARGET
from specplan.live.gateway.asked import Asked
from specplan.live.gateway.plans import Asking, ServingPlan, helpers_of
from theory.errors import ParameterError

__all__ = ["Endpoints", "Servers", "models_of", "opened"]

_HELPER_RETRIES: Final = 1
"""Retries of a request to a draft, judge or scorer: plain decoding is a better answer to a failure than waiting."""

_SCORING: Final = (SCORER, REWARD, CHOOSER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Where the servers are, each as ``URL[#model]``; empty: there is none."""

    target: str
    draft: str = ""
    judge: str = ""
    scorer: str = ""
    """Empty: the target's server grades steps."""
    embedding: str = ""
    """Server of the sentence embeddings by which steps are compared."""
    speculative: str = ""
    """Servers of the target that speculate on tokens, as ``calibrate openai --speculative`` takes them."""
    api_key_env: str = ""
    """Variable with the key for the gateway's own questions at its start; clients' requests go with their keys."""
    timeout_s: float = 120.0
    """Longest silence of the target's server, s."""

    @property
    def in_clear(self) -> tuple[str, ...]:
        """Other machines to which clients' keys go over plain http: host and port."""
        named = (self.target, self.draft, self.judge, self.scorer, self.embedding)
        addresses = [urlsplit(split_endpoint(url)[0]) for url in named if url]
        return tuple(dict.fromkeys(one.netloc for one in addresses if one.scheme == "http" and not is_local(one)))

    def check(self, plan: ServingPlan) -> None:
        """Refuse a plan that asks for a server which is not named.

        Raises
        ------
        ParameterError : so, or the plan's method cannot be served at all.
        """
        for configuration in plan.configurations:
            for role in sorted(helpers_of(configuration) - {SCORER}):
                if not getattr(self, role):
                    hint = f"; the target's own will do: --judge {self.target}" if role == JUDGE else ""
                    rule = f"must be named as URL[#model]: {configuration.method} of the plan asks a {role}{hint}"
                    raise ParameterError(role, "", rule)


class Servers:
    """Engines by role, running.

    Parameters
    ----------
    endpoints : where they are.
    models : how they are asked: prompts, thresholds, lengths of steps.
    roles : role to engine.
    plan : says how tokens are speculated on.
    encoder : compares steps by their embeddings; None where the plan does not ask for it.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        models: RemoteModels,
        roles: Mapping[str, OpenAIEngine],
        plan: ServingPlan,
        encoder: EmbeddingServer | None = None,
    ) -> None:
        self.roles = dict(roles)
        self._encoder = encoder
        self._models = models
        self._plan = plan
        self._token_level = bool(endpoints.speculative)

    @property
    def target(self) -> OpenAIEngine:
        """The target's engine."""
        return self.roles[TARGET]

    @property
    def asking(self) -> Asking:
        """How the models are asked where a request does not say."""
        return replace(self._plan.asking, temperature=self._models.temperature, top_p=self._models.top_p)

    def clock(self, asked: Asked) -> WallClock:
        """Return a wall clock as a validation of these models has it, with the sampling and seed of one request."""
        models = replace(self._models, temperature=asked.temperature, top_p=asked.top_p, seed=asked.seed)
        clock = models.clock(self.roles, self._encoder)
        clock.limits = StepLimits(
            max_step_tokens=models.max_step_tokens, max_steps=asked.max_tokens + 1, max_answer_tokens=asked.max_tokens
        )
        return clock

    def speculation(self, configuration: Configuration) -> dict[str, Speculation]:
        """Return how the target's requests speculate; without servers for it, as the target's own server does.

        Raises
        ------
        ParameterError : servers were named, and none speculates so.
        """
        token = configuration.token
        if token is None or not self._token_level:
            return {}
        expected = self._plan.expected.get(configuration)
        given = {name: value for name, value in configuration.token_knobs.items() if value is not None}
        settings = {**(expected.token_settings if expected is not None else {}), **given}
        return {TARGET: self._models.speculation(token, settings)}


@asynccontextmanager
async def opened(endpoints: Endpoints, models: RemoteModels, plan: ServingPlan) -> AsyncIterator[Servers]:
    """Reach the servers that the plan asks, and close the connections at the end.

    Raises
    ------
    CalibrationError : unreachable, no such model, or without the log-probabilities that a judge needs.
    ParameterError : no server speculates on tokens as the plan says.
    """
    engines: list[OpenAIEngine] = []
    encoder: EmbeddingServer | None = None

    def config_of(role: str, endpoint: str, retries: int) -> HttpConfig:
        return HttpConfig.of(
            role, endpoint, api_key_env=endpoints.api_key_env, timeout_s=endpoints.timeout_s, retries=retries
        )

    async def start(role: str, endpoint: str, retries: int) -> OpenAIEngine:
        engine = await OpenAIEngine.start(config_of(role, endpoint, retries))
        engine.keep_nothing()
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
            other = await start(name, server, retries=4)
            other.speculates = speculation_of(config)
            target.speculating[other.speculates] = other
        if EMBEDDING in needed:
            encoder = await EmbeddingServer.start(config_of(EMBEDDING, endpoints.embedding, _HELPER_RETRIES))
        servers = Servers(endpoints, models, roles, plan, encoder)
        for configuration in plan.configurations:
            servers.speculation(configuration)
        await _check_logprobs(roles, needed, plan)
        yield servers
    finally:
        await asyncio.gather(*(engine.close() for engine in engines))
        if encoder is not None:
            await encoder.close()


async def _check_logprobs(roles: Mapping[str, OpenAIEngine], needed: Iterable[str], plan: ServingPlan) -> None:
    """See that those who judge and grade give log-probabilities."""
    asked = [roles.get(role, roles[TARGET]) for role in needed if role not in (DRAFT, EMBEDDING)]
    if any(GATE in one.spec.roles or one.knobs.get("verifier") == "cascade" for one in plan.configurations):
        asked.append(roles[DRAFT])
    for engine in {id(engine): engine for engine in asked}.values():
        await engine.check_logprobs()


def models_of(endpoints: Endpoints, plan: ServingPlan, settings: Mapping[str, Any]) -> RemoteModels:
    """Return how the servers are asked: as the profile's models were, or as the plan says.

    Parameters
    ----------
    endpoints : of the servers.
    plan : what it says of sampling and steps holds where the profile has nothing else to say.
    settings : of the profile; empty without one.
    """
    asking = plan.asking
    bundled = "bundled" in (settings.get("task"), settings.get("target"))
    return RemoteModels(
        target=endpoints.target,
        draft=endpoints.draft or endpoints.target,
        judge=endpoints.judge,
        temperature=float(settings.get("temperature", asking.temperature)),
        top_p=float(settings.get("top_p", asking.top_p)),
        max_step_tokens=int(settings.get("max_step_tokens", asking.max_step_tokens)),
        judge_threshold=float(settings.get("judge_threshold", asking.threshold)),
        task="bundled" if bundled else "general",
        speculative=endpoints.speculative,
        api_key_env=endpoints.api_key_env,
        timeout_s=endpoints.timeout_s,
    )
