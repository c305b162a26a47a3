"""Closed loops of requests: limits, conservation, and what grows with what."""

import math
from dataclasses import replace

import pytest
from hardware_shapes import LLAMA_8B, shape_of_layers
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import ParameterError
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named
from theory.hardware.loads import ClosedLoop, closed_loop, prompt_seconds
from theory.hardware.mixers.states import Recurrent
from theory.hardware.passes import PassModel
from theory.hardware.work import Work

MODEL = PassModel(gpu=gpu_named("H100"), shape=shape_of_layers(LLAMA_8B, vocab=128256), engine=engine_named("vllm"))
tokens = st.floats(16.0, 16_384.0)
loops = st.builds(
    ClosedLoop, concurrency=st.floats(1.0, 256.0), prompt_tokens=tokens, answer_tokens=st.floats(64.0, 8192.0)
)


@given(tokens, tokens)
def test_a_request_alone_decodes_at_the_pace_of_a_pass(prompt: float, answer: float) -> None:
    found = closed_loop(MODEL, ClosedLoop(concurrency=1, prompt_tokens=prompt, answer_tokens=answer))
    assert (found.prompts, found.running) == (0.0, 1.0)
    assert found.per_token == MODEL.seconds(Work(sequences=1, context=prompt + answer / 2))


@given(loops)
def test_what_runs_is_the_share_of_time_that_requests_decode(loop: ClosedLoop) -> None:
    found = closed_loop(MODEL, loop)
    answer = loop.answer_tokens * found.per_token
    share = answer / (answer + found.to_first_token)
    assert found.per_token == pytest.approx(found.decoding + found.prompts)
    assert found.running == pytest.approx(max(1.0, loop.concurrency * share), rel=1e-6)


@given(loops, st.floats(1.1, 4.0))
def test_more_requests_longer_prompts_and_shorter_answers_slow_tokens(loop: ClosedLoop, factor: float) -> None:
    found = closed_loop(MODEL, loop)
    more = closed_loop(MODEL, replace(loop, concurrency=loop.concurrency * factor))
    assert more.per_token >= found.per_token * (1 - 1e-9)
    assert more.to_first_token > found.to_first_token
    longer = closed_loop(MODEL, replace(loop, prompt_tokens=loop.prompt_tokens * factor))
    assert longer.to_first_token > found.to_first_token


@pytest.mark.parametrize("prompt_tokens", [64.0, 1000.0, 20_000.0])
def test_what_an_engine_takes_to_read_a_prompt_counts_once_however_many_wait(prompt_tokens: float) -> None:
    """Only operators of other prompts delay a first token; what a layer with a state takes besides is none of them."""
    state = Recurrent(kind="gated-delta", heads=32, key_heads=16, key_dim=128, value_dim=128, state_bytes=4.0)
    shape = shape_of_layers(replace(LLAMA_8B, attention=state))
    engine = replace(engine_named("sglang"), ungraphed_s=0.0, recurrent_prompt_s=0.0, prompt_rows=math.inf)
    loop = ClosedLoop(concurrency=8.0, prompt_tokens=prompt_tokens, answer_tokens=1e9)
    free, taking = (
        closed_loop(PassModel(gpu=gpu_named("H100"), shape=shape, engine=one), loop)
        for one in (engine, replace(engine, ungraphed_s=1e-3, recurrent_prompt_s=1e-4))
    )
    chunks = math.ceil(prompt_tokens / 8192)
    added = chunks * min(prompt_tokens / chunks / 128, 1.0) * (1e-3 + 32 * 1e-4)
    assert taking.to_first_token - free.to_first_token == pytest.approx(added, rel=1e-4)


@pytest.mark.parametrize(("concurrency", "least", "most"), [(512.0, 0.1, 0.5), (2.0, 0.95, 1.0)])
def test_prompts_that_arrive_together_share_a_pass(concurrency: float, least: float, most: float) -> None:
    """Of what as many passes for single prompts would add: a part where eight arrive per pass, all where hardly any."""
    loop = ClosedLoop(concurrency=concurrency, prompt_tokens=200.0, answer_tokens=64.0)
    found = closed_loop(MODEL, loop)
    arriving = (concurrency - 1.0) * found.running / concurrency / loop.answer_tokens
    apart = arriving * prompt_seconds(MODEL, loop, found.running)
    assert least * apart < found.prompts <= most * apart * (1 + 1e-9)


@pytest.mark.parametrize("name", ["concurrency", "prompt_tokens", "answer_tokens", "chunk_tokens", "turns"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_refused(name: str, value: float) -> None:
    settings = {"concurrency": 8.0, "prompt_tokens": 1000.0, "answer_tokens": 100.0, name: value}
    with pytest.raises(ParameterError, match=f"{name}=.* must be finite and >= 1"):
        ClosedLoop(**settings)
