"""Passes: parts add up, more work takes longer, and what splitting and formats change."""

import math
from dataclasses import fields, replace

import pytest
from hardware_shapes import HEADS, LATENT, MIXTURE, QWEN3_8B, shape_of_layers
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import ParameterError
from theory.hardware.engines import ENGINES, EngineConstants, engine_named
from theory.hardware.formats import Precision
from theory.hardware.gpus import GPUS, gpu_named
from theory.hardware.mixers.sparse import Selection
from theory.hardware.mixers.states import Recurrent
from theory.hardware.passes import PassModel
from theory.hardware.shapes import Dense, Experts, Layers, Mixer
from theory.hardware.sources import FittedOperators
from theory.hardware.work import Parallel, Work

_MIXTURE = replace(MIXTURE, shared=768)
DENSE = replace(shape_of_layers(QWEN3_8B), norms=4)
MIXED = shape_of_layers(
    Layers(count=3, attention=LATENT, feed_forward=Dense(intermediate=6144)),
    Layers(count=40, attention=LATENT, feed_forward=_MIXTURE),
    Layers(count=5, attention=replace(HEADS, window=1024), feed_forward=_MIXTURE),
    hidden=2048,
)
DELTA = Recurrent(kind="gated-delta", heads=32, key_heads=16, key_dim=128, value_dim=128, state_bytes=4.0)

gpus = st.sampled_from(sorted(GPUS)).map(GPUS.__getitem__)
shapes = st.sampled_from([DENSE, MIXED])
parallels = st.sampled_from([Parallel(), Parallel(tp=4), Parallel(tp=4, ep=4), Parallel(dp=4, ep=4), Parallel(tp=8)])
precisions = st.sampled_from([Precision(), Precision(weights="fp8-block", cache="fp8"), Precision(weights="mxfp4")])
models = st.builds(PassModel, gpu=gpus, shape=shapes, precision=precisions, parallel=parallels)
works = st.builds(
    Work,
    sequences=st.floats(1.0, 512.0),
    tokens=st.floats(1.0, 16.0),
    context=st.floats(0.0, 30_000.0),
    prefill_tokens=st.floats(0.0, 8192.0),
    prefill_context=st.floats(0.0, 8192.0),
)


@given(models, works)
def test_parts_are_not_negative_and_sum_to_the_seconds(model: PassModel, work: Work) -> None:
    parts = model.parts(work)
    found = [getattr(parts, field.name) for field in fields(parts)]
    assert min(found) >= 0.0
    assert sum(found) == pytest.approx(model.seconds(work), rel=1e-12)


@given(models, works, st.sampled_from([field.name for field in fields(Work)]), st.floats(1.0, 16.0))
def test_more_work_takes_no_less_time(model: PassModel, work: Work, what: str, factor: float) -> None:
    if (what == "prefill_context" and work.prefill_tokens == 0.0) or what == "prompts":
        return
    assert model.seconds(work) <= model.seconds(replace(work, **{what: factor * getattr(work, what)})) * (1 + 1e-9)


@given(models, st.floats(1024.0, 8192.0), st.floats(2.0, 16.0))
def test_prompts_that_share_a_pass_attend_each_to_itself(model: PassModel, tokens: float, prompts: float) -> None:
    """More than one of them takes, and less than one prompt of all their tokens."""
    one = Work(sequences=0.0, prefill_tokens=tokens)
    together = replace(one, prefill_tokens=prompts * tokens, prompts=prompts)
    attention = [model.parts(work).attention for work in (one, together, replace(together, prompts=1.0))]
    assert attention == sorted(attention)
    if model.parallel.dp == 1:
        assert model.parts(together).products == model.parts(replace(together, prompts=1.0)).products


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda one: f"{one.name} {one.version}")
def test_a_prompt_is_read_by_one_copy_of_attention(engine: EngineConstants) -> None:
    """As many prompts as copies are read in the time of one, of which the other copies read nothing."""
    model = PassModel(gpu=GPUS["NVIDIA H100 SXM"], shape=MIXED, parallel=Parallel(dp=4, ep=4), engine=engine)
    one = Work(sequences=0.0, prefill_tokens=1024.0)
    alone, four = model.parts(one), model.parts(replace(one, prefill_tokens=4096.0, prompts=4.0))
    assert (alone.attention == four.attention) != engine.balanced
    assert alone.products <= four.products
    assert alone.experts < four.experts


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda one: f"{one.name} {one.version}")
def test_an_engine_that_reads_prompts_apart_pays_both_passes(engine: EngineConstants) -> None:
    model = PassModel(gpu=GPUS["NVIDIA H100 SXM"], shape=DENSE, engine=engine)
    work = Work(sequences=32.0, context=1000.0, prefill_tokens=1024.0)
    both = model.seconds(replace(work, prefill_tokens=0.0)) + model.seconds(replace(work, sequences=0.0))
    seconds = model.seconds(work)
    assert seconds == pytest.approx(both) if engine.apart else seconds < both


