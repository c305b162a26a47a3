"""The HTTP backend and ``specplan calibrate openai`` against real vLLM servers."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from vllm_server import NGRAM

from calibrate import pair
from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.stream import Streamed
from calibrate.engines.http.wire import HttpConfig
from calibrate.engines.prometheus import SpecDecode
from calibrate.engines.protocol import Request, Sampling
from calibrate.record.profile import Profile
from calibrate.token_acceptance.requests import RequestAcceptance, merged
from theory.errors import CalibrationError

pytest.importorskip("vllm")
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

PROBLEMS = [problem.prompt for problem in pair.problems(2, seed=5)]
DRAWN = Sampling(temperature=0.6, top_p=0.95)


def specplan(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "specplan", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)


@asynccontextmanager
async def engines(*urls: str) -> AsyncIterator[list[OpenAIEngine]]:
    """Clients of servers."""
    started = [await OpenAIEngine.start(HttpConfig.of("target", url)) for url in urls]
    try:
        yield started
    finally:
        for engine in started:
            await engine.close()


async def test_the_backend_finds_out_what_vllm_can(vllm_servers: dict[str, str]) -> None:
    async with engines(vllm_servers["target"]) as (engine,):
        about = engine.describe()
        assert (about["engine"], about["model"], about["max_context"]) == ("vllm", "target", 1024)
        assert about["version"].startswith("0.32")
        assert about["tells_token_ids"]
        assert about["accepts"] == [
            "cache_salt",
            "ignore_eos",
            "include_stop_str_in_output",
            "return_token_ids",
            "stream_options",
        ]
        found = await engine.generate(Request(prompt=PROBLEMS[0], max_tokens=100, sampling=DRAWN, seed=7))
        again = await engine.generate(Request(prompt=PROBLEMS[0], max_tokens=100, sampling=DRAWN, seed=7))
        assert (found.text, found.finish) == (again.text, "stop")
        assert found.text.endswith("\n\n")
        assert len(found.token_ids) == found.n_generated
        assert engine.describe()["stop_strings"] == "included by the server"
        assert await engine.count_tokens(PROBLEMS[0]) == found.n_prompt_tokens
        answer = await engine.generate(Request(prompt=PROBLEMS[0], max_tokens=900, stop=()))
        assert answer.finish == "eos"
        assert pair.answer_is_correct(PROBLEMS[0], answer.text)
        same, other = pair.split_steps(answer.text)[1:3]
        yes = await engine.choose(pair.judge_prompt(same, same), (pair.JUDGE_YES, pair.JUDGE_NO))
        no = await engine.choose(pair.judge_prompt(same, other), (pair.JUDGE_YES, pair.JUDGE_NO))
        assert yes.best == pair.JUDGE_YES
        assert no.best == pair.JUDGE_NO
        assert min(yes.mass, no.mass) > 0.9
        with pytest.raises(CalibrationError, match="1024"):
            await engine.generate(Request(prompt=" and".join(PROBLEMS) * 20, max_tokens=5))


def test_one_command_calibrates_running_servers(vllm_servers: dict[str, str], tmp_path: Path) -> None:
    output = tmp_path / "servers.json"
    words = ["calibrate", "openai", "--target", vllm_servers["target"], "--draft", vllm_servers["draft"]]
    words += ["--prompts", "bundled", "-n", "2", "--concurrency", "2", "--contexts", "64"]
    words += ["--allow-noise", "-o", str(output)]
    runs = ("lr-async k1=2", "prompt-lookup k2=4", "lr-async k1=2 + prompt-lookup k2=4")
    done = specplan(*words, "--speculative", vllm_servers["fast"], json.dumps(NGRAM))
    assert done.returncode == 0, done.stderr
    chosen = [word for run in runs for word in ("--run", run)]
    validated = specplan("validate", "-p", str(output), *chosen, "-n", "2", "--json")
    assert validated.returncode == 0, validated.stderr
    told = json.loads(validated.stdout)
    assert [row["name"] for row in told["rows"]] == list(runs)
    assert told["pace"].keys() == {"target", "draft"}
    assert all(row["at_pace"] > 0.0 for row in told["rows"])
    profile = Profile.read(output)
    (lookup,) = profile.token
    assert (lookup.method, lookup.settings, len(lookup.answers)) == ("prompt-lookup", {"k2": 4, "max_ngram": 3}, 2)
    # A pass with nothing accepted shows no draft; of the others all k2 - 1 tokens were drafted.
    assert {drafted for a in lookup.answers for r in a.requests for drafted, _ in r.passes} == {0, 3}
    assert len(profile.engines["target"].in_use) == len(profile.engines["draft"].plain_in_use) == 2
    assert (profile.provenance.engine, profile.provenance.engine_version[:4]) == ("vllm", "0.32")
    assert len(profile.answers) == 2
    assert all(step.verdict.score is not None for answer in profile.answers for step in answer.steps)
    assert all("gate" in step.draft.scores for answer in profile.answers for step in answer.steps)
    # Where the machine had too much to do for a batch of two to be timed, the profile says so.
    for role in ("target", "draft"):
        measured = {sample.batch for sample in profile.engines[role].decode}
        assert measured == {1, 2} or (measured == {1} and f"{role}: warning: batch 2 was left out" in done.stderr)
    simulated = specplan("simulate", "-p", str(output), "--method", "lr-async", "--k1", "2")
    assert simulated.returncode == 0, simulated.stderr


async def _counters(engine: OpenAIEngine) -> SpecDecode:
    counted = SpecDecode.read(await engine.metrics() or ())
    assert counted is not None
    return counted


async def _streamed(engine: OpenAIEngine, request: Request) -> list[int]:
    """The tokens of each chunk of a stream.

    A server that is kept waiting merges what it has to send: the request, whose seed makes its text the same, runs up
    to four times, until there is a chunk for each pass.
    """
    chunks: list[int] = []
    for _ in range(4):
        before = await _counters(engine)
        chunks = max(chunks, [n for _, n in (await engine.stream(request, Streamed())).arrivals], key=len)
        run = (await _counters(engine)).since(before)
        if len(chunks) >= run.tokens - run.accepted:
            break
    return chunks


async def test_acceptance_over_http_is_the_same_three_ways(vllm_servers: dict[str, str]) -> None:
    """Counters of ``/metrics``, the records in the responses, and the tokens of each chunk, for the same requests."""
    drawn = Request(prompt=PROBLEMS[0], max_tokens=400, stop=(), sampling=DRAWN, ignore_eos=True)
    async with engines(vllm_servers["fast"]) as (engine,):
        before = await _counters(engine)
        chunks = [
            await _streamed(engine, replace(drawn, prompt=prompt, seed=seed)) for seed, prompt in enumerate(PROBLEMS)
        ]
        counted = (await _counters(engine)).since(before)
    records = merged(_record(vllm_servers["fast"], prompt, seed) for seed, prompt in enumerate(PROBLEMS))
    n_tokens = sum(map(sum, chunks))
    n_passes = sum(-(-n // 4) for stream in chunks for n in stream)
    told = [counted.tokens_per_pass, n_tokens / (n_tokens - records.n_accepted), n_tokens / n_passes]
    assert max(told) < 1.02 * min(told), told
    assert counted.accepted > 0


async def test_greedy_text_with_ngrams_is_that_of_plain_decoding(vllm_servers: dict[str, str]) -> None:
    greedy = Request(prompt=PROBLEMS[0], max_tokens=300, stop=())
    async with engines(vllm_servers["fast"], vllm_servers["target"]) as (fast, plain):
        before = await _counters(fast)
        assert (await fast.generate(greedy)).text == (await plain.generate(greedy)).text
        assert (await _counters(fast)).since(before).accepted > 0


def _record(url: str, prompt: str, seed: int) -> RequestAcceptance:
    """The record in the response to the same request as was streamed; the seed makes its passes the same."""
    body = {"model": "fast", "prompt": prompt, "max_tokens": 400, "ignore_eos": True, "seed": seed}
    body |= {"temperature": DRAWN.temperature, "top_p": DRAWN.top_p}
    asked = urllib.request.Request(
        f"{url}/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=120) as answer:
        return RequestAcceptance.parse(json.load(answer))
