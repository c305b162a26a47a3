"""The gateway over real engines of the bundled pair, driven by the real OpenAI client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from calibrate.models.asking import bundled_problems
from sim.catalogue import methods
from sim.configuration import Configuration

if TYPE_CHECKING:
    from bundled_pair import BundledPair

pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("openai", reason="needs the openai client")

from gateways import gateway

pytestmark = pytest.mark.slow


SERVED = tuple(
    one.name for one in methods().values() if one.level in ("step", "beam") and not one.ablation and one.name != "specs"
)


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


@pytest.mark.parametrize("method", SERVED)
async def test_every_method_is_served_by_its_generator(bundled_pair: BundledPair, method: str) -> None:
    configuration = Configuration(method=method)
    (problem,) = problems(1)
    async with gateway(bundled_pair, configuration) as served:
        parts = await served.streamed(problem.prompt, seed=3, name="q")
        session = await served.directly(configuration, problem.prompt, seed=3, name="q")
        assert "".join(parts) == session.text
        written = {step.role for step in session.committed}
        for role in written:
            counted = served.serving.metrics.registry.get_sample_value("specplan_committed_steps_total", {"role": role})
            assert counted == sum(step.role == role for step in session.committed)


async def test_a_chat_is_rendered_by_the_targets_template(bundled_pair: BundledPair) -> None:
    (problem,) = problems(1)
    configuration = Configuration.parse("lr-async k1=2")
    async with gateway(bundled_pair, configuration) as served:
        asked: dict[str, Any] = {"model": served.model, "seed": 3, "max_tokens": 600}
        messages: Any = [{"role": "user", "content": problem.prompt.removesuffix("\n\n")}]
        said = await served.client.chat.completions.create(messages=messages, **asked)
        stream = await served.client.chat.completions.create(messages=messages, stream=True, **asked)
        parts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        direct = await served.directly(configuration, messages[0]["content"] + "\n\n", seed=3)
        assert said.choices[0].message.content == "".join(parts) == direct.text
        assert said.choices[0].finish_reason == "stop"
        thinking = {"chat_template_kwargs": {"enable_thinking": False}}
        other = await served.client.chat.completions.create(messages=messages, extra_body=thinking, **asked)
        assert other.usage
        assert said.usage
        assert other.usage.prompt_tokens > said.usage.prompt_tokens