def test_copies_of_the_attention_sum_once_a_layer() -> None:
    """They gather and scatter the rows of all around the experts, and sum nothing after the attention."""
    gpu, work = GPUS["NVIDIA H100 SXM"], Work(sequences=64.0, context=100.0)
    copies = PassModel(gpu=gpu, shape=MIXED, parallel=Parallel(dp=4, ep=4)).parts(work)
    assert copies.sums == pytest.approx(48 * gpu.sum_seconds(4, 2.0 * 64.0 * 2048))


pipelined = st.builds(PassModel, gpu=gpus, shape=shapes, precision=precisions, parallel=st.just(Parallel(tp=8)))
stages = st.sampled_from([2, 3, 4])


def over(model: PassModel, pp: int, **network: float) -> PassModel:
    """The model over so many stages, with a network between them; none: one that takes no time."""
    gpu = replace(model.gpu, **(network or {"network": math.inf, "network_s": 0.0}))
    return replace(model, gpu=gpu, parallel=replace(model.parallel, pp=pp))


@given(pipelined, stages, st.floats(0.1, 512.0), st.floats(1.0, 16.0), st.floats(0.0, 30_000.0))
def test_a_batch_for_each_stage_takes_the_time_of_one_of_them_through_the_whole_model(
    model: PassModel, pp: int, sequences: float, tokens: float, context: float
) -> None:
    """Stages after each other are the whole model: a network without an end adds nothing."""
    work = Work(sequences=sequences, tokens=tokens, context=context)
    piped, one = over(model, pp), model.seconds(work)
    assert piped.seconds(replace(work, sequences=pp * max(sequences, 1.0))) == pytest.approx(
        model.seconds(replace(work, sequences=max(sequences, 1.0)))
    )
    assert piped.seconds(replace(work, sequences=min(sequences, 1.0))) == pytest.approx(
        model.seconds(replace(work, sequences=min(sequences, 1.0)))
    ), "one answer at a time gains nothing"
    assert piped.seconds(work) <= one * (1.0 + 1e-12)
    assert piped.seconds(Work(sequences=0.0, prefill_tokens=1000.0)) == pytest.approx(
        model.seconds(Work(sequences=0.0, prefill_tokens=1000.0))
    ), "nor does one prompt"


@given(pipelined, stages, st.floats(1.0, 512.0), st.floats(1e8, 1e12), st.floats(1.0, 100.0))
def test_a_faster_network_between_stages_takes_no_more_time(
    model: PassModel, pp: int, sequences: float, network: float, factor: float
) -> None:
    work = Work(sequences=sequences, tokens=4.0, context=1000.0)
    slow, fast, late = (
        over(model, pp, network=network * speed, network_s=latency).parts(work)
        for speed, latency in ((1.0, 1e-5), (factor, 1e-5), (1.0, 1e-5 * factor))
    )
    ideal = over(model, pp).parts(work)
    assert ideal.sums < fast.sums <= slow.sums <= late.sums
    assert slow.seconds - slow.sums == pytest.approx(ideal.seconds - ideal.sums)
    rows = 4.0 * max(sequences / pp, 1.0)
    size = 2.0 * (1 + model.shape.streams) * model.shape.hidden * rows / 8
    assert slow.sums - ideal.sums == pytest.approx((pp - 1) * size / network + pp * 1e-5)


@given(gpus, st.sampled_from([2, 4, 8]), st.floats(1e3, 1e8))
def test_fused_sums_take_no_longer_than_the_others(gpu, n_gpus: int, size: float) -> None:
    assert gpu.sum_seconds(n_gpus, size, fused=True) <= gpu.sum_seconds(n_gpus, size)


@given(gpus, st.floats(1.0, 64.0))
def test_tensor_parallelism_reads_a_share_of_the_weights(gpu, sequences: float) -> None:
    work = Work(sequences=sequences, context=1000.0)
    one, four = (PassModel(gpu=gpu, shape=DENSE, parallel=Parallel(tp=n)).parts(work) for n in (1, 4))
    assert four.products < one.products
    assert four.head < one.head
    assert one.sums == 0.0 < four.sums


