"""Token-level speculation of a request: the method, and the most tokens that a target pass commits.

Not every engine has every method (`calibrate.engines.token_vocabulary`), and an engine refuses other methods at once. A
server over HTTP speculates in a single way or not at all, so that a server is configured for each way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from calibrate.engines.token_vocabulary import OF_REQUEST, TokenMethodName
from theory.errors import ParameterError, check_integers

__all__ = ["Decoding", "Speculation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Method and settings by which an engine speculates for a request."""

    method: TokenMethodName
    """``ngram``: prompt lookup; ``draft``: a smaller model; ``random``: random tokens, to time passes over k2 rows."""
    k2: int = 1
    """Most tokens that a target pass can commit: k2 - 1 drafted ones and the target's own; >= 1."""
    max_ngram: int = 3
    """Longest n-gram that prompt lookup compares, >= min_ngram."""
    min_ngram: int = 1
    """Shortest n-gram that prompt lookup compares, >= 1."""
    model: Path | None = None
    """Folder of the draft model or head, which an engine loads at its start (`TorchConfig.speculations`)."""
    window: int = 0
    """Lookahead Decoding: W, positions ahead that the lookahead branch guesses."""
    ngram: int = 0
    """Lookahead Decoding: N, length of the n-grams in its pool."""
    guesses: int = 0
    """Lookahead Decoding: G, most n-grams that a pass verifies."""
    extra: tuple[tuple[str, int | float | str | bool | tuple[float, ...]], ...] = ()
    """Names and values of further settings of the engine's own, for vLLM only, e.g. ``draft_sample_method``."""

    def __post_init__(self) -> None:
        if self.method not in OF_REQUEST:
            raise ParameterError("method", self.method, f"must be one of {', '.join(OF_REQUEST)}")
        check_integers(self, k2=1, min_ngram=1, max_ngram=1, window=0, ngram=0, guesses=0)
        if self.max_ngram < self.min_ngram:
            raise ParameterError("max_ngram", self.max_ngram, f"must be >= min_ngram={self.min_ngram}")
        drafts_with_weights = bool(OF_REQUEST[self.method].needs)
        if (self.model is not None) != drafts_with_weights:
            rule = "must be the folder of the drafting weights" if drafts_with_weights else "must not be given"
            raise ParameterError("model", self.model, f"{rule} with method {self.method!r}")
        if self.method == "lookahead" and not (self.window and self.ngram >= 2 and self.guesses):
            raise ParameterError("ngram", self.ngram, "must be >= 2, with window and guesses >= 1, for lookahead")
        if self.method == "jacobi" and not self.window:
            raise ParameterError("window", self.window, "must be >= 1, for jacobi: the tokens that are iterated on")

    @property
    def source(self) -> str:
        """Name under which an engine loads the weights of the drafter; empty without such weights."""
        return "" if self.model is None else str(self.model)

    def to_message(self) -> dict[str, Any]:
        """Return the fields as JSON values, for the engine's process; the folder of the weights made absolute."""
        return {**asdict(self), "model": None if self.model is None else str(self.model.resolve())}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """Rebuild what `to_message` returned."""
        extra = tuple((name, value) for name, value in message["extra"])
        return cls(**{**message, "model": Path(message["model"]) if message["model"] else None, "extra": extra})


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Plain decoding, or a token-level method of the catalogue on the target, with its knobs."""

    method: str = ""
    """Name in the catalogue; empty: plain decoding."""
    knobs: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    speculation: Speculation | None = None
    """Options of a request that select the method, where they are known."""

    @property
    def key(self) -> str:
        """Name in one line."""
        if not self.method:
            return "plain decoding"
        return " ".join([self.method, *(f"{name}={value}" for name, value in sorted(self.knobs.items()))])
