"""``specplan reproduce``: small tables, refused rows, and the public tables where they are at hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from public_tables import (
    LOADED_HEAD,
    SERVED_HEAD,
    SPECULATED_HEAD,
    loaded_line,
    public_tables,
    served_line,
    speculated_line,
)
from screens import Main, refusal

from specplan.output import SCREEN


@pytest.fixture
def hardware(tmp_path: Path) -> Path:
    served = (served_line(), served_line(gpu="H900"), served_line(max_num_seqs=64))
    loaded = (
        loaded_line(), loaded_line(tp_size=2.0, moe_tp_size=2.0, tpot_ms=8.2), loaded_line(),
        loaded_line(model_path="nobody/nothing", tpot_ms=9.0),
        loaded_line(backend_version="9.9.9", system="b300_sxm", tpot_ms=4.0),
    )  # fmt: skip
    (tmp_path / "served.csv").write_text(SERVED_HEAD + "".join(served))
    (tmp_path / "loaded.csv").write_text(LOADED_HEAD + "".join(loaded))
    return tmp_path


@pytest.fixture
def speculation(tmp_path: Path) -> Path:
    lines = (
        speculated_line(), speculated_line(steps=7, topk=4, num_draft_tokens=8, accept_length=3.6, speedup=2.0),
        speculated_line(draft="nobody/unknown head"), speculated_line(target="AI21-Jamba-Mini-1.7"),
    )  # fmt: skip
    (tmp_path / "speculated.csv").write_text(SPECULATED_HEAD + "".join(lines))
    return tmp_path


def test_hardware_tells_errors_doubts_and_refusals(run_main: Main, hardware: Path) -> None:
    code, out, err = run_main("reproduce", "hardware", str(hardware))
    assert (code, err) == (0, "")
    assert "rows of time per iteration are predicted" in out
    assert "rows of time per output token are predicted" in out
    assert "the best measured one in 1 of 1 choices" in out
    assert "1  cache is full" in out
    assert "1  repeats the measurement of another row" in out
    assert "gpu='H900' is not known" in out
    assert "model='nobody/nothing' must be" in out
    assert max(map(len, out.splitlines())) <= SCREEN


def test_hardware_as_json_and_csv(run_main: Main, hardware: Path, tmp_path: Path) -> None:
    code, out, _ = run_main("reproduce", "hardware", str(hardware), "--json")
    data = json.loads(out)
    assert (code, data["schema"], data["schema_version"]) == (0, "specplan.check.scoreboard", 1)
    per_token = data["quantities"]["time per output token"]
    assert per_token["counted"]["n"] == 3
    assert set(per_token["by"]["GPU"]) == {"H100 SXM", "B300 SXM"}
    rows = {row["row"]: row for row in data["rows"] if row["quantity"] == "time per output token"}
    assert rows["loaded.csv:2"]["low"] < rows["loaded.csv:2"]["predicted"] < rows["loaded.csv:2"]["high"]
    assert rows["loaded.csv:2"]["measured"] == 5.8
    output = tmp_path / "rows.csv"
    assert run_main("reproduce", "hardware", str(hardware), "-o", str(output))[0] == 0
    written = list(csv.DictReader(output.read_text().splitlines()))
    assert len(written) == len(data["rows"]) + len(data["refused"])
    assert {line["row"] for line in written if line["refused"]} == {"served.csv:3", "loaded.csv:4", "loaded.csv:5"}
    assert run_main("reproduce", "hardware", str(hardware), "-o", str(output))[0] == 2


def test_speculation_with_a_draft_that_is_not_known(run_main: Main, speculation: Path) -> None:
    code, out, err = run_main("reproduce", "speculation", str(speculation), "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    rows = [row for row in data["rows"] if row["quantity"] == "speedup"]
    assert [row["row"] for row in rows] == [f"speculated.csv:{n}" for n in (2, 3, 4)]
    # a head of the usual size is taken for the unknown one
    assert rows[2]["predicted"] == pytest.approx(rows[0]["predicted"], rel=0.02)
    (refused,) = data["refused"]
    assert "not modelled" in refused["reason"]


# What docs/scoreboard.md says, with some room for constants that are fitted again


def test_public_servers_under_load(run_main: Main) -> None:
    found = json.loads(run_main("reproduce", "hardware", str(public_tables()), "--json")[1])["quantities"]
    per_token = found["time per output token"]
    by_gpu = {name: one["mean"] for name, one in per_token["by"]["GPU"].items()}
    assert by_gpu["H100 SXM"] < 0.09
    assert by_gpu["H200 SXM"] < 0.09
    assert by_gpu["B200 SXM"] < 0.15
    assert 0.90 <= per_token["counted"]["coverage"] <= 0.98


def test_public_speedups(run_main: Main) -> None:
    found = json.loads(run_main("reproduce", "speculation", str(public_tables()), "--json")[1])["quantities"]["speedup"]
    assert found["counted"]["mean"] < 0.06
    assert 0.90 <= found["counted"]["coverage"] <= 0.98
    losses = [one["loss"] for one in found["regret"]["steps, topk and k of the draft, acceptance lengths known,"]]
    assert sum(losses) / len(losses) < 0.01


@pytest.mark.parametrize("kind", ["hardware", "speculation"])
def test_what_cannot_be_read_is_told_in_one_line(run_main: Main, tmp_path: Path, kind: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.csv").write_text(SPECULATED_HEAD + speculated_line(speedup="x"))
    for path, says in ((tmp_path / "no", "does not exist"), (tmp_path / "empty", "holds no CSV table")):
        assert says in refusal(run_main, "reproduce", kind, str(path))
    assert "bad.csv:2: speedup='x'" in refusal(run_main, "reproduce", "speculation", str(tmp_path / "bad.csv"))
