"""Engines and their versions: which constants are taken, and that nothing else changes with them."""

from dataclasses import asdict, replace

import pytest
from hardware_shapes import HEADS, MIXTURE, shape_of_layers
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import ParameterError
from theory.hardware.engines import ENGINES, engine_named, is_priced, nearest_engine
from theory.hardware.formats import Precision
from theory.hardware.gpus import gpu_named
from theory.hardware.passes import PassModel
from theory.hardware.shapes import Layers
from theory.hardware.work import Work

LAYERS = Layers(count=48, attention=HEADS, feed_forward=MIXTURE)
MODEL = PassModel(gpu=gpu_named("H100"), shape=shape_of_layers(LAYERS, hidden=2048))


@pytest.mark.parametrize(
    ("name", "version", "taken"),
    [
        ("vllm", "0.11.1", "0.11.1"),
        ("vLLM", "0.11.2", "0.11.1"),
        ("vllm", "0.15.1", "0.12.0"),
        ("vllm", "0.16.3", "0.16.0"),
        ("vllm", "0.19.0", "0.18.0"),
        ("vllm", None, "0.18.0"),
        ("vllm", "nightly-5b8c30d6", "0.18.0"),
        ("vllm", "0.24.3", "0.18.0"),
        ("vllm", "0.32", "0.18.0"),
        ("sglang", "0.6.1", "0.5.11"),
        ("sglang", "0.5.10", "0.5.9"),
        ("TensorRT-LLM", "1.1.0rc2.post2", "1.0.0"),
        ("trtllm", "1.3.0rc1", "1.2.0"),
        ("trtllm", None, "1.4.0"),
        ("trtllm", "nightly-1", "1.4.0"),
        ("sglang", "0.5.8", "0.5.6"),
    ],
)
def test_the_latest_known_version_up_to_the_one_named(name: str, version: str | None, taken: str) -> None:
    assert engine_named(name, version).version == taken


@pytest.mark.parametrize("version", ["0.6.4", "banana", "gpt-oss-dev", " "])
def test_a_version_that_is_not_priced_is_refused_with_those_that_are(version: str) -> None:
    with pytest.raises(ParameterError) as caught:
        engine_named("vllm", version)
    assert str(caught.value) == (
        f"vllm version={version!r} has no known times: known are 0.11.1, 0.12.0, 0.16.0, 0.17.0, 0.18.0 and later; "
        "without a version, 0.18.0"
    )


@pytest.mark.parametrize(
    ("version", "taken"),
    [("0.31.0", "0.18.0"), ("0.6.4", "0.11.1"), ("", "0.18.0"), ("nightly-5b8c", "0.18.0"), ("main-branch", "0.11.1")],
)
def test_measured_rows_take_the_nearest_version(version: str, taken: str) -> None:
    assert nearest_engine("vllm", version).version == taken


def test_rows_without_a_version_take_the_last_that_was_measured() -> None:
    for name, version in (("vllm", "0.18.0"), ("trtllm", "1.2.0"), ("sglang", "0.5.9")):
        assert nearest_engine(name, "").version == version
        assert is_priced(name, version)


def test_tensorrt_llm_comes_with_windows_of_some_models_from_1_4_on() -> None:
    for version, whole in (("1.2", True), ("1.3", True), ("1.4", False), (None, False)):
        engine = engine_named("trtllm", version)
        assert engine.keeps_windows_whole("gpt_oss") == engine.keeps_windows_whole("gemma3_text") == whole
        assert engine.keeps_windows_whole("llama4_text")
    assert not engine_named("vllm").keeps_windows_whole("llama4_text")


def test_sglangs_chunks_grow_with_the_memory_of_the_gpu() -> None:
    engine = engine_named("sglang")
    chunks = [engine.chunk(gpu_named(name).memory) for name in ("L4", "L40S", "H100", "H200", "B200")]
    assert chunks == [2048, 4096, 8192, 8192, 16384]
    assert engine_named("vllm").chunk(gpu_named("B200").memory) == 8192


def test_a_version_later_than_those_measured_has_no_price_of_its_own() -> None:
    assert [is_priced("vllm", version) for version in ("0.24.3", "0.25", "nightly-5b8c", "0.32")] == [1, 0, 1, 0]


def test_an_unknown_engine() -> None:
    with pytest.raises(ParameterError, match="engine='lmdeploy' is not known: known are vllm, trtllm, sglang"):
        engine_named("lmdeploy", "0.1")


@given(st.sampled_from(sorted(ENGINES)), st.floats(1.0, 256.0), st.floats(0.0, 20_000.0))
def test_an_engine_changes_its_own_parts_and_nothing_else(key: tuple[str, str], batch: float, context: float) -> None:
    work = Work(sequences=batch, context=context)
    other = replace(MODEL, engine=ENGINES[key])
    parts, before = asdict(other.parts(work)), asdict(MODEL.parts(work))
    products = {"products", "head"} if ENGINES[key].products != 1.0 else set()
    changed = {name for name in parts if parts[name] != before[name]}
    assert changed <= {"layers", "sequences", "ungraphed"} | products


def test_engines_multiply_in_bf16_at_rates_of_their_own() -> None:
    """By their tables prompts of 2,048 tokens take SGLang 1.1 and TensorRT-LLM 1.06 times as long as vLLM."""
    prompt, token = Work(sequences=0.0, prefill_tokens=8192.0), Work(sequences=1.0)
    for name, rate in (("vllm", 1.0), ("trtllm", 0.94), ("sglang", 0.9)):
        model = replace(MODEL, engine=engine_named(name))
        assert MODEL.parts(prompt).products / model.parts(prompt).products == pytest.approx(rate, abs=0.02)
        assert MODEL.parts(token).products == pytest.approx(model.parts(token).products, rel=0.01)
        fp8 = [replace(one, precision=Precision(weights="fp8")).parts(prompt).experts for one in (model, MODEL)]
        assert fp8[0] == fp8[1]


def test_on_blackwell_an_engine_hides_what_stands_between_operators() -> None:
    work = Work(sequences=8.0, context=1000.0)
    shown, hidden = (replace(MODEL.engine, expert_norm_s=1e-5, blackwell=share) for share in (1.0, 0.1))
    layers = {
        gpu: [replace(MODEL, gpu=gpu_named(gpu), engine=one).parts(work).layers for one in (shown, hidden)]
        for gpu in ("H100", "B200")
    }
    assert layers["H100"] == [pytest.approx(48 * 2 * 1e-5)] * 2
    assert layers["B200"] == [pytest.approx(48 * 2 * 1e-5), pytest.approx(48 * 2 * 1e-6)]
