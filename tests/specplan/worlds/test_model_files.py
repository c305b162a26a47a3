"""What is read of a config.json: layers, windows, experts, formats; and what is refused, in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
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
    ("model_type", "fields", "windows"),
    [
        ("mistral", {"sliding_window": 4096}, {4096: 32}),
        ("mistral", {"sliding_window": None}, {None: 32}),
        ("qwen2", {"sliding_window": 4096, "use_sliding_window": False}, {None: 32}),
        ("qwen2", {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 28}, {None: 28, 4096: 4}),
        ("gemma2", {"sliding_window": 4096}, {4096: 16, None: 16}),
        ("exaone4", {"sliding_window": 4096, "sliding_window_pattern": "LLLG"}, {4096: 24, None: 8}),
        (
            "olmo3",
            {"sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"] * 16},
            {64: 16, None: 16},
        ),
    ],
)
def test_windows(model_type: str, fields: dict[str, Any], windows: dict[int | None, int]) -> None:
    groups = facts(LLAMA, model_type=model_type, **fields).shape.layers
    assert {group.attention.window: group.count for group in groups} == windows


MIXTURE = {**LLAMA, "num_experts_per_tok": 8, "moe_intermediate_size": 768}


def experts(count: int, **more: int) -> Experts:
    """So many experts of such a mixture."""
    return Experts(**{"count": count, "per_token": 8, "intermediate": 768, **more})


@pytest.mark.parametrize(
    ("model_type", "fields", "expected", "n_dense"),
    [
        ("qwen3_moe", {"num_experts": 128}, experts(128), 0),
        ("qwen3_moe", {"num_experts": 128, "decoder_sparse_step": 2, "mlp_only_layers": [1]}, experts(128), 17),
        ("qwen2_moe", {"num_experts": 60, "shared_expert_intermediate_size": 5632}, experts(60, shared=5632), 0),
        ("mixtral", {"num_local_experts": 8}, experts(8, intermediate=14336), 0),
        (
            "ernie4_5_moe",
            {"moe_num_experts": 64, "moe_layer_start_index": 2, "moe_layer_end_index": -1},
            experts(64),
            2,
        ),
        ("hunyuan_v1_moe", {"num_experts": 64, "num_shared_expert": [1] * 32}, experts(64, shared=768), 0),
        (
            "glm4_moe",
            {"n_routed_experts": 160, "n_shared_experts": 2, "first_k_dense_replace": 3},
            experts(160, shared=1536),
            3,
        ),
        ("glm4_moe", {"n_routed_experts": 16, "mlp_layer_types": ["dense"] * 2 + ["sparse"] * 30}, experts(16), 2),
    ],
)
def test_experts(model_type: str, fields: dict[str, Any], expected: Experts, n_dense: int) -> None:
    groups = facts(MIXTURE, model_type=model_type, **fields).shape.layers
    assert [group.feed_forward for group in groups if isinstance(group.feed_forward, Experts)] == [expected]
    assert sum(group.count for group in groups if isinstance(group.feed_forward, Dense)) == n_dense


def test_first_revisions_of_minimax_m2() -> None:
    named = {"architectures": ["MiniMaxM2ForCausalLM"], "attn_type_list": [1] * 32, "num_local_experts": 16}
    assert facts(MIXTURE, model_type="minimax", **named).architecture == "minimax_m2"


def test_interleaved_experts_and_chunks() -> None:
    groups = shape_of("Llama-4-Maverick-17B-128E-Instruct").shape.layers
    kinds = {(isinstance(group.feed_forward, Experts), group.attention.window): group.count for group in groups}  # type: ignore[union-attr]
    assert kinds == {(False, 8192): 24, (True, 8192): 12, (True, None): 12}  # each fourth layer has no positions


def layers(module: str, *numbers: int) -> list[str]:
    """Names of a module in layers of these numbers."""
    return [f"model.layers.{i}.{module}" for i in numbers]


def stored(bits: int, kind: str, **more: Any) -> dict[str, Any]:
    """A group of weights as compressed-tensors describes it."""
    return {"weights": {"num_bits": bits, "type": kind, **more}}


def grouped(*groups: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What compressed-tensors says of such groups."""
    return {"quant_method": "compressed-tensors", "config_groups": dict(enumerate(groups)), **more}


def quark(weights: object, **more: Any) -> dict[str, Any]:
    """What AMD's Quark says where all weights are stored so."""
    return {"quant_method": "quark", "global_quant_config": {"weight": weights}, **more}


QUERIES, ALL = "self_attn.q_proj", range(32)
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}
FP4, FP8 = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}, {"dtype": "fp8_e4m3", "qscheme": "per_channel"}
CACHE = {"*k_proj": {"output_tensors": {"dtype": "fp8_e4m3"}}}
BY_MODULE = {
    "quant_algo": "MIXED_PRECISION",
    "kv_cache_quant_algo": "FP8",
    "quantized_layers": {
        "model.layers.0.mlp.experts": {"quant_algo": "W4A16_NVFP4"},
        "model.layers.0.linear_attn.out_proj": {"quant_algo": "FP8"},
        "lm_head": {"quant_algo": "NVFP4"},
    },
}


