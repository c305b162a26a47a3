"""The torch engine without its process: requests that run to their end, and small random models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from calibrate.engines.torch.batch import ContinuousBatch
    from calibrate.engines.torch.job import Job
    from calibrate.engines.torch.kv_cache import KvCache

__all__ = ["answered", "random_model", "tokens_in", "told"]


def answered(batch: ContinuousBatch, *jobs: Job) -> list[Job]:
    """Run everything to its end; return these jobs."""
    for job in jobs:
        batch.submit(job)
    while batch.busy:
        batch.advance()
    return list(jobs)


def told(jobs: Sequence[Job]) -> list[tuple[list[int], str, str, int]]:
    """What jobs say, and how they ended."""
    return [(job.tokens, job.text, job.finish, job.n_generated) for job in jobs]


def tokens_in(cache: KvCache, row: int) -> list[int]:
    """The tokens whose keys and values a row holds."""
    tokens: list[int] = cache._ids[row, : cache.length[row]].tolist()
    return tokens


def random_model(seed: int, architecture: str = "Qwen3", **sizes: Any) -> PreTrainedModel:
    """A model of 32 hidden dimensions and two heads of 16, unless other sizes are given."""
    import torch
    import transformers

    known = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 512,
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": None,
    }
    if architecture == "Qwen3":
        known["head_dim"] = 16
    torch.manual_seed(seed)
    config = getattr(transformers, f"{architecture}Config")(**known | sizes)
    model: PreTrainedModel = getattr(transformers, f"{architecture}ForCausalLM")(config).eval()
    return model
