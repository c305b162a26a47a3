"""Lookahead Reasoning for real, in pieces: what is finished is kept, what was predicted stays, the files must fit."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import measure_vllm, real_runs
from benchmarks.gpu.measure_vllm import main
from benchmarks.gpu.real_runs import Campaign, campaign
from benchmarks.gpu.telemetry import Telemetry
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.record.profile import Profile
from theory.errors import CalibrationError, ParameterError, SchemaError

QUICK = MeasureOptions(batches=(1, 2), contexts=(8,), iterations=4, prefills=(4, 16), repeats=1, rounds=1)


def bundled(n: int = 2) -> Campaign:
    """The bundled pair on torch, timed as briefly as can be."""
    found = campaign("bundled", "bundled", through="torch", device="cpu", n=n, windows=(2,))
    return replace(found, options=QUICK)


def test_the_questions_of_the_runs_are_not_those_of_the_calibration(tmp_path: Path) -> None:
    found = campaign("bundled", "bundled", through="torch", device="cpu", n=8)
    assert not {p.prompt for p in found.calibration} & {p.prompt for p in found.validation}
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"question {i}"}) + "\n" for i in range(6)))
    own = campaign("a/target", "a/draft", through="torch", device="cpu", prompts=prompts, n=3)
    assert [p.prompt for p in (*own.calibration, *own.validation)] == [f"question {i}" for i in range(6)]
    assert own.truth is None
    assert own.name == "lr-torch-target-draft"
    with pytest.raises(SchemaError, match="holds 6 questions, 8 are needed"):
        campaign("a", "b", through="torch", device="cpu", prompts=prompts, n=4)
    with pytest.raises(ParameterError, match="prompts"):
        campaign("a", "b", through="torch", device="cpu")
    with pytest.raises(ParameterError, match="answers=1"):
        campaign("bundled", "bundled", through="torch", device="cpu", n=1)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 9, 24])
def test_pieces_hold_every_question_once_and_two_at_least(n: int) -> None:
    problems = campaign("bundled", "bundled", through="torch", device="cpu", n=n).validation
    pieces = real_runs._pieces(problems)
    assert [p for piece in pieces for p in piece.problems] == list(problems)
    assert min(len(piece.problems) for piece in pieces) >= 2
    assert len({piece.key for piece in pieces}) == len(pieces)


def test_the_time_is_up_after_an_answer_or_when_a_round_goes_on_for_long(tmp_path: Path) -> None:
    wanted, journal = bundled(), tmp_path / "journal"
    answer, timing = wanted.calibration[0].name, "target: batch 1, context 8"
    for late_s, stops in ((-1000.0, ()), (1.0, (answer,)), (1000.0, (answer, timing))):
        for part in (answer, timing):
            journal.write_text("settings")
            stop = real_runs._stopper(wanted, time.monotonic() - late_s, journal)
            stop(part)  # nothing was finished in this call yet
            journal.write_text("settings, and a piece")
            if part in stops:
                with pytest.raises(real_runs._TimeUp):
                    stop(part)
            else:
                stop(part)


def test_nothing_is_run_that_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--out", str(tmp_path), "--device", "cpu", "--through", "torch"]
    assert main([*arguments, "--lr", "bundled", "elsewhere"]) == 2
    assert "draft='elsewhere'" in capsys.readouterr().err
    assert main([*arguments, "--lr", "bundled", "bundled", "--windows", "0"]) == 2
    assert "windows='0'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*arguments, "--lr", "bundled", "bundled", "--model", "qwen3-8b"])


def test_vllm_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise CalibrationError("vLLM is not installed: install the extra, pip install 'specplan[vllm]'")

    monkeypatch.setattr(measure_vllm, "check_installed", missing)
    assert main(["--lr", "bundled", "bundled", "--out", str(tmp_path / "new")]) == 1
    assert "specplan[vllm]" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_is_calibrated_predicted_and_run_over_several_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundled pair through torch: stopped by the budget, interrupted, gone on with, another campaign refused."""
    wanted, telemetry = bundled(), Telemetry("cpu")
    monkeypatch.setattr(real_runs, "_GRACE_S", 0.0)
    assert real_runs.run(wanted, tmp_path, time.monotonic(), telemetry) == 0
    assert "call again" in capsys.readouterr().out
    journal = tmp_path / "lr-torch-bundled.calibration.jsonl"
    kept = journal.read_text().splitlines()
    assert len(kept) >= 2  # the settings, and something that is finished
    finished = _interrupted_in(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        real_runs.run(wanted, tmp_path, time.monotonic() + 500.0, telemetry)
    assert finished
    profile = Profile.read(tmp_path / wanted.profile_name)
    assert (profile.source, len(profile.answers), journal.exists()) == ("measured", 2, False)
    monkeypatch.undo()
    assert real_runs.run(wanted, tmp_path, time.monotonic() + 500.0, telemetry) == 0
    said = capsys.readouterr().out
    assert "lr-torch-bundled.jsonl: complete" in said
    found = json.loads((tmp_path / "lr-torch-bundled.validation.json").read_text())
    (row,) = found["rows"]
    assert len(row["seconds"]) == len(found["baseline"]["seconds"]) == 2
    assert row["measured"]["speedup"]["value"] == pytest.approx(
        sum(found["baseline"]["seconds"]) / sum(row["seconds"]), rel=1e-9
    )
    pieces = [json.loads(line) for line in (tmp_path / "lr-torch-bundled.jsonl").read_text().splitlines()[1:]]
    (predicted,) = (p["value"] for p in pieces if p["key"].startswith("predicted:"))
    assert predicted[0] == row["prediction"]["speedup"]["value"]
    assert pieces[0]["key"].startswith("predicted:")  # before anything was run
    with pytest.raises(SchemaError, match="other settings \\(questions\\)"):
        real_runs.run(bundled(3), tmp_path, time.monotonic(), telemetry)
    with pytest.raises(SchemaError, match="other settings \\(windows\\)"):
        real_runs.run(replace(wanted, windows=(3,)), tmp_path, time.monotonic(), telemetry)


def _interrupted_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Interrupt the first piece of the runs."""
    seen: list[str] = []

    async def interrupted(*_: Any, **__: Any) -> Any:
        seen.append("run")
        await asyncio.sleep(0)
        raise KeyboardInterrupt

    monkeypatch.setattr(real_runs, "run_interleaved", interrupted)
    return seen


def test_engines_are_closed_when_a_piece_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Models:
        @asynccontextmanager
        async def open(self) -> Any:
            try:
                yield {}, None
            finally:
                closed.append("closed")

    class Failing:
        left = 0

        def run(self, cells: Any, load: Any) -> None:
            load()
            raise CalibrationError("broken")

    with pytest.raises(CalibrationError, match="broken"):
        real_runs._run_pieces(replace(bundled(), models=Models()), [], Failing())  # type: ignore[arg-type]
    assert closed == ["closed"]