@pytest.mark.parametrize(
    ("quantisation", "precision"),
    [
        ({"quant_method": "fp8"}, Precision(weights="fp8")),
        ({**MODELOPT, "kv_cache_quant_algo": "FP8"}, Precision(weights="nvfp4", cache="fp8")),
        (
            {"quant_method": "fbgemm_fp8", "modules_to_not_convert": layers(QUERIES, *ALL)},
            Precision(weights="fp8", attention="bf16"),
        ),
        # spared in the first layer and the last only
        ({"quant_method": "fp8", "modules_to_not_convert": layers(QUERIES, 0, 31)}, Precision(weights="fp8")),
        (grouped(stored(4, "float", group_size=16)), Precision(weights="nvfp4")),
        (
            grouped(
                {"targets": ["Linear"], **stored(8, "float")},
                {"targets": ["re:.*mlp.experts.*"], **stored(4, "float", group_size=32)},
                ignore=["lm_head"],
            ),
            Precision(weights="fp8", attention="fp8", experts="mxfp4"),
        ),
        # four bits that are multiplied in eight
        (
            grouped({**stored(4, "int", group_size=128), "input_activations": {"num_bits": 8, "type": "float"}}),
            Precision(weights="int4"),
        ),
        ({**BLOCKS, "quant_method": "w4afp8"}, Precision(weights="fp8-block", experts="int4")),
        (
            quark(FP4, exclude=["lm_head", "re:.*self_attn.*"], kv_cache_quant_config=CACHE),
            Precision(weights="mxfp4", attention="bf16", cache="fp8"),
        ),
        (
            quark(FP8, layer_quant_config={"*.mlp.*": {"weight": {"dtype": "fp4_e2m1", "qscheme": "per_group"}}}),
            Precision(weights="mxfp4", attention="fp8", experts="mxfp4"),
        ),
        # of two stages the last is stored
        (quark([{"dtype": "fp8_e4m3"}, {"dtype": "int4"}]), Precision(weights="int4")),
        (quark({"dtype": "int8"}), Precision(weights="int8")),
        ({"quant_method": "quark"}, Precision()),
        # what mixes tokens has another name in half of the layers
        (
            {
                **MODELOPT,
                "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
                "ignore": [
                    *layers("linear_attn*", *ALL[:24]),
                    *layers("self_attn*", *ALL[24:]),
                    *layers("mlp.shared_expert*", *ALL),
                ],
            },
            Precision(weights="bf16", experts="nvfp4", cache="fp8"),
        ),
        (
            {**MODELOPT, "ignore": ["re:.*shared_experts.*"]},
            Precision(weights="bf16", attention="nvfp4", experts="nvfp4"),
        ),
        ({**BLOCKS, "moe_quant_algo": "NVFP4"}, Precision(weights="fp8-block", experts="nvfp4")),
        ({"quant_method": "fp8", "store_dtype": "mxfp4"}, Precision(weights="fp8", experts="mxfp4")),
        (
            {"producer": {"name": "modelopt"}, "quant_algo": "FP8", "kv_cache_scheme": "FP8"},
            Precision(weights="fp8", cache="fp8"),
        ),
        (
            {"producer": {"name": "modelopt"}, "quantization": BY_MODULE},
            Precision(weights="bf16", attention="fp8", experts="int4-group32", cache="fp8"),
        ),
    ],
)
def test_formats_of_published_weights(quantisation: dict[str, Any], precision: Precision) -> None:
    """Beside those of well-known copies, see `test_known_models`."""
    assert facts(LLAMA, quantization_config=quantisation).precision == precision


def unread(fields: dict[str, Any]) -> None:
    """Read a Llama's configuration with fields changed; None leaves one out."""
    config = {key: value for key, value in {**LLAMA, **fields}.items() if value is not None}
    facts_of_config(config, name="a model", where="config.json")


QWEN = {"model_type": "qwen3_moe", "num_experts": 8, "moe_intermediate_size": 64}
DEEPSEEK = {"model_type": "deepseek_v3", "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
test_refusals = refused(
    unread,
    ({"model_type": "phi4flash"}, "state-space or linear-attention"),
    ({"model_type": "minicpm4"}, "sparse attention"),
    ({"model_type": "t5"}, "encoder and a decoder"),
    ({"model_type": "mllama"}, "across to images"),
    ({"model_type": "minimax", "attn_type_list": [1] * 32}, "linear-attention"),
    ({"index_topk": 2048}, "index_topk"),
    ({"swa_head_dim": 192}, "swa_head_dim"),
    ({"v_head_dim": 64}, "v_head_dim: 64 beside head_dim=128"),
    ({"attn_type_list": [0, 1]}, "attn_type_list"),
    ({"layer_types": ["linear_attention"] * 32}, "linear_attention"),
    ({"layer_types": ["full_attention"]}, "1 entries must be num_hidden_layers=32"),
    ({"model_type": "brand_new"}, "'brand_new' is not known; if its layers are those of a known type"),
    ({"model_type": None}, "model_type: missing"),
    ({"hidden_size": None}, "^config.json: hidden_size: missing"),
    ({"hidden_size": -1}, "hidden_size: input should be greater than or equal to 1, got '-1'"),
    ({"num_hidden_layers": 10**9}, "num_hidden_layers: input should be less than or equal to 2000"),
    ({"num_key_value_heads": 7}, "must be a multiple of num_key_value_heads=7"),
    ({"sliding_window": 4096}, "windows are not known"),
    ({"num_local_experts": 8}, "experts are not known"),
    ({"kv_lora_rank": 512}, "latent attention is not known"),
    ({"model_type": "qwen3_moe"}, "num_experts: missing"),
    (QWEN, "num_experts_per_tok: missing"),
    (DEEPSEEK, "kv_lora_rank: missing"),
    ({"quantization_config": {"quant_method": "bitsandbytes"}}, "'bitsandbytes' is not modelled"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "3 bits are not modelled"),
    ({"quantization_config": {"quant_method": "fp8", "moe_quant_algo": [4]}}, r"quant_algo '\[4\]' is not"),
    ({"quantization_config": quark({"dtype": "int3"})}, "int3 bits are not modelled"),
    error=SchemaError,
)


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


@settings(max_examples=50)
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
