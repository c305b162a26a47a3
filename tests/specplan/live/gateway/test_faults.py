"""What goes wrong behind and before the gateway: no answer is lost, and nothing runs on for a client that has left."""

import asyncio
import random
from typing import Any

import httpx
import pytest
from gateways import PlantedGateway, planted_gateway
from openai import APIStatusError, NotFoundError
from openai_server import Planted, text_of

from sim.configuration import Configuration
from sim.roles import DRAFT, JUDGE, TARGET
from specplan.live.gateway.control import Limits
from specplan.live.gateway.plans import PLAIN, SPECULATIVE

ASYNC = Configuration.parse("lr-async k1=3")
SLOW = Planted(iteration_s=0.002, prefill_s=0.002, acceptance=0.6)


def whole(answer: Any) -> bool:
    """The planted models end an answer with its fourth step, whoever writes it."""
    choice = answer.choices[0]
    return (choice.finish_reason, choice.text.count("\n\n")) == ("stop", SLOW.steps - 1)


def whole_stream(streamed: tuple[list[str], str]) -> bool:
    """The same of a stream's pieces: nothing is lost, and nothing is written twice."""
    texts, finish = streamed
    return (finish, "".join(texts).count("\n\n")) == ("stop", SLOW.steps - 1)


def metric(served: PlantedGateway, name: str, **labels: str) -> float:
    return served.serving.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(10))
async def test_no_answer_is_lost_when_a_helper_dies(moment: int) -> None:
    rng = random.Random(moment)
    role = (DRAFT, JUDGE)[moment % 2]
    async with planted_gateway(ASYNC, planted=SLOW) as served:
        asked = [asyncio.ensure_future(served.answer(f"question {i}")) for i in range(8)]
        streams = [asyncio.ensure_future(served.streamed(f"stream {i}")) for i in range(8)]
        await asyncio.sleep(rng.uniform(0.0, 0.4))
        await served.kill(role)
        answers = await asyncio.gather(*asked, *(served.answer(f"later {i}") for i in range(4)))
        parts = await asyncio.gather(*streams, served.streamed("later"))
    assert all(map(whole, answers))
    assert all(map(whole_stream, parts))
    assert all(len(texts) >= SLOW.steps for texts, _ in parts)  # a step, or a token of plain decoding


async def test_the_answer_goes_on_from_the_last_committed_step() -> None:
    one_by_one = Configuration.parse("lr-async k1=1")  # each draft is requested once the step before it is committed
    async with planted_gateway(one_by_one) as served:
        undisturbed = (await served.answer("one")).choices[0].text
        served.servers[DRAFT].fail("500", after=2, times=1000)
        answer = await served.answer("one")
        assert whole(answer)
        assert answer.choices[0].text.split("\n\n")[0] == undisturbed.split("\n\n")[0]
        assert metric(served, "specplan_fallbacks_total", role=DRAFT, reason="failed") >= 1
        assert served.serving.control.paused


async def test_a_helper_that_falls_behind_is_not_waited_for() -> None:
    async with planted_gateway(Configuration.parse("lr-sync k1=2"), limits=Limits(patience_s=0.3)) as served:
        served.servers[JUDGE].fail("stall", times=1000)
        assert whole(await asyncio.wait_for(served.answer("one"), 120))
        assert metric(served, "specplan_fallbacks_total", role=JUDGE, reason="late") == 1


async def test_a_target_that_breaks_off_once_is_asked_again_and_one_that_is_busy_or_gone_is_told() -> None:
    async with planted_gateway(PLAIN, planted=SLOW) as served:
        target = served.servers[TARGET]
        target.fail("die:3", after=1)
        assert whole(await served.answer("one"))
        target.fail("429", times=1000)
        with pytest.raises(APIStatusError) as busy:
            await served.answer("one")
        await served.kill(TARGET)
        with pytest.raises(APIStatusError) as gone:
            await served.answer("two")
    assert (busy.value.status_code, busy.value.code) == (429, "too_many_requests")
    assert busy.value.response.headers["retry-after"] == "0"
    assert (gone.value.status_code, gone.value.type) == (502, "server_error")
    assert "unreachable" in gone.value.message


