"""What a client asks for: the bodies of OpenAI's API, checked, and which of them steps cannot serve."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, ValidationError

from calibrate.record.json_text import parse_json
from specplan.live.gateway.plans import Asking
from specplan.live.gateway.refusals import Refusal, bad_request, unknown_model
from theory.errors import SchemaError, shown

__all__ = ["FIELDS", "Asked", "Kind", "Message", "parse_body"]

Kind = Literal["chat", "completion"]

_LEGACY_TOKENS: Final = 16
"""Length of a completion that names none, as in OpenAI's API."""

_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (False, 0),
    "top_logprobs": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "ignore_eos": (False,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "response_format": ({"type": "text"},),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "add_special_tokens": (True,),
    "suffix": ("",),
}
"""Fields that change nothing at these values; at others steps cannot serve them."""

FIELDS: Final = frozenset({*_NEUTRAL, "messages", "prompt"})
"""Fields that steps cannot serve, as far as they have names."""

_IGNORED: Final = frozenset({"user", "store", "service_tier", "prompt_cache_key", "safety_identifier"})
"""Fields that change no text. (``echo`` and the like are not here: they do.)"""


class _StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: StrictBool = False


class Message(BaseModel):
    """One message of a chat; whatever it holds besides goes to the template as it came."""

    model_config = ConfigDict(extra="allow")

    role: Annotated[str, Field(min_length=1, max_length=100)]
    content: str | list[dict[str, Any]] | None = None

    @property
    def is_text(self) -> bool:
        """Whether it holds nothing but text."""
        parts = self.content if isinstance(self.content, list) else ()
        return all(part.get("type") == "text" for part in parts)


_Stop = Annotated[str, Field(min_length=1, max_length=1000)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="allow")

    model: str = ""
    stream: StrictBool = False
    stream_options: _StreamOptions | None = None
    max_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    temperature: Annotated[StrictFloat, Field(ge=0.0, le=100.0, allow_inf_nan=False)] | None = None
    top_p: Annotated[StrictFloat, Field(gt=0.0, le=1.0)] | None = None
    seed: Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: _Stop | Annotated[list[_Stop], Field(max_length=16)] | None = None
    metadata: dict[str, str] | None = None


class _Completion(_Body):
    prompt: str | Annotated[list[str | StrictInt | list[StrictInt]], Field(min_length=1)]


class _Chat(_Body):
    messages: Annotated[list[Message], Field(min_length=1)]
    chat_template_kwargs: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, checked."""

    kind: Kind
    body: Mapping[str, Any]
    """As it came."""
    prompt: str
    """The text to continue; empty for a chat, whose template makes it."""
    messages: tuple[Message, ...]
    template_kwargs: Mapping[str, Any]
    """For the chat template, such as ``enable_thinking``."""
    stream: bool
    include_usage: bool
    max_tokens: int
    """Most tokens of the answer."""
    temperature: float
    top_p: float
    seed: int
    name: str
    """Goes into the seeds of all requests, as the name of a question does in a validation."""
    stop: tuple[str, ...]
    whole: tuple[str, ...]
    """Fields that steps cannot serve: the request goes to the target's server as it is, and is decoded plainly."""


def _parsed(data: bytes) -> Any:
    """What a body says."""
    try:
        body = parse_json(data.decode("utf-8"), "the body")
        json.dumps(body, allow_nan=False)  # NaN is no JSON, but Python reads it
    except (SchemaError, ValueError) as error:
        rule = str(error) if isinstance(error, SchemaError) else "the body is not JSON"
        raise Refusal(f"{rule}: send an object as OpenAI's API has it") from None
    return body


def parse_body(data: bytes, kind: Kind, *, model: str, asking: Asking, max_tokens: int) -> Asked:
    """Check a body.

    Parameters
    ----------
    data : JSON text.
    model : that is offered.
    asking : what holds where the body does not say.
    max_tokens : an answer may have at most.

    Raises
    ------
    Refusal : no JSON, a field outside its domain, another model, or a longer answer.
    """
    body = _parsed(data)
    if not isinstance(body, dict):
        raise Refusal("the body is no JSON object: send one as OpenAI's API has it")
    form: type[_Chat | _Completion] = _Chat if kind == "chat" else _Completion
    try:
        found = form.model_validate(body)
    except ValidationError as error:
        raise _invalid(error) from None
    if found.model not in ("", model):
        raise unknown_model(found.model, model)
    asked_tokens = found.max_completion_tokens or found.max_tokens
    if asked_tokens is not None and asked_tokens > max_tokens:
        raise bad_request(
            "max_tokens", asked_tokens, f"must be at most {max_tokens} here (--max-answer-tokens of the gateway)"
        )
    stop = (found.stop,) if isinstance(found.stop, str) else tuple(found.stop or ())
    chat, prompt = isinstance(found, _Chat), _prompt(found)
    return Asked(
        kind=kind,
        body=body,
        prompt=prompt or "",
        messages=tuple(found.messages) if isinstance(found, _Chat) else (),
        template_kwargs=dict(found.chat_template_kwargs or {}) if isinstance(found, _Chat) else {},
        stream=found.stream,
        include_usage=found.stream_options is not None and found.stream_options.include_usage,
        max_tokens=asked_tokens or (max_tokens if chat else min(_LEGACY_TOKENS, max_tokens)),
        temperature=asking.temperature if found.temperature is None else found.temperature,
        top_p=asking.top_p if found.top_p is None else found.top_p,
        seed=secrets.randbits(62) if found.seed is None else found.seed,
        name=(found.metadata or {}).get("stream", ""),
        stop=stop,
        whole=_not_by_steps(found, prompt),
    )


def _invalid(error: ValidationError) -> Refusal:
    first = error.errors(include_url=False)[0]
    place = shown(".".join(str(part) for part in first["loc"]), 80)
    got = "" if first["type"] == "missing" else f", got {shown(repr(first['input']), 60)}"
    return Refusal(f"{place}: {first['msg'].lower()}{got}", param=place)


def _prompt(found: _Chat | _Completion) -> str | None:
    """The text to continue; None where the request has none, or several."""
    if isinstance(found, _Chat):
        return None
    one = found.prompt
    if isinstance(one, list) and len(one) == 1 and isinstance(one[0], str):
        one = one[0]
    if one == "":
        raise bad_request("prompt", one, "must not be empty")
    return one if isinstance(one, str) else None


def _not_by_steps(found: _Chat | _Completion, prompt: str | None) -> tuple[str, ...]:
    """Fields that steps cannot serve."""
    names = [
        name
        for name, value in (found.model_extra or {}).items()
        if value is not None and name not in _IGNORED and value not in _NEUTRAL.get(name, ())
    ]
    if isinstance(found, _Chat):
        return tuple(names + ["messages"] * (not all(message.is_text for message in found.messages)))
    return tuple(names + ["prompt"] * (prompt is None))
