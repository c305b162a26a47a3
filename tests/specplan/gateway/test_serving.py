"""The gateway over real engines of the bundled pair, driven by the real OpenAI client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from calibrate.models.asking import bundled_problems
from sim.configuration import Configuration

if TYPE_CHECKING:
    from bundled_pair import BundledPair

pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("openai", reason="needs the openai client")

from gateways import gateway

pytestmark = pytest.mark.slow


def problems(n: int) -> list[Any]:
    return bundled_problems(n, 5, "validation")


@pytest.mark.parametrize("at_once", [1, 4, 8])
async def test_streamed_texts_are_those_of_the_generator_run_directly(bundled_pair: BundledPair, at_once: int) -> None:
    configuration = Configuration.parse("lr-async k1=2")
    async with gateway(bundled_pair, configuration) as served:
        asked = problems(at_once)
        texts = await asyncio.gather(*(served.streamed(one.prompt, seed=7, name=one.name) for one in asked))
        for one, parts in zip(asked, texts, strict=True):
            session = await served.directly(configuration, one.prompt, seed=7, name=one.name)
            assert "".join(parts) == session.text
            assert len(parts) == sum(bool(step.payload.text) for step in session.committed)


@pytest.mark.parametrize("name", ["lr-sync", "spec-reason", "rsd", "spec-cot", "confspec"])
async def test_methods_that_grade_and_compare_are_served_alike(bundled_pair: BundledPair, name: str) -> None:
    configuration = Configuration(method=name)
    (one,) = problems(1)
    async with gateway(bundled_pair, configuration) as served:
        parts = await served.streamed(one.prompt, seed=3, name=one.name)
        session = await served.directly(configuration, one.prompt, seed=3, name=one.name)
        assert "".join(parts) == session.text
