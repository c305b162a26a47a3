"""The lines that are for a GPU only, run on a stand-in for it; and the GPU's kernel where torch knows its shapes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu import attention, replay
from benchmarks.gpu.attention import masked
from benchmarks.gpu.forward import Pass, Storage, plain_fusion, random_model
from benchmarks.gpu.grid import TINY_GRID
from benchmarks.gpu.journal import read
from benchmarks.gpu.measure_torch import journal_path, main
from benchmarks.gpu.replay import MODES, prepared, seconds_of, timed
from benchmarks.gpu.shapes import SHAPES
from benchmarks.gpu.telemetry import Telemetry, slowed

from . import cuda_stand_in
from .cuda_stand_in import GRAPH_S, UUID


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The scripts believe that there is a GPU."""
    if torch.cuda.is_available():
        pytest.skip("there is a real one: run the scripts themselves")
    with cuda_stand_in.install(monkeypatch):
        yield


@pytest.mark.usefixtures("cuda")
def test_a_model_is_measured_to_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "qwen3-1.7b", "--out", str(tmp_path), "--tiny"]) == 0
    assert capsys.readouterr().out == "qwen3-1.7b.jsonl: complete\n"
    record = read(journal_path(tmp_path, "qwen3-1.7b"))
    assert record.settings["device"] == "Stand-in GPU"
    for cell in TINY_GRID.cells():
        result = record.pieces[cell.key]
        assert (result["mode"], result["fusion"], "notes" in result) == ("cuda-graph", "inductor", False)
        if cell.kind == "power":
            # the counter rises by 30 J between the two readings around the runs
            assert (result["joules"], result["energy_from"]) == (pytest.approx(30.0), "counter")
            assert set(result["watts"]) == {300.0}
        else:
            assert min(result["seconds"]) >= GRAPH_S
            assert result["slowed"]
            assert result["state"]["celsius"] == 80
    call = record.pieces["call:0"]
    assert (call["driver"], call["cuda"], call["device_bytes"]) == ("580.1", "13.0", 80 << 30)


@pytest.mark.usefixtures("cuda")
def test_two_models_run_on_streams_of_their_own(tmp_path: Path) -> None:
    assert main(["--model", "qwen3-1.7b", "--beside", "qwen2.5-7b", "--out", str(tmp_path), "--tiny"]) == 0
    (cell,) = TINY_GRID.shared()
    result = read(journal_path(tmp_path, "qwen3-1.7b", "qwen2.5-7b")).pieces[cell.key]
    for role in ("target", "draft"):
        assert result[role]["mode"] == "cuda-graph"
        assert min(result[role]["shared"]) >= GRAPH_S
        assert result[role]["slowdown"] > 0.0


@pytest.mark.usefixtures("cuda")
def test_a_graph_is_captured_after_a_warm_up_on_the_side() -> None:
    done: list[str] = []
    with torch.no_grad():
        found = prepared(lambda: done.append("capture" if "capture" in cuda_stand_in.calls else "warm-up"), "cuda")
    assert found.mode == "cuda-graph"
    assert done == ["warm-up", "warm-up", "capture"]
    assert cuda_stand_in.calls == ["capture", "replay"]
    times = timed(found.run, "cuda", repeats=6, longest_s=1.0, warm_up_s=2 * GRAPH_S)
    assert len(times.samples) == 6
    assert min((*times.samples, *times.warmup)) >= GRAPH_S


@pytest.mark.usefixtures("cuda")
def test_every_mode_runs_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.ones(3)

    class Work:
        def __call__(self) -> torch.Tensor:
            return values + 1.0

    monkeypatch.setattr(cuda_stand_in.CUDAGraph, "replay", lambda self: self)
    for mode in MODES:
        with torch.no_grad():
            found = prepared(Work(), "cuda", [mode])
        assert found.mode == mode
        result = found.kept[1] if mode == "cuda-graph" else found.run()
        assert result.tolist() == [2.0, 2.0, 2.0]
    assert cuda_stand_in.calls.count("compile") == 1
    with torch.no_grad():
        assert seconds_of("cuda")(Work()) > 0.0


@pytest.mark.slow
def test_torchs_compiler_takes_a_pass() -> None:
    """A pass is an object that is called; tracing is torch's own, only the code generator is left out."""
    shape = SHAPES["qwen3-1.7b"].shrunk()
    model, storage = random_model(shape, "cpu", torch.float32), Storage(shape, 16, "cpu", torch.float32)
    one = Pass(
        model, storage.layers(2, 8), torch.zeros(2, 3, dtype=torch.long), masked, plain_fusion(), last_only=False
    )
    assert torch._dynamo.config.recompile_limit >= 1  # what compiled() raises
    with torch.no_grad():
        expected = one()
        assert torch.equal(torch.compile(one, backend="eager")(), expected)


@pytest.mark.usefixtures("cuda")
def test_a_lost_device_is_not_a_reason_for_another_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        prepared(lost, "cuda")
    assert replay.is_fatal(torch.OutOfMemoryError("CUDA out of memory"))


@pytest.mark.usefixtures("cuda")
def test_what_nvml_tells() -> None:
    telemetry = Telemetry("cuda", UUID)
    state = telemetry.state()
    assert state == {
        "sm_mhz": 1980,
        "memory_mhz": 3201,
        "sm_max_mhz": 1980,
        "celsius": 80,
        "throttle": 0x20,
        "power_limit_w": 700.0,
        "watts": 300.0,
    }
    assert slowed(state)
    assert not slowed({**state, "throttle": 0x1})  # idle
    assert not slowed({**state, "throttle": None})
    assert telemetry.energy_j() == 1000.0
    hidden = Telemetry("cuda", "another")  # no such GPU, and this NVML has no index: it reads as unknown
    assert set(hidden.state().values()) == {None}
    assert hidden.driver() == ""


@pytest.mark.parametrize(("batch", "n_new", "n"), [(1, 1, 64), (2, 8, 40), (3, 5, 5)])
def test_torch_knows_the_kernel_of_the_gpu(batch: int, n_new: int, n: int) -> None:
    """Shapes only: the operator exists, takes these arguments and grouped heads, and returns what is taken from it."""
    query = torch.empty(batch, 8, n_new, 64, dtype=torch.bfloat16, device="meta")
    keys, values = (torch.empty(batch, 2, n, 64, dtype=torch.bfloat16, device="meta") for _ in range(2))
    assert attention.native(query, keys, values).shape == query.shape
    out, log, *_ = torch.ops.aten._scaled_dot_product_flash_attention(query, keys, values, 0.0, False)
    assert (out.shape, log.shape) == (query.shape, query.shape[:3])
