"""Every method of the catalogue through the gateway, on planted servers.

The text of a step-level method is that of a run by `validate`; of plain decoding and token-level methods, the server's
own answer to one request.
"""

from collections import Counter

import pytest
from gateways import planted_gateway
from openai import AsyncOpenAI
from openai_server import Planted
from pair_servers import running
from planted_answers import draw
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from calibrate.models.servers import RemoteModels
from sim.catalogue import methods
from sim.configuration import Configuration
from specplan.live.gateway.plans import helpers_of

BY_STEPS = [
    one.name for one in methods().values() if one.drafts_steps and not one.name.startswith("specs") and not one.ablation
]


@pytest.mark.parametrize("name", BY_STEPS)
async def test_the_text_is_that_of_the_generator_run_directly(name: str) -> None:
    configuration = Configuration(method=name)
    async with planted_gateway(configuration, planted=Planted(steps=3, acceptance=0.6)) as served:
        answer = await served.answer("one", seed=5, extra_body={"metadata": {"stream": "q"}})
        at = served.endpoints
        models = RemoteModels(target=at.target, draft=at.draft, judge=at.judge, seed=5, gate=False)
        async with models.open() as (_, clock):
            session = await clock.run(configuration.algorithm()(await clock.root("one")), stream="q")
            await clock.close()
        counted = served.serving.metrics.registry.get_sample_value
        for role, n in Counter(step.role for step in session.committed).items():
            assert counted("specplan_committed_steps_total", {"role": role}) == n
    assert answer.choices[0].text == session.text
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == sum(step.n_tokens for step in session.committed)
    if "judge" in helpers_of(configuration):
        assert served.servers["judge"].bodies


async def test_steps_are_compared_by_embeddings_of_a_server() -> None:
    compared = list[list[str]]()

    async def embeddings(request: Request) -> Response:
        compared.append((await request.json())["input"])
        vectors = [[1.0, draw(text)] for text in compared[-1]]
        return JSONResponse({"data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]})

    async def models(request: Request) -> Response:
        return JSONResponse({"data": [{"id": "sentences"}]})

    routes = [Route("/v1/models", models), Route("/v1/embeddings", embeddings, methods=["POST"])]
    configuration = Configuration.parse("lr-async k1=2 verifier=embedding")
    async with (
        running(Starlette(routes=routes)) as url,
        planted_gateway(configuration, planted=Planted(steps=6), embedding=url, roles=("target", "draft")) as served,
    ):
        answer = await served.answer("one", seed=3)
        page = served.serving.metrics.page().decode()
    assert answer.choices[0].finish_reason == "stop"
    assert compared
    assert 'specplan_verification_seconds_count{role="embedding"}' in page


@pytest.mark.parametrize(("name", "tells_ids"), [("autoregressive", True), ("autoregressive", False), ("eagle", True)])
async def test_the_text_is_the_servers_answer_to_one_request(name: str, tells_ids: bool) -> None:
    planted = Planted(steps=3, tells_ids=tells_ids)
    async with planted_gateway(Configuration(method=name), planted=planted) as served:
        target = served.servers["target"]
        before = len(target.headers)
        answer = await served.answer("one", seed=5)
        assert len(target.headers) == before + 1  # its prompt's tokens are told with it
        assert answer.usage.prompt_tokens == 1
        async with AsyncOpenAI(base_url=f"{target.url}/v1", api_key="none") as client:
            stream = await client.completions.create(model="tiny", prompt="one", seed=5, max_tokens=200, stream=True)
            texts = [chunk.choices[0].text async for chunk in stream if chunk.choices]
        counted = served.serving.metrics.registry.get_sample_value
        tokens = answer.usage.completion_tokens
        assert counted("specplan_committed_steps_total", {"role": "target"}) == 3
        assert counted("specplan_committed_tokens_total", {"role": "target"}) == tokens == len(texts)
        assert counted("specplan_generated_tokens_total", {"role": "target"}) == tokens
        assert await served.streamed("one", seed=5) == (list(filter(None, texts)), "stop")
    assert answer.choices[0].text == "".join(texts)
    assert answer.choices[0].finish_reason == "stop"


async def test_a_stop_string_ends_the_servers_answer_and_its_count_of_tokens() -> None:
    async with planted_gateway(Configuration.parse("autoregressive"), planted=Planted(steps=9)) as served:
        whole = await served.answer("one", seed=5)
        stop = whole.choices[0].text.split()[9]
        cut = await served.answer("one", seed=5, stop=[f" {stop}"])
        assert served.servers["target"].bodies[-1]["stop"] == [f" {stop}"]
    text = whole.choices[0].text
    assert cut.choices[0].text == text[: text.index(f" {stop}")]
    assert cut.choices[0].model_dump()["stop_reason"] == f" {stop}"
    assert cut.usage.completion_tokens == 1 + text.split().index(stop) + text[: text.index(f" {stop}")].count("\n\n")


@pytest.mark.parametrize("name", ["autoregressive", "lr-sync"])
async def test_each_event_says_the_tokens_so_far_where_that_is_requested(name: str) -> None:
    async with planted_gateway(Configuration(method=name), planted=Planted(steps=3)) as served:
        options = {"include_usage": True, "continuous_usage_stats": True}
        create = served.client.completions.create
        stream = await create(model="tiny", prompt="one", seed=5, max_tokens=200, stream=True, stream_options=options)
        usages = [chunk.usage.completion_tokens async for chunk in stream if chunk.usage is not None]
    assert len(usages) > 3
    assert usages == sorted(usages)
    assert usages[-1] - usages[-2] in (0, 1)  # the end of the text is a token without a piece


async def test_a_chat_without_a_limit_may_take_what_the_context_leaves() -> None:
    planted = Planted(steps=3, chats=True, max_context=300)
    async with planted_gateway(Configuration.parse("autoregressive"), planted=planted) as served:
        said = [{"role": "user", "content": "one two three"}]
        answer = await served.client.chat.completions.create(model="tiny", messages=said)
        assert answer.choices[0].finish_reason == "stop"
        asked = served.servers["target"].bodies[-1]
        assert asked["max_tokens"] + answer.usage.prompt_tokens == 300