@given(models, st.floats(1.0, 256.0), st.floats(1.0, 10_000.0))
def test_a_pass_of_several_tokens_costs_less_than_as_many_passes(model, sequences, context) -> None:
    """Beyond what the engine takes for each drafted token, and for attention kernels without graphs for several."""
    four, one = Work(sequences=sequences, tokens=4.0, context=context), Work(sequences=sequences, context=context)
    unpriced = dict.fromkeys(("verified_s", "ungraphed_s", "ungraphed_decoding_s"), 0.0)
    free = replace(model, engine=replace(model.engine, **unpriced))
    if model.precision.cache == "bf16":
        assert free.seconds(four) < 4 * free.seconds(one) * (1 + 1e-9)
    drafted = 3.0 * max(sequences / model.parallel.dp, 1.0)  # a copy of the attention decodes one sequence at least
    added = model.engine.verified_s * drafted + model.parts(four).ungraphed
    assert model.seconds(four) - free.seconds(four) == pytest.approx(added, rel=1e-6, abs=1e-12)


def test_an_fp8_cache_is_slow_where_the_gpu_has_no_fp8() -> None:
    """Attention takes longer there, and the verification of drafts leaves the graphs of whole passes.

    That it also does where vLLM has no kernel for such a cache but FlashInfer's.
    """
    for name, widened, outside in (
        ("A100", True, True), ("H100", False, False), ("B200", False, False), ("RTX PRO 6000", False, True),
        ("L40S", False, True), ("MI300X", False, False),
    ):  # fmt: skip
        wide, narrow = (
            PassModel(gpu=gpu_named(name), shape=DENSE, precision=Precision(cache=cache)) for cache in ("bf16", "fp8")
        )
        verified = Work(sequences=8.0, tokens=4.0, context=100.0)
        unlike = replace(narrow, engine=replace(narrow.engine, narrow_cache=1.0))
        assert (unlike.parts(verified).attention > wide.parts(verified).attention) == widened
        assert narrow.parts(verified).ungraphed == (narrow.engine.ungraphed_decoding_s if outside else 0.0)
        assert (replace(narrow, engine=engine_named("sglang")).parts(verified).ungraphed > 0.0) == widened
        assert narrow.parts(replace(verified, tokens=1.0)).ungraphed == wide.parts(verified).ungraphed == 0.0


def test_kernels_for_fp8_caches_on_hopper_differ_by_engine() -> None:
    work = Work(sequences=64.0, context=2000.0)
    for name in ("H100", "GH200", "B200", "L40S"):
        for cache in ("bf16", "fp8"):
            one = PassModel(gpu=gpu_named(name), shape=DENSE, precision=Precision(cache=cache))
            seconds = {
                engine: replace(one, engine=engine_named(engine)).parts(work).attention
                for engine in ("trtllm", "vllm", "sglang")
            }
            ordered = seconds["trtllm"] < seconds["vllm"] < seconds["sglang"]
            assert ordered == (cache == "fp8" and name.endswith(("H100", "GH200")))


def test_states_that_sglang_caches_by_prefix_keep_it_from_scheduling_ahead() -> None:
    engine, dense, experts = engine_named("sglang"), QWEN3_8B, replace(QWEN3_8B, feed_forward=MIXTURE)
    for kind, layers, waits in (
        ("gated-delta", dense, True), ("mamba2", experts, True), ("convolution", dense, True),
        ("convolution", experts, False), ("kda", dense, False), ("lightning", experts, False),
    ):  # fmt: skip
        mixer = Recurrent(kind=kind, heads=32, key_heads=32, key_dim=8, value_dim=64)
        shape = replace(DENSE, layers=(*DENSE.layers, replace(layers, attention=mixer)))
        one, other = (
            PassModel(gpu=gpu_named("H200"), shape=shape, engine=replace(engine, waiting_s=seconds)).seconds(
                Work(sequences=1.0, context=100.0)
            )
            for seconds in (0.0, 1e-3)
        )
        assert other - one == pytest.approx(1e-3 if waits else 0.0)


def test_passes_of_more_tokens_than_graphs_were_captured_for_are_outside_them() -> None:
    engine = replace(engine_named("vllm"), graphed_rows=512.0)
    model = PassModel(gpu=gpu_named("H100"), shape=DENSE, engine=engine)
    within, beyond = (Work(sequences=64.0, tokens=tokens, context=100.0) for tokens in (8.0, 8.01))
    assert model.parts(within).ungraphed == 0.0
    assert model.parts(beyond).ungraphed == engine.ungraphed_decoding_s > 0.0
    unknown = replace(engine, ungraphed_decoding_s=0.0)
    assert replace(model, engine=unknown).parts(beyond).ungraphed == engine.ungraphed_s
    assert replace(model, engine=engine_named("vllm")).parts(beyond).ungraphed == 0.0


