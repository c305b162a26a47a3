"""What is not modelled, told by a configuration's type or by fields that only such models have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from specplan.worlds.configs.families import FAMILIES
from specplan.worlds.configs.fields import KIND_NAMES, LayerKind

__all__ = ["why_not"]

_STATE = "has state-space or linear-attention layers of a kind whose time nobody measured"
_SPARSE = "chooses the cached tokens that it attends to (sparse attention)"
_ENCODER = "is an encoder and a decoder"
_CROSS = "attends across to images"
_UNEQUAL = "has layers of different sizes or without attention"
_SHARED = "shares caches between layers or reads embeddings per layer"
_IDLE = "has experts that compute nothing"
_VALUES = "makes values by experts"
_UNKNOWN = "a kind of layer that is not known"

_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "zamba", "zamba2", "plamo2", "phi4flash"), _STATE),
    **dict.fromkeys(("rwkv", "rwkv7", "recurrent_gemma"), _STATE),
    **dict.fromkeys(("minimax", "xlstm"), _STATE),
    "minicpm4": _SPARSE,
    **dict.fromkeys(("t5", "mt5", "bart", "mbart", "whisper", "t5gemma", "pegasus", "marian"), _ENCODER),
    **dict.fromkeys(("mllama", "mllama_text_model"), _CROSS),
    **dict.fromkeys(("gemma3n", "gemma3n_text"), _SHARED),
    **dict.fromkeys(("deci", "openelm"), _UNEQUAL),
    "step3": _UNEQUAL,
}

_HINTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ssm_cfg", "ssm_state_size", "mamba_d_state", "mamba_d_ssm", "mamba_num_heads"), _STATE),
    **dict.fromkeys(("state_size", "hybrid_override_pattern", "hybrid_layer_ids", "attn_layer_indices"), _STATE),
    **dict.fromkeys(("attn_layer_period", "linear_attn_config", "full_attention_interval"), _STATE),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "rwkv_version"), _STATE),
    **dict.fromkeys(("index_topk", "index_n_heads", "compress_ratios", "sparse_attention_config"), _SPARSE),
    **dict.fromkeys(("sparse_config", "nsa_config"), _SPARSE),
    "is_encoder_decoder": _ENCODER,
    "cross_attention_layers": _CROSS,
    "add_cross_attention": _CROSS,
    **dict.fromkeys(("use_cla", "num_kv_shared_layers", "hidden_size_per_layer_input", "altup_num_inputs"), _SHARED),
    **dict.fromkeys(("block_configs", "hybrid_layer_pattern", "attention_other_setting"), _UNEQUAL),
    **dict.fromkeys(("swa_num_key_value_heads", "swa_num_attention_heads", "swa_head_dim"), _UNEQUAL),
    **dict.fromkeys(("global_head_dim", "num_global_key_value_heads"), _UNEQUAL),
    **dict.fromkeys(("zero_expert_num", "num_zero_experts"), _IDLE),
    "mova_num_experts": _VALUES,
}
"""Fields that only models have which are not modelled; a null, false, zero or empty value does not count."""
_DIFFERENT: Final = frozenset({
    "axk2", "dots3_note", "dots3_note_text", "inkling_mm_model", "inkling_text", "inkling2", "inkling2_text",
    "nemotron-nas", "step3p5", "step3p7",
})  # fmt: skip
"""Types whose layers may differ in other ways than a family tells."""
_NEAREST: Final[Mapping[str, str]] = {
    _STATE: "Qwen/Qwen3-Next-80B-A3B-Instruct, Qwen/Qwen3.5-27B or nvidia/NVIDIA-Nemotron-Nano-9B-v2",
    _SPARSE: "deepseek-ai/DeepSeek-V3.2 or MiniMaxAI/MiniMax-M3",
    _SHARED: "google/gemma-4-31B",
    _CROSS: "a text model of the same family",
    _UNEQUAL: "stepfun-ai/Step-3.7-Flash or XiaomiMiMo/MiMo-V2-Flash, whose layers differ too",
    _IDLE: "a mixture of experts that all compute, such as deepseek-ai/DeepSeek-V3.2",
    _VALUES: "Qwen/Qwen3-30B-A3B or another mixture of experts with as many active parameters",
    _ENCODER: "a decoder alone, such as Qwen/Qwen3-8B",
    _UNKNOWN: "a copy of the file in which such layers are of the known kind that is most like them "
    "(full_attention, sliding_attention, linear_attention)",
}
"""By reason: models of like layers that can be planned, whichever is nearest in size."""
_LISTS: Final = ("layer_types", "layers_block_type", "hybrid_override_pattern")
_LAYER_TYPES: Final = frozenset(get_args(LayerKind)) | frozenset(KIND_NAMES)


def why_not(config: Mapping[str, Any]) -> str | None:
    """Return in words what of a configuration is not modelled, and what can be planned instead.

    None: nothing that is known not to be modelled.
    """
    reason = _reason(config)
    if reason is None:
        return None
    nearest = next(models for of, models in _NEAREST.items() if reason.endswith(of))
    return f"{reason}, which is not modelled; the nearest question that can be answered: a plan of {nearest}"


def _modelled(model_type: str) -> set[str]:
    """What is modelled after all in a type that is read with such fields."""
    family = FAMILIES.get(model_type)
    if family is None:
        return set()
    reads = {
        _STATE: family.mixing in ("gated-delta", "kda", "mamba1", "mamba2", "lightning"),
        _SPARSE: family.index or family.mixing == "compressed" or model_type.startswith("minimax_m3"),
        _IDLE: family.doubled,
        _UNEQUAL: family.unequal or family.dense_beside or model_type in _DIFFERENT,
        _SHARED: family.dense_beside,
    }
    return {reason for reason, is_read in reads.items() if is_read}


def _reason(config: Mapping[str, Any]) -> str | None:
    model_type = config.get("model_type")
    if isinstance(model_type, str) and model_type in _TYPES:
        return f"model_type {model_type!r} {_TYPES[model_type]}"
    modelled = _modelled(str(model_type))
    for name, reason in _HINTS.items():
        if config.get(name) and reason not in modelled:
            return f"{name} says that it {reason}"
    softmax = config.get("attn_type_list")  # of MiniMax: 1 is attention with softmax, 0 is linear
    if _STATE not in modelled and isinstance(softmax, list) and any(kind != 1 for kind in softmax):
        return f"attn_type_list says that it {_STATE}"
    sources = config.get("kv_source_layers")  # of Mistral-Large-4: each layer its own, unless they share
    if isinstance(sources, list) and sources != list(range(len(sources))):
        return f"kv_source_layers says that it {_SHARED}"
    for name in _LISTS:
        kinds = config.get(name)
        for kind in kinds if isinstance(kinds, list | str) else ():
            if str(kind) not in _LAYER_TYPES:
                return f"{name} has {str(kind)[:40]!r}, {_UNKNOWN}"
    return None
