"""Every field of vLLM's API, sent to its server directly and through the gateway: the answers are the same."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from calibrate.models.asking import bundled_problems
from sim.configuration import Configuration

pytest.importorskip("vllm")

import httpx
from served_plans import serve_plan, write_plan

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

(PROMPT,) = (problem.prompt for problem in bundled_problems(1, 5, "validation"))
CHAT = [{"role": "system", "content": "Explain with care."}, {"role": "user", "content": PROMPT}]
GREEDY: dict[str, Any] = {"model": "target", "temperature": 0.0, "top_p": 1.0, "max_tokens": 16}

SAMPLING: list[dict[str, Any]] = [
    {},
    {"temperature": 1.0, "top_p": 0.9, "seed": 11},
    {"max_tokens": 7},
    {"stop": "."},
    {"stop": ["\n\n", "."], "max_tokens": 60},
    {"stop": ["\n\n"], "include_stop_str_in_output": True, "max_tokens": 60},
    {"stop_token_ids": [3], "max_tokens": 60},
    {"n": 2},
    {"presence_penalty": 0.5},
    {"frequency_penalty": 0.5},
    {"repetition_penalty": 1.3},
    {"logit_bias": {"5": 100}},
    {"top_k": 3, "temperature": 1.0, "seed": 3},
    {"min_p": 0.2, "temperature": 1.0, "seed": 3},
    {"min_tokens": 20},
    {"ignore_eos": True},
    {"skip_special_tokens": False},
    {"spaces_between_special_tokens": False},
    {"truncate_prompt_tokens": 8},
    {"allowed_token_ids": [4, 5, 6]},
    {"bad_words": ["balls"]},
    {"priority": 0},
    {"return_token_ids": True},
    {"return_tokens_as_token_ids": True},
    {"user": "somebody"},
    {"length_penalty": 1.0},
    {"max_tokens": None},
    {"max_tokens": 1024},
    {"max_tokens": 20_000},
    {"max_tokens": 0},
    {"max_tokens": -1},
    {"n": 0},
    {"temperature": -1.0},
    {"temperature": "hot"},
    {"top_p": 0.0},
    {"top_p": 1.5},
    {"stop": 7},
    {"stop": ["a"] * 17},
    {"seed": "x"},
    {"model": "another"},
    {"no_such_field": 1},
]
COMPLETIONS: list[dict[str, Any]] = [
    *SAMPLING,
    {"prompt": [PROMPT, "Ida has 4 balls."]},
    {"prompt": [5, 6, 7]},
    {"prompt": [[5, 6, 7], [8, 9]]},
    {"prompt": ""},
    {"prompt": None},
    {"echo": True},
    {"logprobs": 2},
    {"prompt_logprobs": 1},
    {"suffix": "end"},
    {"add_special_tokens": False},
]
CHATS: list[dict[str, Any]] = [
    *SAMPLING,
    {"logprobs": True, "top_logprobs": 2},
    {"max_tokens": None, "max_completion_tokens": 9},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]},
    {"messages": []},
    {"messages": [{"role": "user"}]},
    {"messages": "hello"},
    {"add_generation_prompt": False},
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"tools": []},
    {"tool_choice": "none"},
    {"response_format": {"type": "text"}},
    {"response_format": {"type": "json_object"}},
]
OWN = ("id", "created", "system_fingerprint", "service_tier", "kv_transfer_params", "prompt_logprobs", "metrics")
"""Fields of an answer that may differ: names and times, and what says nothing without a request for it."""


@pytest.fixture(scope="module")
def urls(vllm_servers: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The API of a vLLM server, and that of a gateway before it that decodes plainly."""
    direct = vllm_servers["target"]
    plan = write_plan(tmp_path_factory.mktemp("conformance"), Configuration.parse("autoregressive"))
    with serve_plan(plan, None, {"target": direct}, "--trust-plan") as through:
        yield direct, through


