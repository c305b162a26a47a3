"""Layers with states, sparse and compressed attention: what they weigh, keep and take."""

import math
from dataclasses import replace

import pytest
from hardware_shapes import LATENT
from refusals import refused

from theory.errors import ParameterError
from theory.hardware.engines import engine_named
from theory.hardware.formats import FORMATS, Precision
from theory.hardware.gpus import GPUS, gpu_named
from theory.hardware.half_widths import ITERATION, TIME_PER_TOKEN, half_width
from theory.hardware.mixers.sparse import CompressedAttention, Selection
from theory.hardware.mixers.states import Recurrent
from theory.hardware.operators import (
    index_seconds,
    latent_seconds,
    product_seconds,
    recurrent_seconds,
    streams_seconds,
)
from theory.hardware.passes import PassModel
from theory.hardware.shapes import Attention, Dense, Experts, Layers, Mixer, Shape
from theory.hardware.sharding import cache_bytes_per_gpu, check_split, weight_bytes_per_gpu
from theory.hardware.sources import FittedOperators
from theory.hardware.work import Parallel, Work

DELTA = Recurrent(kind="gated-delta", heads=32, key_heads=16, key_dim=128, value_dim=128, state_bytes=4.0)
KDA = Recurrent(kind="kda", heads=96, key_heads=96, key_dim=128, value_dim=128, state_bytes=4.0)
MAMBA = Recurrent(kind="mamba2", heads=128, key_heads=8, key_dim=128, value_dim=80)
MAMBA_1 = Recurrent(kind="mamba1", heads=8192, key_heads=1, key_dim=16, value_dim=1, step_rank=256)
INDEX = Selection(heads=64, dim=128, entries=2048, key_bytes=132.0, query_rank=1536)
SPARSE = replace(LATENT, selection=INDEX)
BLOCKS = Selection(heads=4, dim=128, entries=2176, key_bytes=256.0, kind="blocks")
CHOSEN = Selection(heads=64, dim=128, entries=1024, key_bytes=132.0, query_rank=1536, kind="compressed")
FOURTH = CompressedAttention(
    heads=128, head_dim=512, query_rank=1536, output_groups=16, output_rank=1024, window=128, ratio=4, selection=CHOSEN
)
PLAIN = Attention(heads=16, kv_heads=2, head_dim=256)
NEAR = replace(LATENT, window=512)
RELATIVE = replace(PLAIN, relative=16, convolved=3 * 2 * (2 * 256 + 4096))
H200, B200 = GPUS["NVIDIA H200 SXM"], GPUS["NVIDIA B200 SXM"]


def model(mixer: Mixer, **changes: object) -> PassModel:
    layer = Layers(count=4, attention=mixer, feed_forward=Dense(intermediate=8192))
    shape = Shape(hidden=4096, vocab=32000, layers=(layer,))
    return replace(PassModel(gpu=H200, shape=shape), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gpu", "layer", "sequences", "tokens", "measured_us"),
    [  # aiconfigurator-core 0.12, vLLM 0.24.0 and a nightly build: convolution and recurrence together
        (H200, DELTA, 256, 1, 10.8 + 267.4),
        (H200, DELTA, 1024, 1, 45.3 + 1051.6),
        (B200, DELTA, 256, 1, 10.0 + 171.4),
        (H200, KDA, 256, 1, 61.3 + 802.1),
        (H200, KDA, 256, 4, 113.3 + 2060.4),
        (H200, KDA, 256, 8, 169.0 + 3849.2),
        (B200, KDA, 256, 4, 96.7 + 1344.2),
    ],
)
def test_states_take_as_long_as_measured(
    gpu: object, layer: Recurrent, sequences: int, tokens: int, measured_us: float
) -> None:
    seconds = recurrent_seconds(gpu, layer, tp=1, sequences=sequences, tokens=tokens, prompts=False)  # type: ignore[arg-type]
    assert 1e6 * seconds == pytest.approx(measured_us, rel=0.25)


