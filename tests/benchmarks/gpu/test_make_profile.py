"""Journals become a profile that the project accepts, and the report's numbers are those of the raw samples."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu.grid import TINY_GRID, cell_of
from benchmarks.gpu.make_profile import main as make_profile
from benchmarks.gpu.measure_torch import journal_path
from benchmarks.gpu.report import FreeLimit, free_limits, medians, report, spreads, verification_costs
from calibrate.record.engine_records import DecodeSample, EngineRecord
from calibrate.record.profile import Profile
from specplan.cli import cli

from .conftest import TRIPLE, arguments


def raw(runs: Path, model: str) -> dict[str, Any]:
    lines = journal_path(runs, model).read_text().splitlines()[1:]
    return {entry["key"]: entry["value"] for entry in map(json.loads, lines)}


def test_every_raw_sample_is_in_the_profile(profile: Profile, runs: Path) -> None:
    assert profile.source == "latency"
    for role, model in TRIPLE.items():
        engine = profile.engines[role]
        found = [(s.batch, s.context, s.tokens, s.seconds) for s in engine.decode]
        expected, prefills, warm = [], [], 0
        for key, value in raw(runs, model).items():
            if key.startswith("decode") and "seconds" in value:
                cell = cell_of(key)
                expected += [(cell.batch, cell.batch * cell.prefix, cell.tokens, s) for s in value["seconds"]]
                warm += len(value["warmup"])
            if key.startswith("prefill") and "seconds" in value:
                cell = cell_of(key)
                prefills += [(cell.tokens, cell.prefix, s) for s in value["seconds"]]
        assert sorted(found) == sorted(expected)
        assert sorted((s.tokens, s.cached, s.seconds) for s in engine.prefill) == sorted(prefills)
        assert len(engine.warmup_decode) == warm
    assert profile.models["target"].name == "Qwen3-32B (toy)"
    assert profile.placement == {role: role for role in TRIPLE}
    assert len({engine.device for engine in profile.engines.values()}) == 3


def test_provenance_says_how_and_what_was_left_out(profile: Profile) -> None:
    text = "\n".join(profile.provenance.notes)
    assert "mode: eager" in text
    assert "fixed cost of one is taken as zero" in text
    n_big = sum(cell.cached > 70 for cell in TINY_GRID.cells())
    assert f"target: {n_big + 1} cells skipped" in text  # and power, which a CPU does not tell
    assert "decode:b2:n64:q1" in text
    assert profile.provenance.packages["torch"]
    assert profile.provenance.created.endswith("+00:00")
    (cell,) = TINY_GRID.shared()
    assert any(name.startswith(cell.key.replace(":", "_")) for name in profile.settings)


def test_one_gpu_and_an_assumed_request_cost(runs: Path, tmp_path: Path) -> None:
    assert make_profile(arguments(runs, tmp_path / "one.json", "--one-gpu", "--request-ms", "6")) == 0
    found = Profile.read(tmp_path / "one.json")
    assert len({engine.device for engine in found.engines.values()}) == 1
    assert all(engine.request_s == [0.006] for engine in found.engines.values())
    assert any("assumed to be 6 ms" in note for note in found.provenance.notes)


def test_bad_input_is_one_line(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "there.json").write_text("kept")
    assert make_profile(arguments(runs, tmp_path / "there.json")) == 2
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "there.json").read_text() == "kept"
    assert make_profile(arguments(tmp_path, tmp_path / "new.json")) == 2
    assert "cannot be read" in capsys.readouterr().err
    for model in TRIPLE.values():  # the draft's journal is from another machine
        text = journal_path(runs, model).read_text()
        other = text.replace('"device": "cpu"', '"device": "H100"', 1) if model == TRIPLE["draft"] else text
        journal_path(tmp_path, model).write_text(other)
    assert make_profile(arguments(tmp_path, tmp_path / "new.json")) == 2
    assert "not one machine's timings" in capsys.readouterr().err


def test_the_commands_take_it(profile: Profile, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "toy.json"
    profile.write(path)
    cli.main(["profile", "check", str(path)], standalone_mode=False)
    assert "valid profile 'toy' (schema version 1, latency)" in capsys.readouterr().out
    cli.main(["profile", "show", str(path)], standalone_mode=False)
    assert "timings only" in capsys.readouterr().out


def test_the_reports_numbers_are_those_of_the_raw_samples(profile: Profile, runs: Path) -> None:
    text = report(profile)
    pieces = raw(runs, TRIPLE["target"])
    engine = profile.engines["target"]
    times = medians(engine)
    base = statistics.median(pieces["decode:b1:n32:q1"]["seconds"])
    assert times[1, 32, 1] == base
    assert f"{1e3 * base:.3f}" in text
    ratio = statistics.median(pieces["decode:b1:n32:q4"]["seconds"]) / base
    assert verification_costs(times)[1, 32, 4] == ratio
    assert f"{ratio:.3f}" in text
    samples = np.array(pieces["decode:b1:n64:q1"]["seconds"])
    low, high = np.percentile(samples, [25, 75])
    assert spreads(engine)[1, 64, 1] == pytest.approx((high - low) / np.median(samples))


def _engine(batches: list[int], contexts: list[int]) -> EngineRecord:
    """An engine whose iteration takes 10 ms + 0.1 ms per sequence + 1 us per cached token."""
    decode = [
        DecodeSample(batch=b, context=b * n, tokens=q, seconds=0.01 + 1e-4 * b * q + 1e-6 * b * n)
        for b in batches
        for n in contexts
        for q in (1, 8)
        for _ in range(3)
    ]
    return EngineRecord(device="d", decode=decode, prefill=[], request_s=[])


def test_the_end_of_free_parallelism_is_where_algebra_puts_it() -> None:
    times = medians(_engine([1, 2, 4, 8, 16, 32], [100, 1000]))
    found = free_limits(times, 0.10)
    for n in (100, 1000):  # a + b B = 1.1 (a + b), with b = 1e-4 + 1e-6 n; linear, so interpolation is exact
        slope = 1e-4 + 1e-6 * n
        assert found[n].batch == pytest.approx((1.1 * (0.01 + slope) - 0.01) / slope)
        assert found[n].reached
    assert str(free_limits(times, 9.0)[100]) == "> 32"
    costs = verification_costs(times)
    assert costs[4, 1000, 8] == pytest.approx((0.01 + 3.2e-3 + 4e-3) / (0.01 + 4e-4 + 4e-3))


def test_contexts_with_one_batch_only_say_nothing_about_batching() -> None:
    times = medians(_engine([1], [100]))
    assert free_limits(times, 0.1) == {}
    assert str(FreeLimit(3.25, True)) == "3.2"
