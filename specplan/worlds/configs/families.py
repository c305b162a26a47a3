"""Which ``model_type`` is modelled, and what its files leave unsaid.

Defaults are those of the configuration classes of transformers (5.x and 4.57), which fill what a published file leaves
out. A type that is not listed is refused: a size that means something else in an unknown architecture would give a
wrong number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal

__all__ = ["FAMILIES", "REMOTE", "Family"]

Windows = Literal["none", "all", "switch", "pattern"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How the configurations of a ``model_type`` are read."""

    tied: bool = False
    """Whether the head reuses the embeddings where the file does not say."""
    gated: bool = True

    windows: Windows = "none"
    """``all``: every layer, where ``sliding_window`` is a number; ``switch``: the layers from ``max_window_layers`` on,
    where ``use_sliding_window`` is true; ``pattern``: all but each n-th layer."""
    period: int = 0
    """Period of windows of kind ``pattern``: each so many-th layer attends to all, where the file does not say."""
    expert_size: Literal["moe_intermediate_size", "intermediate_size"] = "moe_intermediate_size"

    mixture: bool | None = False
    """Whether its files describe a mixture of experts; None: those do that name experts."""
    mixing: Literal[
        "attention", "gated-delta", "kda", "mamba1", "mamba2", "lightning", "bailing", "convolution", "compressed"
    ] = "attention"
    """Of the layers that are not full attention: what mixes tokens; ``bailing``: delta or lightning attention."""
    paired: bool = True
    """Whether each layer mixes tokens and has a feed-forward part; else it has one of both (Nemotron-H)."""
    beside: bool = False
    """Whether each layer keeps a state beside its attention, both of the same input (Falcon-H1)."""
    doubled: bool = False
    """Whether a layer attends twice, each time with a dense layer behind it, and has its experts beside the second."""
    index: bool = False
    """Whether full attention reads what an index of single tokens chooses."""
    gated_attention: bool = False
    """Whether outputs of full attention have a gate, where the file does not say."""
    unequal: bool = False
    """Whether keys and values of grouped-query attention may have different sizes."""
    dense_beside: bool = False
    """Whether all tokens pass a dense layer beside the routed experts, of ``intermediate_size`` columns."""
    cache: Literal["bf16", "fp8"] = "bf16"
    """Format of the cache where neither file nor user says it: what engines take for this architecture."""
    further: Literal["last", "windowed", "dense"] = "last"
    """Attention and feed-forward part of layers for further tokens: those of the last layer that attends; windowed
    attention and a dense part (vLLM, ``mimo_v2_mtp``); full attention and a dense part (Inkling)."""
    latent: bool = False

    scaled_context: bool = False
    """Whether ``max_position_embeddings`` includes any scaling of positions already."""
    norms: int = 2

    defaults: Mapping[str, Any] = field(default_factory=dict)


