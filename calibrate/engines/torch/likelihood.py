"""Likelihood of a given text under a model: a prefill of which the logits of every token are kept, not of the last.

If the prefix is cached, the engine computes the scored tokens only, and the token before them, whose logits give the
probability of the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from calibrate.engines.sending import sent

if TYPE_CHECKING:
    import torch

    from calibrate.engines.protocol import Times
    from calibrate.engines.torch.decoder import Decoder

__all__ = ["Likelihood", "TellsLikelihood", "token_logprobs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """Natural-log probabilities of the last tokens of a prompt, each given all before it."""

    logprobs: tuple[float, ...]
    n_prompt_tokens: int
    n_cached_tokens: int
    times: Times

    @property
    def total(self) -> float:
        """Log probability of all tokens together, nats."""
        return math.fsum(self.logprobs)


@runtime_checkable
class TellsLikelihood(Protocol):
    """A backend that computes the likelihood of a given text."""

    async def likelihood(self, prompt: Sequence[int], n_scored: int, *, temperature: float = 1.0) -> Likelihood:
        """Log probabilities of the last ``n_scored`` tokens of a prompt, logits divided by ``temperature`` (> 0).

        Raises
        ------
        ParameterError : ``n_scored`` is not in [1, tokens of the prompt - 1], or ``temperature`` is not positive.
        CalibrationError : the engine refused, failed or died.
        """


def token_logprobs(
    decoder: Decoder, hidden: torch.Tensor, prompt: Sequence[int], first: int, n_scored: int, temperature: float
) -> list[float]:
    """Log probabilities of the scored tokens after the positions ``first``, ``first`` + 1, ... of ``hidden``.

    Parameters
    ----------
    decoder : the model.
    hidden : final hidden states of consecutive prompt tokens, (m, hidden).
    prompt : the whole prompt.
    first : position of the first hidden state.
    n_scored : number of tokens at the prompt's end that are scored.
    temperature : divides the logits, > 0.
    """
    import torch

    begin = max(len(prompt) - n_scored - 1, first)
    end = min(len(prompt) - 1, first + hidden.shape[0])
    if end <= begin:
        return []
    scores = (decoder.logits(hidden[begin - first : end - first]).double() / temperature).log_softmax(-1)
    tokens = sent(prompt[begin + 1 : end + 1], torch.int64, scores.device)[:, None]
    logprobs: list[float] = scores.gather(1, tokens)[:, 0].tolist()
    return logprobs
