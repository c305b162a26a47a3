"""``specplan acceptance``: every convention at once, and from one format to another."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from measured_profiles import measured
from screens import Main, refusal, refused_words

from calibrate.token_acceptance.counts import DEFINITION, TokenCounts
from calibrate.token_acceptance.lengths import LengthTable
from calibrate.token_acceptance.live_readings import Readings
from calibrate.token_acceptance.requests import RequestAcceptance

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


def readings(*accepted: int) -> Readings:
    """Four sources that saw 100 tokens, and so many of them accepted."""
    names = ("engine counters", "per-request records", "offline metrics", "streamed chunks")
    counts = [TokenCounts(source=name, tokens=100, accepted=n) for name, n in zip(names, accepted, strict=True)]
    return Readings(counts=tuple(counts), records=RequestAcceptance(histogram=(10, 20, 10), n_drafted=80, n_tokens=100))


def test_live_acceptance_is_read_in_four_ways(monkeypatch: pytest.MonkeyPatch, run: Main) -> None:
    asked: list[Any] = []

    async def four(config: Any, requests: Any) -> Readings:
        asked.append((config, requests))
        return readings(40, 40, 40, 39)

    monkeypatch.setattr("calibrate.token_acceptance.live_readings.four_readings", four)
    code, out, err = run("bundled", "--from", "vllm-live", "-n", "3", "--seed", "5", "--max-tokens", "50")
    assert (code, err) == (0, "")
    assert out.startswith(DEFINITION)
    for line in ("engine counters: 1.6667", "offline metrics: 1.6667", "streamed chunks: 1.6393", "smallest: +1.67 %"):
        assert line in out
    assert "temperature=0.6 top_p=0.95 seeds=[5, 7]" in out
    assert "unconditional" in out  # and every convention, by the records
    (config, requests), *_ = asked
    assert config.speculative["method"] == "ngram"
    assert [(one.seed, one.max_tokens, one.stop) for one in requests] == [(5 + i, 50, ()) for i in range(3)]
    told = json.loads(run("bundled", "--from", "vllm-live", "--json")[1])
    assert told["readings"]["disagreement"] == pytest.approx(61 / 60 - 1)
    assert [one["accepted"] for one in told["readings"]["sources"]] == [40, 40, 40, 39]
    assert told["unconditional"] == [0.75, 0.25]


def test_live_readings_that_are_apart_fail(monkeypatch: pytest.MonkeyPatch, run: Main) -> None:
    async def four(config: Any, requests: Any) -> Readings:
        return readings(40, 40, 35, 40)

    monkeypatch.setattr("calibrate.token_acceptance.live_readings.four_readings", four)
    code, out, err = run("bundled", "--from", "vllm-live")
    assert (code, err) == (1, "specplan: error: the readings are 8.3 % apart, more than 2 %\n")
    assert DEFINITION in out


test_live_options_are_checked = refused_words(
    "acceptance --from vllm-live",
    (("bundled", "-n", "1"), "requests"),
    (("some/folder",), "prompts"),
    (("bundled", "--speculative-config", "{"), "must be JSON"),
    (("bundled", "--speculative-config", "[]"), "must be a JSON object"),
    (("bundled", "--speculative-config", '{"method": "ngrams"}'), "method"),
    (("bundled", "--temperature", "-1"), "temperature"),
)
