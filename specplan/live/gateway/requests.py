"""Requests in OpenAI's API: checks of their bodies, and which fields the step-level methods cannot serve."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, ValidationError

from calibrate.record.json_text import parse_json
from specplan.live.gateway.plans import RequestDefaults
from theory.errors import SchemaError, SpecplanError, shown

__all__ = ["AnswerRequest", "Kind", "Message", "Refusal", "parse_body", "unknown_model", "upstream_failed"]

Kind = Literal["chat", "completion"]

_LEGACY_TOKENS: Final = 16
"""Default of ``max_tokens`` of a completion, as in OpenAI's API."""

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
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "response_format": ({"type": "text"},),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "add_special_tokens": (True,),
    "suffix": ("",),
}
"""Fields with the values at which they change nothing; step-level methods cannot serve other values."""

_IGNORED: Final = frozenset({"user", "store", "service_tier", "prompt_cache_key", "safety_identifier"})
"""Fields that do not change the answer's text."""


class Refusal(SpecplanError):  # noqa: N818  (an answer to a client, whoever is at fault)
    """A request that is not answered: its HTTP status, and the error as JSON.

    Parameters
    ----------
    message : a line of text.
    status : HTTP status, 400 to 599.
    kind : OpenAI's error type.
    param : field of the body that caused it.
    code : OpenAI's error code.
    wait_s : seconds until the client should try again; None: not stated.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        wait_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.wait_s = wait_s
        self._parts = {"type": kind, "param": param, "code": code}

    def plain(self) -> dict[str, Any]:
        """Return the error in the form of OpenAI's API."""
        return {"error": {"message": shown(str(self), 600), **self._parts}}


def bad_request(param: str, value: object, rule: str) -> Refusal:
    """Refuse a field of the body that is outside its domain."""
    return Refusal(f"{param}={shown(repr(value), 80)} {rule}", param=param)


def unknown_model(requested: str, offered: str) -> Refusal:
    """Refuse a request for another model."""
    rule = f"model={shown(repr(requested), 80)} is not served here: request {offered!r}"
    return Refusal(rule, status=404, kind="not_found_error", param="model", code="model_not_found")


def upstream_failed(message: str) -> Refusal:
    """Refuse a request because the target failed."""
    return Refusal(message, status=502, kind="server_error", code="upstream_error")


class _StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: StrictBool = False
    continuous_usage_stats: StrictBool = False


class Message(BaseModel):
    """A message of a chat; its other fields go to the chat template unchanged."""

    model_config = ConfigDict(extra="allow")

    role: Annotated[str, Field(min_length=1, max_length=100)]
    content: str | list[dict[str, Any]] | None = None

    @property
    def is_text(self) -> bool:
        """Whether all its parts are text."""
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
class AnswerRequest:
    """A checked request."""

    kind: Kind
    body: Mapping[str, Any]
    """The body as the client sent it."""
    prompt: str
    """Text to continue; empty for a chat, whose template renders it."""
    messages: tuple[Message, ...]
    template_kwargs: Mapping[str, Any]
    """Arguments of the chat template, such as ``enable_thinking``."""
    stream: bool
    include_usage: bool
    continuous_usage: bool
    """Whether each event of a stream says the tokens so far."""
    max_tokens: int
    """Most tokens of the answer."""
    has_limit: bool
    """Whether the client named ``max_tokens``; if not, an answer may take what the context leaves."""
    temperature: float
    top_p: float
    seed: int
    name: str
    """Part of the seeds of all its requests, as the name of a question is in a validation."""
    stop: tuple[str, ...]
    whole: tuple[str, ...]
    """Fields that step-level methods cannot serve: if any, the request is forwarded to the target's server."""

    @property
    def cause(self) -> str:
        """The first known field because of which it is forwarded, else ``other``: no label of a client's making."""
        known = (*_NEUTRAL, "messages", "prompt")
        return next((field for field in self.whole or ("messages",) if field in known), "other")


