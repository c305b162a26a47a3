"""The table of well-known models: every shape has the published number of parameters, every name is found."""

import csv
import os
from pathlib import Path

import pytest

from specplan.worlds.known_models import KnownModel, base_name, known_config, known_copies, known_models
from specplan.worlds.model_files import facts_of_config, shape_of
from theory.errors import ParameterError, SchemaError
from theory.hardware.formats import Precision
from theory.hardware.gpus import gpu_named
from theory.hardware.passes import PassModel
from theory.hardware.work import Work

DATA = Path(os.environ.get("SPECPLAN_DATA", Path(__file__).parents[4] / "shared" / "data"))
TOLERANCE = 0.01
"""Between a shape's weights and the published count: some publish it rounded to three digits or less (GLM-4.5-Air 106
billion, 0.8 % below), and norms and biases are left out (up to 0.03 %)."""
UNCOUNTED = ("moonshotai/Kimi-K3", "MiniMaxAI/MiniMax-M3")
"""Models of which no published count was at hand: only the reading of their sizes is tested."""
ODD: tuple[object, ...] = (
    None, 0, -1, 1, 7, 10**9, 1.5, "x", True, [], [1, 2], {"a": 1}, ["conv"],
)  # fmt: skip
MODELLED = [model for model in known_models() if set(model.config) != {"model_type"}]
REFUSED = [model.names[0] for model in known_models() if model not in MODELLED]


@pytest.mark.parametrize("model", MODELLED, ids=lambda model: model.names[0])
def test_parameters_are_as_published_and_a_pass_has_a_time(model: KnownModel) -> None:
    facts, published = shape_of(model.names[0]), model.n_parameters
    parameters = facts.shape.parameters
    if isinstance(published, tuple):
        assert published[0] <= parameters <= published[1]
    elif published is not None:
        assert parameters == pytest.approx(published, rel=TOLERANCE)
    elif model.names[0] not in UNCOUNTED:
        assert facts.shape.n_layers == 1, "only draft heads are published without a count"
    gpu, work = gpu_named("H100"), Work(sequences=8, context=1000)
    seconds = PassModel(gpu=gpu, shape=facts.shape, precision=facts.precision).seconds(work)
    least = facts.shape.active_parameters / 2 / gpu.sheet.bandwidth  # half a byte per weight, at full bandwidth
    assert least < seconds < 2.0


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_modelled_is_refused_by_name(name: str) -> None:
    with pytest.raises(SchemaError, match="which is not modelled"):
        shape_of(name)


@pytest.mark.parametrize("model_type", sorted({str(model.config["model_type"]) for model in known_models()}))
def test_a_field_that_makes_no_sense_gives_one_line_or_a_model(model_type: str) -> None:
    """Each field of a model of each type replaced by each of these values: nothing else comes out."""
    model = next(model for model in known_models() if model.config["model_type"] == model_type)
    for key in model.config:
        for value in ODD:
            try:
                said = str(facts_of_config({**model.config, key: value}, name="x", where="x").shape.parameters)
            except SchemaError as error:
                said = str(error)
            assert len(said.splitlines()) == 1, (model.names[0], key, value)


def test_every_name_is_found_once_and_in_any_form() -> None:
    names = [name for model in known_models() for name in model.names]
    assert len({name.lower() for name in names}) == len(names)
    bare = [name.lower().rpartition("/")[2] for name in names]
    assert len(set(bare)) == len(bare), "two organisations, one name: which sizes would it have without organisation?"
    for name in names:
        for asked in (name, name.upper(), name.rpartition("/")[2]):
            assert known_config(asked)[0] == name


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("Qwen/Qwen3-32B-FP8", Precision(weights="fp8-block")),
        ("Qwen/Qwen3-32B-AWQ", Precision(weights="int4")),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", Precision(weights="int8")),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", Precision(weights="fp8", cache="fp8")),
        ("nvidia/Qwen3-235B-A22B-FP8", Precision(weights="fp8", cache="fp8")),
        ("nvidia/Kimi-K2.5-NVFP4", Precision(weights="nvfp4", attention="bf16", cache="fp8")),
        ("nvidia/GLM-5.2-NVFP4", Precision(experts="nvfp4", cache="fp8")),
        ("GLM-5-NVFP4", Precision(weights="nvfp4", attention="bf16", cache="fp8")),
        ("deepseek-ai/DeepSeek-V4-Flash", Precision(weights="fp8-block", experts="mxfp4", cache="fp8")),
        ("nvidia/DeepSeek-V4-Pro-NVFP4", Precision(weights="fp8-block", experts="nvfp4", cache="fp8")),
        ("nvidia/Qwen3.5-397B-A17B-NVFP4", Precision(experts="nvfp4", cache="fp8")),
        ("nvidia/Qwen3.6-35B-A3B-NVFP4", Precision(attention="fp8", experts="int4-group32")),
        ("nvidia/MiniMax-M3-NVFP4", Precision(weights="fp8-block", attention="fp8-block", experts="nvfp4")),
        ("poolside/Laguna-M.1-FP8", Precision(weights="fp8-block")),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", Precision(weights="fp8")),
        ("deepseek-ai/DeepSeek-R1", Precision(weights="fp8-block")),
        ("unsloth/DeepSeek-V3-BF16", Precision()),
        ("openai/gpt-oss-120b", Precision(experts="mxfp4")),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", Precision(weights="fp8", attention="bf16")),
        ("moonshotai/Kimi-K2-Thinking", Precision(experts="int4-group32")),
        ("inclusionAI/Ling-3.0-flash-int4", Precision(experts="int4-group32")),
        ("inclusionAI/Ling-3.0-flash-fp4", Precision(weights="fp8-block", experts="mxfp4")),
        ("amd/Llama-3.3-70B-Instruct-FP8-KV", Precision(weights="fp8", cache="fp8")),
        ("RedHatAI/Qwen3-8B-W4A16", Precision(weights="int4")),
        ("cpatonn/Qwen3-Next-80B-A3B-Instruct-AWQ-4bit", Precision(weights="int4")),
        ("RedHatAI/Qwen3-8B-FP8-block", Precision(weights="fp8-block")),
        ("Intel/Qwen3-8B-int4-AutoRound", Precision(weights="int4")),
        ("RedHatAI/Qwen3-8B-NVFP4A16", Precision(weights="int4-group32")),
        ("XiaomiMiMo/MiMo-V2.6-Pro-RL", Precision(weights="fp8", experts="mxfp4")),
        ("Qwen/Qwen3.8-2.4T-A95B-FP8-MXFP4", Precision(weights="fp8-block", experts="mxfp4")),
        ("thinkingmachines/Inkling-NVFP4", Precision(experts="nvfp4")),
    ],
)
def test_endings_say_how_weights_are_stored(name: str, precision: Precision) -> None:
    assert shape_of(name).precision == precision


