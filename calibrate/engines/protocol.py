"""Protocol of backends: generate a text, choose one of several tokens, count tokens, describe the engine, close it.

A backend is an engine with one model. Requests are asyncio awaitables; cancelling the awaiting task aborts the request
inside the engine. Times in results are seconds on the machine's monotonic clock (`time.monotonic`), which processes of
one machine share; for a remote engine they are the times observed by the client.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, Self, TypeAlias, runtime_checkable

from calibrate.engines.speculation import Speculation
from calibrate.engines.work import EngineStatistics
from theory.errors import ParameterError

__all__ = [
    "GREEDY",
    "Backend",
    "Choice",
    "Finish",
    "Forgetful",
    "Generation",
    "Likelihood",
    "MeasuredEngine",
    "Preparing",
    "Progress",
    "Prompt",
    "Request",
    "Sampling",
    "TellsLikelihood",
    "Times",
]

Prompt: TypeAlias = str | tuple[int, ...]
"""A text, or its token ids (exact: generated text is continued with the same tokens)."""

Finish: TypeAlias = Literal["stop", "eos", "length", "abort"]
"""Why a generation ended: stop string, end of text, limit of tokens or context, or aborted by its caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Sampling of a token from the model's distribution."""

    temperature: float = 0.0
    """Divides the logits; 0 is greedy."""
    top_p: float = 1.0
    """Sample from the smallest set of tokens whose probabilities sum to at least this, in (0, 1]."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0.0):
            raise ParameterError("temperature", self.temperature, "must be a finite number >= 0")
        if not 0.0 < self.top_p <= 1.0:
            raise ParameterError("top_p", self.top_p, "must be in (0, 1]")


GREEDY: Final = Sampling()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to continue ``prompt`` until a stop string, the end of the text, or ``max_tokens``."""

    prompt: Prompt
    max_tokens: int
    """Most tokens to generate, >= 1."""
    stop: tuple[str, ...] = ("\n\n",)
    """Generation ends with the first of these that appears in the generated text; it is kept in the text."""
    sampling: Sampling = GREEDY
    seed: int = 0
    """The same prompt, sampling and seed give the same text, independent of concurrent requests."""
    ignore_eos: bool = False
    """Continue after an end-of-text token: for latency measurements that need an exact number of tokens."""
    speculation: Speculation | None = None
    """Token-level speculation for this request; None is plain decoding. The distribution of the text is the same, and
    the same prompt, sampling, seed and speculation give the same text."""

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ParameterError("prompt", self.prompt, "must not be empty")
        if self.max_tokens < 1:
            raise ParameterError("max_tokens", self.max_tokens, "must be >= 1")
        if not all(self.stop):
            raise ParameterError("stop", self.stop, "must not contain an empty string")


