"""The vLLM measurement as far as it can be tested without vLLM, on an engine that only keeps time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import measure_vllm
from benchmarks.gpu.assemble import engine_of
from benchmarks.gpu.grid import TINY_GRID, cell_of
from benchmarks.gpu.journal import read
from benchmarks.gpu.measure_torch import journal_path
from benchmarks.gpu.measure_vllm import fixed_cost, iterations, main, write_config
from benchmarks.gpu.shapes import SHAPES

REQUEST_S, PREFILL_S, TOKEN_S = 0.004, 0.002, 0.001


class TimeKeeper:
    """Serves at known speed, on a clock of its own."""

    closed = 0

    def __init__(self, *_: Any, speculative: dict[str, Any] | None = None, **__: Any) -> None:
        self.speculative = speculative

    async def run(self, prompts: Sequence[Sequence[int]], n_tokens: int) -> tuple[float, list[list[tuple[float, int]]]]:
        await asyncio.sleep(0)
        started = time.monotonic()
        first = started + REQUEST_S + PREFILL_S
        step = TOKEN_S * len(prompts)
        size = 1 if self.speculative is None else 1 + self.speculative["num_speculative_tokens"]
        chunks = [(first, 1)]
        while sum(n for _, n in chunks) < n_tokens:
            chunks.append((chunks[-1][0] + step, min(size, n_tokens - sum(n for _, n in chunks))))
        return started, [list(chunks) for _ in prompts]

    def close(self) -> None:
        TimeKeeper.closed += 1


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_vllm, "open_engine", TimeKeeper)
    monkeypatch.setattr(measure_vllm, "check_installed", lambda: None)


def arguments(out: Path, *more: str) -> list[str]:
    return ["--model", "qwen3-8b", "--out", str(out), "--tiny", *more]


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(measure_vllm, "find_spec", lambda name: None)
    assert main(arguments(tmp_path / "new")) == 1
    assert "pip install 'specplan[vllm]'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("options", [("--acceptance", "0.5,1.2"), ("--acceptance", "x"), ("--speculate", "0")])
def test_numbers_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, str]) -> None:
    assert main(arguments(tmp_path, *options)) == 2
    assert options[0].lstrip("-") in capsys.readouterr().err


@pytest.mark.usefixtures("served")
def test_the_grid_runs_and_becomes_an_engine(tmp_path: Path) -> None:
    assert main(arguments(tmp_path)) == 0
    record = read(journal_path(tmp_path, "vllm-qwen3-8b"))
    wanted = {c.key for c in TINY_GRID.cells() if c.kind == "decode" and c.tokens == 1}
    wanted |= {c.key for c in TINY_GRID.cells() if c.kind == "prefill" and c.prefix == 0}
    assert wanted == {key for key in record.pieces if key.startswith(("decode", "prefill"))}
    engine = engine_of(record, "gpu")
    for sample in engine.decode:
        assert sample.seconds == pytest.approx(TOKEN_S * sample.batch, rel=1e-3)
    for prefill in engine.prefill:
        assert prefill.seconds == pytest.approx(REQUEST_S + PREFILL_S, rel=1e-3)
    # a request of n tokens takes the fixed part and n - 1 iterations
    assert engine.request_s == [pytest.approx(REQUEST_S + PREFILL_S - TOKEN_S, rel=1e-3)]


@pytest.mark.usefixtures("served")
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


@pytest.mark.usefixtures("served")
def test_speculation_is_told_the_rates_of_each_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []

    class Listening(TimeKeeper):
        def __init__(self, *args: Any, speculative: dict[str, Any] | None = None, **more: Any) -> None:
            assert speculative is not None
            told.append(speculative)
            super().__init__(*args, speculative=speculative, **more)

    monkeypatch.setattr(measure_vllm, "open_engine", Listening)
    TimeKeeper.closed = 0
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


def test_fixed_cost_is_the_intercept_and_never_negative() -> None:
    assert fixed_cost([2, 8, 32], [0.006 + 0.001 * n for n in (2, 8, 32)]) == (
        pytest.approx(0.006),
        pytest.approx(0.001),
    )
    assert fixed_cost([1, 2], [0.0, 1.0])[0] == 0.0


def test_the_configuration_is_the_shape(tmp_path: Path) -> None:
    for name in ("qwen3-32b", "qwen2.5-7b"):
        write_config(SHAPES[name], tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        assert config["architectures"] == ["Qwen3ForCausalLM" if SHAPES[name].qk_norm else "Qwen2ForCausalLM"]
        assert (config["hidden_size"], config["num_hidden_layers"]) == (SHAPES[name].hidden, SHAPES[name].layers)
        assert config["tie_word_embeddings"] is SHAPES[name].tied
