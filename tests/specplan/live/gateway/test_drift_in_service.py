"""The gateway compares what it serves with what the plan expects, and says so where people and machines look."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from openai_server import Planted

from sim.configuration import Configuration
from specplan.live.gateway.plans import Expected

pytest.importorskip("uvicorn", reason="needs the extra serve")

from gateways import planted_gateway

ASYNC = Configuration.parse("lr-async k1=2")


@pytest.mark.parametrize(("expected", "drifts"), [(0.95, True), (0.6, False)])
async def test_drift_of_acceptance_is_told(expected: float, drifts: bool) -> None:
    said: list[str] = []
    planned = {ASYNC: Expected(acceptance=expected, speedup=1.5)}
    planted = Planted(steps=12, acceptance=0.6, step_tokens=(2, 4))
    async with planted_gateway(ASYNC, planted=planted, expected=planned, tell=said.append) as served:
        await asyncio.gather(*(served.answer(f"{i}", seed=i) for i in range(8)))
        async with httpx.AsyncClient(base_url=served.url) as client:
            health = (await client.get("/health")).json()
            page = (await client.get("/metrics")).text
    assert bool(said) == bool(health["drift"]) == drifts
    assert ('specplan_drift_evidence{what="acceptance"} 1.0' in page) == drifts
    if drifts:
        assert said[0].startswith("drift: acceptance of drafts is 0.")
        assert "predicted was 0.95 [0.90, 1.00]" in said[0]