def test_a_gpu_waits_for_the_host_that_starts_kernels_of_sparse_attention_one_by_one() -> None:
    engine = replace(engine_named("vllm"), graphed_rows=512.0)
    chooses = replace(LATENT, selection=Selection(heads=4, dim=128, entries=512, key_bytes=132.0))
    dense, sparse = (
        PassModel(gpu=gpu_named("H200"), shape=shape_of_layers(replace(QWEN3_8B, attention=one)), engine=engine)
        for one in (LATENT, chooses)
    )
    launching = QWEN3_8B.count * engine.launches.sparse
    for work, waits in (
        (Work(sequences=64.0, tokens=8.0), False),
        (Work(sequences=64.0, tokens=8.01), True),
        (Work(sequences=64.0, tokens=7.0, prefill_tokens=65.0), True),
    ):
        parts = sparse.parts(work)
        assert (parts.seconds - parts.sequences == pytest.approx(launching, rel=1e-9)) == waits
        assert dense.parts(work).seconds < launching
    full = Work(sequences=0.0, prefill_tokens=1e6)  # the GPU has enough to do
    assert sparse.parts(full).ungraphed == sparse.reading_seconds(1e6)


@pytest.mark.parametrize(("mixer", "kind"), [(QWEN3_8B.attention, "attention"), (LATENT, "latent"), (DELTA, "states")])
def test_the_host_starts_the_kernels_of_a_short_prompt_in_sglang_one_by_one(mixer: Mixer, kind: str) -> None:
    layers = replace(QWEN3_8B, attention=mixer)
    model = PassModel(gpu=gpu_named("B200"), shape=shape_of_layers(layers), engine=engine_named("sglang"))
    launching = layers.count * getattr(model.engine.launches, kind)
    for tokens in (1.0, 500.0):
        parts = model.parts(Work(sequences=0.0, prefill_tokens=tokens))
        assert parts.seconds - parts.sequences == pytest.approx(launching, rel=1e-9)
    assert model.seconds(Work(sequences=0.0, prefill_tokens=1e5)) > 2.0 * launching
    assert model.seconds(Work(sequences=1.0)) < 0.5 * launching  # decoding is in graphs


def test_general_kernels_for_experts_take_longer_on_blackwell_until_it_has_some_of_its_own() -> None:
    early, late = (engine_named("sglang", version) for version in ("0.5.8", "0.5.9"))
    early = replace(early, fused_sums=late.fused_sums)
    for gpu, weights, is_new, slower in (
        ("B200", "bf16", False, True),
        ("B200", "fp8-block", False, False),
        ("B200", "fp8-block", True, True),  # MiniMax-M2.5: its architecture is none of those with TensorRT-LLM's
        ("B200", "nvfp4", True, False),
        ("H200", "fp8-block", True, False),
    ):
        model = PassModel(
            gpu=gpu_named(gpu), shape=MIXED, precision=Precision(weights=weights), engine=late, is_new=is_new
        )
        before = replace(model, engine=early).seconds(Work(sequences=4.0))
        added = early.general_s * sum(one.count for one in MIXED.layers if isinstance(one.feed_forward, Experts))
        assert before - model.seconds(Work(sequences=4.0)) == pytest.approx(added * slower, abs=1e-12)


@pytest.mark.parametrize(
    ("engine", "gpu", "head_dim", "general"),
    [
        ("sglang", "H200", 512, True), ("sglang", "B300", 512, True), ("sglang", "L40S", 512, True),
        ("sglang", "B200", 512, False), ("sglang", "H200", 256, False), ("vllm", "H200", 512, False),
    ],
)  # fmt: skip
def test_layers_beside_the_widest_heads_attend_by_kernels_in_triton_too(
    engine: str, gpu: str, head_dim: int, general: bool
) -> None:
    wide = Layers(count=7, attention=replace(HEADS, head_dim=head_dim), feed_forward=QWEN3_8B.feed_forward)
    narrow = replace(wide, count=35, attention=replace(HEADS, window=512))
    model = PassModel(gpu=gpu_named(gpu), shape=shape_of_layers(narrow, wide), engine=engine_named(engine))
    assert model.general == general
    by_triton = FittedOperators(model.gpu, general=True, **model.engine.kernels(model.gpu.name))
    slower = replace(model, measured=by_triton)
    for work in (Work(sequences=0.0, prefill_tokens=8192.0), Work(sequences=1.0, context=8192.0)):
        assert (model.parts(work).attention < slower.parts(work).attention) == (not general)