def test_a_drafted_token_writes_a_state_and_a_prompts_chunk_writes_one() -> None:
    given = {"tp": 1, "sequences": 64.0, "prompts": False}
    plain, round_of_8 = (recurrent_seconds(H200, DELTA, tokens=n, **given) for n in (1.0, 8.0))  # type: ignore[arg-type]
    fixed = H200.states.overhead_s
    assert (round_of_8 - fixed) / (plain - fixed) == pytest.approx(4.5)  # 1 read and 8 written, over 1 and 1
    chunk = recurrent_seconds(H200, DELTA, tp=1, sequences=1.0, tokens=4096.0, prompts=True)
    kept = recurrent_seconds(H200, DELTA, tp=1, sequences=1.0, tokens=4096.0, prompts=False)
    assert chunk < 0.2 * kept


@pytest.mark.parametrize("layer", [DELTA, KDA, MAMBA], ids=lambda layer: layer.kind)
def test_states_are_kept_whatever_the_context_and_once_more_for_each_token_of_a_round(layer: Recurrent) -> None:
    shape = model(layer).shape
    short, long = (shape.cache_bytes(context, Precision()) for context in (10.0, 1e6))
    assert short == long > 0.0
    one, five = (cache_bytes_per_gpu(shape, Precision(), Parallel(), 1000.0, copies) for copies in (1.0, 5.0))
    states = 4 * layer.state * layer.state_bytes
    assert five - one == pytest.approx(4 * states, rel=0.05)  # and the tokens that the convolution sees
    halves = cache_bytes_per_gpu(shape, Precision(), Parallel(tp=2), 1000.0)
    assert halves == one / 2


@pytest.mark.parametrize(
    "mixer", [DELTA, KDA, MAMBA, MAMBA_1, SPARSE, NEAR, FOURTH, PLAIN, RELATIVE], ids=lambda mixer: type(mixer).__name__
)
def test_weights_on_gpus_are_all_weights_and_what_is_copied(mixer: Mixer) -> None:
    shape = model(mixer).shape
    whole = shape.weight_bytes(Precision())
    assert weight_bytes_per_gpu(shape, Precision(), Parallel()) == pytest.approx(whole)
    halves = 2 * weight_bytes_per_gpu(shape, Precision(), Parallel(tp=2))
    assert whole <= halves < 1.5 * whole


def test_sparse_attention_reads_no_more_than_it_chooses_and_scores_everything() -> None:
    dense = replace(SPARSE, selection=None)
    short, far = Work(sequences=64, context=1000), Work(sequences=64, context=100_000)
    assert model(SPARSE).seconds(short) > model(dense).seconds(short)  # the index has weights and takes time
    assert model(SPARSE).seconds(far) < 0.5 * model(dense).seconds(far)
    near, double = (index_seconds(H200, INDEX, sequences=64.0, tokens=1.0, entries=n) for n in (5e4, 1e5))
    assert double - H200.sparse.choosing_s == pytest.approx(2.0 * (near - H200.sparse.choosing_s))
    shared = replace(INDEX, heads=0)
    assert index_seconds(H200, shared, sequences=64.0, tokens=1.0, entries=1e5) == 0.0
    assert SPARSE.held(1000.0) - replace(SPARSE, selection=shared).held(1000.0) == 132_000.0


def test_windows_on_latent_attention_bound_what_is_read_and_kept() -> None:
    far = Work(sequences=64, context=100_000)
    assert NEAR.read(1e5) == 512.0
    assert NEAR.held(1e5) == NEAR.held(512.0) == LATENT.held(512.0)
    assert model(NEAR).parts(far).attention < 0.1 * model(LATENT).parts(far).attention
    near = Work(sequences=64, context=500)
    assert model(NEAR).seconds(near) == model(LATENT).seconds(near)
    chunk = Work(sequences=0, prefill_tokens=4096, prefill_context=50_000)
    assert model(NEAR).seconds(chunk) < model(LATENT).seconds(chunk), "of a prompt that is read in chunks"