_DENSE = Family()
_SWITCH = Family(windows="switch")
_TIED = Family(tied=True)
_EXPERTS = Family(mixture=True)
_SMALL_EXPERTS = Family(mixture=True, expert_size="intermediate_size")
_DEEPSEEK = Family(mixture=True, latent=True, defaults={"first_k_dense_replace": 0, "moe_layer_freq": 1})
_GEMMA2 = Family(tied=True, windows="pattern", period=2, norms=4, defaults={"head_dim": 256})
_GEMMA3 = Family(
    tied=True,
    windows="pattern",
    period=6,
    scaled_context=True,
    norms=4,
    defaults={
        "head_dim": 256,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
)
_COHERE2 = Family(tied=True, windows="pattern", period=4, defaults={"sliding_window": 4096})
_AFMOE = Family(mixture=True, windows="pattern", period=4, gated_attention=True, norms=4)
_EXAONE_MOE = Family(mixture=True, windows="pattern", period=4, defaults={"first_k_dense_replace": 1})
_BAILING = Family(mixture=True, windows="switch", defaults={"first_k_dense_replace": 0})
_ERNIE_MOE = Family(mixture=True, tied=True, defaults={"moe_layer_start_index": 1, "moe_layer_interval": 1})
_LLAMA4 = Family(
    mixture=True,
    windows="pattern",
    period=4,
    norms=4,
    expert_size="intermediate_size",
    defaults={
        "attention_chunk_size": 8192,
        "head_dim": 128,
        "interleave_moe_layer_step": 1,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "num_shared_experts": 1,
        "vocab_size": 202048,
    },
)
_UNGATED = Family(gated=False)
_DELTA = Family(mixing="gated-delta", gated_attention=True, defaults={"full_attention_interval": 4})
_NEMOTRON_H = Family(mixing="mamba2", paired=False, gated=False, mixture=None, norms=2)
_GRANITE_HYBRID = Family(
    mixing="mamba2", mixture=None, expert_size="intermediate_size", tied=True, defaults={"mamba_n_groups": 1}
)
_KIMI_LINEAR = Family(
    mixing="kda", latent=True, mixture=True, defaults={"first_k_dense_replace": 0, "moe_layer_freq": 1}
)
_BAILING_HYBRID = Family(
    mixing="bailing", latent=True, mixture=True, defaults={"first_k_dense_replace": 0, "moe_layer_freq": 1}
)
_LIGHTNING = Family(mixing="lightning", mixture=True, expert_size="intermediate_size")
_LFM2 = Family(
    mixing="convolution", tied=True,
    defaults={"conv_L_cache": 3, "block_auto_adjust_ff_dim": True, "block_multiple_of": 256},
)  # fmt: skip
_GEMMA4 = Family(tied=True, mixture=None, dense_beside=True, norms=4, scaled_context=True)
# its file does not count the layers for further tokens, of which vLLM drafts with one
_MIMO2 = Family(
    mixture=True, unequal=True, further="windowed", defaults={"n_shared_experts": 0, "num_nextn_predict_layers": 1}
)
_STEP35 = Family(mixture=True, windows="all", defaults={"n_shared_experts": 0})
_MINIMAX_M3 = Family(mixture=True, expert_size="intermediate_size")
_DEEPSEEK_V4 = Family(mixing="compressed", mixture=True, norms=2, cache="fp8")
_SANDWICH = Family(mixture=True, gated_attention=True, norms=4)
_INKLING = Family(
    mixture=True, expert_size="intermediate_size", further="dense",
    defaults={"sliding_window_size": 512, "sconv_kernel_size": 4, "d_rel": 16},
)  # fmt: skip
_DOTS3 = replace(_DEEPSEEK, index=True, defaults={
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "swa_num_attention_heads": 64, "swa_q_lora_rank": 1024,
    "swa_kv_lora_rank": 1024, "swa_qk_nope_head_dim": 192, "swa_qk_rope_head_dim": 64, "swa_v_head_dim": 128,
})  # fmt: skip
_JAMBA = Family(
    mixing="mamba1", mixture=None, expert_size="intermediate_size",
    defaults={
        "attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1,
        "mamba_d_state": 16, "mamba_expand": 2,
    },
)  # fmt: skip

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        **dict.fromkeys(("llama", "glm", "granite", "helium", "internlm3", "seed_oss", "stablelm"), _DENSE),
        **dict.fromkeys(("olmo", "mimo", "exaone", "ministral3"), _DENSE),
        **dict.fromkeys(("glm4", "glm4v_text", "olmo2"), Family(norms=4)),
        **dict.fromkeys(("hunyuan_v1_dense", "iquestcoder", "k2_horizon", "nemotron-nas", "cwm"), _DENSE),
        **dict.fromkeys(("ernie4_5", "smollm3", "cohere", "granite_swa"), _TIED),
        **dict.fromkeys(("arcee", "apertus", "apertus1p5_text", "jais2", "nemotron", "phi"), _UNGATED),
        **dict.fromkeys(("youtu", "minicpm3"), Family(latent=True, tied=True)),
        "starcoder2": Family(gated=False, tied=True, windows="all"),
        "gemma": Family(tied=True, defaults={"head_dim": 256}),
        "gemma2": _GEMMA2,
        "gemma3_text": _GEMMA3,
        "cohere2": _COHERE2,
        "cohere2_moe": replace(_COHERE2, mixture=True, expert_size="intermediate_size"),
        "laguna": Family(mixture=True, defaults={"first_k_dense_replace": 1}),
        **dict.fromkeys(("exaone4", "exaone4_5_text"), Family(windows="pattern", period=4)),
        "olmo3": Family(windows="pattern", period=4, norms=4),
        **dict.fromkeys(("mistral", "phi3", "ministral"), Family(windows="all")),
        **dict.fromkeys(("qwen2", "qwen2_5_vl", "qwen2_vl", "qwen2_5_vl_text", "qwen2_vl_text"), _SWITCH),
        **dict.fromkeys(("qwen3", "qwen3_vl_text"), _SWITCH),
        "qwen2_moe": replace(_EXPERTS, windows="switch"),
        **dict.fromkeys(("qwen3_moe", "qwen3_vl_moe_text"), replace(_EXPERTS, windows="switch")),
        **dict.fromkeys(("mixtral", "phimoe"), replace(_SMALL_EXPERTS, windows="all")),
        **dict.fromkeys(("granitemoe", "granitemoeshared", "granitemoe_swa"), _SMALL_EXPERTS),
        **dict.fromkeys(("olmoe", "minimax_m2"), replace(_SMALL_EXPERTS, norms=4)),
        "gpt_oss": replace(_SMALL_EXPERTS, windows="pattern", period=2),
        **dict.fromkeys(("deepseek_v2", "deepseek_v3", "kimi_k2", "kimi_k25", "glm4_moe_lite"), _DEEPSEEK),
        **dict.fromkeys(("glm4_moe", "glm4v_moe_text", "dots1", "solar_open"), replace(_DEEPSEEK, latent=False)),
        "hy_v3": Family(mixture=True, defaults={"first_k_dense_replace": 1}),
        "exaone_moe": _EXAONE_MOE,
        "afmoe": _AFMOE,
        **dict.fromkeys(("bailing_moe", "bailing_moe_v2"), _BAILING),
        "ernie4_5_moe": _ERNIE_MOE,
        **dict.fromkeys(("hunyuan_v1_moe", "hunyuan"), Family(mixture=True, tied=True)),
        "llama4_text": _LLAMA4,
        **dict.fromkeys(("qwen3_5", "qwen3_5_text"), _DELTA),
        **dict.fromkeys(("qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text"), replace(_DELTA, mixture=True)),
        **dict.fromkeys(("qwen4_exp", "qwen4_exp_text"), replace(_DELTA, mixture=True)),
        "nemotron_h": _NEMOTRON_H,
        "granitemoehybrid": _GRANITE_HYBRID,
        **dict.fromkeys(("kimi_linear", "kimi_k3"), _KIMI_LINEAR),
        **dict.fromkeys(("glm5_next", "glm5_next_text"), replace(_KIMI_LINEAR, index=True)),
        "bailing_hybrid": _BAILING_HYBRID,
        **dict.fromkeys(("minimax_m1", "minimax_text_01", "MiniMaxM1", "MiniMaxText01"), _LIGHTNING),
        "lfm2": _LFM2,
        "lfm2_moe": replace(_LFM2, mixture=True, defaults={"conv_L_cache": 3, "num_dense_layers": 2}),
        "lfm3": replace(_LFM2, norms=4, defaults={"conv_L_cache": 7}),
        "gigachat3_5": replace(_DELTA, latent=True, mixture=True, gated_attention=False, norms=4),
        **dict.fromkeys(("muse_glimmer", "muse_glimmer_text"), Family(windows="all", gated_attention=True, norms=4)),
        **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), replace(_DEEPSEEK, index=True)),
        "hy_v4": replace(_DEEPSEEK, index=True, defaults={"first_k_dense_replace": 1, "mla_use_output_gate": True}),
        "longcat_flash": replace(_DEEPSEEK, doubled=True, norms=2, defaults={}),
        "axk1": replace(_DEEPSEEK, norms=3),
        **dict.fromkeys(("mistral_large4", "mistral_large4_text"), replace(_DEEPSEEK, index=True)),
        **dict.fromkeys(("mellum", "kolibri1", "flint"), _EXPERTS),
        **dict.fromkeys(("beam", "muse_spark", "muse_spark_text"), _SANDWICH),
        **dict.fromkeys(("inkling_mm_model", "inkling_text"), _INKLING),
        **dict.fromkeys(("inkling2", "inkling2_text"), replace(_INKLING, gated_attention=True)),
        "axk2": replace(_DEEPSEEK, index=True, defaults={"first_k_dense_replace": 1, "mla_use_output_gate": True}),
        **dict.fromkeys(("dots3_note", "dots3_note_text"), _DOTS3),
        "falcon_h1": Family(mixing="mamba2", beside=True, norms=1, defaults={"mamba_n_groups": 1}),
        "bamba": replace(_GRANITE_HYBRID, tied=False, mixture=False),
        "jamba": _JAMBA,
        "olmo_hybrid": replace(_DELTA, gated_attention=False),
        **dict.fromkeys(("deepseek_v4", "deepseek_v41", "deepseek_v41_text"), _DEEPSEEK_V4),
        **dict.fromkeys(("minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text"), _MINIMAX_M3),
        **dict.fromkeys(("gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"), _GEMMA4),
        "gemma4_assistant": replace(_GEMMA4, mixture=False),
        **dict.fromkeys(("mimo_v2_flash", "mimo_v2"), _MIMO2),
        **dict.fromkeys(("step3p5", "step3p7"), _STEP35),
        "mistral4": _DEEPSEEK,
    }
)
"""Families by ``model_type``, of the language part where a file describes more."""
REMOTE: Final = frozenset({
    "bailing_moe", "bailing_moe_v2", "exaone", "internlm3", "kimi_k2", "kimi_k25", "kimi_k3", "kimi_linear", "mimo",
    "mimo_v2", "k2_horizon", "nemotron-nas",
})  # fmt: skip
"""Types for whose configurations, or (Kimi) tokenizers, vLLM 0.32 and transformers 5.19 have no classes: the code is in
the models' repositories (``auto_map``), and servers run it if they are told to."""
