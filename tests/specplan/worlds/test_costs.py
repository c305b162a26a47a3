"""What iterations cost: the pass model itself at both ends of the contexts, and straight between them."""

from dataclasses import replace
from statistics import fmean

import pytest
from deployments import head_of, model
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.worlds.costs import Contexts, ModelCost, RoundCost
from specplan.worlds.model_files import shape_of
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named
from theory.hardware.passes import PassModel
from theory.hardware.rounds import Round, head_round
from theory.hardware.work import Parallel, Work

FIRST, LAST = 128.0, 4096.0
CONTEXTS = Contexts(first=FIRST, last=LAST)
BATCHES = st.sampled_from((1, 2, 7, 32, 128))


def passes(name: str = "Qwen/Qwen3-8B") -> PassModel:
    served = model(name)
    return PassModel(
        gpu=gpu_named("H100"), shape=served.facts.shape, precision=served.precision, engine=engine_named("vllm")
    )


def cost(rows: float = 1.0) -> ModelCost:
    return ModelCost(passes(), CONTEXTS, rows=rows)


@given(batch=BATCHES, rows=st.sampled_from((1.0, 4.0)))
def test_at_both_ends_it_is_the_pass_model(batch: int, rows: float) -> None:
    for context in (FIRST, LAST):
        said = passes().seconds(Work(sequences=batch, tokens=rows, context=context))
        assert cost(rows).iteration(batch, batch * context) == pytest.approx(said, rel=1e-9)


@given(batch=BATCHES, share=st.floats(0.0, 1.0))
def test_it_is_straight_between_and_near_the_pass_model(batch: int, share: float) -> None:
    one = cost()
    ends = [one.iteration(batch, batch * context) for context in (FIRST, LAST)]
    context = FIRST + share * (LAST - FIRST)
    here = one.iteration(batch, batch * context)
    assert here == pytest.approx(ends[0] + share * (ends[1] - ends[0]), rel=1e-9)
    assert here == pytest.approx(passes().seconds(Work(sequences=batch, context=context)), rel=0.03)


@settings(max_examples=40)
@given(batch=st.sampled_from((0, 1, 8, 64)), tokens=st.floats(1.0, 8192.0), share=st.floats(0.0, 1.0))
def test_reading_a_prompt_beside_never_makes_an_iteration_shorter(batch: int, tokens: float, share: float) -> None:
    one, context = cost(), batch * (FIRST + share * (LAST - FIRST))
    alone = one.iteration(batch, context) if batch else 0.0
    assert one.mixed(batch, context, tokens, FIRST) >= alone
    assert one.mixed(batch, context, 2.0 * tokens, FIRST) >= one.mixed(batch, context, tokens, FIRST)


@pytest.mark.parametrize("tokens", [1, 2, 64, 1024, 8192])
def test_prompts_are_read_from_their_beginning(tokens: int) -> None:
    """Parts of a prompt attend to half of what is before them in the mean, more tokens than it has are several."""
    before, prompts = max(FIRST - tokens, 0.0) / 2.0, max(tokens / FIRST, 1.0)
    said = passes().seconds(Work(sequences=0, prefill_tokens=tokens, prefill_context=before, prompts=prompts))
    assert cost().prefill(tokens) == pytest.approx(said, rel=1e-9)
    assert cost().prefill(0) == cost().prefill(1)


def test_between_powers_of_two_prompts_are_straight_and_beyond_the_last_they_go_on() -> None:
    one = cost()
    assert one.prefill(3000) == pytest.approx(
        one.prefill(2048) + (3000 - 2048) / 2048 * (one.prefill(4096) - one.prefill(2048))
    )
    most = 2**17
    assert one.prefill(2 * most) - one.prefill(most) == pytest.approx(2 * (one.prefill(most) - one.prefill(most // 2)))


@given(batch=BATCHES, k2=st.sampled_from((2, 4, 8)), drafter=st.sampled_from(("model", "head", "text")))
def test_a_round_is_the_targets_pass_with_drafting_and_the_engine(batch: int, k2: int, drafter: str) -> None:
    target = cost(rows=float(k2))
    rounds = {
        "model": lambda: Round(target=passes(), method="draft-model", draft=passes("Qwen/Qwen3-0.6B")),
        "head": lambda: head_round(passes(), head_of("Qwen/Qwen3-8B").facts.shape),
        "text": lambda: Round(target=passes(), method="prompt-lookup"),
    }[drafter]()
    one = RoundCost(target, rounds, k2)
    for context in (FIRST, LAST):
        assert one.iteration(batch, batch * context) == pytest.approx(rounds.seconds(batch, k2, context), rel=1e-9)
    parts = rounds.parts(batch, k2, FIRST)
    besides = one.mixed(batch, batch * FIRST, 512.0, 0.0) - target.mixed(batch, batch * FIRST, 512.0, 0.0)
    assert besides == pytest.approx(parts.drafting + parts.engine, rel=1e-6)
    assert one.mixed(0, 0.0, 512.0, 0.0) == one.prefill(512) == target.prefill(512)
    assert one.request_s == target.request_s


@pytest.mark.parametrize(
    ("name", "cache", "rows", "error"),
    [
        (  # ROCm/ATOM#409; the fit of fixed times on AMD's GPUs
            "deepseek-ai/DeepSeek-R1",
            "bf16",
            {
                1380: {4: 11.2, 8: 11.98, 16: 13.48, 32: 17.8, 64: 21.27},
                4610: {4: 11.22, 8: 11.86, 16: 13.48, 32: 17.32, 64: 20.52},
            },
            0.055,
        ),
        (  # ROCm/ATOM#750, the newer of two versions, without the rows that read prompts most of the time
            "deepseek-ai/DeepSeek-V3.2",
            "fp8",
            {1050: {4: 13.55, 16: 15.84}, 5250: {4: 14.29}, 10500: {4: 14.69}},
            0.05,
        ),
    ],
)
def test_passes_on_amds_gpus_are_those_of_servers(
    name: str, cache: str, rows: dict[int, dict[int, float]], error: float
) -> None:
    """Cached tokens of an answer, answers at once, ms per token."""
    facts = shape_of(name)
    precision = replace(facts.precision, cache=cache)
    passes = PassModel(gpu=gpu_named("MI355X"), shape=facts.shape, precision=precision, parallel=Parallel(tp=8))
    misses = [
        1e3 * passes.seconds(Work(sequences=n, context=context)) / ms - 1.0
        for context, times in rows.items()
        for n, ms in times.items()
    ]
    assert fmean(map(abs, misses)) < error