def test_drafts_of_blocks_are_verified_as_the_engine_does_those() -> None:
    engine = engine_named("vllm")
    assert engine.verifying("block-drafter").verified_s == engine.of_block_s
    assert engine.verifying("eagle") is engine
    assert engine_named("sglang").verifying("block-drafter") is engine_named("sglang")


@given(models, works)
def test_an_iteration_that_reads_prompts_leaves_the_graphs(model: PassModel, work: Work) -> None:
    dp = model.parallel.dp
    model = replace(model, engine=replace(model.engine, graphed_rows=math.inf, prompt_rows=math.inf))
    shares = [
        model.parts(replace(work, prefill_tokens=n * dp, prompts=float(dp))).ungraphed
        for n in (0.0, 32.0, 128.0, 8192.0)
    ]
    if work.tokens == 1.0 or model.precision.cache == "bf16":
        assert shares == [pytest.approx(model.engine.ungraphed_s * share) for share in (0.0, 0.25, 1.0, 1.0)]


@given(st.sampled_from(["H100", "A100", "L40S"]).map(gpu_named), st.floats(1.0, 4.0))
def test_four_bits_that_are_widened_reach_less_bandwidth(gpu, sequences: float) -> None:
    """So four bits are less than three times as fast as sixteen, whether their values are integers or NVFP4."""
    work = Work(sequences=sequences)
    bf16, int4, nvfp4 = (
        PassModel(gpu=gpu, shape=DENSE, precision=Precision(weights=of)).parts(work).products
        for of in ("bf16", "int4", "nvfp4")
    )
    assert bf16 / 3.5 < int4 < nvfp4 < bf16 / 1.5


def test_a_split_that_engines_refuse() -> None:
    with pytest.raises(ParameterError, match="tp=3 must divide the 32 heads"):
        PassModel(gpu=gpu_named("H100"), shape=DENSE, parallel=Parallel(tp=3))


def test_which_experts_run_an_engines_untuned_kernels() -> None:
    engine = replace(PassModel(gpu=gpu_named("B200"), shape=DENSE).engine, untuned=1.0, untuned_small=0.5, padding=0.0)
    shape = shape_of_layers(Layers(count=1, attention=HEADS, feed_forward=_MIXTURE), hidden=2048)

    def share(gpu: str, sequences: float, ep: int = 4, weights: str = "bf16") -> float:
        parallel = Parallel(tp=4, ep=ep)
        model = PassModel(gpu=gpu_named(gpu), shape=shape, precision=Precision(weights=weights), parallel=parallel)
        work = Work(sequences=sequences)
        tuned = replace(engine, untuned=0.0, untuned_small=0.0)
        slow, fast = (replace(model, engine=one).parts(work).experts for one in (engine, tuned))
        return slow / fast - 1.0

    assert share("B200", 32.0) == pytest.approx(0.5)  # as many tokens as a GPU has experts
    assert share("B200", 33.0) == pytest.approx(1.0)
    assert share("B200", 33.0, ep=1) == share("H100", 33.0) == 0.0
    assert share("B200", 33.0, weights="fp8-block") == share("B200", 33.0, weights="mxfp4") == 0.0


def test_only_experts_in_block_wise_fp8_are_padded() -> None:
    for weights, more in (("bf16", False), ("fp8", False), ("fp8-block", True), ("mxfp4", False)):
        model = PassModel(gpu=gpu_named("H100"), shape=MIXED, precision=Precision(weights=weights))
        padded = replace(model, engine=replace(model.engine, padding=127.0))
        work = Work(sequences=8.0)
        assert (padded.seconds(work) > model.seconds(work)) == more


def test_experts_of_few_columns_are_not_padded() -> None:
    """DeepSeek-R1 has 2,048: 256 on each of 8 GPUs that share an expert, all where whole ones are dealt out."""
    experts = replace(MIXTURE, count=256, per_token=8, intermediate=2048)
    shape = shape_of_layers(Layers(count=58, attention=HEADS, feed_forward=experts), hidden=7168)
    for parallel, more in ((Parallel(tp=8), False), (Parallel(tp=8, ep=8), True)):
        model = PassModel(
            gpu=gpu_named("H200"), shape=shape, precision=Precision(weights="fp8-block"), parallel=parallel
        )
        padded = replace(model, engine=replace(model.engine, padding=127.0))
        assert (padded.seconds(Work(sequences=8.0)) > model.seconds(Work(sequences=8.0))) == more