@pytest.mark.parametrize("fault", ["die:9", "abort:9"])  # vLLM aborts what is in flight as it stops
async def test_an_answer_that_breaks_off_goes_on_after_its_last_token(fault: str) -> None:
    async with planted_gateway(PLAIN, planted=SLOW) as served:
        target = served.servers[TARGET]
        before = len(target.bodies)
        target.fail(fault)
        streamed = await served.streamed("one")
        first, second = target.bodies[before:]
        target.fail(fault)
        complete = await served.answer("one", max_tokens=9)
        assert len(target.bodies) == before + 3  # after its last token nothing is left to ask for
    assert whole_stream(streamed)
    begun, rest = text_of(second["prompt"])[: len("one")], text_of(second["prompt"]).removeprefix(first["prompt"])
    assert begun == first["prompt"]
    assert rest
    assert "".join(streamed[0]).startswith(rest)
    assert (complete.choices[0].finish_reason, complete.usage.completion_tokens) == ("length", 9)


@pytest.mark.parametrize(("configuration", "stream"), [(PLAIN, True), (ASYNC, False)])
async def test_an_answer_that_has_begun_waits_for_a_target_that_is_started_anew(
    configuration: Configuration, stream: bool
) -> None:
    async with planted_gateway(configuration, planted=Planted(iteration_s=0.01, step_tokens=(8, 12))) as served:
        asked = asyncio.ensure_future(served.streamed("one") if stream else served.answer("one"))
        while not metric(served, "specplan_in_flight"):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.15)  # some tokens, and of steps at least one
        await served.kill(TARGET)
        with pytest.raises(APIStatusError) as caught:  # what has not begun is told, and may be asked again
            await served.answer("two")
        assert caught.value.status_code == 502
        assert not asked.done()
        await served.revive(TARGET)
        assert (whole_stream if stream else whole)(await asyncio.wait_for(asked, 60))


@pytest.mark.parametrize("name", ["prompt-lookup k2=4", "lr-sync k1=2 + prompt-lookup k2=4"])
async def test_a_server_that_speculates_is_done_without_when_it_dies(name: str) -> None:
    ngrams = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    async with planted_gateway(Configuration.parse(name), planted=SLOW, speculative=ngrams) as served:
        before = len(served.servers[SPECULATIVE].bodies)
        assert whole(await served.answer("one"))
        assert len(served.servers[SPECULATIVE].bodies) > before
        served.servers[SPECULATIVE].fail("die:3", times=1000)
        assert whole(await served.answer("two"))
        await served.kill(SPECULATIVE)
        assert whole_stream(await served.streamed("three"))
        assert served.serving.control.paused
        assert metric(served, "specplan_fallbacks_total", role=SPECULATIVE, reason="failed") >= 1


async def test_a_plain_answer_returns_to_speculation_at_the_end_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    async with planted_gateway(ASYNC, planted=Planted(iteration_s=0.005)) as served:
        control = served.serving.control
        control.failed(DRAFT)
        create = served.client.completions.with_raw_response.create
        asked = asyncio.ensure_future(create(model="tiny", prompt="first", max_tokens=3000, seed=1))
        while not control.watching and not asked.done():
            await asyncio.sleep(0.01)
        monkeypatch.setattr(control, "_off_until", 0.0)  # the pause is over
        for look in tuple(control.watching):
            look()  # what is wanted now may have changed, but it waits for the step's end
        answer = await asked
    assert answer.headers["x-specplan-method"] == f"autoregressive; {ASYNC.name}"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_cancels_its_requests(stream: bool) -> None:
    planted = Planted(iteration_s=0.05, step_tokens=(80, 90))
    async with planted_gateway(ASYNC, planted=planted) as served:
        body = {"model": "tiny", "prompt": "one", "max_tokens": 400, "stream": stream}
        async with httpx.AsyncClient(base_url=served.url) as client:
            asked = asyncio.ensure_future(client.post("/v1/completions", json=body))
            while not served.servers[TARGET]._running:
                await asyncio.sleep(0.01)
            asked.cancel()
            await asyncio.wait((asked,))
        async with asyncio.timeout(60.0):
            while any(server._running for server in served.servers.values()):
                await asyncio.sleep(0.02)
        assert served.serving.control.in_flight == 0
        assert served.servers[TARGET].aborted


