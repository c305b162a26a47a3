"""What the gateway finds while it serves planted servers, in real time, is said where people and machines look."""

import asyncio
from itertools import count
from typing import Any

import httpx
import pytest
from gateways import PlantedGateway, planted_gateway
from openai_server import Planted

from sim.configuration import Configuration
from sim.roles import DRAFT, JUDGE, TARGET
from specplan.live.comparing.comparison import Verdict
from specplan.live.gateway.plans import Expected

SYNC = Configuration.parse("lr-sync k1=3")


async def driven(served: PlantedGateway, n_clients: int, most: int) -> int:
    """Ask in a closed loop until the gateway has a verdict, or so many times; return how often."""
    numbers = count()
    measured = served.serving.control.measured
    assert measured is not None

    async def asks() -> None:
        while (number := next(numbers)) < most:
            if any(one.verdict is not Verdict.UNKNOWN for one in measured.comparisons.values()):
                return
            await served.answer(f"question {number}", seed=number)

    await asyncio.gather(*(asks() for _ in range(n_clients)))
    return next(numbers) - n_clients


async def pages(served: PlantedGateway) -> tuple[dict[str, Any], str]:
    """What ``/health`` and ``/metrics`` say."""
    async with httpx.AsyncClient(base_url=served.url) as client:
        return (await client.get("/health")).json(), (await client.get("/metrics")).text


@pytest.mark.slow
@pytest.mark.parametrize(("draft_s", "gains"), [(0.0005, True), (0.03, False)])
async def test_what_gains_is_on_and_a_draft_that_is_too_slow_is_hardly_asked(draft_s: float, gains: bool) -> None:
    """A step of some ten tokens takes the target 60 ms, and the slow draft five times as long."""
    said: list[str] = []
    passes = {TARGET: 0.006, DRAFT: draft_s, JUDGE: 0.0005}
    planted = {
        role: Planted(steps=8, acceptance=0.9, step_tokens=(8, 12), iteration_s=seconds)
        for role, seconds in passes.items()
    }
    async with planted_gateway(SYNC, planted=planted, trust_plan=False, tell=said.append) as served:
        asked = await driven(served, 2, 400 if gains else 60)
        health, page = await pages(served)
        drafted = len(served.servers[DRAFT].bodies)
    (state,) = [one for one in health["measured"] if one["load"] == 2]
    assert (state["verdict"] == "gains") == gains
    if gains:
        assert state["method"] == SYNC.name
        assert state["tokens_per_second"]["low"] > 1.0
        assert f'specplan_verdict{{load="2",method="{SYNC.name}"}} 1.0' in page
        assert 'specplan_gain{end="low",load="2",of="tokens_per_second"}' in page
        assert f"at 2 in flight {SYNC.name} gains and is on" in said[-1]
    else:
        assert "specplan_lost_answers" in page
        assert said[0] == f"at 2 in flight {SYNC.name} pauses: it lost what trials may lose"
        assert drafted < asked == 60  # of the steps of 60 answers, eight each


async def test_before_anything_is_known_answers_are_plain() -> None:
    async with planted_gateway(SYNC, planted=Planted(steps=2), trust_plan=False) as served:
        before = len(served.servers[DRAFT].bodies)  # it is asked whether it answers at all
        raw = await served.client.completions.with_raw_response.create(model="tiny", prompt="one", max_tokens=50)
        assert raw.headers["x-specplan-method"] == "autoregressive"
        assert len(served.servers[DRAFT].bodies) == before


@pytest.mark.parametrize(("expected", "drifts"), [(0.95, True), (0.6, False)])
async def test_drift_of_acceptance_is_told(expected: float, drifts: bool) -> None:
    said: list[str] = []
    planned = {SYNC: Expected(acceptance=expected)}
    planted = Planted(steps=12, acceptance=0.6, step_tokens=(2, 4))
    async with planted_gateway(SYNC, planted=planted, expected=planned, tell=said.append) as served:
        await asyncio.gather(*(served.answer(f"{i}", seed=i) for i in range(8)))
        health, page = await pages(served)
    assert bool(said) == bool(health["drift"]) == drifts
    assert ('specplan_drift_evidence{what="acceptance"} 1.0' in page) == drifts
    if drifts:
        assert said[0].startswith("drift: acceptance of drafts is 0.")
        assert "predicted was 0.95 [0.90, 1.00]" in said[0]