@pytest.mark.parametrize(
    ("typed", "served"),
    [
        ("RedHatAI/Qwen3-32B-quantized.w4a16", "RedHatAI/Qwen3-32B-quantized.w4a16"),
        ("https://huggingface.co/nvidia/Qwen3-8B-NVFP4", "nvidia/Qwen3-8B-NVFP4"),
        ("qwen/qwen3-32b-awq", "Qwen/Qwen3-32B-awq"),
        ("Qwen3 32B FP8", "Qwen/Qwen3-32B-FP8"),
    ],
)
def test_a_copy_keeps_its_publisher_whose_files_are_served(typed: str, served: str) -> None:
    assert shape_of(typed).name == served
    assert base_name(served) in ("Qwen/Qwen3-32B", "Qwen/Qwen3-8B")


def test_copies_are_of_models_of_the_table_under_their_own_names() -> None:
    for copy in known_copies():
        assert base_name(copy.name) == copy.of
        facts = shape_of(copy.name.upper())
        assert (facts.name, facts.shape) == (copy.name, shape_of(copy.of).shape)
        assert facts.precision != shape_of(copy.of).precision


@pytest.mark.parametrize(
    ("typed", "whose", "meant"),
    [
        ("unsloth/Qwen3-8B-GGUF:Q4_K_M", "llama.cpp's files", "Qwen/Qwen3-8B-AWQ"),
        ("unsloth/Llama-3.3-70B-Instruct-bnb-4bit", "bitsandbytes' format", "meta-llama/Llama-3.3-70B-Instruct-AWQ"),
        ("mlx-community/Qwen3-8B-4bit", "MLX's format", "Qwen/Qwen3-8B-AWQ"),
        ("mlx-community/Qwen3-8B-4bit-DWQ", "MLX's format", "Qwen/Qwen3-8B-AWQ"),
        ("Qwen/Qwen3-8B-Q4_K_M.gguf", "llama.cpp's files", "Qwen/Qwen3-8B-AWQ"),
        ("bartowski/Qwen_Qwen3-8B-GGUF", "llama.cpp's files", "Qwen/Qwen3-8B-AWQ"),
        ("google/gemma-3-27b-it-qat-q4_0-gguf", "llama.cpp's files", "google/gemma-3-27b-it-AWQ"),
    ],
)
def test_copies_for_other_engines_name_the_nearest_question(typed: str, whose: str, meant: str) -> None:
    with pytest.raises(ParameterError, match=f"is in {whose}, whose times are not modelled.*a plan of {meant}"):
        known_config(typed)
    assert known_config(meant)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Qwen/Qwen3-Next", "Qwen/Qwen3-Next-80B-A3B-Instruct"),
        ("DeepSeek-V4", "deepseek-ai/DeepSeek-V4-Flash"),
        ("Nemotron-3", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
    ],
)
def test_unknown_names_get_the_nearest_and_those_that_break_off_those_that_go_on(typed: str, meant: str) -> None:
    with pytest.raises(ParameterError, match=f"did you mean {meant}") as caught:
        known_config(typed)
    assert str(caught.value).count(" or ") <= 3
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "columns"),
    [
        ("hardware/mlenergy_itl.csv", ("model_id",)),
        ("hardware/serving_load.csv", ("model_path",)),
        ("speculation/specbundle.csv", ("target", "draft")),
    ],
)
def test_every_model_of_the_public_rows_is_known(file: str, columns: tuple[str, ...]) -> None:
    if not (DATA / file).exists():
        pytest.skip(f"{file} is not at hand (shared/data beside the repository)")
    with (DATA / file).open(encoding="utf-8", newline="") as rows:
        names = {row[column] for row in csv.DictReader(rows) for column in columns}
    unknown = {"lmsys/SGLang-EAGLE3-Llama-3.3-70B-Instruct-Spec for ge"}  # a slip of the source, in one row
    unknown |= {name for name in names if "Qwen3-Coder-480B" in name and "EAGLE3" in name}  # sizes not published
    for name in sorted(names - unknown):
        assert known_config(name)
