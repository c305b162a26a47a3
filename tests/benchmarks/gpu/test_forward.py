"""The pass that is measured is the real architecture: its scores are those of transformers; its kernels agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from benchmarks.gpu import attention
from benchmarks.gpu.forward import Model, Pass, Storage, _Layer, plain_fusion, random_model
from benchmarks.gpu.replay import seconds_of
from benchmarks.gpu.shapes import SHAPES, ModelShape, shape_of
from theory.errors import CalibrationError, ParameterError

PUBLISHED = {
    "qwen3-32b": 32_762_123_264,
    "qwen3-8b": 8_190_735_360,
    "qwen3-1.7b": 1_720_574_976,
    "r1-distill-qwen-32b": 32_763_876_352,
    "r1-distill-qwen-1.5b": 1_777_088_000,
    "qwen2.5-7b": 7_615_616_512,
}
"""Parameters as the models' published weight files count them, the tied head of Qwen3-1.7B once."""


@pytest.mark.parametrize("name", SHAPES)
def test_parameter_counts_are_the_published_ones(name: str) -> None:
    assert SHAPES[name].n_parameters == PUBLISHED[name]


@pytest.mark.parametrize("name", ["qwen3-1.7b", "r1-distill-qwen-1.5b"])
def test_parameter_counts_are_those_of_transformers(name: str) -> None:
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(SHAPES[name].transformers_config())
    assert sum(p.numel() for p in model.parameters()) == SHAPES[name].n_parameters


def test_random_weights_are_as_many_as_the_shape_says() -> None:
    for name in SHAPES:
        shape = SHAPES[name].shrunk()
        model = random_model(shape, "cpu", torch.float32)
        tensors = [model.embedding, model.norm, *([] if shape.tied else [model.head])]
        for layer in model.layers:
            tensors += [layer.norm, layer.qkv, layer.out, layer.mlp_norm, layer.gate_up, layer.down]
            tensors += [layer.qkv_bias] if layer.qkv_bias is not None else []
        gains = 2 * shape.head_dim * shape.layers if shape.qk_norm else 0  # kept repeated for every head
        assert sum(t.numel() for t in tensors) + gains == shape.n_parameters
        assert (model.head is model.embedding) == shape.tied


def test_cache_bytes_of_a_token() -> None:
    # Qwen3-32B: 64 layers x (key and value) x 8 heads x 128 x 2 bytes = 256 KiB
    assert SHAPES["qwen3-32b"].kv_bytes() == 256 * 1024


def test_shapes_are_checked() -> None:
    with pytest.raises(ParameterError, match="kv_heads=8"):
        replace(SHAPES["qwen3-8b"], heads=12)
    with pytest.raises(ParameterError, match="hidden=0"):
        replace(SHAPES["qwen3-8b"], hidden=0)
    with pytest.raises(ParameterError, match=r"qwen3-32b.*qwen3-8b"):
        shape_of("qwen4")


def _kernels(batch: int, n_prefix: int) -> list[attention.Attention]:
    kernels = [attention.masked]
    if n_prefix:
        kernels.append(attention.folded(1, attention.joined))
        kernels += [attention.folded(4, attention.joined)] if batch == 1 else []
    return kernels


def taken_from(shape: ModelShape, model: Any) -> Model:
    """The weights of a transformers model of that shape, joined as they are here."""

    def layer(one: Any) -> _Layer:
        at, mlp = one.self_attn, one.mlp
        parts = (at.q_proj, at.k_proj, at.v_proj)
        gain = None
        if shape.qk_norm:
            gain = torch.cat(
                (at.q_norm.weight.expand(shape.heads, -1), at.k_norm.weight.expand(shape.kv_heads, -1))
            ).contiguous()
        return _Layer(
            norm=one.input_layernorm.weight,
            qkv=torch.cat([p.weight for p in parts]),
            qkv_bias=torch.cat([p.bias for p in parts]) if shape.qkv_bias else None,
            head_gain=gain,
            out=at.o_proj.weight,
            mlp_norm=one.post_attention_layernorm.weight,
            gate_up=torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight)),
            down=mlp.down_proj.weight,
        )

    body = model.model
    layers = tuple(layer(one) for one in body.layers)
    return Model(shape, body.embed_tokens.weight, layers, body.norm.weight, model.lm_head.weight)


