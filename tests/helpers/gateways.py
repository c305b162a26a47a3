"""A gateway in front of planted servers, for tests that drive it by the OpenAI client."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from connections import started, stopped
from openai import AsyncOpenAI
from openai_server import OpenAIServer, Planted, serving
from pair_servers import running

from sim.configuration import Configuration
from sim.roles import DRAFT, JUDGE, TARGET
from specplan.live.gateway.control import Limits
from specplan.live.gateway.plans import SPECULATIVE, Expected, ServingPlan
from specplan.live.gateway.servers import Endpoints, models_of, opened
from specplan.live.gateway.serving import Serving

PATIENT = Limits(patience_s=300.0, answer_seconds=3600.0, timeout_s=300.0)
"""For machines with other work: nothing is given up because it takes long."""


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
    embedding: str = "",
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
            embedding=embedding,
            api_key_env=env,
            timeout_s=60.0,
        )
        plan = ServingPlan(by_load=rows, expected=expected or {})
        models = models_of(endpoints, plan, {})
        upstream = await stack.enter_async_context(opened(endpoints, models, plan, timed="profile" in more))
        limits = limits or PATIENT
        serving_ = Serving(upstream, plan, limits, **{"trust_plan": True, **more})
        url = await stack.enter_async_context(running(serving_.app, client_seconds=limits.client_seconds))
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=300)
        stack.push_async_callback(client.close)
        yield PlantedGateway(client=client, servers=servers, serving=serving_, endpoints=endpoints, url=url)