async def test_keys_are_handed_on_and_are_in_no_message(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.setenv("OWN_KEY", "sk-secret")
    planted = Planted(key="sk-secret")
    async with planted_gateway(ASYNC, planted=planted, key="sk-secret", env="OWN_KEY") as served:
        assert whole(await served.answer("one"))
        with pytest.raises(APIStatusError) as caught:
            await served.client.with_options(api_key="sk-wrong").completions.create(model="tiny", prompt="one")
        assert caught.value.status_code == 401
        assert not served.serving.control.paused  # one client's wrong key switches nothing off for the others
        async with httpx.AsyncClient() as client:
            page = (await client.get(f"{served.url}/metrics")).text
        sent = {headers.get("authorization") for headers in served.servers[DRAFT].headers}
    locked = {TARGET: SLOW, DRAFT: planted, JUDGE: SLOW}
    async with planted_gateway(ASYNC, planted=locked, env="OWN_KEY") as served:
        assert whole(await served.answer("one"))  # without a helper that takes no such key, which stays for others
        assert metric(served, "specplan_fallbacks_total", role=DRAFT, reason="refused") == 1
        assert not served.serving.control.paused
    assert sent <= {"Bearer sk-secret", "Bearer sk-wrong"}
    assert not any("sk-" in text for text in (caught.value.message, page, caplog.text))


async def test_requests_are_bounded() -> None:
    limits = Limits(in_flight=2, answer_tokens=100, body_bytes=2000)
    planted = Planted(iteration_s=0.02)
    async with planted_gateway(ASYNC, planted=planted, limits=limits) as served:
        running = [asyncio.ensure_future(served.answer(f"{i}", max_tokens=100)) for i in range(2)]
        while served.serving.control.in_flight < 2:
            await asyncio.sleep(0.01)
        found = {}
        for name, asked in {
            "many": served.answer("x", max_tokens=10),
            "long": served.answer("x", max_tokens=101),
            "large": served.answer("x" * 3000, max_tokens=10),
            "other": served.client.completions.create(model="other", prompt="x"),
            "unknown": served.client.models.retrieve("other"),
            "path": served.client.embeddings.create(model="tiny", input="x"),
        }.items():
            with pytest.raises(APIStatusError) as caught:
                await asked
            found[name] = caught.value.status_code
            assert caught.value.type
        await asyncio.gather(*running)
        assert (await served.client.models.retrieve("tiny")).id == "tiny"
    assert found == {"many": 429, "long": 400, "large": 413, "other": 404, "unknown": 404, "path": 404}


async def test_an_answer_ends_when_its_time_is_over_and_keeps_what_it_has() -> None:
    planted = Planted(iteration_s=0.01, steps=60)
    async with planted_gateway(ASYNC, planted=planted, limits=Limits(answer_seconds=0.6)) as served:
        answer = await served.answer("one", max_tokens=2000)
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].text.endswith("\n\n")


async def test_more_load_switches_running_answers_at_a_step() -> None:
    planted = Planted(iteration_s=0.01, steps=8)
    rows = ((1, Configuration.parse("lr-async k1=2")), (4, PLAIN))
    async with planted_gateway(*rows, planted=planted) as served:
        raw = served.client.completions.with_raw_response
        first = asyncio.ensure_future(raw.create(model="tiny", prompt="first", max_tokens=300))
        while not served.serving.answering.running[DRAFT]:  # it has begun to speculate
            await asyncio.sleep(0.01)
        await asyncio.gather(*(served.answer(f"{i}", max_tokens=300) for i in range(3)))
        answer = await first
    assert answer.headers["x-specplan-method"] == "lr-async k1=2; autoregressive"
    assert answer.parse().choices[0].text.count("\n\n") == 7


async def test_what_steps_cannot_serve_is_handed_on_and_counted() -> None:
    async with planted_gateway(ASYNC, planted=Planted(steps=2)) as served:
        create = served.client.completions.with_raw_response.create
        for more in ({"ignore_eos": True, "max_tokens": 50}, {"x-made-up": 1}):
            answer = await create(model="tiny", prompt="one", extra_body=more)
            assert answer.headers["x-specplan-method"] == "forwarded"
            assert answer.parse().choices[0].text
            sent = served.servers[TARGET].bodies[-1]
            # No limit is added; what the client leaves out of sampling is the gateway's, as for steps.
            assert sent == {"model": "tiny", "prompt": "one", "temperature": 0.6, "top_p": 0.95, **more}
        assert metric(served, "specplan_requests_forwarded_total", field="ignore_eos") == 1
        assert metric(served, "specplan_requests_forwarded_total", field="other") == 1  # no label of a client's making
        with pytest.raises(NotFoundError):  # a server that renders no chats gets them as they are; this one takes none
            await served.client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x"}])
        async with httpx.AsyncClient(base_url=served.url) as client:
            state = (await client.get("/health")).json()
            assert (state["status"], state["in_flight"], state["method"]) == ("ok", 0, ASYNC.name)
            counted = await client.post("/tokenize", json={"prompt": " one two"})
            assert counted.json() == {"count": 2, "tokens": [8, 9]}
            assert (await client.post("/detokenize", json={"tokens": [8]})).status_code == 404  # it has none
