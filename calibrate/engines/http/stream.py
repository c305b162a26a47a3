"""The stream of a completion: its events, tokens and arrival times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic needs it instead of typing's before Python 3.12

from calibrate.engines.stop_strings import first_stop
from theory.errors import SchemaError, shown

__all__ = ["Streamed", "checked", "fields", "prompt_tokens"]

_Tokens = Annotated[int, Field(ge=0, le=2**31, strict=True)]
_LogProbability = Annotated[float, Field(le=1.0)]  # a little above 0 by rounding; NaN compares false with it


class _Details(TypedDict, total=False):
    cached_tokens: _Tokens | None


class _Usage(TypedDict, total=False):
    completion_tokens: _Tokens | None
    prompt_tokens: _Tokens | None
    prompt_tokens_details: _Details | None


class _LogProbabilities(TypedDict, total=False):
    top_logprobs: list[dict[str, _LogProbability] | None] | None
    token_logprobs: list[_LogProbability | None] | None


class _Choice(TypedDict, total=False):
    text: str | None
    token_ids: list[_Tokens] | None
    prompt_token_ids: list[_Tokens] | None
    logprobs: _LogProbabilities | None
    finish_reason: str | None
    stop_reason: Any
    matched_stop: Any


class _Event(TypedDict, total=False):
    """The fields of an event that are read; others are ignored."""

    usage: _Usage | None
    choices: list[_Choice] | None
    error: Any


_EVENT: Final = TypeAdapter(_Event).validator  # its own methods are those of this, with a call more


def fields(data: bytes) -> Any:
    """Return the fields of an event that are read, parsed and checked at once; None if anything is odd with it."""
    try:
        return _EVENT.validate_json(data)
    except ValidationError:
        return None


def checked(event: Mapping[str, Any]) -> None:
    """Refuse an event that does not match the API.

    Raises
    ------
    SchemaError : with the place in the event.
    """
    try:
        _EVENT.validate_python(event)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SchemaError(f"{shown(place)}: {first['msg']}, got {shown(repr(first['input']), 60)}") from None


def prompt_tokens(answer: Any) -> int:
    """Prompt tokens by the usage of an answer without a stream; 0 if it is not reported.

    Raises
    ------
    SchemaError : as `checked`.
    """
    if not isinstance(answer, dict):
        return 0
    checked(answer)
    return int((answer.get("usage") or {}).get("prompt_tokens") or 0)


@dataclass(slots=True)
class Streamed:
    """The contents of a stream, with arrival times (s on the monotonic clock)."""

    stops: tuple[str, ...] = ()
    """Stop strings to search for at the client."""

    on_text: Callable[[str, int], object] | None = field(default=None, compare=False, repr=False)
    """Called with each piece of text as it arrives, and its tokens."""

    whole_ids: set[int] = field(default_factory=set, compare=False, repr=False)
    """Tokens that are whole characters by themselves, as chunks have shown; streams of a server may share them."""

    parts: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)
    """Tokens of the prompt while it is under way, where text is handed on."""

    is_whole: bool = True
    """Whether no token so far waits for the rest of a character, for certain."""

    n_held: int = 0
    """Latest tokens without a text: they wait for the rest of a character, whose text is handed on as theirs too."""

    arrivals: list[tuple[float, int]] = field(default_factory=list)
    """Arrival times, and number of tokens at each."""

    likeliest: Mapping[str, Any] = field(default_factory=dict)
    """Natural-log probabilities of the likeliest first tokens, by their text."""

    reason: str = ""
    stopped_by: Any = None
    tells_stop: bool = False
    """Whether the server reports the stop string, or that there was none."""

    closed: bool = False
    """Whether the client closed the stream, at a stop string."""

    usage: dict[str, Any] = field(default_factory=dict)
    n_prompt_ids: int = 0
    """Tokens of the prompt by its ids, or as counted before; 0 if unknown."""

    read_before: float = 0.0
    """Share of the prompt that was sent to the server before, in [0, 1]: the most that a prefix cache can hold."""

    sent: float = 0.0
    end: float = 0.0
    begun: asyncio.Event = field(default_factory=asyncio.Event, compare=False, repr=False)
    """Set when the first token has arrived."""

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.parts)

    @property
    def n_tokens(self) -> int:
        """Generated tokens: the server's count, else those counted at the client; at least 1."""
        seen = sum(n for _, n in self.arrivals)
        counted = None if self.closed else self.usage.get("completion_tokens")
        return max(seen if counted is None else int(counted), 1)

    @property
    def tokens_per_unit(self) -> float:
        """Tokens by the server's count / tokens counted at the client, [-]; 1 where chunks have token ids."""
        return 1.0 if self.ids else self.n_tokens / max(sum(n for _, n in self.arrivals), 1)

    def seen(self, moment: float) -> int:
        """Tokens that had arrived at a moment, s on the monotonic clock."""
        return sum(n for arrived, n in self.arrivals if arrived <= moment)

    @property
    def tokens(self) -> tuple[int, ...] | None:
        """Ids of prompt and answer; see `calibrate.engines.protocol.Progress`.

        A server that is given a part of a character at a prompt's end writes that character wrongly: vLLM sends the
        whole prompt's text with it. Given the text without it, a server writes the part once more.
        """
        if self.reason not in ("", "abort") or (self.ids and not self.is_whole):
            return None
        return (*self.prompt_ids, *self.ids) if self.prompt_ids else ()

    @property
    def n_prompt(self) -> int:
        """Tokens of the prompt; 0 if the server does not report them."""
        return int(self.usage.get("prompt_tokens") or self.n_prompt_ids)

    def passes(self, k2: int, *, always: bool) -> tuple[tuple[int, int], ...]:
        """Return drafted and accepted tokens of each pass of a server that commits at most k2 tokens per pass.

        A chunk is a pass, or several if their tokens arrived together. A draft without an accepted token cannot be
        observed: with ``always``, every pass counts as one with a draft, as with draft models; else as one without.
        """
        passes: list[tuple[int, int]] = []
        for i, (_, n) in enumerate(self.arrivals):
            left = n - 1 if i == 0 else n  # the first token is the prefill's
            while left > 0:
                tokens = min(left, k2)
                passes.append((k2 - 1 if always or tokens > 1 else 0, tokens - 1))
                left -= tokens
        return tuple(passes)

    @property
    def n_cached(self) -> int:
        """Cached tokens of the prompt, if the server reports them."""
        return int((self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)

    def take(self, event: Mapping[str, Any], now: float) -> bool:
        """Add an event that was checked; return whether the stream may be closed."""
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices") or ():
            text, ids, logprobs = choice.get("text") or "", choice.get("token_ids") or [], choice.get("logprobs")
            if not text.isascii():  # halves of surrogate pairs cannot be sent or stored
                text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            self.parts.append(text)
            self.ids += ids
            if logprobs and not self.likeliest and (tops := logprobs.get("top_logprobs")):
                self.likeliest = tops[0] or {}
            if stated := choice.get("prompt_token_ids"):
                self.n_prompt_ids = self.n_prompt_ids or len(stated)
                self.prompt_ids = stated if self.on_text is not None else []
            self.reason = choice.get("finish_reason") or self.reason
            scored = sum(value is not None for value in (logprobs or {}).get("token_logprobs") or ())
            if n := len(ids) or scored or int(bool(text)):
                self._arrived(text, ids, n, now)
            for key in ("stop_reason", "matched_stop"):
                if key in choice:
                    self.tells_stop = True
                    self.stopped_by = choice[key] if choice[key] is not None else self.stopped_by
        if self.stops and (end := first_stop(self.text, self.stops)) is not None:
            self.parts, self.closed = [self.text[:end]], True
        return self.closed

    def _arrived(self, text: str, ids: Sequence[int], n: int, now: float) -> None:
        """Add tokens; servers send no character before all of its tokens are there.

        Of several tokens the last may wait for others, unless it is known to be whole.
        """
        alone = len(ids) == 1 and bool(text)
        if alone and self.is_whole:
            self.whole_ids.update(ids)
        self.is_whole = alone or (bool(ids) and ids[-1] in self.whole_ids)
        if not self.arrivals:
            self.begun.set()
        self.arrivals.append((now, n))
        self.n_held += n
        if self.on_text is not None and text:
            self.on_text(text, self.n_held)
            self.n_held = 0