def test_biases_by_distance_are_columns_and_convolutions_beside_attention_are_kept() -> None:
    """Inkling: 16 numbers a head more to make, and three tokens of keys, values and what both parts give."""
    assert RELATIVE.parameters_on(4096, 1) - PLAIN.parameters_on(4096, 1) == 4096 * 16 * 16
    assert RELATIVE.held(1000.0) - PLAIN.held(1000.0) == 2.0 * 27648
    assert RELATIVE.held(1000.0, copies=4.0) - RELATIVE.held(1000.0) == 3 * 2.0 * 27648


def test_channels_of_mamba_have_small_states_and_make_their_keys() -> None:
    """Jamba-1.5-Mini, d_inner 8192: in, keys and steps, steps, out."""
    weights = 4096 * 2 * 8192 + 8192 * (256 + 2 * 16) + 256 * 8192 + 8192 * 4096
    assert MAMBA_1.parameters_on(4096, 1) == weights
    assert MAMBA_1.held(0.0) == 2.0 * (8192 * 16 + 3 * 8192)
    assert not MAMBA_1.measured


def test_blocks_and_compressed_entries_are_read_as_far_as_chosen() -> None:
    blocks = replace(PLAIN, selection=BLOCKS)
    far = Work(sequences=64, context=100_000)
    assert model(blocks).parts(far).attention < model(PLAIN).parts(far).attention
    assert FOURTH.entries(8192.0) == 128 + 2048
    assert FOURTH.read(8192.0) == 128 + 1024
    window = replace(FOURTH, ratio=0, selection=None)
    assert window.entries(8192.0) == window.read(8192.0) == 128.0
    assert window.held(8192.0, cache_bytes=1.0) == 128 * 512


@pytest.mark.parametrize(
    "mixer", [DELTA, KDA, MAMBA, MAMBA_1, SPARSE, NEAR, FOURTH, RELATIVE, replace(PLAIN, selection=BLOCKS)]
)
@pytest.mark.parametrize("tokens", [1.0, 4.0])
def test_a_pass_grows_with_its_work(mixer: Mixer, tokens: float) -> None:
    passes = model(mixer)
    works = [Work(sequences=n, tokens=tokens, context=c) for n, c in ((1, 1000), (8, 1000), (64, 10_000), (64, 50_000))]
    seconds = [passes.seconds(work) for work in works]
    assert all(math.isfinite(s) for s in seconds)
    assert seconds == sorted(seconds)


@pytest.mark.parametrize(
    ("gpu", "hidden", "rows", "measured_us"),
    [  # aiconfigurator-core 0.12, vLLM 0.24.0: mixing before and after both parts of a layer of DeepSeek-V4
        (H200, 4096, 1, 17.5 + 6.2),
        (H200, 4096, 256, 24.2 + 10.3),
        (H200, 7168, 1024, 81.1 + 71.6),
        (H200, 7168, 16384, 1031.4 + 1020.5),
        (B200, 7168, 4, 23.0 + 10.6),
        (B200, 7168, 1024, 61.7 + 51.4),
        (B200, 4096, 16384, 462.4 + 364.8),
    ],
)
def test_residual_streams_take_as_long_as_measured(gpu: object, hidden: int, rows: int, measured_us: float) -> None:
    seconds = streams_seconds(gpu, 4, hidden=hidden, rows=rows)  # type: ignore[arg-type]
    assert seconds == pytest.approx(1e-6 * measured_us, rel=0.15)


def test_layers_of_one_stream_mix_none() -> None:
    work = Work(sequences=64, context=1000)
    passes = model(PLAIN)
    mixing = replace(passes, shape=replace(passes.shape, streams=4))
    assert passes.parts(work).streams == 0.0
    assert mixing.parts(work).streams == 4 * streams_seconds(H200, 4, hidden=4096, rows=64.0)
    assert mixing.seconds(work) == pytest.approx(passes.seconds(work) + mixing.parts(work).streams)


