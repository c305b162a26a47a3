"""Where the public measurements lie that tests and docs/scoreboard.md name, if they are at hand."""

import os
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def public_tables() -> Path:
    """The folder: ``SPECPLAN_PUBLIC_DATA``, or ``../shared/data`` beside the repository; skips where it is absent."""
    beside = [parent.parent / "shared" / "data" for parent in (ROOT, ROOT.parent)]
    named = os.environ.get("SPECPLAN_PUBLIC_DATA")
    for folder in [Path(named)] if named else beside:
        if folder.is_dir():
            return folder
    pytest.skip("the public tables are not at hand (SPECPLAN_PUBLIC_DATA names their folder)")


LOADED = {
    "backend": "vllm", "backend_version": "0.18.0", "model_path": "openai/gpt-oss-120b", "system": "h100_sxm",
    "precision": "fp4", "isl": 1024, "osl": 1024, "gemm_quant_mode": "nvfp4", "moe_quant_mode": "nvfp4",
    "concurrency": 16.0, "tp_size": 4.0, "attention_dp_size": 1.0, "moe_tp_size": 4.0, "moe_ep_size": 1.0,
    "ttft_ms": 60.0, "tpot_ms": 5.8,
}  # fmt: skip
"""A server under load."""
SPECULATED = {
    "target": "Llama-3.1-8B-Instruct", "dataset": "math500", "batch": 1, "steps": 3, "topk": 1,
    "num_draft_tokens": 4, "draft": "lmsys/sglang-EAGLE3-LLaMA3.1-Instruct-8B", "base_tps": 191.0,
    "spec_tps": 430.0, "accept_length": 3.0, "speedup": 2.25,
}  # fmt: skip
"""Speculative serving of a batch."""
SERVED = {
    "task": "lm-arena-chat", "model_id": "Qwen/Qwen3-8B", "weight_precision": "bfloat16", "gpu": "H100",
    "num_gpus": 1, "tp": 1, "dp": 1, "ep": 1, "max_num_seqs": 16, "avg_batch": 15.9, "median_itl_ms": 8.5,
    "avg_output_len": 800, "mean_pos_len_biased": 700,
}  # fmt: skip
"""Served iterations."""
LOADED_HEAD, SPECULATED_HEAD, SERVED_HEAD = (",".join(cells) + "\n" for cells in (LOADED, SPECULATED, SERVED))


def _line(cells: dict[str, object], **changes: object) -> str:
    assert set(changes) <= set(cells)
    return ",".join(str(value) for value in (cells | changes).values()) + "\n"


loaded_line, speculated_line, served_line = (partial(_line, cells) for cells in (LOADED, SPECULATED, SERVED))
