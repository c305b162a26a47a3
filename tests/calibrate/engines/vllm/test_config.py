"""What is passed on to vLLM is checked here, without it."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from refusals import refused, refuses

from calibrate import pair
from calibrate.engines.speculation import Speculation
from calibrate.engines.vllm.config import CPU_BLOCK, VllmConfig, checked_speculative, speculative_of
from calibrate.engines.vllm.engine import Read, VllmEngine
from calibrate.engines.vllm.recorder import Active, Recorder
from calibrate.engines.vllm.start import engine_settings, environment_of
from calibrate.engines.work import JoinedPass, Pass
from theory.errors import CalibrationError, ParameterError

NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
DRAFTING = {"method": "draft_model", "model": "m", "num_speculative_tokens": 2}
IMPOSED = {"rejection_sample_method": "synthetic"}
MODEL = Path("m")

test_names_and_numbers_that_vllm_would_misread_are_refused = refused(
    checked_speculative,
    ({"num_speculative_tokens": 3}, "method"),  # which vLLM guesses
    ({**NGRAM, "method": "ngrams"}, "method"),  # which it takes for a draft model
    ({**NGRAM, "prompt_lookup_maximum": 3}, "prompt_lookup_maximum"),
    ({**NGRAM, "num_speculative_tokens": 0}, "num_speculative_tokens"),
    ({**NGRAM, "num_speculative_tokens": True}, "num_speculative_tokens"),
    ({**NGRAM, "prompt_lookup_max": None}, "prompt_lookup_max"),
    ({**NGRAM, "prompt_lookup_min": 4}, "prompt_lookup_max"),
    ({**DRAFTING, "model": ""}, "model"),
    ({**DRAFTING, "method": "eagle", "prompt_lookup_max": 3}, "prompt_lookup_max"),
    ({**DRAFTING, "synthetic_acceptance_length": 2.6}, "synthetic_acceptance_length"),
    ({**DRAFTING, **IMPOSED}, "needs one of"),
    ({**DRAFTING, **IMPOSED, "synthetic_acceptance_length": 3.1}, "synthetic_acceptance_length"),
    ({**DRAFTING, **IMPOSED, "synthetic_acceptance_length": True}, "synthetic_acceptance_length"),
    ({**DRAFTING, **IMPOSED, "synthetic_acceptance_rates": [0.5]}, "synthetic_acceptance_rates"),
    ({**DRAFTING, **IMPOSED, "synthetic_acceptance_rates": [0.5, 0.6]}, "synthetic_acceptance_rates"),
    ({**DRAFTING, **IMPOSED, "synthetic_acceptance_rates": ["a", 0.6]}, "synthetic_acceptance_rates"),
)


def test_what_a_request_asks_for_in_vllms_words() -> None:
    lookup = speculative_of(Speculation(method="ngram", k2=4, max_ngram=2))
    assert lookup == {**NGRAM, "prompt_lookup_max": 2, "prompt_lookup_min": 1}
    for method, name in (("draft", "draft_model"), ("eagle", "eagle"), ("eagle3", "eagle3")):
        found = speculative_of(Speculation(method=method, k2=6, model=MODEL))  # type: ignore[arg-type]
        assert found == {"method": name, "num_speculative_tokens": 5, "model": "m"}
    sampled = (("draft_sample_method", "probabilistic"), ("max_model_len", 64))
    found = speculative_of(Speculation(method="draft", k2=2, model=MODEL, extra=sampled))
    assert found == {"method": "draft_model", "num_speculative_tokens": 1, "model": "m", **dict(sampled)}
    for name in ("num_speculative_tokens", "prompt_lookup_max"):  # once more, and of another method
        with pytest.raises(ParameterError, match=name):
            speculative_of(Speculation(method="draft", k2=2, model=MODEL, extra=((name, 3),)))
    with pytest.raises(ParameterError, match="k2"):
        speculative_of(Speculation(method="ngram", k2=1))
    with pytest.raises(ParameterError, match="method"):
        speculative_of(Speculation(method="jacobi", k2=4, window=4))


def test_the_settings_that_the_engine_is_started_with() -> None:
    plain = engine_settings(VllmConfig(name="t", model=MODEL), 40960)
    assert plain["max_model_len"] == 4096
    assert plain["enable_prefix_caching"]
    assert plain["block_size"] == CPU_BLOCK
    assert "speculative_config" not in plain
    fast = engine_settings(VllmConfig(name="t", model=MODEL, device="cuda", speculative=NGRAM, max_context=512), 40960)
    assert (fast["max_model_len"], fast["gpu_memory_utilization"]) == (512, 0.4)
    assert fast["speculative_config"] == NGRAM
    assert not {"block_size", "worker_extension_cls"} & set(fast)


@pytest.mark.parametrize(("seen", "visible"), [("", "0,2"), ("5,3,1", "5,1")])
def test_an_engine_is_split_over_the_gpus_that_are_named(
    monkeypatch: pytest.MonkeyPatch, seen: str, visible: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    config = VllmConfig(name="target", model=MODEL, device="cuda", gpus=(0, 2))
    assert engine_settings(config, 4096)["tensor_parallel_size"] == 2
    assert environment_of(config)["CUDA_VISIBLE_DEVICES"] == visible
    assert "CUDA_VISIBLE_DEVICES" not in environment_of(replace(config, gpus=None))
    if seen:
        with pytest.raises(CalibrationError, match="'target': there is no GPU 3: this process sees 3"):
            environment_of(replace(config, gpus=(1, 3)))


test_impossible_settings_are_refused = refuses(
    partial(VllmConfig, name="t", model=MODEL),
    ({"cores": ()}, "cores"),
    ({"cores": (9999,)}, "cores"),
    ({"max_batch": 0}, "max_batch"),
    ({"gpu_memory_utilization": 0.0}, "gpu_memory_utilization"),
)


def details(prefilled: int, batch: int, rows: int) -> Any:
    """An iteration as vLLM's core describes it."""
    counts = {"num_ctx_requests": prefilled, "num_generation_requests": batch, "num_generation_tokens": rows}
    return SimpleNamespace(is_dummy=False, num_ctx_tokens=20 * prefilled, **counts)