class Progress:
    """Progress of a request; the backend sets the final ``n_generated`` when the request has ended or was aborted.

    Parameters
    ----------
    on_text : called by a server's engine with each piece of text as it arrives, and its tokens; engines of this machine
        do not call it.

    Attributes
    ----------
    tokens : returns the ids of the prompt and of what has been generated, by which the same text goes on; nothing where
        they are unknown, or the text so far may lack a part of a character; None: it has ended by itself.
    """

    __slots__ = ("n_generated", "on_text", "tokens")

    def __init__(self, on_text: Callable[[str, int], object] | None = None) -> None:
        self.n_generated = 0
        self.on_text = on_text
        self.tokens: Callable[[], tuple[int, ...] | None] = tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times of a request's events inside its engine, s on the machine's monotonic clock."""

    queued: float
    prefill_start: float
    first_token: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    """What all results of requests have."""

    n_prompt_tokens: int
    n_cached_tokens: int
    """Prompt tokens whose keys and values were cached."""
    times: Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation(_Reply):
    """Result of a request."""

    text: str
    token_ids: tuple[int, ...]
    """Token ids of ``text``, without the end-of-text token; can be appended to a prompt."""
    n_generated: int
    """Tokens that the engine generated, including the end-of-text token."""
    finish: Finish
    passes: tuple[tuple[int, int], ...] = ()
    """With speculation, for each decode pass of the target: drafted tokens, and those verified as right. A pass commits
    the right tokens and one more, cut where the text ends; cut tokens count as right but are not generated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(_Reply):
    """Probabilities of several single-token replies."""

    choices: tuple[str, ...]
    probabilities: tuple[float, ...]
    """Probability of each choice, given that the reply is one of them; they sum to 1."""
    mass: float
    """Probability, under the whole vocabulary, that the reply is one of the choices; low for an unsuitable prompt."""

    @classmethod
    def of_logs(cls, choices: Sequence[str], logs: Sequence[float], **others: Any) -> Self:
        """Return the choice among replies with these log probabilities, nats; ``others`` are the other fields."""
        greatest = max(logs)
        weights = [math.exp(x - greatest) for x in logs]
        total = sum(weights)
        shares = tuple([weight / total for weight in weights])
        return cls(choices=tuple(choices), probabilities=shares, mass=min(1.0, sum(map(math.exp, logs))), **others)

    @property
    def n_new_tokens(self) -> int:
        """Prompt tokens that were not cached."""
        return self.n_prompt_tokens - self.n_cached_tokens

    @property
    def best(self) -> str:
        """The likeliest choice; the first of them on a tie."""
        return self.choices[max(range(len(self.choices)), key=self.probabilities.__getitem__)]

    def probability(self, choice: str) -> float:
        """Probability of one of the choices."""
        return self.probabilities[self.choices.index(choice)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood(_Reply):
    """Natural-log probabilities of the last tokens of a prompt, each given all before it."""

    logprobs: tuple[float, ...]

    @property
    def total(self) -> float:
        """Log probability of all tokens together, nats."""
        return math.fsum(self.logprobs)


@runtime_checkable
class TellsLikelihood(Protocol):
    """An engine that computes the likelihood of a given text."""

    async def likelihood(self, prompt: Sequence[int], n_scored: int, *, temperature: float = 1.0) -> Likelihood:
        """Log probabilities of the last ``n_scored`` tokens of a prompt, logits divided by ``temperature`` (> 0).

        Raises
        ------
        ParameterError : ``n_scored`` is not in [1, tokens of the prompt - 1], or ``temperature`` is not positive.
        CalibrationError : the engine refused, failed or died.
        """


@runtime_checkable
class Forgetful(Protocol):
    """An engine whose prefix cache can be emptied."""

    async def forget(self) -> None:
        """Drop keys and values kept for later requests; running requests keep theirs."""


@runtime_checkable
class Preparing(Protocol):
    """An engine that has to prepare for a kind of speculation, which may take seconds."""

    async def prepare(self, speculation: Speculation) -> None:
        """Prepare for requests with this speculation."""


class Backend(Protocol):
    """An engine with one model."""

    @property
    def name(self) -> str:
        """Short name for messages."""

    @property
    def tokenizer_id(self) -> str | None:
        """Fingerprint of the tokenizer; backends with the same one can exchange token ids. None: text only."""

    async def generate(self, request: Request, progress: Progress | None = None) -> Generation:
        """Continue a prompt. Cancelling the task aborts the request, and ends when the engine has ended the request.

        ``progress`` holds the number of generated tokens, also after a cancellation.

        Raises
        ------
        CalibrationError : the engine refused, failed or died.
        """

    async def choose(self, prompt: Prompt, choices: Sequence[str]) -> Choice:
        """Probabilities of single-token replies to a prompt (a judge's yes and no, a score, a gate).

        Raises
        ------
        ParameterError : a choice is not one token of this model.
        CalibrationError : the engine refused, failed or died.
        """

    def encode(self, text: str) -> tuple[int, ...] | None:
        """Token ids of a text as the beginning of a prompt; None without access to the tokenizer."""

    async def count_tokens(self, text: str) -> int:
        """Tokens of a text as a prompt."""

    def describe(self) -> Mapping[str, Any]:
        """Model, engine, versions, device, dtype, cores: the provenance of measurements, for a profile."""

    async def close(self) -> None:
        """End the engine; requests in flight fail with `CalibrationError`. A second call has no effect."""


class MeasuredEngine(Backend, Protocol):
    """A backend that reports its iterations."""

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        """Durations of the latest iterations and prefills; ``clear`` empties the records."""
