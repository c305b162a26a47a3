"""The gateway measures what it serves on planted servers, in real time, and says so where people and machines look."""

from __future__ import annotations

import asyncio
from itertools import count

import httpx
import pytest
from openai_server import Planted

from sim.configuration import Configuration
from sim.operations import DRAFT, JUDGE, TARGET
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


@pytest.mark.slow
@pytest.mark.parametrize(("draft_s", "verdict"), [(0.0005, "gains"), (0.03, "loses")])
async def test_it_decides_and_says_so(draft_s: float, verdict: str) -> None:
    said: list[str] = []
    async with planted_gateway(SYNC, planted=planted(draft_s), trust_plan=False, tell=said.append) as served:
        await driven(served, 2, 400)
        async with httpx.AsyncClient(base_url=served.url) as client:
            health = (await client.get("/health")).json()
            page = (await client.get("/metrics")).text
    (state,) = [one for one in health["measured"] if one["load"] == 2]
    assert (state["method"], state["verdict"]) == (SYNC.name, verdict)
    sign = 1.0 if verdict == "gains" else -1.0
    assert f'specplan_verdict{{load="2",method="{SYNC.name}"}} {sign}' in page
    assert 'specplan_gain{end="value",load="2",of="tokens_per_second"}' in page
    assert "specplan_lost_answers" in page
    assert f"at 2 in flight {SYNC.name} {verdict} and is" in said[-1]


async def test_before_anything_is_known_answers_are_plain() -> None:
    async with planted_gateway(SYNC, planted=Planted(steps=2), trust_plan=False) as served:
        raw = await served.client.completions.with_raw_response.create(model="tiny", prompt="one", max_tokens=50)
        assert raw.headers["x-specplan-method"] == "autoregressive"
        assert not served.servers[DRAFT].bodies
