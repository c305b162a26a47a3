"""``specplan acceptance``: every convention at once, and from one format to another."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from measured_profiles import measured
from screens import Main, refusal

from calibrate.token_acceptance.lengths import LengthTable

DYNAMIC = {
    "acceptance_rate_per_pos": [0.7, 0.4],
    "batch_stats": {"1": {"0": 7.0, "1": 8.0, "2": 9.0}, "8": {"0": 8.0, "1": 14.0, "2": 20.0}},
}


@pytest.fixture
def run(run_main: Main) -> Main:
    return partial(run_main, "acceptance")


def test_a_profile_is_shown_in_every_convention(tmp_path: Path, run: Main) -> None:
    """The helper's lookup: 6 drafts in 10 passes, of which 4, 2 and 1 are accepted at the three positions."""
    path = tmp_path / "p.json"
    measured([True, False], ngram=True).write(path)
    code, out, _ = run(str(path), "--json")
    found = json.loads(out)
    assert code == 0
    assert found["unconditional"] == pytest.approx([4 / 6, 2 / 6, 1 / 6])
    assert found["conditional"] == pytest.approx([4 / 6, 0.5, 0.5])
    assert found["length-with-bonus"][2] == pytest.approx(1 + 7 / 6)
    assert found["accepted-over-drafted"][2] == pytest.approx(7 / 18)
    assert found["tokens_per_pass"][2] == pytest.approx(1.7)  # 17 tokens in 10 passes
    assert found["schedule"] is None
    text = run(str(path))[1]
    assert "60.0 % of the passes have a draft" in text


def test_dynamic_statistics_become_a_schedule_and_lengths(tmp_path: Path, run: Main) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps(DYNAMIC), encoding="utf-8")
    source = (str(path), "--from", "vllm-dynamic")
    code, out, _ = run(*source, "--to", "vllm-schedule", "--max-batch", "32")
    assert (code, json.loads(out)) == (0, {"num_speculative_tokens_per_batch_size": [[1, 7, 2], [8, 32, 0]]})
    assert json.loads(run(*source, "--to", "vllm-dynamic")[1])["batch_stats"] == DYNAMIC["batch_stats"]
    table = LengthTable.parse(run(*source, "--to", "lengths", "--model", "m", "--mode", "x")[1])
    assert table.row("m", "x") == pytest.approx({1: 1.7, 2: 2.1})
    assert "best K by batch size: 1-7: 2, 8-8: 0" in run(*source)[1]


def test_requests_are_added_up(tmp_path: Path, run: Main) -> None:
    path = tmp_path / "r.jsonl"
    entry = {"acceptance_histogram": [2, 1, 1], "num_draft_tokens": 8}
    path.write_text("\n".join([json.dumps({"metrics": {"speculative_decoding": entry}})] * 2), encoding="utf-8")
    code, out, _ = run(str(path), "--from", "vllm-requests", "--json")
    assert (code, json.loads(out)["unconditional"]) == (0, [0.5, 0.25])
    assert "not known" in run(str(path), "--from", "vllm-requests")[1]


def test_what_is_missing_is_one_line(tmp_path: Path, run: Main) -> None:
    path = tmp_path / "l.yaml"
    path.write_text("m:\n  x:\n    1: 1.5\n", encoding="utf-8")
    for arguments, message in (
        ((str(path), "--from", "lengths", "--to", "vllm-schedule"), "needs the time of passes"),
        ((str(path), "--from", "yaml"), "must be one of"),
        ((str(tmp_path / "none"), "--from", "lengths"), "No such file"),
        (("lr-deepseek-gsm8k",), "holds no token acceptance per position"),
    ):
        assert message in refusal(run, *arguments)
