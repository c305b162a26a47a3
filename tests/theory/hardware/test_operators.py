"""Operators of a pass: limits, laws, and counts of experts that are known exactly."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hardware_shapes import LATENT, MIXTURE
from hypothesis import given
from hypothesis import strategies as st

from theory.hardware.formats import FORMATS
from theory.hardware.gpus import GPUS
from theory.hardware.operators import (
    attention_seconds,
    distinct_experts,
    experts_seconds,
    fullest_share,
    latent_seconds,
    loaded_seconds,
    product_seconds,
)

H100 = GPUS["NVIDIA H100 SXM"]
BF16 = FORMATS["bf16"]

gpus = st.sampled_from(sorted(GPUS)).map(GPUS.__getitem__)
formats = st.sampled_from(sorted(FORMATS)).map(FORMATS.__getitem__)
more = st.floats(1.0, 64.0)


def _experts(tokens: float, **changes: Any) -> float:
    usual: dict[str, Any] = {"hidden": 2048, "asking": tokens, "ep": 1, "expert_tp": 1, "weights": BF16}
    return experts_seconds(changes.pop("gpu", H100), MIXTURE, tokens=tokens, **{**usual, **changes})


def _attention(**changes: Any) -> float:
    usual: dict[str, Any] = {"sequences": 8.0, "tokens": 1.0, "context": 4096.0, "heads": 32.0, "kv_heads": 8.0}
    usual |= {"head_dim": 128, "cache_bytes": 2.0}
    return attention_seconds(changes.pop("gpu", H100), **{**usual, **changes})


@given(gpus, st.integers(1, 8192), st.integers(64, 65536), st.integers(64, 65536))
def test_a_product_takes_at_least_its_bytes_and_its_operations_and_at_most_both(gpu, rows, outputs, inputs) -> None:
    rates = gpu.products["bf16"]
    seconds = product_seconds(gpu, rows, outputs, inputs, BF16) - rates.overhead_s
    moved = 2 * (outputs * inputs + rows * inputs + rows * outputs) / rates.bandwidth
    computed = 2 * rows * outputs * inputs / rates.rate
    slack = 1e-9 * (rates.overhead_s + moved + computed)  # rounding of the powers and of the subtraction
    assert max(moved, computed) - slack <= seconds <= moved + computed + slack


@given(gpus)
def test_half_the_precision_reads_weights_in_half_the_time(gpu) -> None:
    for name, size in (("bf16", 2.0), ("fp8", 1.0), ("int8", 1.0), ("int4", 0.5 + 2 / 128)):
        of = FORMATS[name]
        shared = {kind: replace(rates, input_s=0.0) for kind, rates in gpu.products.items()}  # by tiles: see below
        low, high = (product_seconds(replace(gpu, products=shared), 1.0, n, 8192, of) for n in (8192, 16384))
        arithmetic = of.arithmetic if of.arithmetic in gpu.products else "bf16"
        per_byte = 1.0 / gpu.products[arithmetic].bandwidth
        read = 8192 * 8192 * size * per_byte
        assert read <= high - low <= 1.3 * read  # one row's arithmetic, added whole where the corner is not sharp


def test_inputs_of_a_tile_are_read_one_after_another_and_brought_into_the_format() -> None:
    rates = replace(H100.products["fp8"], sharpness=1e3, overhead_s=0.0)  # the larger limit alone
    gpu = replace(H100, products={"fp8": rates})
    for rows, share in ((64.0, 0.25), (65.0, 0.5), (129.0, 1.0)):
        found = product_seconds(gpu, rows, 128.0, 65536.0, FORMATS["fp8"])
        assert found == pytest.approx(65536 * (share * rates.input_s + rows / rates.quantising), rel=1e-9)


def test_rows_of_a_product_in_fp8_are_computed_in_whole_tiles() -> None:
    rates = replace(H100.products["fp8"], sharpness=1e3, overhead_s=0.0)
    found = product_seconds(replace(H100, products={"fp8": rates}), 513.0, 8192.0, 8192.0, FORMATS["fp8"])
    # three tiles of 256 rows, each started and written in the time of 512 inputs; measured: 40 % more than of 512 rows
    computed = 2 * 768 * 8192 * (8192 + 512) / rates.rate
    assert found == pytest.approx(computed + 513 * 8192 / rates.quantising, rel=1e-9)


def test_blocks_of_prompts_that_are_not_packed_have_queries_of_one_head() -> None:
    for name, blocks in (("NVIDIA H100 SXM", 32 * 16 / 128), ("NVIDIA B200 SXM", 32)):
        gpu = GPUS[name]
        turns = replace(gpu.attention, cache_bandwidth=1e30, query_bandwidth=1e30, rate=1e30, overhead_s=0.0)
        found = _attention(gpu=replace(gpu, attention=turns), sequences=1024.0, tokens=16.0, context=0.0)
        exponentials = (1024 * 32 * 16 * 8.5 + 132 * 16 * 16 / 2) / 5e12  # half of the longest block ends alone
        waiting = 1024 * max(8, blocks) - 132
        assert found == pytest.approx(waiting * turns.block_s + exponentials, rel=1e-9)


def test_kernels_beside_attention_to_cached_tokens_before_hopper() -> None:
    """Measured on A100 with 32 heads over 8: 12.5 us for one sequence, 18.4 for two, 22.5 for two of 256 tokens."""
    a100 = GPUS["NVIDIA A100 SXM"]
    one, two, long = (
        _attention(gpu=a100, sequences=n, context=context) for n, context in ((1.0, 1.0), (2.0, 1.0), (2.0, 255.0))
    )
    assert [one, two, long] == pytest.approx([12.5e-6, 18.4e-6, 22.5e-6], rel=0.15)
    again = _attention(gpu=a100, sequences=2.0, tokens=16.0, context=0.0)
    assert again < a100.attention.overhead_s + a100.attention.further_s  # a prompt needs one kernel


def test_attention_term_by_term() -> None:
    # b = 200, q = 3, n = 10, 4 heads over 2 of 128; 400 blocks, 132 of which start at once
    cache, new = 2 * 2 * 200 * 2 * 128 * 13, 2 * 2 * 200 * (4 + 2) * 128 * 3
    seen = 200 * 4 * (3 * 10 + 6)  # token i sees the ten cached ones and i of the new: 1 + 2 + 3
    seen += 132 * 3 * 3 / 2  # half of the longest block, while all other multiprocessors wait
    rates = H100.attention
    turns, reading = (400 - 132) * rates.block_s, cache / rates.cache_bandwidth
    expected = rates.overhead_s + (turns**rates.sharpness + reading**rates.sharpness) ** (1 / rates.sharpness)
    expected += new / rates.query_bandwidth + seen * (4 * 128 / rates.rate + 1 / 5e12)
    found = _attention(sequences=200.0, tokens=3.0, context=10.0, heads=4.0, kv_heads=2.0)
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_prompt_takes_what_its_longest_block_takes() -> None:
    one, four = (_attention(sequences=n, tokens=4096.0, context=0.0, heads=1.0, kv_heads=1.0) for n in (1.0, 4.0))
    longest = 128 * 4096 * 132 * (4 * 128 / H100.attention.rate + 1 / 5e12)
    assert one == pytest.approx(H100.attention.overhead_s + longest, rel=0.1)
    assert four < 1.2 * one  # 128 blocks, of which 132 run at once


def test_heads_with_keys_of_their_own_are_not_split_before_hopper() -> None:
    a100 = GPUS["NVIDIA A100 SXM"]
    own, grouped = (_attention(gpu=a100, sequences=1.0, context=65535.0, heads=2.0, kv_heads=n) for n in (2.0, 1.0))
    # 4 x 128 bytes of 65,536 tokens by one block; measured 1.53 ms (two heads with one key between them: 0.063)
    assert own == pytest.approx(a100.attention.overhead_s + 2**25 / a100.attention.block_bandwidth)
    assert own > 10 * grouped
    assert _attention(heads=2.0, kv_heads=2.0) < 1.5 * _attention(heads=2.0, kv_heads=1.0)  # on H100


def test_triton_computes_what_is_outside_a_prompts_window_and_leaves_a_keys_tokens_to_few_blocks() -> None:
    general = replace(H100, attention=GPUS["NVIDIA H200 SXM"].general)
    prompt: dict[str, Any] = {"gpu": general, "sequences": 1.0, "tokens": 8192.0, "context": 0.0, "head_dim": 256}
    assert _attention(**prompt, window=1024.0) == pytest.approx(_attention(**prompt))
    assert _attention(**prompt) > 4.0 * _attention(**{**prompt, "gpu": H100}, window=1024.0)
    few, tile = (_attention(**{**prompt, "sequences": 64.0, "tokens": n, "context": 4096.0}) for n in (4.0, 64.0))
    assert few > 0.8 * tile  # drafted tokens are verified in a whole one
    decoding = {"gpu": general, "sequences": 1.0, "heads": 8.0, "kv_heads": 1.0, "head_dim": 512, "context": 65535.0}
    read = 4.0 * 512 * 65536 / general.attention.block_bandwidth
    assert _attention(**decoding) == pytest.approx(general.attention.overhead_s + read)
    assert _attention(**decoding, window=1024.0) < 0.1 * _attention(**decoding)  # decoding reads no more than it


@given(st.floats(0.0, 1e5), st.floats(1.0, 1e5))
def test_a_window_is_attention_over_its_tokens_and_no_wider_one_is_faster(context, window) -> None:
    found = _attention(context=context, window=window)
    assert found <= _attention(context=context) * (1 + 1e-12)
    assert found <= _attention(context=context, window=2 * window) * (1 + 1e-12)
    if context >= window:
        assert found == pytest.approx(_attention(context=1e6, window=window), rel=1e-12)


def test_a_cache_in_fp8_is_read_in_half_the_time() -> None:
    gpu = replace(H100, attention=replace(H100.attention, block_s=0.0))  # no turns of blocks, which hide some of it
    full, half, none = (_attention(gpu=gpu, sequences=64.0, cache_bytes=size) for size in (2.0, 1.0, 0.0))
    assert full - none == pytest.approx(2 * (half - none), rel=1e-9)


@given(gpus, st.floats(1.0, 256.0), st.floats(0.0, 1e5), more)
def test_latent_attention_grows_with_context_and_shrinks_with_tensor_parallelism(gpu, sequences, context, factor):
    def seconds(context: float, tp: int = 1) -> float:
        return latent_seconds(
            gpu, LATENT, hidden=7168, tp=tp, sequences=sequences, tokens=1.0, context=context, weights=BF16,
            cache_bytes=2.0,
        )  # fmt: skip

    assert seconds(context) <= seconds(factor * context)
    assert seconds(context, tp=8) < seconds(context)


def test_latent_attention_reads_what_is_cached_while_it_computes() -> None:
    rates, hidden, (b, n) = H100.latent, 7168, (64.0, 4096.0)
    found, none = (
        latent_seconds(
            H100, LATENT, hidden=hidden, tp=1, sequences=b, tokens=1.0, context=context, weights=BF16, cache_bytes=2.0
        )
        for context in (n, 0.0)
    )
    wide = LATENT.cached + LATENT.cache_rank
    reading = 2.0 * b * (n + 1.0) * LATENT.cached / rates.cache_bandwidth
    computing = 2.0 * b * LATENT.heads * (n + 1.0) * wide / rates.attention_rate
    assert found - none == pytest.approx(math.hypot(reading, computing), rel=0.01)
    parameters = LATENT.parameters_on(hidden, 1)
    products = math.hypot(2.0 * parameters / rates.bandwidth, 2.0 * parameters * b / rates.rate)
    queries = 2.0 * b * LATENT.heads * wide / rates.query_bandwidth
    assert none == pytest.approx(rates.overhead_s + products + queries, rel=0.01)


def test_heads_between_two_tiles_read_a_latent_cache_again_on_blackwell() -> None:
    def reading(gpu: str, heads: int) -> float:
        attention = replace(LATENT, heads=heads)
        given: dict[str, Any] = {"hidden": 7168, "tp": 1, "weights": BF16, "cache_bytes": 2.0}
        far, near = (
            latent_seconds(GPUS[gpu], attention, sequences=64.0, tokens=1.0, context=n, **given) for n in (2e4, 1e4)
        )
        return far - near

    b200, h200 = ([reading(gpu, n) for n in (16, 32, 64)] for gpu in ("NVIDIA B200 SXM", "NVIDIA H200 SXM"))
    assert b200[1] > 1.2 * b200[2]
    assert b200[1] == pytest.approx(1.4 * b200[0], rel=0.03)
    assert h200 == sorted(h200)


@given(st.integers(1, 512), st.integers(1, 16), st.floats(0.0, 1e5), more)
def test_distinct_experts_are_at_most_all_and_at_most_those_asked_for_and_grow(count, per_token, tokens, factor):
    per_token = min(count, per_token)
    found = distinct_experts(count, per_token, tokens)
    assert found <= min(count, max(tokens, 0.0) * per_token) * (1 + 1e-12)
    assert found <= distinct_experts(count, per_token, tokens * factor) * (1 + 1e-12)


@given(st.floats(1.0, 1e5), st.floats(0.0, 1.0))
def test_even_loads_need_the_fewest_tiles(tokens: float, further: float) -> None:
    touched = distinct_experts(MIXTURE.count, MIXTURE.per_token, tokens)
    usual = {"hidden": 2048, "tokens": tokens, "here": touched, "rows": tokens * MIXTURE.per_token, "expert_tp": 1}
    even, between, power = (
        loaded_seconds(GPUS["NVIDIA B200 SXM"], MIXTURE, weights=BF16, further=n, **usual) for n in (0.0, further, 1.0)
    )
    assert even <= between * (1 + 1e-12)
    assert between <= power * (1 + 1e-12)


def test_limits_of_distinct_experts() -> None:
    assert distinct_experts(128, 8, 1.0) == 8.0
    assert distinct_experts(128, 8, 0.0) == 0.0
    assert distinct_experts(128, 8, 1e6) == pytest.approx(128.0, rel=1e-9)
    assert distinct_experts(8, 8, 5.0) == 8.0
    assert distinct_experts(128, 8, 1.0 + 1e-9) == pytest.approx(8.0, rel=1e-6)  # no jump after the first token


@given(st.sampled_from([64, 128, 256]), st.sampled_from([1, 2, 4, 8]), st.floats(0.0, 1.0))
def test_the_fullest_gpu_has_at_least_an_even_share_and_at_most_its_experts(count, ep, share) -> None:
    found = fullest_share(count, share * count, ep)
    assert share * count / ep <= found * (1 + 1e-12)
    assert found <= count / ep * (1 + 1e-12)


@given(st.floats(1.0, 1e4), st.sampled_from([2, 4, 8]))
def test_sharing_experts_is_faster_either_way(tokens, n) -> None:
    assert _experts(tokens, ep=n) < _experts(tokens)
    assert _experts(tokens, expert_tp=n) < _experts(tokens)


def test_padding_takes_the_same_time_whatever_the_tokens_and_half_on_twice_the_gpus() -> None:
    taken = [_experts(n, ep=ep, padding=127.0) - _experts(n, ep=ep) for n, ep in ((8.0, 2), (512.0, 2), (8.0, 4))]
    rows = 127 * 128 / 2
    assert taken[0] == pytest.approx(
        2 * rows * (2 * 2048 + 3 * 768) / H100.experts["bf16"].activation_bandwidth, rel=1e-9
    )
    assert taken[1] == pytest.approx(taken[0], rel=1e-9)
    assert taken[2] == pytest.approx(taken[0] / 2, rel=1e-9)
