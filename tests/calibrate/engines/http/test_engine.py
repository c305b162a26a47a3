"""The HTTP backend against a server with planted behaviour: what it reads, what it measures, and how it fails."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from openai_server import OpenAIServer, Planted, served, serving

from calibrate.engines.http.addresses import split_endpoint
from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.stream import Streamed
from calibrate.engines.http.wire import EngineTimeoutError, HttpConfig, Wire
from calibrate.engines.protocol import Generation, Progress, Request
from calibrate.engines.speculation import Speculation
from calibrate.measuring.from_outside import timing_notes
from calibrate.models.servers import RemoteModels
from theory.errors import CalibrationError, ParameterError

KEY = "sk-planted-4711"
QUESTION = "two and two make\n\n"[:-2]
YES_NO = (" Yes", " No")

SERVERS = {
    "includes": (Planted(), "included by the server"),
    "reports": (Planted(includes_stop=False), "appended here"),
    "silent": (Planted(includes_stop=False, tells_stop=False, tells_ids=False, tokenizes=False), "watched here"),
    "strict": (Planted(refuses_unknown=True, tells_stop=False, tells_ids=False, tokenizes=False), "watched here"),
}


@asynccontextmanager
async def engine_on(server: OpenAIServer, **options: object) -> AsyncIterator[OpenAIEngine]:
    """An engine on the server; two minutes are a hang."""
    async with asyncio.timeout(120):
        config = HttpConfig(name="target", url=server.url, **{"backoff_s": 0.001, **options})  # type: ignore[arg-type]
        engine = await OpenAIEngine.start(config)
        try:
            yield engine
        finally:
            await engine.close()


@asynccontextmanager
async def asking(planted: Planted | None = None, **options: object) -> AsyncIterator[tuple[OpenAIEngine, OpenAIServer]]:
    """An engine on a server of this kind, and the server."""
    async with served(planted or Planted()) as (server,), engine_on(server, **options) as engine:
        yield engine, server


def with_ngrams(plain: OpenAIServer, fast: OpenAIServer) -> RemoteModels:
    """A server as target and draft, and another one that speculates for it."""
    config = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
    speculative = json.dumps([{"server": fast.url, **config}])
    return RemoteModels(target=plain.url, draft=plain.url, gate=False, speculative=speculative)


# Texts


@pytest.mark.parametrize("kind", SERVERS)
async def test_steps_end_alike_on_every_kind_of_server(kind: str) -> None:
    planted, mode = SERVERS[kind]
    text, steps = QUESTION, list[Generation]()
    async with asking(planted) as (engine, server):
        while not steps or steps[-1].finish == "stop":
            steps.append(await engine.generate(Request(prompt=text, max_tokens=50, seed=len(steps))))
            text += steps[-1].text
        assert mode in engine.describe()["stop_strings"]
        assert ("cache_salt" in server.bodies[-1]) is not planted.refuses_unknown
        assert engine.encode(QUESTION) is None
        assert await engine.count_tokens(QUESTION) == 4
        assert len(engine.encode(QUESTION) or ()) == (4 if planted.tells_ids else 0)
    assert [step.finish for step in steps] == ["stop"] * 3 + ["eos"]
    assert all(step.text.endswith("\n\n") and step.text.count("\n\n") == 1 for step in steps[:-1])
    assert [step.n_generated for step in steps] == [len(step.text.split()) + 1 for step in steps]  # the end is one too
    if planted.tells_ids:  # they lack the end token
        assert [len(step.token_ids) for step in steps] == [step.n_generated - (step.finish == "eos") for step in steps]


def chunk(text: str, *ids: int, **more: object) -> dict[str, object]:
    return {"choices": [{"text": text, "token_ids": ids, **more}]}


def test_a_text_is_told_by_its_tokens_only_where_no_part_of_a_character_may_be_missing() -> None:
    streamed = Streamed(on_text=lambda text, n: None)

    def after(*given: object) -> tuple[int, ...] | None:
        streamed.take(chunk(*given), 0.0)
        return streamed.tokens

    assert after("") == ()  # no prompt yet
    streamed.take(chunk("so", 1, prompt_token_ids=[7, 8]), 0.0)
    assert streamed.tokens == (7, 8, 1)
    assert after(" the", 2, 3) is None  # the last of two may wait for more
    assert after("re", 4) == (7, 8, 1, 2, 3, 4)
    assert after("", 5) is None  # half a character
    assert after("é", 6) == (7, 8, 1, 2, 3, 4, 5, 6)
    assert after("so", 1) is not None
    assert after("so", 3) == (7, 8, 1, 2, 3, 4, 5, 6, 1, 3)
    assert after("soso", 1, 3) is not None  # each was a text by itself before
    assert after("é so", 5, 6) is None  # which the second half was not
    assert after("é so", 6, 3) is not None  # whatever came before, a whole character ends it
    streamed.take(chunk("so", 1, finish_reason="abort"), 0.0)
    assert (streamed.tokens or ())[-3:] == (6, 3, 1)
    streamed.take(chunk("", 0, finish_reason="stop"), 0.0)
    assert streamed.tokens is None


def test_the_tokens_of_a_character_are_handed_on_with_its_text() -> None:
    """A server that is left between them by the text writes both, so the first must not have been counted."""
    told = list[tuple[str, int]]()
    streamed = Streamed(on_text=lambda text, n: told.append((text, n)))
    for given in (chunk("so", 1), chunk("", 5), chunk("", 6), chunk("é", 7), chunk("so", 1)):
        streamed.take(given, 0.0)
    assert told == [("so", 1), ("é", 3), ("so", 1)]
    assert streamed.n_tokens == 5


async def test_answers_that_this_process_reads_late_are_told() -> None:
    with serving(Planted(iteration_s=0.01)) as server:
        async with RemoteModels(target=server.url, draft=server.url).open() as (roles, _):
            target = roles["target"]
            asked = Request(prompt=QUESTION, max_tokens=20, stop=(), ignore_eos=True)
            step = asyncio.ensure_future(target.generate(asked))
            await asyncio.sleep(0.05)
            time.sleep(0.2)  # this is the fault
            await step
            assert (target.n_answered, target.n_late) == (1, 1)
            notes = timing_notes(target)
    assert notes == ["warning: 1 of 1 requests of answers were read late, because this machine was overloaded"]


def test_a_stop_string_in_pieces_across_chunks_is_found() -> None:
    streamed = Streamed(stops=("\n\n",))
    assert not streamed.take(chunk("so\n"), 0.0)
    assert streamed.take(chunk("\nmore"), 1.0)
    assert (streamed.text, streamed.closed, streamed.n_tokens) == ("so\n\n", True, 2)


async def test_parameters_reach_the_server() -> None:
    async with asking() as (engine, server):
        request = Request(prompt=QUESTION, max_tokens=9, stop=(";",), seed=2**40 + 3, ignore_eos=True)
        assert (await engine.generate(request)).finish == "length"
        sent = server.bodies[-1]
        assert (sent["model"], sent["max_tokens"], sent["stop"], sent["ignore_eos"]) == ("tiny", 9, [";"], True)
        assert sent["seed"] == (2**40 + 3) % 2**31
        assert "authorization" not in server.headers[-1]


@pytest.mark.parametrize(
    ("planted", "timed", "n_streamed"),
    [(Planted(), True, 2), (Planted(), False, 0), (Planted(tells_ids=False), False, 16)],
    ids=["timed", "not timed", "no ids"],
)
async def test_steps_that_nobody_reads_come_whole_from_servers_that_tell_ids(
    planted: Planted, timed: bool, n_streamed: int
) -> None:
    request = Request(prompt=QUESTION, max_tokens=40, stop=("\n\n",), seed=7)
    async with asking(planted) as (engine, server):
        streamed = await engine.generate(request)
        engine.keep_nothing(timed=timed)
        n = len(server.bodies)
        again = [await engine.generate(request) for _ in range(16)]
        read = list[str]()
        await engine.generate(request, Progress(lambda text, _: read.append(text)))
    streams = ["stream" in body for body in server.bodies[n:]]
    assert (sum(streams[:-1]), streams[-1]) == (n_streamed, True)
    assert {(one.text, one.n_generated, one.finish) for one in again} == {("".join(read), streamed.n_generated, "stop")}


async def test_requests_that_speculate_go_to_the_server_that_does() -> None:
    request = Request(prompt=QUESTION, max_tokens=3, speculation=Speculation(method="ngram", k2=4))
    async with asking() as (engine, _):
        with pytest.raises(ParameterError, match="speculation='ngram' must be the"):
            await engine.generate(request)
    async with served(Planted(), Planted(steps=2)) as (plain, fast), with_ngrams(plain, fast).open() as (roles, clock):
        await clock.fresh()
        await roles["target"].stats(clear=True)
        n_plain = len(plain.bodies)
        found = await clock.backend("target").generate(request)
        assert len(plain.bodies) == n_plain
        done = await roles["target"].stats(clear=True)
    assert found.n_generated == 3
    assert found.passes == ((0, 0), (0, 0))
    assert len(done.prefills) == 1
    assert len(done.passes) == 2
    assert done.iterations == ()


async def test_a_server_that_speculates_must_tell_its_tokens() -> None:
    async with served(Planted(), Planted(tells_ids=False)) as (plain, fast):
        with pytest.raises(CalibrationError, match=r"target with prompt-lookup k2=4 .* have no token ids"):
            async with with_ngrams(plain, fast).open():
                pass


async def test_what_was_read_is_forgotten_by_a_new_salt() -> None:
    shares = []
    async with asking() as (engine, server):
        await engine.stats(clear=True)
        for prompt in (QUESTION, QUESTION + " And why?", QUESTION):
            if len(shares) == 2:
                await engine.forget()
            await engine.generate(Request(prompt=prompt, max_tokens=3))
            shares.append(engine.streams[-1].read_before)
        salts = [body["cache_salt"] for body in server.bodies[-3:]]
    assert shares == [0.0, pytest.approx(len(QUESTION) / len(QUESTION + " And why?"), abs=0.1), 0.0]
    assert salts[0] == salts[1] != salts[2]


async def test_a_cancelled_request_is_closed_on_the_server() -> None:
    begun = asyncio.Event()
    progress = Progress(lambda text, n: begun.set())
    async with asking(Planted(iteration_s=0.005)) as (engine, server):
        request = Request(prompt=QUESTION, max_tokens=2000, stop=(), ignore_eos=True)
        task = asyncio.create_task(engine.generate(request, progress))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while server._running:  # `engine_on` limits how long
            await asyncio.sleep(0.005)
    assert 0 < progress.n_generated < 2000
    assert server.aborted == 1


# Choices


async def test_a_choice_is_normalised_and_its_mass_told() -> None:
    async with asking(Planted(acceptance=1.0, logprobs=5)) as (engine, server):
        reply = await engine.choose("Is it? Answer:", YES_NO)
    assert reply.probabilities == pytest.approx((0.9, 0.1))
    assert (reply.best, reply.mass, reply.n_prompt_tokens) == (" Yes", pytest.approx(0.95), 3)
    assert [body["logprobs"] for body in server.bodies if "logprobs" in body] == [20, 5]  # fewer where 20 are refused


async def test_a_reply_that_is_not_listed_is_forced_if_it_matters() -> None:
    # the question of no judge: the replies are words with 1/12 of 0.05 each, and " Yes" is not among them
    async with asking() as (engine, _):
        reply = await engine.choose("Which word?", (" alpha", " Yes"))
    ratio = np.exp(-9.0) / (0.05 / 12)
    assert reply.probabilities == pytest.approx((1 / (1 + ratio), ratio / (1 + ratio)))


@pytest.mark.parametrize(
    ("planted", "choices", "error", "message"),
    [
        (Planted(logprobs=0), YES_NO, CalibrationError, "gives no log-probabilities"),
        (Planted(refuses_unknown=True), (" Maybe", " Or"), CalibrationError, "none of the replies ' Maybe', ' Or'"),
        (Planted(), (" A", " not one"), ParameterError, "one token"),
        (Planted(), (" A", " A"), ParameterError, "different"),
        (Planted(), (), ParameterError, "one or more"),
    ],
)
async def test_choices_that_cannot_be_made(
    planted: Planted, choices: tuple[str, ...], error: type[Exception], message: str
) -> None:
    async with asking(planted) as (engine, _):
        with pytest.raises(error, match=message):
            await engine.choose("Is it? Answer:", choices)


# Faults

FAULTS = {
    "401": "refused a request without a key",
    "404": "no longer offers the model 'tiny'",
    "503": "answered 503: planted",
    "reset": "broke the connection before it answered",
    "die:3": "broke the connection in the middle of an answer",
    "truncate:3": "sent broken JSON",
    "error:3": "failed in the middle of an answer: planted",
    "quiet:3": "in the middle, after 3 tokens and without a reason",
    "stall": r"silent for 0\.2 s before it answered",
    "": r"too long for the model's context \(400\)",
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_has_its_error(fault: str) -> None:
    planted, patience_s = Planted(step_tokens=(8, 12), max_context=90), 0.2 if fault == "stall" else 60.0
    async with asking(planted, retries=1, timeout_s=patience_s) as (engine, server):
        if fault:
            server.fail(fault, times=9)
        n = len(server.bodies)
        with pytest.raises(EngineTimeoutError if fault == "stall" else CalibrationError, match=FAULTS[fault]) as caught:
            await engine.generate(Request(prompt=QUESTION, max_tokens=50 if fault else 99))
        again = len(server.bodies) - n
    assert "\n" not in str(caught.value)
    assert server.url in str(caught.value)
    assert again == (2 if fault in ("503", "reset") else 1)  # an answer that had begun is not asked for again


@pytest.mark.parametrize("fault", ["reset", "429", "500"])
async def test_passing_faults_are_outlived(fault: str) -> None:
    async with asking(retries=2) as (engine, server):
        good = await engine.generate(Request(prompt=QUESTION, max_tokens=50))
        server.fail(fault, times=2)
        again = await engine.generate(Request(prompt=QUESTION, max_tokens=50))
    assert (again.text, again.finish, engine.wire.n_retries) == (good.text, "stop", 2)


async def test_an_unknown_model_is_told_from_those_there_are() -> None:
    with pytest.raises(CalibrationError, match=r"no model 'huge' \(404\); it offers: tiny"):
        async with asking(model="huge"):
            pass


async def test_nobody_there() -> None:
    config = HttpConfig(name="draft", url="http://127.0.0.1:1", retries=1, backoff_s=0.001)
    with pytest.raises(CalibrationError, match=r"draft at http://127\.0\.0\.1:\d+/v1: unreachable"):
        await OpenAIEngine.start(config)


# Keys and addresses


async def test_the_key_is_sent_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    async with served(Planted(key=KEY)) as (server,):
        async with engine_on(server, api_key_env="MY_KEY") as engine:
            await engine.generate(Request(prompt=QUESTION, max_tokens=5))
        assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
        monkeypatch.setenv("MY_KEY", KEY + "-old")
        with pytest.raises(CalibrationError, match=r"refused the key in the variable MY_KEY \(401") as caught:
            await OpenAIEngine.start(HttpConfig(name="target", url=server.url, api_key_env="MY_KEY"))
        with pytest.raises(CalibrationError, match="refused a request without a key"):
            await OpenAIEngine.start(HttpConfig(name="target", url=server.url))
    assert KEY not in caplog.text + str(caught.value) + repr(caught.value.__cause__)


def test_what_a_server_says_is_shown_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    wire = Wire(HttpConfig(name="judge", url="http://127.0.0.1:1", api_key_env="MY_KEY"))
    assert KEY not in repr(wire.config)
    assert str(wire.error(f"you sent {KEY}\nto me")).endswith("you sent *** to me")


@pytest.mark.parametrize(
    "options",
    [
        *({"url": url} for url in ("ftp://a", "localhost:8000", "http://", "http://a:0x")),
        *({"url": f"http://{url}"} for url in (f"u:{KEY}@a", f"a/v1?key={KEY}")),
        {"url": "http://a", "api_key_env": KEY},  # in place of its variable's name
    ],
)
def test_wrong_addresses_are_refused_and_secrets_in_them_not_shown(options: dict[str, str]) -> None:
    with pytest.raises(ParameterError) as caught:
        HttpConfig(name="target", **options)  # type: ignore[arg-type]
    assert KEY not in str(caught.value)


def test_addresses_end_in_v1_and_name_a_model() -> None:
    assert split_endpoint("https://h/v1/#a/b") == ("https://h/v1", "a/b")
    assert split_endpoint("http://h/api") == ("http://h/api/v1", "")
