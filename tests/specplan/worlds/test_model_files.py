"""What is read of a config.json: layers, windows, experts, formats; and what is refused, in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from specplan.worlds.model_files import draft_head, facts_of_config, shape_of
from theory.errors import ParameterError, SchemaError, SpecplanError
from theory.hardware.formats import Precision
from theory.hardware.shapes import Attention, Dense, Experts

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
GEMMA3: dict[str, Any] = {  # as published, text_config leaves out heads, head_dim, vocabulary and positions
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    },
    "vision_config": {"hidden_size": 1152},
}


def facts(config: dict[str, Any], **changed: Any) -> Any:
    return facts_of_config({**config, **changed}, name="a model", where="config.json")


def refusal(config: dict[str, Any], **changed: Any) -> str:
    with pytest.raises(SchemaError) as caught:
        facts(config, **changed)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("config.json: ")
    return text


def test_what_a_file_leaves_out_is_filled_in_as_transformers_does() -> None:
    found = facts(GEMMA3)
    windowed, full = found.shape.layers
    assert windowed.attention == Attention(heads=8, kv_heads=4, head_dim=256, window=1024)
    assert (windowed.count, full.count, full.attention.window) == (29, 5, None)  # each sixth of 34 sees everything
    assert found.shape.tied
    assert found.shape.vocab == 262208
    assert found.max_context == 131072  # the scaling of positions is included
    assert any("language part" in note for note in found.notes)
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    assert facts(LLAMA, max_position_embeddings=40960, rope_scaling=yarn).max_context == 131072


@pytest.mark.parametrize(
    ("changed", "windows"),
    [
        ({"model_type": "mistral", "sliding_window": 4096}, {4096: 32}),
        ({"model_type": "mistral", "sliding_window": None}, {None: 32}),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, {None: 32}),
        (
            {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 28},
            {None: 28, 4096: 4},
        ),
        ({"model_type": "gemma2", "sliding_window": 4096}, {4096: 16, None: 16}),
        ({"model_type": "exaone4", "sliding_window": 4096, "sliding_window_pattern": "LLLG"}, {4096: 24, None: 8}),
        (
            {"model_type": "olmo3", "sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"] * 16},
            {64: 16, None: 16},
        ),
    ],
)
def test_windows(changed: dict[str, Any], windows: dict[int | None, int]) -> None:
    groups = facts(LLAMA, **changed).shape.layers
    assert {group.attention.window: group.count for group in groups} == windows


MIXTURE = {**LLAMA, "num_experts_per_tok": 8, "moe_intermediate_size": 768}


@pytest.mark.parametrize(
    ("changed", "experts", "n_dense"),
    [
        ({"model_type": "qwen3_moe", "num_experts": 128}, Experts(count=128, per_token=8, intermediate=768), 0),
        (
            {"model_type": "qwen3_moe", "num_experts": 128, "decoder_sparse_step": 2, "mlp_only_layers": [1]},
            Experts(count=128, per_token=8, intermediate=768),
            17,
        ),
        (
            {"model_type": "qwen2_moe", "num_experts": 60, "shared_expert_intermediate_size": 5632},
            Experts(count=60, per_token=8, intermediate=768, shared=5632),
            0,
        ),
        (
            {"model_type": "glm4_moe", "n_routed_experts": 160, "n_shared_experts": 2, "first_k_dense_replace": 3},
            Experts(count=160, per_token=8, intermediate=768, shared=1536),
            3,
        ),
        ({"model_type": "mixtral", "num_local_experts": 8}, Experts(count=8, per_token=8, intermediate=14336), 0),
        (
            {
                "model_type": "ernie4_5_moe",
                "moe_num_experts": 64,
                "moe_layer_start_index": 2,
                "moe_layer_end_index": -1,
            },
            Experts(count=64, per_token=8, intermediate=768),
            2,
        ),
        (
            {"model_type": "hunyuan_v1_moe", "num_experts": 64, "num_shared_expert": [1] * 32},
            Experts(count=64, per_token=8, intermediate=768, shared=768),
            0,
        ),
    ],
)
def test_experts(changed: dict[str, Any], experts: Experts, n_dense: int) -> None:
    groups = facts(MIXTURE, **changed).shape.layers
    assert [group.feed_forward for group in groups if isinstance(group.feed_forward, Experts)] == [experts]
    assert sum(group.count for group in groups if isinstance(group.feed_forward, Dense)) == n_dense


def test_layers_told_one_by_one() -> None:
    kinds = ["dense"] * 2 + ["sparse"] * 30  # as transformers 5 writes them
    groups = facts(MIXTURE, model_type="glm4_moe", n_routed_experts=16, mlp_layer_types=kinds).shape.layers
    assert [(group.count, isinstance(group.feed_forward, Experts)) for group in groups] == [(2, False), (30, True)]


def test_first_revisions_of_minimax_m2() -> None:
    config = {**MIXTURE, "num_local_experts": 16, "architectures": ["MiniMaxM2ForCausalLM"], "attn_type_list": [1] * 32}
    assert facts(config, model_type="minimax").architecture == "minimax_m2"
    assert "linear-attention" in refusal({**config, "architectures": []}, model_type="minimax")


def test_interleaved_experts_and_chunks() -> None:
    groups = shape_of("Llama-4-Maverick-17B-128E-Instruct").shape.layers
    kinds = {(isinstance(group.feed_forward, Experts), group.attention.window): group.count for group in groups}  # type: ignore[union-attr]
    assert kinds == {(False, 8192): 24, (True, 8192): 12, (True, None): 12}  # each fourth layer has no positions


@pytest.mark.parametrize(
    ("quantisation", "precision"),
    [
        ({"quant_method": "fp8"}, Precision(weights="fp8")),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, Precision(weights="fp8-block")),
        ({"quant_method": "mxfp4"}, Precision(experts="mxfp4")),
        ({"quant_method": "awq", "bits": 4}, Precision(weights="int4")),
        ({"quant_method": "gptq", "bits": 8}, Precision(weights="int8")),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"},
            Precision(weights="nvfp4", cache="fp8"),
        ),
        (
            {
                "quant_method": "fbgemm_fp8",
                "modules_to_not_convert": [f"model.layers.{i}.self_attn.q_proj" for i in range(32)],
            },
            Precision(weights="fp8", attention="bf16"),
        ),
        (  # spared in the first layer and the last only
            {"quant_method": "fp8", "modules_to_not_convert": [f"model.layers.{i}.self_attn.q_proj" for i in (0, 31)]},
            Precision(weights="fp8"),
        ),
        (  # patterns as Kimi K2 has them: only the experts are quantised
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
                "ignore": ["lm_head", "re:.*self_attn.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
            },
            Precision(experts="int4-group32"),
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}},
            },
            Precision(weights="nvfp4"),
        ),
        (  # groups of two formats: all layers, and those of patterns
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}},
                    "group_1": {
                        "targets": ["re:.*mlp.experts.*"],
                        "weights": {"num_bits": 4, "type": "float", "group_size": 32},
                    },
                },
                "ignore": ["lm_head"],
            },
            Precision(weights="fp8", attention="fp8", experts="mxfp4"),
        ),
        (  # four bits that are multiplied in eight
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 4, "type": "int", "group_size": 128},
                        "input_activations": {"num_bits": 8, "type": "float"},
                    }
                },
            },
            Precision(weights="int4"),
        ),
        ({"quant_method": "w4afp8", "weight_block_size": [128, 128]}, Precision(weights="fp8-block", experts="int4")),
        (
            {
                "quant_method": "quark",
                "global_quant_config": {"weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}},
                "exclude": ["lm_head", "re:.*self_attn.*"],
                "kv_cache_quant_config": {"*k_proj": {"output_tensors": {"dtype": "fp8_e4m3"}}},
            },
            Precision(weights="mxfp4", attention="bf16", cache="fp8"),
        ),
        (
            {
                "quant_method": "quark",
                "global_quant_config": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_channel"}},
                "layer_quant_config": {"*.mlp.*": {"weight": {"dtype": "fp4_e2m1", "qscheme": "per_group"}}},
            },
            Precision(weights="mxfp4", attention="fp8", experts="mxfp4"),
        ),
        (  # two stages, the last of which is stored
            {"quant_method": "quark", "global_quant_config": {"weight": [{"dtype": "fp8_e4m3"}, {"dtype": "int4"}]}},
            Precision(weights="int4"),
        ),
        (  # shared experts and what mixes tokens stay in bf16, in half of the layers by other names
            {
                "quant_method": "modelopt",
                "quant_algo": "NVFP4",
                "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
                "ignore": [
                    *(f"model.layers.{i}.linear_attn*" for i in range(24)),
                    *(f"model.layers.{i}.self_attn*" for i in range(24, 32)),
                    *(f"model.layers.{i}.mlp.shared_expert*" for i in range(32)),
                ],
            },
            Precision(weights="bf16", experts="nvfp4", cache="fp8"),
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["re:.*shared_experts.*"]},
            Precision(weights="bf16", attention="nvfp4", experts="nvfp4"),
        ),
        (
            {"quant_method": "fp8", "weight_block_size": [128, 128], "moe_quant_algo": "NVFP4"},
            Precision(weights="fp8-block", experts="nvfp4"),
        ),
        ({"quant_method": "fp8", "store_dtype": "mxfp4"}, Precision(weights="fp8", experts="mxfp4")),
        (
            {"producer": {"name": "modelopt"}, "quant_algo": "FP8", "kv_cache_scheme": "FP8"},
            Precision(weights="fp8", cache="fp8"),
        ),
    ],
)
def test_formats_of_published_weights(quantisation: dict[str, Any], precision: Precision) -> None:
    assert facts(LLAMA, quantization_config=quantisation).precision == precision


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"model_type": "phi4flash"}, "state-space or linear-attention"),
        ({"model_type": "minicpm4"}, "sparse attention"),
        ({"model_type": "t5"}, "encoder and a decoder"),
        ({"model_type": "mllama"}, "across to images"),
        ({"index_topk": 2048}, "index_topk"),
        ({"swa_head_dim": 192}, "swa_head_dim"),
        ({"v_head_dim": 64}, "v_head_dim: 64 beside head_dim=128"),
        ({"attn_type_list": [0, 1]}, "attn_type_list"),
        ({"layer_types": ["linear_attention"] * 32}, "linear_attention"),
        ({"model_type": "brand_new"}, "'brand_new' is not known; if its layers are those of a known type"),
        ({"model_type": None}, "model_type: missing"),
        ({"hidden_size": None}, "hidden_size: missing"),
        ({"hidden_size": -1}, "hidden_size: input should be greater than or equal to 1, got '-1'"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers: input should be less than or equal to 2000"),
        ({"num_key_value_heads": 7}, "must be a multiple of num_key_value_heads=7"),
        ({"sliding_window": 4096}, "windows are not known"),
        ({"num_local_experts": 8}, "experts are not known"),
        ({"kv_lora_rank": 512}, "latent attention is not known"),
        ({"model_type": "qwen3_moe"}, "num_experts: missing"),
        ({"model_type": "qwen3_moe", "num_experts": 8, "moe_intermediate_size": 64}, "num_experts_per_tok: missing"),
        (
            {"model_type": "deepseek_v3", "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64},
            "kv_lora_rank: missing",
        ),
        ({"layer_types": ["full_attention"]}, "1 entries must be num_hidden_layers=32"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "'bitsandbytes' is not modelled"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "3 bits are not modelled"),
        ({"quantization_config": {"quant_method": "fp8", "moe_quant_algo": [4]}}, "quant_algo '[4]' is not known"),
        (
            {"quantization_config": {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "int3"}}}},
            "int3 bits are not modelled",
        ),
    ],
)
def test_refusals(changed: dict[str, Any], expected: str) -> None:
    assert expected in refusal({key: value for key, value in {**LLAMA, **changed}.items() if value is not None})


def test_a_file_and_the_folder_around_it(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    by_folder, by_file = shape_of(str(folder)), shape_of(str(folder / "config.json"))
    assert by_folder == by_file
    assert by_folder.name == "my-model"
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}
    (folder / "hf_quant_config.json").write_text(json.dumps(beside))
    assert shape_of(str(folder)).precision == Precision(weights="fp8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not JSON"),
        ("[1]", "must hold a JSON object"),
        ("[" * 100_000, "nested too deep"),
        ('{"hidden_size": ' + "9" * 10_000 + "}", "a number too long"),
        (" " * 4_000_001, "larger than 4000000 bytes"),
    ],
)
def test_files_that_are_no_configuration(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(SchemaError, match=expected) as caught:
        shape_of(str(file))
    assert "\n" not in str(caught.value)


test_names_that_lead_nowhere = refused(
    shape_of, *((name, "must ") for name in ("", "./nowhere", "nowhere.json", "a" * 5000, "zero\0byte"))
)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = [*MIXTURE, "head_dim", "layer_types", "sliding_window", "quantization_config", "num_experts", "rope_scaling"]


@given(
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4),
    st.sampled_from(["llama", "qwen3_moe", "gemma3_text", "deepseek_v3", "llama4_text", "ernie4_5_moe"]),
)
def test_whatever_stands_in_a_file_it_is_read_or_refused_in_one_line(changed: dict[str, Any], model_type: str) -> None:
    config = {**MIXTURE, "model_type": model_type, **changed}
    found, said = None, ""
    try:
        found = facts(config)
    except SpecplanError as error:
        said = str(error)
    assert "\n" not in said
    assert found is None or found.shape.parameters >= found.shape.active_parameters > 0


def test_draft_heads() -> None:
    published = shape_of("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B").shape
    layer = 4096 * 128 * (2 * 32 + 2 * 8) + 3 * 4096 * 14336  # what its configuration describes as a Llama layer
    joining = 3 * 4096 * 4096 + 4096 * 128 * (32 + 2 * 8)  # three states into one; keys from embedding and state
    head = 4096 * 32000
    assert published.parameters == pytest.approx(layer + joining + head, rel=1e-4)
    target = shape_of("meta-llama/Llama-3.1-8B-Instruct")
    assert draft_head(target, "eagle3").shape.parameters == pytest.approx(published.parameters, rel=0.1)
    deepseek = shape_of("DeepSeek-V3")
    assert draft_head(deepseek, "mtp").shape.layers[0].feed_forward == deepseek.shape.layers[-1].feed_forward
    with pytest.raises(ParameterError, match="needs layers for further tokens"):
        draft_head(target, "mtp")
    with pytest.raises(ParameterError, match="must be one of eagle, eagle3, mtp"):
        draft_head(target, "medusa")
