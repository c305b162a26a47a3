"""The vLLM measurement on an engine that only keeps time; and, where vLLM is installed, on vLLM itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import measure_vllm, served
from benchmarks.gpu.assemble import engine_of
from benchmarks.gpu.grid import TINY_GRID, cell_of
from benchmarks.gpu.journal import read
from benchmarks.gpu.measure_torch import journal_path
from benchmarks.gpu.measure_vllm import Speculation, main
from benchmarks.gpu.served import Answered, iterations, outside, write_config
from benchmarks.gpu.shapes import SHAPES

from .conftest import ROOT

REQUEST_S, PREFILL_S, TOKEN_S = 0.004, 0.002, 0.001
ROOM = 150


class TimeKeeper:
    """Serves at known speed, on a clock of its own; its cache holds what all but one of the cells need."""

    closed = 0
    n_tokens = ROOM

    def __init__(self, *_: Any, speculative: dict[str, Any] | None = None, **__: Any) -> None:
        self.speculative = speculative

    def run(self, prompts: Sequence[Sequence[int]], n_tokens: int) -> list[Answered]:
        sent = time.monotonic()
        step = TOKEN_S * len(prompts)
        size = 1 if self.speculative is None else 1 + self.speculative["num_speculative_tokens"]
        chunks = [(sent + REQUEST_S + PREFILL_S, 1)]
        while sum(n for _, n in chunks) < n_tokens:
            chunks.append((chunks[-1][0] + step, min(size, n_tokens - sum(n for _, n in chunks))))
        first = 1000.0 + PREFILL_S  # the engine has a clock of its own
        last = first + chunks[-1][0] - chunks[0][0]
        return [Answered(sent=sent, chunks=tuple(chunks), scheduled=1000.0, first=first, last=last) for _ in prompts]

    def close(self) -> None:
        TimeKeeper.closed += 1


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    TimeKeeper.closed = 0
    monkeypatch.setattr(measure_vllm, "open_engine", TimeKeeper)
    monkeypatch.setattr(measure_vllm, "check_installed", lambda: None)


def arguments(out: Path, *more: str) -> list[str]:
    return ["--model", "qwen3-8b", "--out", str(out), "--tiny", *more]


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(served, "find_spec", lambda name: None)
    assert main(arguments(tmp_path / "new")) == 1
    assert "pip install 'specplan[vllm]'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("options", [("--acceptance", "0.5,1.2"), ("--acceptance", "x"), ("--speculate", "0")])
def test_numbers_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, str]) -> None:
    assert main(arguments(tmp_path, *options)) == 2
    assert options[0].lstrip("-") in capsys.readouterr().err


@pytest.mark.usefixtures("keeper")
def test_the_grid_runs_and_becomes_an_engine(tmp_path: Path) -> None:
    assert main(arguments(tmp_path)) == 0
    record = read(journal_path(tmp_path, "vllm-qwen3-8b"))
    wanted = {c.key for c in TINY_GRID.cells() if c.kind == "decode" and c.tokens == 1}
    wanted |= {c.key for c in TINY_GRID.cells() if c.kind == "prefill" and c.prefix == 0}
    assert wanted == {key for key in record.pieces if key.startswith(("decode", "prefill"))}
    big = {key for key in wanted if (c := cell_of(key)).batch * (c.prefix + c.tokens + 24) > ROOM}
    assert {key for key in wanted if "skipped" in record.pieces[key]} == big == {"decode:b2:n64:q1"}
    engine = engine_of(record, "gpu")
    assert engine.decode
    for sample in engine.decode:
        assert sample.seconds == pytest.approx(TOKEN_S * sample.batch, rel=1e-3)
    for prefill in engine.prefill:
        assert prefill.seconds == pytest.approx(PREFILL_S, rel=1e-3)
    # what a request costs beside the engine's own work is counted once, and not in the prefill
    assert engine.request_s == pytest.approx([REQUEST_S] * 16, rel=1e-3)
    assert TimeKeeper.closed == 1


@pytest.mark.usefixtures("keeper")
def test_it_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    real = measure_vllm._Meter.measure
    seen: list[str] = []

    def interrupted(self: Any, cell: Any) -> dict[str, Any]:
        seen.append(cell.key)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return real(self, cell)

    monkeypatch.setattr(measure_vllm._Meter, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        main(arguments(tmp_path))
    assert main(arguments(tmp_path, "--budget-s", "0")) == 0
    assert "cells left" in capsys.readouterr().out
    assert main(arguments(tmp_path)) == 0
    assert seen.count(seen[2]) == 2
    assert all(seen.count(key) == 1 for key in seen if key != seen[2])
    assert all(cell_of(key) for key in seen)


@pytest.mark.usefixtures("keeper")
def test_speculation_is_told_the_rates_of_each_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []

    class Listening(TimeKeeper):
        def __init__(self, *args: Any, speculative: dict[str, Any] | None = None, **more: Any) -> None:
            assert speculative is not None
            told.append(speculative)
            super().__init__(*args, speculative=speculative, **more)

    monkeypatch.setattr(measure_vllm, "open_engine", Listening)
    assert main(arguments(tmp_path, "--draft", "qwen3-1.7b", "--acceptance", "0.5", "--speculate", "1,3")) == 0
    assert [t["synthetic_acceptance_rates"] for t in told] == [[0.5], [0.5, 0.25, 0.125]]
    assert {t["rejection_sample_method"] for t in told} == {"synthetic"}
    assert TimeKeeper.closed == 2
    found = read(journal_path(tmp_path, "vllm-qwen3-8b", "qwen3-1.7b")).pieces["speculation:a0.5:k3"]
    assert found["expected_tokens_per_pass"] == 1 + 0.5 + 0.25 + 0.125
    assert found["pass_s"][0] == pytest.approx(TOKEN_S, rel=1e-3)
    assert found["tokens"][:3] == [4, 4, 4]


def test_only_iterations_of_the_whole_batch_count() -> None:
    early = [(0.0, 1), (1.0, 1), (2.0, 1), (3.0, 1), (4.0, 1)]
    late = [(1.5, 1), (2.0, 1), (3.0, 1)]
    assert iterations([early, late]) == ([1.0], [1])
    assert iterations([early, []]) == ([], [])


def test_time_outside_the_engine_is_never_negative() -> None:
    one = Answered(sent=1.0, chunks=((1.5, 1), (2.0, 1)), scheduled=70.0, first=70.4, last=70.75)
    assert outside(one) == 0.25
    assert outside(Answered(sent=1.0, chunks=((2.0, 1),), scheduled=70.0, first=71.5, last=71.5)) == 0.0


def test_a_cpu_is_for_toys_and_imposes_no_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "qwen3-8b", "--device", "cpu", "--out", str(tmp_path)]) == 2
    assert "is for toys" in capsys.readouterr().err
    assert main(arguments(tmp_path, "--device", "cpu", "--draft", "qwen3-1.7b")) == 2
    assert "must be own: vLLM imposes rates on GPUs only" in capsys.readouterr().err


def test_own_acceptance_imposes_nothing() -> None:
    cell = Speculation(rate=None, k=3)
    assert cell.key == "speculation:own:k3"
    assert cell.options("d") == {"method": "draft_model", "model": "d", "num_speculative_tokens": 3}


def test_the_configuration_is_the_shape(tmp_path: Path) -> None:
    for name in ("qwen3-32b", "qwen2.5-7b"):
        write_config(SHAPES[name], tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        assert config["architectures"] == ["Qwen3ForCausalLM" if SHAPES[name].qk_norm else "Qwen2ForCausalLM"]
        assert (config["hidden_size"], config["num_hidden_layers"]) == (SHAPES[name].hidden, SHAPES[name].layers)
        assert config["tie_word_embeddings"] is SHAPES[name].tied


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_vllm_is_measured_over_a_kill(tmp_path: Path) -> None:
    """The real engine: killed in the middle, gone on with, and nothing measured twice."""
    if find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    options = arguments(tmp_path, "--device", "cpu", "--budget-s", "3600")  # no limit: the machine may be busy
    command = [sys.executable, "-m", "benchmarks.gpu.measure_vllm", *options]
    path = journal_path(tmp_path, "vllm-qwen3-8b")
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 400
            while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 5):
                assert time.monotonic() < until, "it does not get anywhere"
                time.sleep(0.02)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    kept = [key for key in read(path).pieces if key.startswith(("decode", "prefill"))]
    assert kept
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, done.stdout) == (0, "vllm-qwen3-8b.jsonl: complete\n"), done.stderr
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()[1:]]
    assert len(keys) == len(set(keys))
    assert engine_of(read(path), "cpu").request_s


@pytest.mark.vllm
def test_vllm_takes_the_speculative_options() -> None:
    """The names are fields of vLLM's own class, and its own check of the rates passes."""
    if find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    import dataclasses

    from vllm.config import SpeculativeConfig

    options = Speculation(rate=0.7, k=3).options("d")
    assert set(options) <= {field.name for field in dataclasses.fields(SpeculativeConfig)}
    rates = options["synthetic_acceptance_rates"]
    assert SpeculativeConfig._resolve_synthetic_acceptance_rates(3, rates, None) == rates
