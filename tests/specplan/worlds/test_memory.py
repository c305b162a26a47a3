"""Weights, caches and what remains: by hand for one model, and the laws that placements obey."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.worlds.memory import Room, Served, rooms_of
from specplan.worlds.model_files import shape_of
from theory.errors import ParameterError
from theory.hardware.formats import Precision
from theory.hardware.gpus import gpu_named
from theory.hardware.work import Parallel

H100 = gpu_named("H100").memory


def served(name: str, role: str = "target", **given: object) -> Served:
    facts = shape_of(name)
    settings = {"precision": facts.precision, **given}
    return Served(role=role, name=facts.name, shape=facts.shape, **settings)  # type: ignore[arg-type]


def plan(*models: Served, context: float = 4000, **given: float) -> tuple[Room, ...]:
    return rooms_of(models, gpu_bytes=given.pop("gpu_bytes", H100), context=context, **given)  # type: ignore[arg-type]


def test_one_model_by_hand() -> None:
    (room,) = plan(served("Qwen/Qwen3-14B"), context=4542)
    assert room.weight_bytes == pytest.approx(29.5e9, rel=0.01)
    assert room.cache_bytes(4542) == 4542 * 2 * 8 * 128 * 40 * 2
    assert room.free_bytes == pytest.approx(0.9 * H100 - room.weight_bytes - room.work_bytes)
    assert room.answers(4542) == pytest.approx(room.free_bytes / (4542 * 163840))


def test_the_measured_number_of_answers_in_flight() -> None:
    """ML.ENERGY, Qwen3-14B on one H100, GPQA: 64 allowed, 59.0 in flight on average, of 4,542 tokens.

    The one row of that data set whose batch is bounded by the cache and whose answers are long beside the prompt, so
    that their mean length in flight is known; the margin is that of the assumed prompt (250 tokens of 4,542) and of
    working memory (1 GB of 39).
    """
    assert plan(served("Qwen/Qwen3-14B"), context=4542)[0].answers(4542) == pytest.approx(59.0, rel=0.08)


def test_a_draft_takes_cache_from_answers_unless_it_has_gpus_of_its_own() -> None:
    target = served("Qwen/Qwen3-32B", parallel=Parallel(tp=2))
    draft = served("Qwen/Qwen3-1.7B", "draft", parallel=Parallel(tp=2))
    (alone,), (beside,) = plan(target), plan(target, draft)
    apart = plan(target, served("Qwen/Qwen3-1.7B", "draft", own=True))
    assert beside.answers(4000) < alone.answers(4000)
    assert (beside.gpus, [room.gpus for room in apart], alone.gpus) == (2, [2, 1], 2)
    assert apart[0].free_bytes == alone.free_bytes


@given(
    st.sampled_from(["Qwen/Qwen3-8B", "google/gemma-3-12b-it", "openai/gpt-oss-20b", "DeepSeek-V2-Lite"]),
    st.integers(100, 30_000),
    st.integers(1, 1000),
    st.sampled_from([1, 2, 4]),
)
def test_longer_answers_and_smaller_memories_hold_fewer(name: str, context: int, more: int, tp: int) -> None:
    one = served(name, parallel=Parallel(tp=tp))
    (found,), (smaller,) = plan(one, context=context), plan(one, context=context, engine_share=0.8)
    assert found.answers(context + more) <= found.answers(context)
    assert smaller.answers(context) <= found.answers(context)
    assert served(name, precision=Precision(cache="fp8")).cache_bytes(context) * 2 == served(
        name, precision=Precision()
    ).cache_bytes(context)


def test_data_parallel_replicas_hold_answers_each() -> None:
    (one,), (two,) = plan(served("Qwen/Qwen3-8B")), plan(served("Qwen/Qwen3-8B", parallel=Parallel(dp=2)))
    assert 2 * one.answers(4000) >= two.answers(4000) >= 1.95 * one.answers(4000)  # less the buffers of collectives


def refusal(*models: Served, **given: float) -> str:
    with pytest.raises(ParameterError) as caught:
        plan(*models, **given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_models_that_do_not_fit_say_what_would() -> None:
    llama = served("meta-llama/Llama-3.3-70B-Instruct")
    text = refusal(llama)
    assert text.startswith("gpus=1 of 86 GB hold too little for meta-llama/Llama-3.3-70B-Instruct: each needs 145.3 GB")
    assert text.endswith("2 GPUs would do or fp8 weights would do")  # 70.5 GB of each 77, or 72.7 with one answer
    assert refusal(llama, context=30_000).endswith("4 GPUs would do or int4 weights would do")
    assert "neither more of them nor fewer bits would do: take larger ones" in refusal(
        served("Qwen/Qwen3-8B"), gpu_bytes=1e8
    )
    kimi = served("moonshotai/Kimi-K3", parallel=Parallel(tp=8))
    assert refusal(kimi, gpu_bytes=1.5e11).endswith("; 16 GPUs would do"), "two machines"
    assert refusal(kimi, gpu_bytes=8e10).endswith("; 32 GPUs would do"), "four"
    assert refusal(kimi, gpu_bytes=5e10).endswith("; 64 GPUs would do, where plans go up to 32")
    with pytest.raises(ParameterError, match="tp=3 must divide the 32 heads"):
        served("Qwen/Qwen3-8B", parallel=Parallel(tp=3))


@pytest.mark.parametrize("gigabytes", [40, 70, 110, 160, 200])
def test_as_many_gpus_as_are_said_would_do_and_half_as_many_would_not(gigabytes: int) -> None:
    gpu_bytes, (tp, pp) = 1e9 * gigabytes, (8, 1)
    text = refusal(served("moonshotai/Kimi-K3", parallel=Parallel(tp=tp)), gpu_bytes=gpu_bytes)
    while f" {tp * pp} GPUs would do" not in text:
        assert refusal(served("moonshotai/Kimi-K3", parallel=Parallel(tp=tp, pp=pp)), gpu_bytes=gpu_bytes)
        pp *= 2
    plan(served("moonshotai/Kimi-K3", parallel=Parallel(tp=tp, pp=pp)), gpu_bytes=gpu_bytes)


def test_windows_that_an_engine_keeps_whole_hold_fewer_answers() -> None:
    """Half of gpt-oss's layers look back at 128 tokens."""
    one, whole = (served("openai/gpt-oss-20b", whole_windows=whole) for whole in (False, True))
    assert whole.cache_bytes(12_800) == pytest.approx(one.cache_bytes(12_800) * 2 / 1.01)