def test_intervals_of_layers_that_were_hardly_served_are_wider() -> None:
    work = Work(sequences=8, context=1000)
    for quantity in (ITERATION, TIME_PER_TOKEN):
        known = half_width(quantity, model(PLAIN), work)
        assert half_width(quantity, model(DELTA), work) == pytest.approx(math.hypot(known, 0.22))
        assert half_width(quantity, model(SPARSE), work) == pytest.approx(math.hypot(known, 0.24))


def test_experts_of_reduced_width_weigh_what_is_published() -> None:
    experts = Experts(count=512, per_token=22, intermediate=2688, shared=5376, gated=False, latent=1024)
    assert experts.parameters(4096) == 2 * 1024 * 512 * 2688 + 2 * 4096 * 5376 + 2 * 4096 * 1024 + 4096 * 512


test_states_that_cannot_be_are_refused = refused(
    lambda changed: replace(DELTA, **changed),
    ({"key_heads": 5}, "must be a multiple of key_heads=5"),
    ({"state_bytes": 3.0}, "must be 2 or 4"),
    ({"kind": "s4"}, "must be one of gated-delta, kda, mamba2"),
    ({"heads": 0}, "must be an integer >= 1"),
)


def test_key_heads_that_gpus_cannot_share_are_refused() -> None:
    with pytest.raises(ParameterError, match="must divide the 16 heads of keys"):
        check_split(model(replace(DELTA, heads=96, key_heads=16)).shape, Parallel(tp=3))
    with pytest.raises(ParameterError, match="output_groups"):
        replace(FOURTH, heads=100)
    with pytest.raises(ParameterError, match="key_bytes"):
        replace(INDEX, key_bytes=0.0)


def test_products_of_compressed_attention_are_those_of_other_layers() -> None:
    """On 16 GPUs each has one group of heads, whose inputs are brought into the format once."""
    weights, rates, rows, seen = FORMATS["fp8-block"], H200.sparse, 64.0, 4097.0
    found = latent_seconds(
        H200,
        FOURTH,
        hidden=7168,
        tp=16,
        sequences=rows,
        tokens=1.0,
        context=seen - 1.0,
        weights=weights,
        cache_bytes=1.0,
    )
    products = sum(product_seconds(H200, rows, *sizes, weights) for sizes in FOURTH.products(7168, 16))
    numbers = rows * FOURTH.read(seen) * FOURTH.head_dim
    attended = numbers / H200.latent.cache_bandwidth + 4.0 * numbers * FOURTH.heads / 16 / rates.attending
    assert found == pytest.approx(products + attended + rates.compressed_s + rates.token_s * rows)


def test_compressed_entries_are_chosen_only_where_more_are_seen_than_read() -> None:
    few, more = (index_seconds(H200, CHOSEN, sequences=8.0, tokens=4.0, entries=n) for n in (1024.0, 1024.5))
    assert more - few == pytest.approx(32.0 * H200.sparse.choice_s, rel=0.01)
    tokens = replace(INDEX, entries=1024)  # DeepSeek-V3.2's has fixed times for all
    few, more = (index_seconds(H200, tokens, sequences=8.0, tokens=4.0, entries=n) for n in (1024.0, 1024.5))
    assert more == pytest.approx(few, rel=1e-3)


@pytest.mark.parametrize(
    ("engine", "gpu", "share"), [("vllm", "B200", 0.65), ("sglang", "B200", 1), ("vllm", "H200", 1)]
)
def test_vllm_starts_fewer_kernels_of_compressed_attention_on_blackwell(engine: str, gpu: str, share: float) -> None:
    """One token of DeepSeek-V4-Flash on one B200: 85 us in vLLM's table, 105 in TensorRT-LLM's."""
    passes = replace(model(FOURTH), gpu=gpu_named(gpu), engine=engine_named(engine))
    usual = replace(passes, measured=FittedOperators(passes.gpu))
    one = Work(sequences=1.0, context=4000.0)
    rates, count = passes.gpu.sparse, sum(group.count for group in passes.shape.layers)
    saved = (1.0 - share) * count * (rates.compressed_s + rates.entries_s)
    assert usual.parts(one).attention - passes.parts(one).attention == pytest.approx(saved)
