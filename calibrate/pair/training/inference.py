"""Plain batched inference with the bundled models, enough to measure their qualities (not a serving backend)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["LanguageModel", "load"]

_BATCH: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """A causal model with its tokenizer; prompts go in as text, tokens and probabilities come out."""

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
        seed : of the sampling; the same batch gives the same texts.
        stop : a token that ends the text besides end-of-text; not returned.
        """
        import torch

        torch.manual_seed(seed)
        ends = [self.tokenizer.eos_token_id]
        if stop is not None:
            ends.append(self.tokenizer.convert_tokens_to_ids(stop))
        texts: list[str] = []
        for first in range(0, len(prompts), _BATCH):
            batch = self.tokenizer(
                list(prompts[first : first + _BATCH]), padding=True, padding_side="left", return_tensors="pt"
            )
            how = (
                {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
                if temperature > 0
                else {"do_sample": False}
            )
            out = self.network.generate(**batch, max_new_tokens=max_tokens, eos_token_id=ends, **how)
            texts += self._texts(out[:, batch["input_ids"].shape[1] :].tolist(), ends)
        return texts

    def _texts(self, rows: list[list[int]], ends: list[int]) -> list[str]:
        lengths = [next((i for i, token in enumerate(row) if token in ends), len(row)) for row in rows]
        return [str(self.tokenizer.decode(row[:n])) for row, n in zip(rows, lengths, strict=True)]

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
    return LanguageModel(network=network, tokenizer=AutoTokenizer.from_pretrained(str(folder), local_files_only=True))
