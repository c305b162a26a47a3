"""Answers change between the target's servers after any token: their texts and tokens stay those of one request."""

import asyncio
from itertools import count
from typing import Any

import pytest
from gateways import PlantedGateway, planted_gateway
from openai import AsyncOpenAI
from openai_server import HALVES, Planted, text_of
from planted_answers import id_of

from sim.configuration import Configuration
from sim.roles import TARGET
from specplan.live.comparing.measured import Measured
from specplan.live.gateway.plans import PLAIN, SPECULATIVE

NGRAMS = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
BY_TOKENS = Configuration.parse("prompt-lookup k2=4")
ASKED: dict[str, Any] = {"model": "tiny", "seed": 1, "max_tokens": 150}
Told = tuple[str, str, int, int]
"""Text, reason of the end, tokens of prompt and answer."""


async def told(client: AsyncOpenAI, prompt: str) -> Told:
    """What a stream says; every fourth ends at a word."""
    more: dict[str, Any] = {"stream_options": {"include_usage": True}}
    more |= {"stop": [" thus"]} if prompt[-1] in "159" else {}
    parts = await client.completions.create(**ASKED, **more, prompt=prompt, stream=True)
    seen = [part async for part in parts]
    choices = [choice for part in seen for choice in part.choices]
    usage = seen[-1].usage
    text = "".join(choice.text for choice in choices)
    return text, choices[-1].finish_reason, usage.prompt_tokens, usage.completion_tokens


async def through(served: PlantedGateway, n: int) -> dict[str, Told]:
    """What a gateway's streams say to two clients in a closed loop."""
    found: dict[str, Told] = {}
    numbers = count()

    async def asks() -> None:
        while (number := next(numbers)) < n:
            found[f"question {number}"] = await told(served.client, f"question {number}")

    await asyncio.gather(asks(), asks())
    return found


@pytest.fixture
def _restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The method changes at every fifth look, whatever was measured, and the one that speculates is never too slow."""
    looks = count()
    monkeypatch.setattr(Measured, "wanted", lambda *_, **__: (PLAIN, BY_TOKENS)[next(looks) // 5 % 2])
    monkeypatch.setattr(Measured, "over", lambda *_: False)


@pytest.mark.usefixtures("_restless")
@pytest.mark.parametrize("tells_ids", [True, False])
async def test_an_answer_is_the_same_wherever_it_changes_its_server(tells_ids: bool) -> None:
    like = Planted(follows=True, steps=8, iteration_s=0.001, tells_ids=tells_ids)
    servers = {TARGET: like, SPECULATIVE: Planted(follows=True, steps=8, iteration_s=0.001, k2=4, tells_ids=tells_ids)}
    async with planted_gateway(
        BY_TOKENS, planted=servers, roles=(TARGET,), speculative=NGRAMS, trust_plan=False
    ) as served:
        found = await through(served, 12)
        moved = [one["prompt"] for name in servers for one in served.servers[name].bodies[1:] if one["stream"]]
        async with AsyncOpenAI(base_url=f"{served.servers[TARGET].url}/v1", api_key="none") as client:
            direct = {prompt: await told(client, prompt) for prompt in found}
    assert all("é" in "".join(text for text, *_ in one.values()) for one in (found, direct))
    assert not any(HALVES[0] in text or HALVES[1] in text for text, *_ in found.values())
    known = slice(4 if tells_ids else 3)  # tokens that have no ids are counted by the pieces of their text
    assert {prompt: one[known] for prompt, one in found.items()} == {p: one[known] for p, one in direct.items()}
    by_ids = [prompt for prompt in moved if isinstance(prompt, list)]
    by_text = [prompt for prompt in moved if isinstance(prompt, str) and prompt not in direct]
    if tells_ids:
        assert len(by_ids) >= 4
        assert not by_text
        assert any(ids[-1] != id_of("\n\n") for ids in by_ids)
        texts = [question + text for question, (text, *_) in direct.items()]
        for one in (text_of(ids).replace("".join(HALVES), "é") for ids in by_ids):
            assert any(text.startswith(one) for text in texts)
    else:
        assert not by_ids
        assert any(prompt.endswith("\n\n") for prompt in by_text)  # only where a step ends
