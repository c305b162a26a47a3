"""Rounds of speculation: laws that hold whatever the constants."""

import math
from dataclasses import replace

import pytest
from hardware_shapes import HEADS, LLAMA_8B, MIXTURE, shape_of_layers
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import ParameterError
from theory.hardware.engines import ENGINES, EngineConstants, engine_named
from theory.hardware.formats import FORMATS
from theory.hardware.gpus import gpu_named
from theory.hardware.mixers.states import Recurrent
from theory.hardware.passes import PassModel
from theory.hardware.rounds import Round, head_round
from theory.hardware.shapes import Layers, Shape
from theory.hardware.work import Parallel, Work

DENSE = shape_of_layers(LLAMA_8B, vocab=128256)
SPARSE = shape_of_layers(Layers(count=48, attention=HEADS, feed_forward=MIXTURE), hidden=2048)
HEAD = shape_of_layers(replace(LLAMA_8B, count=1), vocab=32000)
ROUNDS = [
    head_round(PassModel(gpu=gpu_named("H100"), shape=shape, engine=engine_named("sglang"), parallel=parallel), HEAD)
    for shape, parallel in ((DENSE, Parallel()), (SPARSE, Parallel(tp=4)))
]
rounds = st.sampled_from(ROUNDS)
batches = st.floats(1.0, 256.0)
contexts = st.floats(0.0, 30_000.0)


@given(rounds, batches, contexts)
def test_a_round_of_one_token_is_a_plain_step(one: Round, batch: float, context: float) -> None:
    assert one.seconds(batch, 1.0, context) == one.target.seconds(Work(sequences=batch, context=context))


@given(rounds, batches, contexts, st.integers(2, 15))
def test_more_tokens_passes_and_branches_take_more_time(one: Round, batch: float, context: float, k: int) -> None:
    chain = one.parts(batch, k, context)
    assert chain.seconds == pytest.approx(chain.verification + chain.drafting + chain.engine)
    assert one.seconds(batch, k + 1, context) > chain.seconds > one.seconds(batch, 1, context)
    assert one.parts(batch, k, context, steps=k - 1) == chain
    assert one.seconds(batch, k, context, steps=k) > chain.seconds
    tree = one.parts(batch, k, context, topk=4)
    assert tree.engine > chain.engine
    assert tree.drafting >= chain.drafting
    assert tree.verification == chain.verification


@given(rounds, batches, contexts, st.integers(2, 15))
def test_drafting_from_the_prompt_costs_no_pass(one: Round, batch: float, context: float, k: int) -> None:
    lookup = Round(target=one.target, method="prompt-lookup").parts(batch, k, context)
    assert lookup.drafting == 0.0
    assert lookup.engine == one.target.engine.round_s


@given(rounds, batches, contexts, st.integers(2, 15))
def test_rounds_before_spec_v2_wait_for_the_host(one: Round, batch: float, context: float, k: int) -> None:
    """A time of each sequence more; plain steps take what they did."""
    engine = replace(one.target.engine, unhidden_s=engine_named("sglang", "0.5.10").unhidden_s)
    before = replace(one, target=replace(one.target, engine=engine))
    added = before.parts(batch, k, context).engine - one.parts(batch, k, context).engine
    assert added == pytest.approx(batch * engine.unhidden_s, rel=1e-6)
    assert before.seconds(batch, 1.0, context) == one.seconds(batch, 1.0, context)
    assert engine.unhidden_s > one.target.engine.unhidden_s == 0.0


@given(rounds, batches, contexts, st.integers(2, 8), st.sampled_from([2, 4]))
def test_the_last_stage_drafts_for_each_batch_in_turn(
    one: Round, batch: float, context: float, k: int, pp: int
) -> None:
    piped = replace(one.target, parallel=replace(one.target.parallel, pp=pp))
    for method, many in (
        ("eagle", head_round(piped, HEAD)),
        ("prompt-lookup", Round(target=piped, method="prompt-lookup")),
    ):
        alone = one if method == "eagle" else Round(target=one.target, method=method)
        each, of_all = alone.besides(batch, k, context), many.besides(pp * batch, k, context)
        assert of_all == pytest.approx(tuple(pp * seconds for seconds in each))
        assert many.besides(1.0, k, context) == alone.besides(1.0, k, context)


@given(batches, st.integers(2, 8))
def test_a_draft_model_on_its_own_gpus_takes_its_own_time(batch: float, k: int) -> None:
    draft = PassModel(gpu=gpu_named("L40S"), shape=replace(DENSE, layers=(replace(DENSE.layers[0], count=4),)))
    found = Round(target=ROUNDS[0].target, method="draft-model", draft=draft).parts(batch, k, 1000.0)
    plain = draft.seconds(Work(sequences=batch, context=1000.0))
    assert found.drafting >= (k - 1) * plain


@given(st.floats(1.0, 64.0), st.integers(2, 8))
def test_tokens_of_one_text_share_experts(batch: float, k: int) -> None:
    """Verifying k tokens of each sequence reads fewer experts than decoding k times as many sequences."""
    target = ROUNDS[1].target
    verified = target.parts(Work(sequences=batch, tokens=k)).experts
    assert target.parts(Work(sequences=batch)).experts < verified
    assert verified <= target.parts(Work(sequences=batch * k)).experts


