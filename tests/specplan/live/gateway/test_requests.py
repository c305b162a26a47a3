"""Bodies of requests: what is taken, what is refused in OpenAI's form, and what only the target's server can do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specplan.live.gateway.plans import RequestDefaults
from specplan.live.gateway.requests import AnswerRequest, Kind, Refusal, parse_body

DEFAULTS = RequestDefaults(temperature=0.7, top_p=0.9)
TEXT = {"prompt": "one"}
CHAT = {"messages": [{"role": "user", "content": "one"}]}


def parsed(body: Any) -> AnswerRequest:
    kind: Kind = "chat" if isinstance(body, dict) and "messages" in body else "completion"
    return parse_body(json.dumps(body).encode(), kind, model="m", defaults=DEFAULTS, max_tokens=500)


def test_what_a_request_does_not_say_is_the_plans() -> None:
    asked = parsed({"model": "m", **TEXT})
    assert (asked.temperature, asked.top_p, asked.max_tokens, asked.whole) == (0.7, 0.9, 16, ())
    assert parsed(CHAT).max_tokens == 500
    assert parsed(TEXT).seed != parsed(TEXT).seed
    said = parsed({**TEXT, "temperature": 0, "top_p": 1, "seed": -3, "stop": "END", "metadata": {"stream": "q1"}})
    assert (said.temperature, said.top_p, said.seed, said.stop, said.name) == (0.0, 1.0, -3, ("END",), "q1")


@pytest.mark.parametrize(
    "neutral",
    [
        {"n": 1, "presence_penalty": 0, "frequency_penalty": 0.0, "logprobs": None, "user": "x", "best_of": 1},
        {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "echo": False, "ignore_eos": False},
    ],
)
def test_fields_that_change_nothing_are_served_by_steps(neutral: dict[str, Any]) -> None:
    assert parsed({**TEXT, **neutral}).whole == ()


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": 3}, "logprobs"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"ignore_eos": True}, "ignore_eos"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"prompt": [1, 2, 3]}, "prompt"),
        ({"prompt": ["one", "two"]}, "prompt"),
    ],
)
def test_fields_that_steps_cannot_serve_are_named(more: dict[str, Any], name: str) -> None:
    assert parsed({**TEXT, **more}).whole == (name,)


def test_pictures_are_for_the_targets_server() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:,"}}
    assert parsed({"messages": [{"role": "user", "content": [part]}]}).whole == ("messages",)
    text = [{"type": "text", "text": "one"}]
    assert parsed({"messages": [{"role": "user", "content": text}]}).whole == ()


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ([], 400, None),
        ({}, 400, "prompt"),
        ({"prompt": ""}, 400, "prompt"),
        ({"messages": []}, 400, "messages"),
        ({"messages": "x"}, 400, "messages"),
        ({**TEXT, "temperature": -1}, 400, "temperature"),
        ({**TEXT, "temperature": "hot"}, 400, "temperature"),
        ({**TEXT, "top_p": 0}, 400, "top_p"),
        ({**TEXT, "max_tokens": 0}, 400, "max_tokens"),
        ({**TEXT, "max_tokens": 501}, 400, "max_tokens"),
        ({**TEXT, "seed": 2**63}, 400, "seed"),
        ({**TEXT, "stop": ["a"] * 17}, 400, "stop"),
        ({**TEXT, "stream": "maybe"}, 400, "stream"),
        ({**TEXT, "model": "other"}, 404, "model"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(body: Any, status: int, param: str | None) -> None:
    with pytest.raises(Refusal) as caught:
        parsed(body)
    error = caught.value.plain()["error"]
    assert caught.value.status == status
    assert "\n" not in error["message"]
    assert (error["param"] or "").split(".")[0] == (param or "")
