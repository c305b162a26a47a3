"""The gateway measures what it serves on planted servers, in real time, and says so where people and machines look."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import httpx
import pytest
from openai_server import Planted

from sim.configuration import Configuration
from sim.roles import DRAFT, JUDGE, TARGET
from specplan.live.comparing.comparison import Verdict

pytest.importorskip("uvicorn", reason="needs the extra serve")

from gateways import PlantedGateway, planted_gateway

SYNC = Configuration.parse("lr-sync k1=3")
TARGET_S = 0.006
"""A pass of the target; what a step takes is some ten of them."""


def planted(draft_s: float) -> dict[str, Planted]:
    """Servers by role; the draft's passes take so long."""
    like = Planted(steps=8, acceptance=0.9, step_tokens=(8, 12), iteration_s=TARGET_S)
    quick = Planted(steps=8, acceptance=0.9, step_tokens=(8, 12), iteration_s=0.0005)
    return {TARGET: like, DRAFT: Planted(steps=8, step_tokens=(8, 12), iteration_s=draft_s), JUDGE: quick}


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
    """What ``/health`` says of two answers in flight, and ``/metrics``."""
    async with httpx.AsyncClient(base_url=served.url) as client:
        health = (await client.get("/health")).json()
        page = (await client.get("/metrics")).text
    (state,) = [one for one in health["measured"] if one["load"] == 2]
    return state | {"lost_answers": health["lost_answers"]}, page


@pytest.mark.slow
async def test_what_gains_is_on_and_said() -> None:
    said: list[str] = []
    async with planted_gateway(SYNC, planted=planted(0.0005), trust_plan=False, tell=said.append) as served:
        await driven(served, 2, 400)
        state, page = await pages(served)
    assert (state["method"], state["verdict"]) == (SYNC.name, "gains")
    assert state["tokens_per_second"]["low"] > 1.0
    assert f'specplan_verdict{{load="2",method="{SYNC.name}"}} 1.0' in page
    assert 'specplan_gain{end="low",load="2",of="tokens_per_second"}' in page
    assert f"at 2 in flight {SYNC.name} gains and is on" in said[-1]


@pytest.mark.slow
async def test_a_draft_that_is_too_slow_is_hardly_asked() -> None:
    """A draft step takes five times as long as the target's."""
    said: list[str] = []
    async with planted_gateway(SYNC, planted=planted(0.03), trust_plan=False, tell=said.append) as served:
        asked = await driven(served, 2, 60)
        state, page = await pages(served)
        drafted = len(served.servers[DRAFT].bodies)
    assert asked == 60
    assert state["verdict"] != "gains"
    assert "specplan_lost_answers" in page
    assert said[0] == f"at 2 in flight {SYNC.name} pauses: it lost what trials may lose"
    assert drafted < 60  # of the steps of 60 answers, eight each


async def test_before_anything_is_known_answers_are_plain() -> None:
    async with planted_gateway(SYNC, planted=Planted(steps=2), trust_plan=False) as served:
        before = len(served.servers[DRAFT].bodies)  # it is asked whether it answers at all
        raw = await served.client.completions.with_raw_response.create(model="tiny", prompt="one", max_tokens=50)
        assert raw.headers["x-specplan-method"] == "autoregressive"
        assert len(served.servers[DRAFT].bodies) == before
