"""Engines and their versions: which constants are taken, and that nothing else changes with them."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import ParameterError
from theory.hardware.engines import ENGINES, engine_named
from theory.hardware.gpus import gpu_named
from theory.hardware.passes import PassModel
from theory.hardware.shapes import Attention, Experts, Layers, Shape
from theory.hardware.work import Work

LAYERS = Layers(
    count=48,
    attention=Attention(heads=32, kv_heads=4, head_dim=128),
    feed_forward=Experts(count=128, per_token=8, intermediate=768),
)
MODEL = PassModel(gpu=gpu_named("H100"), shape=Shape(hidden=2048, vocab=151936, layers=(LAYERS,)))


@pytest.mark.parametrize(
    ("name", "version", "taken"),
    [
        ("vllm", "0.11.1", "0.11.1"),
        ("vLLM", "0.11.2", "0.11.1"),
        ("vllm", "0.15.1", "0.12.0"),
        ("vllm", "0.16.3", "0.16.0"),
        ("vllm", "0.19.0", "0.18.0"),
        ("vllm", "1.3", "0.18.0"),
        ("vllm", None, "0.18.0"),
        ("vllm", "nightly-5b8c30d6", "0.18.0"),
        ("vllm", "0.6.4", "0.11.1"),
        ("TensorRT-LLM", "1.1.0rc2.post2", "1.0.0"),
        ("trtllm", "gpt-oss-dev", "0.21.0"),
        ("sglang", "0.5.9", "0.5.6"),
    ],
)
def test_the_latest_known_version_up_to_the_one_named(name: str, version: str | None, taken: str) -> None:
    assert engine_named(name, version).version == taken


def test_an_unknown_engine() -> None:
    with pytest.raises(ParameterError, match="engine='lmdeploy' is not known: known are vllm, trtllm, sglang"):
        engine_named("lmdeploy", "0.1")


@given(st.sampled_from(sorted(ENGINES)), st.floats(1.0, 256.0), st.floats(0.0, 20_000.0))
def test_an_engine_changes_its_own_parts_and_nothing_else(key: tuple[str, str], batch: float, context: float) -> None:
    work = Work(sequences=batch, context=context)
    other = replace(MODEL, engine=ENGINES[key])
    parts, before = asdict(other.parts(work)), asdict(MODEL.parts(work))
    assert {name for name in parts if parts[name] != before[name]} <= {"layers", "sequences"}