def _parsed(data: bytes) -> Any:
    """Parse the JSON of a body."""
    try:
        body = parse_json(data.decode("utf-8"), "the body")
        json.dumps(body, allow_nan=False)  # NaN is no JSON, but Python reads it
    except (SchemaError, ValueError) as error:
        rule = str(error) if isinstance(error, SchemaError) else "the body is not JSON"
        raise Refusal(f"{rule}: send a JSON object in the form of OpenAI's API") from None
    return body


def parse_body(data: bytes, kind: Kind, *, model: str, defaults: RequestDefaults, max_tokens: int) -> AnswerRequest:
    """Check a body.

    Parameters
    ----------
    data : JSON text.
    kind : ``chat`` or ``completion``.
    model : name of the served model.
    defaults : values of fields that the body leaves out.
    max_tokens : longest answer, tokens.

    Raises
    ------
    Refusal : not JSON, a field outside its domain, another model, or a longer answer.
    """
    body = _parsed(data)
    if not isinstance(body, dict):
        raise Refusal("the body is not a JSON object: send one in the form of OpenAI's API")
    form: type[_Chat | _Completion] = _Chat if kind == "chat" else _Completion
    try:
        fields = form.model_validate(body)
    except ValidationError as error:
        raise _invalid(error) from None
    if fields.model not in ("", model):
        raise unknown_model(fields.model, model)
    requested = fields.max_completion_tokens or fields.max_tokens
    if requested is not None and requested > max_tokens:
        raise bad_request(
            "max_tokens", requested, f"must be at most {max_tokens} here (--max-answer-tokens of the gateway)"
        )
    options = fields.stream_options or _StreamOptions()
    stop = (fields.stop,) if isinstance(fields.stop, str) else tuple(fields.stop or ())
    chat, prompt = isinstance(fields, _Chat), _prompt(fields)
    return AnswerRequest(
        kind=kind,
        body=body,
        prompt=prompt or "",
        messages=tuple(fields.messages) if isinstance(fields, _Chat) else (),
        template_kwargs=dict(fields.chat_template_kwargs or {}) if isinstance(fields, _Chat) else {},
        stream=fields.stream,
        include_usage=options.include_usage,
        continuous_usage=options.include_usage and options.continuous_usage_stats,
        has_limit=requested is not None or not chat,
        max_tokens=requested or (max_tokens if chat else min(_LEGACY_TOKENS, max_tokens)),
        temperature=defaults.temperature if fields.temperature is None else fields.temperature,
        top_p=defaults.top_p if fields.top_p is None else fields.top_p,
        seed=secrets.randbits(62) if fields.seed is None else fields.seed,
        name=(fields.metadata or {}).get("stream", ""),
        stop=stop,
        whole=_not_by_steps(fields, prompt),
    )


def _invalid(error: ValidationError) -> Refusal:
    first = error.errors(include_url=False)[0]
    place = shown(".".join(str(part) for part in first["loc"]), 80)
    got = "" if first["type"] == "missing" else f", got {shown(repr(first['input']), 60)}"
    return Refusal(f"{place}: {first['msg'].lower()}{got}", param=place)


def _prompt(fields: _Chat | _Completion) -> str | None:
    """The text to continue; None where the request is a chat, or has several prompts or token ids."""
    if isinstance(fields, _Chat):
        return None
    text = fields.prompt
    if isinstance(text, list) and len(text) == 1 and isinstance(text[0], str):
        text = text[0]
    if text == "":
        raise bad_request("prompt", text, "must not be empty")
    return text if isinstance(text, str) else None


def _not_by_steps(fields: _Chat | _Completion, prompt: str | None) -> tuple[str, ...]:
    """Fields that step-level methods cannot serve."""
    names = [
        name
        for name, value in (fields.model_extra or {}).items()
        if value is not None and name not in _IGNORED and value not in _NEUTRAL.get(name, ())
    ]
    if isinstance(fields, _Chat):
        return tuple(names + ["messages"] * (not all(message.is_text for message in fields.messages)))
    return tuple(names + ["prompt"] * (prompt is None))
