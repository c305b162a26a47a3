"""A gateway in front of the bundled pair's own servers, for tests that drive it by the OpenAI client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from connections import started, stopped
from fault_proxy import FaultProxy
from openai import AsyncOpenAI
from openai_server import OpenAIServer, Planted, serving
from pair_servers import PairServer, running
from served_plans import SETTINGS

from calibrate.engines.http.embeddings import EmbeddingServer
from calibrate.engines.http.wire import HttpConfig
from calibrate.models.servers import RemoteModels
from calibrate.pair import draft_path, target_path
from calibrate.running.verifiers import EmbeddingSimilarity
from sim.configuration import Configuration
from sim.roles import DRAFT, EMBEDDING, JUDGE, TARGET
from specplan.live.gateway.control import Limits
from specplan.live.gateway.plans import SPECULATIVE, Expected, RequestDefaults, ServingPlan
from specplan.live.gateway.servers import Endpoints, models_of, opened
from specplan.live.gateway.serving import Serving

if TYPE_CHECKING:
    from bundled_pair import BundledPair

    from calibrate.running.session import WallSession

__all__ = ["Gateway", "PlantedGateway", "gateway", "planted_gateway"]


@dataclass(kw_only=True)
class Gateway:
    """A gateway, running."""

    client: AsyncOpenAI
    servers: dict[str, PairServer]
    serving: Serving
    endpoints: Endpoints
    plan: ServingPlan
    url: str
    proxies: dict[str, FaultProxy]
    """By role, what stands before its server and can die."""

    @property
    def model(self) -> str:
        return self.servers[TARGET].name

    async def streamed(self, prompt: str, *, seed: int, name: str = "", tokens: int = 600, **more: Any) -> list[str]:
        """The pieces of a streamed completion of so many tokens at most."""
        stream = await self.client.completions.create(
            model=self.model,
            prompt=prompt,
            seed=seed,
            max_tokens=tokens,
            stream=True,
            extra_body={"metadata": {"stream": name}},
            **more,
        )
        return [chunk.choices[0].text async for chunk in stream if chunk.choices and chunk.choices[0].text]

    async def directly(
        self, configuration: Configuration, prompt: str, *, seed: int, name: str = "", tokens: int = 600
    ) -> WallSession:
        """What a validation over the same servers does for one question, cut after so many tokens."""
        models = RemoteModels(
            target=self.endpoints.target,
            draft=self.endpoints.draft,
            judge=self.endpoints.judge,
            task="bundled",
            seed=seed,
            max_step_tokens=100,
        )
        async with AsyncExitStack() as stack:
            _, clock = await stack.enter_async_context(models.open())
            clock.limits = replace(clock.limits, max_steps=tokens + 1, max_answer_tokens=tokens)
            if self.endpoints.embedding:
                encoder = await EmbeddingServer.start(HttpConfig.of(EMBEDDING, self.endpoints.embedding))
                stack.push_async_callback(encoder.close)
                clock.verifiers[EMBEDDING] = EmbeddingSimilarity(encoder)
            session = await clock.run(configuration.algorithm()(await clock.root(prompt)), stream=name)
            await clock.close()
            return session


PATIENT = Limits(patience_s=300.0, answer_seconds=3600.0, timeout_s=300.0)
"""For machines with other work: nothing is given up because it takes long."""


@asynccontextmanager
async def gateway(
    pair: BundledPair,
    *by_load: Configuration | tuple[int, Configuration],
    limits: Limits | None = None,
    expected: dict[Configuration, Expected] | None = None,
    embedding: str = "",
    behind: tuple[str, ...] = (),
    **more: Any,
) -> AsyncIterator[Gateway]:
    """Serve the target and the draft, and the judge on an engine of its own if the pair has one; a gateway before.

    The servers of the roles ``behind`` stand behind a proxy each.
    """
    rows = tuple(one if isinstance(one, tuple) else (1, one) for one in by_load)
    folders = {TARGET: target_path(), DRAFT: draft_path(), JUDGE: target_path()}
    async with AsyncExitStack() as stack:
        servers = {}
        for role, folder in folders.items():
            server = PairServer(pair.roles[role], f"pair-{role}", folder)
            servers[role] = await stack.enter_async_context(server.serving())
        urls, proxies = {role: server.url for role, server in servers.items()}, {}
        for role in behind:
            proxies[role] = FaultProxy(urls[role])
            await proxies[role].start()
            stack.push_async_callback(proxies[role].stop)
            urls[role] = proxies[role].url
        endpoints = Endpoints(**urls, embedding=embedding, timeout_s=300.0)
        plan = ServingPlan(name="pair", by_load=rows, defaults=RequestDefaults(), expected=expected or {})
        endpoints.check(plan)
        models = models_of(endpoints, plan, SETTINGS)
        upstream = await stack.enter_async_context(opened(endpoints, models, plan))
        limits = limits or PATIENT
        serving = Serving(upstream, plan, limits, **{"trust_plan": True, **more})
        url = await stack.enter_async_context(running(serving.app, client_seconds=limits.client_seconds))
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-of-the-client", max_retries=0, timeout=600)
        stack.push_async_callback(client.close)
        yield Gateway(
            client=client,
            servers=servers,
            serving=serving,
            endpoints=endpoints,
            plan=plan,
            url=url,
            proxies=proxies,
        )


@dataclass(kw_only=True)
class PlantedGateway:
    """A gateway in front of planted servers."""

    client: AsyncOpenAI
    servers: dict[str, OpenAIServer]
    serving: Serving
    endpoints: Endpoints
    url: str

    async def answer(self, prompt: str, *, seed: int = 1, **more: Any) -> Any:
        """A whole completion."""
        return await self.client.completions.create(
            model="tiny", prompt=prompt, seed=seed, **{"max_tokens": 200, **more}
        )

    async def streamed(self, prompt: str, *, seed: int = 1) -> tuple[list[str], str]:
        """The pieces of a streamed completion, and why it ended."""
        stream = await self.client.completions.create(
            model="tiny", prompt=prompt, seed=seed, max_tokens=200, stream=True
        )
        choices = [choice async for chunk in stream for choice in chunk.choices]
        return [choice.text for choice in choices if choice.text], choices[-1].finish_reason

    async def kill(self, role: str) -> None:
        """Have a server die, with its connections."""
        await stopped(self.servers[role])

    async def revive(self, role: str) -> None:
        """Have a server that died come back at its address."""
        await started(self.servers[role])


@asynccontextmanager
async def planted_gateway(
    *by_load: Configuration | tuple[int, Configuration],
    planted: Planted | Mapping[str, Planted] | None = None,
    limits: Limits | None = None,
    key: str = "sk-of-the-client",
    env: str = "",
    roles: tuple[str, ...] = (TARGET, DRAFT, JUDGE),
    expected: dict[Configuration, Expected] | None = None,
    speculative: Mapping[str, Any] | None = None,
    **more: Any,
) -> AsyncIterator[PlantedGateway]:
    """Serve planted models, alike or by role, each on a server in a thread of its own; a gateway before them here.

    It runs the plan's method whatever it takes, unless ``trust_plan`` is False. With ``speculative``, a configuration
    of vLLM, there is a server of the target with it too, of the role `SPECULATIVE`.
    """
    roles = (*roles, SPECULATIVE) if speculative else roles
    rows = tuple(one if isinstance(one, tuple) else (1, one) for one in by_load)
    async with AsyncExitStack() as stack:
        by_role = planted if isinstance(planted, Mapping) else dict.fromkeys(roles, planted or Planted())
        servers = {role: stack.enter_context(serving(by_role[role])) for role in roles}
        urls = {role: server.url for role, server in servers.items()}
        endpoints = Endpoints(
            target=urls[TARGET],
            draft=urls.get(DRAFT, ""),
            judge=urls.get(JUDGE, ""),
            speculative=json.dumps([{**speculative, "server": urls[SPECULATIVE]}]) if speculative else "",
            api_key_env=env,
            timeout_s=60.0,
        )
        plan = ServingPlan(name="planted", by_load=rows, expected=expected or {})
        models = models_of(endpoints, plan, {})
        upstream = await stack.enter_async_context(opened(endpoints, models, plan))
        limits = limits or PATIENT
        serving_ = Serving(upstream, plan, limits, **{"trust_plan": True, **more})
        url = await stack.enter_async_context(running(serving_.app, client_seconds=limits.client_seconds))
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=300)
        stack.push_async_callback(client.close)
        yield PlantedGateway(client=client, servers=servers, serving=serving_, endpoints=endpoints, url=url)