def test_what_is_refused() -> None:
    target, draft = ROUNDS[0].target, ROUNDS[0].draft
    with pytest.raises(ParameterError, match="method='medusa' must be one of eagle, mtp, draft-model, prompt-lookup"):
        Round(target=target, method="medusa", draft=draft)
    with pytest.raises(ParameterError, match="draft=None must be given for eagle"):
        Round(target=target, method="eagle")
    with pytest.raises(ParameterError, match="must not be given for prompt-lookup"):
        Round(target=target, method="prompt-lookup", draft=draft)
    for k in (0.5, float("nan"), float("inf")):
        with pytest.raises(ParameterError, match="k="):
            ROUNDS[0].seconds(1.0, k, 100.0)
    with pytest.raises(ParameterError, match="steps=0 must be >= 1"):
        ROUNDS[0].seconds(1.0, 4, 100.0, steps=0)
    with pytest.raises(ParameterError, match="topk=0 must be >= 1"):
        ROUNDS[0].seconds(1.0, 4, 100.0, topk=0)


@pytest.mark.parametrize("gpu", ["H100", "B200", "A100", "L40S"])
@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda one: f"{one.name} {one.version}")
@pytest.mark.parametrize("shape", [DENSE, SPARSE], ids=["dense", "experts"])
def test_no_gain_where_arithmetic_is_saturated(gpu: str, engine: EngineConstants, shape: Shape) -> None:
    """A large batch over short contexts pays for every verified token, and most drafts are not accepted for nothing.

    Seven of ten drafted tokens are right. Over long contexts a gain remains: k tokens read a cache once. So it does of
    turns of attention's blocks, which compute k tokens at once: they are left out.
    """
    known = gpu_named(gpu)
    known = replace(known, attention=replace(known.attention, block_s=0.0))
    one = head_round(PassModel(gpu=known, shape=shape, engine=engine), HEAD)
    for batch in (16_384.0, 65_536.0):
        plain = one.seconds(batch, 1.0, 0.0)
        for k in range(2, 9):
            tokens = sum(0.7**i for i in range(k))
            assert plain * tokens / one.seconds(batch, float(k), 0.0) < 1.02, k


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda one: f"{one.name} {one.version}")
def test_gains_fall_with_the_batch_once_it_is_large(engine: EngineConstants) -> None:
    engine = replace(engine, graphed_rows=math.inf)
    one = head_round(PassModel(gpu=gpu_named("H100"), shape=DENSE, engine=engine), HEAD)
    batches = [64.0, 256.0, 1024.0, 4096.0]
    gains = [one.seconds(batch, 1.0, 500.0) * 2.0 / one.seconds(batch, 4.0, 500.0) for batch in batches]
    assert gains == sorted(gains, reverse=True)


@given(rounds, batches, contexts, st.integers(3, 15))
def test_a_block_is_drafted_in_one_pass(one: Round, batch: float, context: float, k: int) -> None:
    block = replace(one, method="block-drafter")
    chain, at_once = one.parts(batch, k, context), block.parts(batch, k, context)
    assert at_once.verification == chain.verification
    assert block.parts(batch, k + 1, context).drafting >= at_once.drafting
    if batch * k <= 32:  # beyond, arithmetic counts, not how often the head is read
        assert at_once.drafting < chain.drafting
    committed = one.draft.seconds(Work(sequences=batch, tokens=(k + 1.0) / 2.0, context=context))  # type: ignore[union-attr]
    assert at_once.drafting >= committed


@given(batches, st.integers(2, 15))
def test_what_an_engine_copies_of_states_and_a_block_chooses_in_turn(batch: float, k: int) -> None:
    state = Recurrent(kind="gated-delta", heads=32, key_heads=16, key_dim=128, value_dim=128, state_bytes=4.0)
    shape = shape_of_layers(replace(LLAMA_8B, attention=state), vocab=128256)
    for name, moves in (("vllm", 0.0), ("sglang", 2.0), ("trtllm", 4.0)):
        target = PassModel(gpu=gpu_named("H100"), shape=shape, engine=engine_named(name), parallel=Parallel(tp=2))
        bare = replace(target, engine=replace(target.engine, moved_states=0.0))
        copied = head_round(target, HEAD).besides(batch, k, 0.0)[1] - head_round(bare, HEAD).besides(batch, k, 0.0)[1]
        moved = moves * batch * shape.n_layers * 4.0 * state.state / 2.0
        assert copied == pytest.approx(moved / target.gpu.states.bandwidth, abs=1e-12)
        drafting = [head_round(target, HEAD, "block-drafter", rank).besides(batch, k, 0.0)[0] for rank in (0, 256)]
        assert drafting[1] - drafting[0] == pytest.approx(
            (k - 1) * target.operators.product(batch, HEAD.vocab / 2, 256, FORMATS["bf16"])
        )
