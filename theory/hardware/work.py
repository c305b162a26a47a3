"""What a pass has to do, and over which GPUs a model is spread."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Final

from theory.errors import ParameterError
from theory.hardware.mixers.counts import check_counts

__all__ = ["Parallel", "Work"]

_ALIKE: Final = 0.6
"""Exponent of the tokens of a sequence in one pass that count as draws of experts of their own, [-]. Fitted to
SpecBundle (SGLang, six targets); 1 would be no likeness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """How a model is spread over GPUs: ``tp * dp * pp`` of them.

    The layers are dealt out to ``pp`` stages, each on a machine of its own. In a stage, attention and dense layers are
    split ``tp`` ways and copied ``dp`` times. Experts are split by whole experts over ``ep`` of its GPUs, and each
    expert over the remaining factor ``tp * dp / ep``.
    """

    tp: int = 1
    dp: int = 1
    ep: int = 1
    pp: int = 1

    def __post_init__(self) -> None:
        check_counts(self)
        if self.stage % self.ep:
            raise ParameterError("ep", self.ep, f"must divide the {self.stage} GPUs (tp x dp)")

    @property
    def stage(self) -> int:
        """GPUs of a stage."""
        return self.tp * self.dp

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.stage * self.pp

    @property
    def expert_tp(self) -> int:
        """GPUs that share one expert."""
        return self.stage // self.ep

    def batches(self, requests: float) -> float:
        """Return into how many batches so many requests are dealt out, which the stages run side by side, >= 1."""
        return min(max(requests / self.dp, 1.0), self.pp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One iteration of a serving engine: sequences that decode, and prompt tokens that are read along with them."""

    sequences: float
    """Sequences that decode, >= 0; need not be whole (the mean of a loaded server)."""
    tokens: float = 1.0
    """New tokens of each, >= 1: 1 is plain decoding, more is the verification of drafts."""
    context: float = 0.0
    """Cached tokens of each before the pass, >= 0, mean."""
    prefill_tokens: float = 0.0
    """Prompt tokens of other sequences in the same pass, >= 0."""
    prefill_context: float = 0.0
    """Tokens of these prompts that are cached already, >= 0, mean over prompt tokens."""
    prompts: float = 1.0
    """Prompts that share ``prefill_tokens`` evenly, >= 1; need not be whole."""

    def __post_init__(self) -> None:
        if not (
            0.0 <= self.sequences < math.inf
            and 1.0 <= self.tokens < math.inf
            and 0.0 <= self.context < math.inf
            and 0.0 <= self.prefill_tokens < math.inf
            and 0.0 <= self.prefill_context < math.inf
            and 1.0 <= self.prompts < math.inf
        ):  # a plan makes tens of thousands of these
            self._refuse()
        if self.sequences == 0.0 and self.prefill_tokens == 0.0:
            raise ParameterError("sequences", self.sequences, "must be > 0 where no prompt is read")

    def _refuse(self) -> None:
        """Raise the error of the first number that is outside its range."""
        for one in fields(self):
            least = 1.0 if one.name in ("tokens", "prompts") else 0.0
            value = getattr(self, one.name)
            if not (math.isfinite(value) and value >= least):
                raise ParameterError(one.name, value, f"must be finite and >= {least:g}")

    @property
    def asking_rows(self) -> float:
        """Rows that choose experts as if each came from a text of its own: tokens of one sequence choose alike."""
        return self.sequences * math.pow(self.tokens, _ALIKE) + self.prefill_tokens

    @property
    def rows(self) -> float:
        """Rows of the matrix products: tokens of all sequences."""
        return self.sequences * self.tokens + self.prefill_tokens