@pytest.mark.parametrize("name", ["qwen3-1.7b", "qwen3-32b", "qwen2.5-7b"])
@pytest.mark.parametrize(("batch", "n_prefix", "n_new"), [(1, 0, 5), (1, 8, 1), (1, 8, 3), (3, 8, 1), (3, 7, 4)])
def test_scores_are_those_of_transformers(name: str, batch: int, n_prefix: int, n_new: int) -> None:
    from transformers import AutoModelForCausalLM

    shape = SHAPES[name].shrunk()
    torch.manual_seed(0)
    theirs = AutoModelForCausalLM.from_config(shape.transformers_config()).eval()
    with torch.no_grad():
        for p in theirs.parameters():  # norms and biases begin as ones and zeros, which would hide them
            p.copy_(torch.randn_like(p) * (0.1 if p.dim() > 1 else 0.3) + (p.dim() == 1))
        ids = torch.randint(shape.vocab, (batch, n_prefix + n_new))
        expected = theirs(ids).logits[:, n_prefix:]
        ours = taken_from(shape, theirs)
        for kernel in _kernels(batch, n_prefix):
            layers = Storage(shape, batch * (n_prefix + n_new), "cpu", torch.float32).layers(batch, n_prefix + n_new)
            if n_prefix:
                before = [(k[:, :, :n_prefix], v[:, :, :n_prefix]) for k, v in layers]
                Pass(ours, before, ids[:, :n_prefix], attention.masked, plain_fusion(), last_only=True).scores()
            got = Pass(ours, layers, ids[:, n_prefix:], kernel, plain_fusion(), last_only=False)
            # float32 sums in another order: 1e-6 of scores of size 1 to 10, through two layers
            torch.testing.assert_close(got.scores(), expected, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(got(), expected.argmax(-1))
            last = Pass(ours, layers, ids[:, n_prefix:], kernel, plain_fusion(), last_only=True)
            torch.testing.assert_close(last.scores(), expected[:, -1:], rtol=1e-4, atol=1e-4)


def _tensors(
    batch: int, n_new: int, n: int, shape: ModelShape
) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]:
    torch.manual_seed(1)
    query = torch.randn(batch, n_new, shape.heads, shape.head_dim).transpose(1, 2)
    return query, Storage(shape, batch * n, "cpu", torch.float32).layers(batch, n)


@pytest.mark.parametrize(("batch", "n_new", "prefix"), [(1, 1, 1024), (1, 8, 2048), (2, 4, 96), (1, 16, 0)])
def test_every_candidate_agrees_with_the_formula(batch: int, n_new: int, prefix: int) -> None:
    shape = SHAPES["qwen3-8b"].shrunk()
    query, layers = _tensors(batch, n_new, prefix + n_new, shape)
    expected = attention.reference(query, *layers[0])
    found = attention.candidates("cpu", batch, n_new, prefix)
    assert ("folded-4" in found) == (batch == 1 and prefix >= 1024)
    for kernel in found.values():
        torch.testing.assert_close(kernel(query, *layers[0]), expected, rtol=1e-4, atol=1e-5)


def test_a_wrong_or_broken_kernel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = SHAPES["qwen3-8b"].shrunk()
    query, layers = _tensors(2, 4, 36, shape)

    def sees_the_future(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    def breaks(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no kernel for this shape")

    def nothing(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return q * float("nan")

    bad = {"future": sees_the_future, "breaks": breaks, "nan": nothing}
    monkeypatch.setattr(attention, "candidates", lambda *_: {**bad, "masked": attention.masked})
    name, _, tried = attention.choose(query, layers, seconds_of("cpu"))
    assert name == "masked"
    assert "wrong" in str(tried["future"])
    assert "wrong" in str(tried["nan"])
    assert "no kernel" in str(tried["breaks"])
    monkeypatch.setattr(attention, "candidates", lambda *_: bad)
    with pytest.raises(CalibrationError, match="no attention kernel"):
        attention.choose(query, layers, seconds_of("cpu"))


def test_the_fastest_kernel_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = SHAPES["qwen3-8b"].shrunk()
    query, layers = _tensors(1, 2, 34, shape)
    monkeypatch.setattr(
        attention, "candidates", lambda *_: {"a": attention.masked, "b": attention.folded(1, attention.joined)}
    )
    times = iter([0.3, 0.2])

    def clock(work: object) -> float:
        return next(times)

    name, _, tried = attention.choose(query, layers, clock)
    assert name == "b"
    assert tried == {"a": 0.3 / len(layers), "b": 0.2 / len(layers)}
