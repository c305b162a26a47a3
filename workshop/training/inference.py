"""Batched inference with the bundled models in this process: to measure their qualities, and for texts to train on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from calibrate.engines.torch.batch import ContinuousBatch

__all__ = ["LanguageModel", "load"]

_BATCH: Final = 64
_ROWS: Final = 32
"""Texts written at once."""


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """A causal model with its tokenizer; prompts go in as text, tokens and probabilities come out."""

    folder: Path
    network: Any
    tokenizer: Any

    def write(
        self, prompts: Sequence[str], *, temperature: float, max_tokens: int, seed: int, stop: str | None = None
    ) -> list[str]:
        """Continue each prompt.

        Parameters
        ----------
        prompts : texts; longer and shorter ones are batched together.
        temperature : > 0 samples from the whole vocabulary, 0 is greedy.
        max_tokens : cut after so many tokens.
        seed : of the sampling; the same prompts get the same texts.
        stop : a token that ends the text besides end-of-text; not returned.
        """
        from calibrate.engines.protocol import Sampling
        from calibrate.engines.torch.job import Job

        batch = self._batch
        batch.forget()
        jobs = [
            Job(
                id=i,
                prompt=self.tokenizer(prompt)["input_ids"],
                max_tokens=max_tokens,
                stop=() if stop is None else (stop,),
                sampling=Sampling(temperature=temperature),
                seed=seed * 1_000_003 + i,
            )
            for i, prompt in enumerate(prompts)
        ]
        for job in jobs:
            batch.submit(job)
        while batch.busy:
            batch.advance()
        return [job.text for job in jobs]

    @cached_property
    def _batch(self) -> ContinuousBatch:
        """The torch engine, without its process: several times as fast as `generate` of transformers."""
        import torch

        from calibrate.engines.torch.batch import ContinuousBatch
        from calibrate.engines.torch.decoder import Decoder
        from calibrate.engines.torch.job import SPARE, Limits
        from calibrate.engines.torch.model import load_model, load_tokenizer

        context = int(self.network.config.max_position_embeddings)
        model = load_model(self.folder, dtype=torch.float32, device=torch.device("cpu"))
        return ContinuousBatch(
            Decoder(model, context + SPARE),
            load_tokenizer(self.folder),
            frozenset({int(self.tokenizer.eos_token_id)}),
            Limits(max_batch=_ROWS, n_idle=1, max_context=context),
        )

    def reply(self, prompts: Sequence[str], choices: Sequence[str]) -> list[list[float]]:
        """Probability of each one-token choice after each prompt, among the choices; shape (prompts, choices)."""
        import torch

        ids = self.tokenizer.convert_tokens_to_ids(list(choices))
        rows: list[list[float]] = []
        for first in range(0, len(prompts), _BATCH):
            batch = self.tokenizer(
                list(prompts[first : first + _BATCH]), padding=True, padding_side="right", return_tensors="pt"
            )
            with torch.inference_mode():
                logits = self.network(**batch).logits
            last = batch["attention_mask"].sum(1) - 1
            rows += logits[torch.arange(len(last)), last][:, ids].softmax(-1).tolist()
        return rows


def load(folder: Path) -> LanguageModel:
    """Load a model of the pair in float32 from its folder, without any network access."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    network = AutoModelForCausalLM.from_pretrained(str(folder), local_files_only=True, dtype="float32").eval()
    return LanguageModel(
        folder=folder, network=network, tokenizer=AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    )
