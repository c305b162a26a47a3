"""The measurement runs through on a CPU with toys: budget, interruption, kill, lack of memory, and failures."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu import bench, measure_torch
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.grid import FULL, TINY_GRID, cell_of
from benchmarks.gpu.journal import read
from benchmarks.gpu.measure_torch import journal_path, main
from benchmarks.gpu.replay import Replay, Timings, prepared
from benchmarks.gpu.sharing import overlapping, run_together, slowdown
from theory.errors import SchemaError

from .conftest import ROOT

CELLS = [cell.key for cell in TINY_GRID.cells()]


def arguments(out: Path, *more: str, model: str = "qwen3-1.7b") -> list[str]:
    return ["--model", model, "--out", str(out), "--device", "cpu", "--tiny", *more]


def finished(out: Path, model: str = "qwen3-1.7b") -> list[str]:
    return [key for key in read(journal_path(out, model)).pieces if key in CELLS]


def test_the_grid_runs_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(tmp_path)) == 0
    assert capsys.readouterr().out == "qwen3-1.7b.jsonl: complete\n"
    pieces = read(journal_path(tmp_path, "qwen3-1.7b")).pieces
    assert set(CELLS) == {key for key in pieces if key in CELLS}
    for key in CELLS:
        result = pieces[key]
        if key.startswith("power"):
            assert "cannot be read" in result["skipped"]
            continue
        assert 5 <= len(result["seconds"]) <= TINY_GRID.repeats
        assert min(result["seconds"]) > 0.0
        assert result["mode"] == "eager"
        assert result["noisy"] == (result["spread"] > 0.10)
        assert result["attention"] in result["tried"]
    assert {"sentinel:0", "call:0"} <= set(pieces)
    assert pieces["call:0"]["packages"]["torch"] == torch.__version__
    # complete: another call measures nothing and loads nothing
    size = journal_path(tmp_path, "qwen3-1.7b").stat().st_size
    assert main(arguments(tmp_path)) == 0
    assert journal_path(tmp_path, "qwen3-1.7b").stat().st_size == size


def test_the_full_grid_is_what_is_promised() -> None:
    cells = FULL.cells()
    assert len({cell.key for cell in cells}) == len(cells)
    decode = {(c.batch, c.prefix, c.tokens) for c in cells if c.kind == "decode"}
    assert {(b, n, 1) for b in (1, 2, 4, 8, 16, 32, 64) for n in (512, 1024, 2048, 4096, 8192, 16384, 32768)} <= decode
    assert {(b, n, q) for b in (1, 8, 64) for n in (1024, 4096, 16384) for q in (1, 2, 4, 8, 16, 32)} <= decode
    assert {128, 256, 512, 1024} <= {c.tokens for c in cells if c.kind == "prefill"}
    assert all(cell_of(cell.key) == cell for cell in cells)
    assert cells == FULL.cells()  # the order is drawn once and for all


def test_a_budget_stops_between_cells_and_the_next_call_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = 0
    while True:
        calls += 1
        before = len(finished(tmp_path)) if calls > 1 else 0
        # each call may take as long as three cells or so, by a clock that the test turns itself
        with pytest.MonkeyPatch.context() as patch:
            clock = itertools.count()
            patch.setattr(measure_torch.time, "monotonic", lambda clock=clock: float(next(clock)))
            assert main(arguments(tmp_path, "--budget-s", "12")) == 0
        done = len(finished(tmp_path))
        said = capsys.readouterr().out
        assert before < done
        if done == len(CELLS):
            assert "complete" in said
            break
        assert f"{len(CELLS) - done} cells left" in said
    assert calls > 2
    text = journal_path(tmp_path, "qwen3-1.7b").read_text().splitlines()
    keys = [json.loads(line)["key"] for line in text[1:]]
    assert len(keys) == len(set(keys))  # nothing was measured twice
    assert sum(key.startswith("sentinel") for key in keys) == calls


def test_it_resumes_after_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Bench.measure
    seen: list[str] = []

    def interrupted(self: Bench, cell: Any, grid: Any) -> dict[str, Any]:
        seen.append(cell.key)
        if len(seen) == 5:
            raise KeyboardInterrupt
        return real(self, cell, grid)

    monkeypatch.setattr(Bench, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        main(arguments(tmp_path))
    kept = finished(tmp_path)
    assert kept == CELLS[:3]  # the first was the sentinel
    with journal_path(tmp_path, "qwen3-1.7b").open("a") as file:
        file.write('{"key": "decode:b1:n64:q1", "val')  # a line cut by the crash
    assert main(arguments(tmp_path)) == 0
    assert sorted(finished(tmp_path)) == sorted(CELLS)
    assert not set(kept) & set(seen[6:])  # seen[5] is the second call's sentinel


@pytest.mark.slow
def test_it_resumes_after_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu.measure_torch", *arguments(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    path = journal_path(tmp_path, "qwen3-1.7b")
    until = time.monotonic() + 60
    while time.monotonic() < until and (not path.exists() or path.read_bytes().count(b"\n") < 5):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = finished(tmp_path)
    assert kept
    assert main(arguments(tmp_path)) == 0
    assert sorted(finished(tmp_path)) == sorted(CELLS)
    assert finished(tmp_path)[: len(kept)] == kept


def test_what_does_not_fit_is_skipped_and_said(tmp_path: Path) -> None:
    # toys in float32: 2 layers x 2 x 2 heads x 16 x 4 bytes = 512 bytes a token; room for 68 tokens
    assert main(arguments(tmp_path, "--kv-gib", str(68 * 512 / 2**30))) == 0
    pieces = read(journal_path(tmp_path, "qwen3-1.7b")).pieces
    for key in CELLS:
        too_big = cell_of(key).cached > 68
        assert ("skipped" in pieces[key] and "GiB" in pieces[key]["skipped"]) == too_big
    assert any(cell_of(key).cached > 68 for key in CELLS)


def test_running_out_of_memory_in_a_cell_is_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Bench.replay

    def replay(self: Bench, cell: Any) -> Any:
        if cell.key == CELLS[2]:
            torch.empty(1 << 60, dtype=torch.uint8)  # a real failure of the allocator
        return real(self, cell)

    def out_of_memory(self: Bench, cell: Any) -> Any:
        try:
            return replay(self, cell)
        except RuntimeError as error:  # what a GPU's allocator raises for the same reason
            raise torch.OutOfMemoryError(str(error)) from error

    monkeypatch.setattr(Bench, "replay", out_of_memory)
    assert main(arguments(tmp_path)) == 0
    pieces = read(journal_path(tmp_path, "qwen3-1.7b")).pieces
    assert pieces[CELLS[2]]["skipped"].startswith("out of memory")
    assert "seconds" in pieces[CELLS[3]]


def test_two_models_that_do_not_fit_together_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Bench, cell: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Bench, "replay", full)
    assert main(arguments(tmp_path, "--beside", "qwen2.5-7b")) == 0
    (cell,) = TINY_GRID.shared()
    assert "out of memory" in read(journal_path(tmp_path, "qwen3-1.7b", "qwen2.5-7b")).pieces[cell.key]["skipped"]


def test_a_model_that_does_not_fit_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(bench, "random_model", full)
    assert main(arguments(tmp_path)) == 1
    assert "Qwen3-1.7B (toy) does not fit on this device" in capsys.readouterr().err
    monkeypatch.undo()
    assert main(arguments(tmp_path, "--kv-gib", "0")) == 1
    assert "no room for keys and values" in capsys.readouterr().err


def test_a_failing_cell_is_tried_in_two_calls_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = Bench.measure

    def broken(self: Bench, cell: Any, grid: Any) -> dict[str, Any]:
        if cell.key == CELLS[4]:
            raise RuntimeError("no kernel image")
        return real(self, cell, grid)

    monkeypatch.setattr(Bench, "measure", broken)
    assert main(arguments(tmp_path)) == 1
    assert f"failed: {CELLS[4]}: RuntimeError: no kernel image" in capsys.readouterr().err
    assert main(arguments(tmp_path)) == 1
    assert main(arguments(tmp_path)) == 0
    assert CELLS[4] not in finished(tmp_path)
    assert len(finished(tmp_path)) == len(CELLS) - 1


def test_a_broken_machine_ends_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def broken(self: Bench, cell: Any, grid: Any) -> dict[str, Any]:
        calls.append(cell.key)
        if len(calls) == 1:
            return {"skipped": "the sentinel"}
        raise RuntimeError("CUDA error: an illegal memory access was encountered" if lost else "odd")

    monkeypatch.setattr(Bench, "measure", broken)
    for lost, expected in ((True, 2), (False, 4)):  # at once, or after three failures in a row
        calls.clear()
        assert main(arguments(tmp_path / str(lost))) == 1
        assert len(calls) == expected


def test_wrong_usage_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "qwen3-1.7b", "--out", str(tmp_path), "--device", "cpu"]) == 2
    assert capsys.readouterr().err.startswith("measure_torch: error: device='cpu'")
    if not torch.cuda.is_available():
        assert main(["--model", "qwen3-1.7b", "--out", str(tmp_path)]) == 1
        assert "no CUDA device" in capsys.readouterr().err
    assert main(arguments(tmp_path)) == 0
    journal = journal_path(tmp_path, "qwen3-1.7b")
    journal.write_text(journal.read_text().replace('"torch": "', '"torch": "0.'))
    assert main(arguments(tmp_path)) == 2  # a journal of another version is not continued
    assert "other settings (torch)" in capsys.readouterr().err


def test_two_models_at_once(tmp_path: Path) -> None:
    assert main(arguments(tmp_path, "--beside", "qwen2.5-7b")) == 0
    pieces = read(journal_path(tmp_path, "qwen3-1.7b", "qwen2.5-7b")).pieces
    (cell,) = TINY_GRID.shared()
    for role in ("target", "draft"):
        result = pieces[cell.key][role]
        ordered = sorted(result["shared"]), sorted(result["alone"])
        if max(map(len, ordered)) <= 30:  # more may be what thinning left: of 61 samples it keeps 31
            middle = [(v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2 for v in ordered]
            assert result["slowdown"] == pytest.approx(middle[0] / middle[1], abs=1e-3)


def test_lanes_run_at_the_same_time_and_report_their_errors() -> None:
    naps = [Replay(run=lambda: time.sleep(0.01), mode="eager"), Replay(run=lambda: time.sleep(0.02), mode="eager")]
    started = time.monotonic()
    first, second = run_together(naps, "cpu", 0.3)
    assert time.monotonic() - started < 0.3 + sum(first[:1]) + sum(second[:1]) + 1.0
    # together they were busy for longer than the time that passed: only at once can that be
    assert sum(first) + sum(second) > 1.2 * 0.3

    def breaks() -> None:
        raise RuntimeError("lane down")

    with pytest.raises(RuntimeError, match="lane down"):
        run_together([naps[0], Replay(run=breaks, mode="eager")], "cpu", 0.1)


def test_only_spans_during_which_both_ran_count() -> None:
    one, other = [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)], [(0.9, 1.1), (1.1, 2.5)]
    assert overlapping([one, other]) == [[1.0], [pytest.approx(0.2), pytest.approx(1.4)]]
    assert overlapping([one, []]) == [[], []]
    assert "slowdown" not in slowdown([1.0], [])


def test_a_work_that_cannot_be_captured_falls_back_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.gpu import replay

    def fails(work: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(replay, "_MAKERS", {"cuda-graph": fails, "compile": fails, "eager": lambda work: (work, ())})
    found = prepared(lambda: 7, "cuda")
    assert (found.mode, found.run()) == ("eager", 7)
    assert [note.split(":")[0] for note in found.notes] == ["cuda-graph", "compile"]

    def no_room(work: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(replay, "_MAKERS", {"cuda-graph": no_room, "compile": fails, "eager": fails})
    with pytest.raises(torch.OutOfMemoryError):
        prepared(lambda: 7, "cuda")


def test_spread_is_the_interquartile_range_over_the_median() -> None:
    assert Timings(warmup=(), samples=(1.0, 2.0, 3.0, 4.0, 5.0)).spread == pytest.approx(2.0 / 3.0)


def test_measuring_needs_none_of_the_other_dependencies() -> None:
    """A bare GPU machine has torch and numpy; pydantic, simpy, scipy and the rest need not be there."""
    code = (
        "import sys\n"
        "for name in ('pydantic', 'simpy', 'scipy', 'sympy', 'flint', 'click', 'rich', 'joblib', 'transformers'):\n"
        "    sys.modules[name] = None\n"
        "import benchmarks.gpu.measure_torch as m\n"
        "print(m.journal_path.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("journal_path\n", "")


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot be read"):
        read(tmp_path / "none.jsonl")
    path = tmp_path / "other.jsonl"
    for text in ("", "hello\n", '{"a": 1}\n', '{"settings": {}}\nrubbish\n{"key": "a", "value": 1}\n'):
        path.write_text(text)
        with pytest.raises(SchemaError, match="not the journal"):
            read(path)
