"""Which version of an engine has which option of a printed command; a version without it gets a command without it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["first_with", "has", "over_stages"]

_SINCE: Final[Mapping[tuple[str, str], tuple[int, int]]] = {
    ("vllm", "num_speculative_tokens_per_batch_size"): (0, 24),  # vllm-project/vllm#32374
    ("vllm", "dflash"): (0, 20),  # vllm-project/vllm#36847; z-lab/dflash asks for 0.20.1
    ("vllm", "dspark"): (0, 25),  # vllm-project/vllm#46995
    ("vllm", "enable_adaptive_verification"): (0, 28),  # vllm-project/vllm#47808; DSpark only
    ("vllm", "gemma4_assistant"): (0, 21),  # vllm-project/vllm#42005, #41789: not in 0.20.1, runs after 0.20.2
    ("vllm", "draft_model"): (0, 15),  # vllm-project/vllm#24322; 0.10 to 0.14 raise NotImplementedError
    ("vllm", "nnodes"): (0, 12),  # vllm-project/vllm#23691; before, Ray
    ("vllm", "speculation over stages"): (0, 32),  # vllm-project/vllm#50514, #46994; not in 0.28; read in 0.32
}
"""(engine, option) to the first release series that has it; options that every priced version has are left out."""
_HANDED_ON: Final = frozenset(("deepseek_v4", "kimi_linear", "llama", "minimax_m3", "mistral", "qwen2", "qwen3"))
"""``model_type`` of targets whose states of inner layers vLLM 0.32 hands on from stage to stage."""


def has(engine: str, version: str, option: str) -> bool:
    """Whether a version of an engine has an option.

    Parameters
    ----------
    engine : ``vllm``, ``sglang`` or ``trtllm``.
    version : a number such as ``0.18.0``; a nightly build counts as later than all.

    >>> has("vllm", "0.18.0", "draft_model"), has("vllm", "0.18.0", "num_speculative_tokens_per_batch_size")
    (True, False)
    """
    since = _SINCE.get((engine, option))
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return since is None or match is None or (int(match[1]), int(match[2])) >= since


def first_with(engine: str, option: str) -> str:
    """Return the first release series of an engine that has an option of the table."""
    return ".".join(map(str, _SINCE[engine, option]))


def over_stages(engine: str, version: str, drafter: str, target: str) -> str:
    """Return why an engine does not speculate with a target over several pipeline stages; empty: it does.

    Parameters
    ----------
    engine, version : name, and the version that runs; empty: one that can.

    >>> over_stages("vllm", "", "mtp", "deepseek_v3"), over_stages("vllm", "", "eagle3", "deepseek_v3")
    ('', 'vLLM hands no states of inner layers of deepseek_v3 over stages to eagle3')
    """
    option = "speculation over stages"
    if engine != "vllm":  # sgl-project/sglang#30775: behind a switch of the environment; NVIDIA/TensorRT-LLM#9009
        return f"{engine} does not speculate over pipeline stages"
    if not has(engine, version, option):
        return f"vLLM speculates over pipeline stages from {first_with(engine, option)} on"
    if drafter in ("eagle3", "dflash", "dspark") and target not in _HANDED_ON:
        return f"vLLM hands no states of inner layers of {target} over stages to {drafter}"
    return ""