def told(tokens: int, *gaps: float) -> Any:
    """What the requests of an output are said to have got."""
    return SimpleNamespace(num_generation_tokens=tokens, inter_token_latencies_iter=list(gaps))


def record(recorder: Recorder, requests: Any, iteration: Any, accepted: int | None = None) -> None:
    spec = None if accepted is None else SimpleNamespace(num_accepted_tokens=accepted)
    recorder.record(SimpleNamespace(iteration_details=iteration, spec_decoding_stats=spec), requests)  # type: ignore[arg-type]


def test_the_recorder_tells_plain_iterations_passes_and_prefills_apart() -> None:
    """One request alone, then a second one whose prefill runs beside its decoding, then both."""
    recorder = Recorder()
    first = recorder.active["a"] = Active(10)
    record(recorder, told(1), details(1, 0, 0))
    recorder.prefilled(10, 0, 0.020)
    record(recorder, told(1, 0.005), details(0, 1, 1))
    record(recorder, told(3, 0.007), details(0, 1, 4), 2)
    assert first.n_generated == 5  # of a request that is alone, whenever its reader comes
    second = recorder.active["b"] = Active(32)
    record(recorder, told(2, 0.025), details(1, 1, 1))
    recorder.prefilled(20, 12, 0.025)
    first.n_generated, second.n_generated = 6, 1
    record(recorder, told(2, 0.006, 0.006), details(0, 2, 2))
    record(recorder, None, details(0, 1, 1))  # the core has not heard yet that it ended
    found = recorder.work.statistics(clear=True)
    both = 10 + 6 + 32 + 1
    assert [(it.batch, it.context, it.seconds) for it in found.iterations] == [(1, 11, 0.005), (2, both, 0.006)]
    assert [replace(p, ended_s=0.0) for p in found.passes] == [Pass(1, 12, 4, 3, 0.007, 0.0, 0.0)]
    assert [(p.tokens, p.cached, p.seconds) for p in found.prefills] == [(10, 0, 0.020), (20, 12, pytest.approx(0.020))]
    assert [(p.together, p.beside) for p in found.prefills] == [(1, 0), (1, 1)]
    assert [replace(p, ended_s=0.0) for p in found.joined] == [JoinedPass(1, 15, 1, 1, 20, 1, 1, 0.025, 0.0)]
    assert first.passes == [(0, 0), (3, 2), (0, 0)]
    assert first.shared
    assert second.shared
    assert recorder.work.statistics(clear=False).iterations == ()


async def test_a_core_whose_answer_nobody_reads_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of an event loop, where vLLM's own tasks are cancelled: an interrupted command hung."""
    monkeypatch.setattr("calibrate.engines.vllm.engine._ANSWER_S", 0.05)
    engine = VllmEngine(VllmConfig(name="t", model=pair.draft_path()))
    engine._llm = SimpleNamespace(errored=False, is_paused=asyncio.Event().wait)  # type: ignore[assignment]
    async with asyncio.timeout(30):
        await engine._left()


@pytest.mark.parametrize("chunks", [(1, 3, 1, 4, 3), (1, 4, 4, 3), (11, 1)])
@pytest.mark.parametrize(("known", "in_order"), [(5, True), (3, False)])
def test_passes_are_all_there_whenever_their_reader_comes(chunks: tuple[int, ...], known: int, in_order: bool) -> None:
    """Outputs that wait come merged. A reader late for the first token misses passes, which vLLM's record has then."""
    passes = [(3, 2), (0, 0), (3, 3), (3, 2), (0, 0)]  # the last one after a stop string, or for nobody
    read = Read(Active(5, passes=passes[-known:]))
    read.chunks, read.token_ids = list(chunks), [7] * sum(chunks)
    record = {"per_step_drafted": [3, 3, 3], "per_step_accepted": [2, 3, 2]}
    output = SimpleNamespace(spec_decode_metrics=SimpleNamespace(to_dict=lambda: record))
    read.last = SimpleNamespace(outputs=[output])  # type: ignore[assignment]
    expected = passes[:4] if in_order else [(3, 2), (3, 3), (3, 2), (0, 0)]
    assert read.passes == tuple(expected)
