"""What one GPU holds: nothing is lost by splitting, and what cannot be split is copied."""

from dataclasses import replace

import pytest
from hardware_shapes import LATENT, QWEN3_8B, shape_of_layers
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from theory.hardware.formats import Precision
from theory.hardware.shapes import Attention, Dense, Experts, Layers, Shape
from theory.hardware.sharding import cache_bytes_per_gpu, check_split, weight_bytes_per_gpu
from theory.hardware.work import Parallel

DENSE = shape_of_layers(QWEN3_8B)
DEEPSEEK = shape_of_layers(
    Layers(count=3, attention=LATENT, feed_forward=Dense(intermediate=18432)),
    Layers(count=58, attention=LATENT, feed_forward=Experts(count=256, per_token=8, intermediate=2048, shared=2048)),
    hidden=7168,
    vocab=129280,
)
FORMATS = st.sampled_from([Precision(), Precision(weights="fp8", attention="bf16"), Precision(experts="mxfp4")])
SPLITS = st.sampled_from(
    [
        Parallel(tp=tp, dp=dp, ep=ep, pp=pp)
        for tp in (1, 2, 4, 8)
        for dp in (1, 2)
        for ep in (1, tp * dp)
        for pp in (1, 2, 3, 4)
    ]
)


@given(st.sampled_from([DENSE, DEEPSEEK]), FORMATS, SPLITS)
def test_all_gpus_together_hold_the_model_at_least_once(shape: Shape, precision: Precision, parallel: Parallel) -> None:
    together = weight_bytes_per_gpu(shape, precision, parallel) * parallel.gpus
    whole = shape.weight_bytes(precision)
    assert together >= 0.999 * whole  # routers stay in bf16 here, at most 0.1 % of the weights
    assert together <= whole * parallel.gpus * 1.001


@given(st.sampled_from([DENSE, DEEPSEEK]), FORMATS, SPLITS, st.integers(1, 100_000))
def test_more_stages_hold_less_each_and_together_nothing_is_lost(
    shape: Shape, precision: Precision, parallel: Parallel, context: int
) -> None:
    """Layers are whole: 61 over 2 stages are 31 on the fullest."""
    one = replace(parallel, pp=1)
    fullest = -(-shape.n_layers // parallel.pp) / shape.n_layers
    cached, whole = (cache_bytes_per_gpu(shape, precision, split, context) for split in (parallel, one))
    assert cached == pytest.approx(fullest * whole)
    assert parallel.pp * cached >= whole * (1.0 - 1e-12)
    held, all_of_it = (weight_bytes_per_gpu(shape, precision, split) for split in (parallel, one))
    ends = 2.0 * shape.hidden * shape.vocab / parallel.tp  # of embeddings and of the head
    assert held == pytest.approx(all_of_it if parallel.pp == 1 else ends + fullest * (all_of_it - 2.0 * ends))


def test_heads_of_keys_and_values_are_copied_beyond_their_number() -> None:
    whole = DENSE.cache_bytes(1000, Precision())
    by_tp = {tp: cache_bytes_per_gpu(DENSE, Precision(), Parallel(tp=tp), 1000) for tp in (1, 2, 8, 16, 32)}
    assert [by_tp[tp] / whole for tp in (1, 2, 8, 16, 32)] == [1, 1 / 2, 1 / 8, 1 / 8, 1 / 8]


def test_latent_caches_are_copied_to_every_gpu_of_a_replica() -> None:
    assert cache_bytes_per_gpu(DEEPSEEK, Precision(), Parallel(tp=8), 1000) == 1000 * 61 * 576 * 2


def test_experts_are_split_over_all_gpus_and_attention_over_a_replica_only() -> None:
    attention_copied = weight_bytes_per_gpu(DEEPSEEK, Precision(weights="fp8"), Parallel(dp=8, ep=8))
    split = weight_bytes_per_gpu(DEEPSEEK, Precision(weights="fp8"), Parallel(tp=8, ep=8))
    routed = 58 * 3 * 7168 * 256 * 2048 / 8
    assert attention_copied > split > routed
    assert split < routed * 1.1


def test_windows_keep_no_more_than_their_tokens() -> None:
    attention = Attention(heads=4, kv_heads=2, head_dim=16, window=128)
    layers = Layers(count=2, attention=attention, feed_forward=Dense(intermediate=8))
    windowed = Shape(hidden=64, vocab=100, layers=(layers,))
    at = [cache_bytes_per_gpu(windowed, Precision(), Parallel(), context) for context in (64, 128, 10_000)]
    assert at == [64 * 256, 128 * 256, 128 * 256]
    assert cache_bytes_per_gpu(windowed, Precision(), Parallel(), 10_000, whole_windows=True) == 10_000 * 256


test_splits_that_engines_refuse = refused(
    check_split,
    (DENSE, Parallel(tp=3), "tp=3 must divide the 32 heads"),
    (DEEPSEEK, Parallel(tp=3, ep=3), "tp=3 must divide the 128 heads"),
    (DEEPSEEK, Parallel(dp=3, ep=3), "ep=3 must divide the 256 experts"),
)
