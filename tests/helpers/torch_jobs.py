"""The torch engine without its process: requests that run to their end, and small random models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrate import pair
from calibrate.engines.torch.job import SPARE, Job, Limits

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from calibrate.engines.speculation import Speculation
    from calibrate.engines.torch.batch import ContinuousBatch
    from calibrate.engines.torch.decoder import Decoder
    from calibrate.engines.torch.kv_cache import KvCache


_IDS = count(1)
_CONTEXT = 512 + SPARE


@cache
def decoder_of(folder: Path, device: str = "cpu", *, padded: bool | None = None, dtype: str = "float32") -> Decoder:
    """A model for contexts of up to 512 tokens, loaded once: tests share weights, not caches."""
    import torch

    from calibrate.engines.torch.decoder import Decoder
    from calibrate.engines.torch.model import load_model

    model = load_model(folder, dtype=getattr(torch, dtype), device=torch.device(device))
    return Decoder(model, _CONTEXT, padded=padded)


def batch_of(
    folder: Path, limits: Limits, *speculations: Speculation | None, device: str = "cpu", padded: bool | None = None
) -> ContinuousBatch:
    """An engine of a model, with the draft models and heads of these speculations."""
    from calibrate.engines.torch.batch import ContinuousBatch
    from calibrate.engines.torch.model import load_tokenizer
    from calibrate.engines.torch.token_methods.draft_model import DraftModel
    from calibrate.engines.torch.token_methods.eagle import EagleHead, load_head

    target, methods = decoder_of(folder, device, padded=padded), {}
    for one in speculations:
        if one is not None and one.model is not None:
            is_head = one.method == "eagle"
            own = load_head(one.model, target, _CONTEXT) if is_head else decoder_of(one.model, device, padded=padded)
            kind = EagleHead if is_head else DraftModel
            methods[one.method, one.source] = kind(own, limits, limits.max_context)
    return ContinuousBatch(target, load_tokenizer(folder), frozenset([0]), limits, methods)


def bundled_prompts(n: int, seed: int) -> list[list[int]]:
    """Questions of the bundled pair's task."""
    from calibrate.engines.torch.model import load_tokenizer

    tokenizer = load_tokenizer(pair.target_path())
    return [tokenizer.encode(problem.prompt).ids for problem in pair.problems(n, seed)]


def job(prompt: Iterable[int], max_tokens: int = 30, **options: Any) -> Job:
    """A request with an id of its own, which does not end with the text unless it is said to."""
    return Job(id=next(_IDS), prompt=list(prompt), max_tokens=max_tokens, **{"ignore_eos": True, **options})


def random_prompts(n: int, vocabulary: int, seed: int = 0) -> list[list[int]]:
    """Prompts of 2 to 29 tokens."""
    rng = np.random.default_rng(seed)
    return [rng.integers(1, vocabulary, rng.integers(2, 30)).tolist() for _ in range(n)]


def answered(batch: ContinuousBatch, *jobs: Job) -> list[Job]:
    """Run everything to its end; return these jobs."""
    for one in jobs:
        batch.submit(one)
    while batch.busy:
        batch.advance()
    return list(jobs)


def finish(batch: ContinuousBatch, *jobs: Job) -> list[list[int]]:
    """The tokens of these jobs after everything has run to its end."""
    return [one.tokens for one in answered(batch, *jobs)]


def advanced(batch: ContinuousBatch, n_passes: int, *jobs: Job) -> list[Job]:
    """Submit jobs, and run some passes."""
    for one in jobs:
        batch.submit(one)
    for _ in range(n_passes):
        batch.advance()
    return list(jobs)


def told(jobs: Sequence[Job]) -> list[tuple[list[int], str, str, int]]:
    """What jobs say, and how they ended."""
    return [(one.tokens, one.text, one.finish, one.n_generated) for one in jobs]


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
