"""vLLM loads a widened target with its EAGLE head, and writes the bundled target's texts."""

import asyncio
import gc
import os
from pathlib import Path

import pytest

from calibrate import pair
from calibrate.engines.protocol import Request
from calibrate.engines.vllm.config import VllmConfig
from calibrate.engines.vllm.engine import VllmEngine
from calibrate.pair.widening.pair import wide_pair, widen_pair
from calibrate.pair.widening.sizes import Sizes

pytest.importorskip("vllm")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    # vLLM leaves its ZMQ context to the garbage collector, which complains.
    pytest.mark.filterwarnings("ignore:Unclosed context:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SIZES = Sizes(
    name="wide", hidden=256, intermediate=512, layers=33, heads=8, kv_heads=4, head_dim=64, vocab=1024, tied=True
)


def bundled_text(prompt: str, n_tokens: int) -> tuple[int, ...]:
    """The bundled target's greedy continuation, by transformers."""
    import torch

    from calibrate.engines.torch.model import load_model, load_tokenizer

    model = load_model(pair.target_path(), dtype=torch.float32, device=torch.device("cpu"))
    ids = load_tokenizer(pair.target_path()).encode(prompt).ids
    written = model.generate(torch.tensor([ids]), max_new_tokens=n_tokens, do_sample=False, pad_token_id=1)
    return tuple(written[0, len(ids) :].tolist())


def test_texts_are_the_bundled_targets_and_the_head_is_mostly_right(tmp_path: Path) -> None:
    widen_pair(wide_pair(dict.fromkeys(("target", "draft", "judge"), SIZES)), tmp_path / "pair", dtype="float32")
    head = tmp_path / "pair" / "eagle"
    config = VllmConfig(
        name="target",
        model=tmp_path / "pair" / "target",
        speculative={"method": "eagle", "model": str(head), "num_speculative_tokens": 3},
        cores=(min(os.sched_getaffinity(0)),),
    )
    prompt = pair.problems(1, 4)[0].prompt

    async def write() -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        engine = await VllmEngine.start(config)
        try:
            asked = Request(prompt=prompt, max_tokens=60, stop=(), ignore_eos=True)
            answer = await engine.generate(asked)
            return answer.token_ids, answer.passes
        finally:
            await engine.close()

    tokens, passes = asyncio.run(write())
    gc.collect()
    assert tokens == bundled_text(prompt, 60)
    accepted = sum(right for _, right in passes)
    assert accepted > 0.6 * sum(drafted for drafted, _ in passes) > 0