def body_of(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """A body with the given fields; those that are None are left out. Answers that may fill the context get a fifth."""
    prompt = PROMPT * (15 if given.get("max_tokens", 16) in (None, 1024) else 1)
    chat = [*CHAT[:1], {"role": "user", "content": prompt}]
    base = {**GREEDY, **({"prompt": prompt} if kind == "completions" else {"messages": chat})}
    return {name: value for name, value in {**base, **given}.items() if value is not None}


def asked(url: str, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """What a client sees of an answer: the status; of an error its kind; else choices and usage."""
    answer = httpx.post(f"{url}/{kind}", json=body, timeout=300.0)
    data = answer.json()
    if answer.status_code != 200:
        assert data["error"]["message"]
        return {"status": answer.status_code}
    return {"status": 200, **comparable(data)}


def comparable(data: dict[str, Any]) -> dict[str, Any]:
    """An answer without what may differ, and without what is empty."""

    def filled(given: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in given.items() if value not in (None, [], {})}

    choices = [filled(choice) for choice in data["choices"]]
    for choice in choices:
        if "message" in choice:
            choice["message"] = filled(choice["message"])
    rest = {name: value for name, value in data.items() if name not in (*OWN, "choices", "usage") and value is not None}
    usage = {name: value for name, value in data["usage"].items() if isinstance(value, int)}
    return {**rest, "choices": choices, "usage": usage}


def named(given: object) -> str:
    return given if isinstance(given, str) else json.dumps(given)[:50]


@pytest.mark.parametrize(
    ("kind", "given"),
    [*(("completions", one) for one in COMPLETIONS), *(("chat/completions", one) for one in CHATS)],
    ids=named,
)
def test_answers_are_those_of_the_server(urls: tuple[str, str], kind: str, given: dict[str, Any]) -> None:
    direct, through = (asked(url, kind, body_of(kind, given)) for url in urls)
    assert through == direct


STREAMED: list[dict[str, Any]] = [
    {},
    {"stream_options": {"include_usage": True}},
    {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    {"stop": ["."]},
    {"max_tokens": 5},
    {"n": 2},
    {"logprobs": 1},
    {"max_tokens": 20_000},
]


@pytest.mark.parametrize("kind", ["completions", "chat/completions"])
@pytest.mark.parametrize("given", STREAMED, ids=named)
def test_streams_are_those_of_the_server(urls: tuple[str, str], kind: str, given: dict[str, Any]) -> None:
    if kind == "chat/completions" and "logprobs" in given:
        given = {"logprobs": True, "top_logprobs": 1}
    direct, through = (streamed(url, kind, {**body_of(kind, given), "stream": True}) for url in urls)
    assert through == direct


def streamed(url: str, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """What a client sees of a stream: the status, the whole texts, why they ended, the usage, and the end mark."""
    texts: dict[int, str] = {}
    ends: dict[int, Any] = {}
    usages, done = [], False
    with httpx.stream("POST", f"{url}/{kind}", json=body, timeout=300.0) as answer:
        if answer.status_code != 200:
            return {"status": answer.status_code}
        for line in answer.iter_lines():
            if not line.startswith("data: "):
                continue
            done = line == "data: [DONE]"
            event = {} if done else json.loads(line[6:])
            usages += [event["usage"]] if event.get("usage") else []
            for choice in event.get("choices", ()):
                said = choice.get("text") if kind == "completions" else choice["delta"].get("content")
                texts[choice["index"]] = texts.get(choice["index"], "") + (said or "")
                ends[choice["index"]] = choice["finish_reason"] or ends.get(choice["index"])
    last = {name: value for name, value in (usages[-1] if usages else {}).items() if isinstance(value, int)}
    return {"status": 200, "texts": texts, "ends": ends, "usage": last, "often": len(usages) > 1, "done": done}


def test_pages_beside_answers_are_those_of_the_server(urls: tuple[str, str]) -> None:
    (direct, through) = ([httpx.get(f"{url}/models{name}") for name in ("", "/target", "/another")] for url in urls)
    assert (through[0].status_code, through[2].status_code) == (direct[0].status_code, direct[2].status_code)
    assert through[1].json()["id"] == "target"  # OpenAI's API has it, vLLM 0.32 does not
    assert through[0].json()["data"][0]["id"] == direct[0].json()["data"][0]["id"]
    assert through[0].json()["data"][0]["max_model_len"] == direct[0].json()["data"][0]["max_model_len"]
    for path, body in (
        ("tokenize", {"model": "target", "prompt": PROMPT}),
        ("tokenize", {"model": "target", "messages": CHAT}),
        ("detokenize", {"model": "target", "tokens": [4, 5, 6]}),
    ):
        pages = [httpx.post(f"{url.removesuffix('/v1')}/{path}", json=body) for url in urls]
        assert pages[0].status_code == 200
        assert pages[1].json() == pages[0].json()
