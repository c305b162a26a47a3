"""Bodies of requests: what is taken, what is refused in OpenAI's form, and what only the target's server can do."""

import json
from typing import Any

import pytest

from specplan.live.gateway.plans import RequestDefaults
from specplan.live.gateway.requests import AnswerRequest, Kind, Refusal, parse_body

DEFAULTS = RequestDefaults(temperature=0.7, top_p=0.9)
TEXT = {"prompt": "one"}
USER = {"role": "user", "content": "one"}
PICTURE = {"type": "image_url", "image_url": {"url": "data:,"}}


def parsed(body: Any) -> AnswerRequest:
    kind: Kind = "chat" if isinstance(body, dict) and "messages" in body else "completion"
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_body(data, kind, model="m", defaults=DEFAULTS, max_tokens=500)


def test_what_a_request_does_not_say_is_the_plans() -> None:
    asked = parsed({"model": "m", **TEXT})
    assert (asked.temperature, asked.top_p, asked.max_tokens, asked.whole) == (0.7, 0.9, 16, ())
    assert parsed({"messages": [USER]}).max_tokens == 500
    assert parsed(TEXT).seed != parsed(TEXT).seed
    said = parsed({**TEXT, "temperature": 0, "top_p": 1, "seed": -3, "stop": "END", "metadata": {"stream": "q1"}})
    assert (said.temperature, said.top_p, said.seed, said.stop, said.name) == (0.0, 1.0, -3, ("END",), "q1")


def test_fields_that_change_nothing_are_served_by_steps() -> None:
    neutral = {"n": 1, "presence_penalty": 0, "frequency_penalty": 0.0, "logprobs": None, "user": "x", "best_of": 1}
    neutral |= {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "echo": False, "ignore_eos": False}
    assert parsed({**TEXT, **neutral}).whole == ()
    assert parsed({"messages": [{"role": "user", "content": [{"type": "text", "text": "one"}]}]}).whole == ()


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
        ({"messages": [{"role": "user", "content": [PICTURE]}]}, "messages"),
    ],
)
def test_fields_that_steps_cannot_serve_are_named(more: dict[str, Any], name: str) -> None:
    assert parsed({**({} if name == "messages" else TEXT), **more}).whole == (name,)


WRONG: dict[str, tuple[Any, ...]] = {
    "max_tokens": (-1, 0, 1.5, "many", True, [1], 501, 10**9),
    "temperature": (-1, "hot", True, [0.5]),
    "top_p": (0, -0.5, 1.5, "all"),
    "seed": (1.5, "x", 2**63, 2**80),
    "stop": ("", [""], ["x"] * 17, 5, [5], "s" * 5000),
    "stream": ("yes", 5, [True]),
    "stream_options": (5, [1]),
    "prompt": ("", [], None, 5, {"a": 1}, [{"a": 1}]),
    "model": ("other", "x" * 5000, 5, "\x1b[31m", ["tiny"]),
    "metadata": (5, "x", {"stream": 5}, {"stream": ["a"]}),
    "messages": (
        [],
        None,
        "hello",
        [1],
        [{"content": "a"}],
        [{"role": "r" * 5000, "content": "a"}],
        [{"role": 5, "content": "a"}],
        [{"role": "user", "content": 5}],
    ),
}
NO_BODIES = {
    "nothing": b"",
    "text": b"prompt=one",
    "cut": b'{"prompt": "o',
    "list": b"[1, 2]",
    "null": b"null",
    "deep": b"[" * 100_000,
    "deep field": b'{"prompt": "a", "metadata": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
    "not UTF-8": b'{"prompt": "\xff"}',
    "half a character": b'{"prompt": "\\ud800"}',
    "digits": b'{"prompt": "a", "max_tokens": ' + b"9" * 5000 + b"}",
    "infinite temperature": b'{"prompt": "a", "temperature": 1e999}',
    "temperature that is none": b'{"prompt": "a", "temperature": NaN}',
}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        *(pytest.param({**TEXT, name: one}, name, id=f"{name} {one!r:.20}") for name in WRONG for one in WRONG[name]),
        *(pytest.param(body, None, id=name) for name, body in NO_BODIES.items()),
        ({}, "prompt"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(body: Any, param: str | None) -> None:
    with pytest.raises(Refusal) as caught:
        parsed(body)
    error = caught.value.plain()["error"]
    assert caught.value.status == (404 if error["code"] == "model_not_found" else 400)
    assert error["message"].isprintable()
    assert len(error["message"]) < 1000
    if param is not None:
        assert error["param"].split(".")[0] == param
