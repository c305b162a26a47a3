"""`specplan.acceptance`: every convention at once, one format from another, and what the command prints of it."""

import json
from pathlib import Path

import pytest
from measured_profiles import measured
from refusals import refused
from screens import Main, check_printed, check_screen

import specplan as sp
from theory.errors import ParameterError, SchemaError

DYNAMIC = {
    "acceptance_rate_per_pos": [0.7, 0.4],
    "batch_stats": {"1": {"0": 7.0, "1": 8.0, "2": 9.0}, "8": {"0": 8.0, "1": 14.0, "2": 20.0}},
}


def test_a_profile_is_shown_in_every_convention() -> None:
    """The helper's lookup: 6 drafts in 10 passes, of which 4, 2 and 1 are accepted at the three positions."""
    lookup = sp.acceptance(measured([True, False], ngram=True))
    found = lookup.plain()
    assert found["unconditional"] == pytest.approx([4 / 6, 2 / 6, 1 / 6])
    assert found["conditional"] == pytest.approx([4 / 6, 0.5, 0.5])
    assert found["length-with-bonus"][2] == pytest.approx(1 + 7 / 6)
    assert found["accepted-over-drafted"][2] == pytest.approx(7 / 18)
    assert found["tokens_per_pass"][2] == pytest.approx(1.7)  # 17 tokens in 10 passes
    assert found["schedule"] is None
    assert [row["k"] for row in lookup.records()] == [1, 2, 3]
    assert "Of a draft of 3 tokens 1.17 are accepted on average" in lookup.headline()  # (4 + 2 + 1) / 6
    assert "60.0 % of the passes have a draft" in lookup.text()
    for one in (lookup, sp.acceptance([0.9**k for k in range(1, 17)])):
        check_screen(one)


def test_dynamic_statistics_are_printed_and_become_a_schedule_and_lengths(tmp_path: Path, run_main: Main) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps(DYNAMIC), encoding="utf-8")
    found = sp.acceptance(path, form="vllm-dynamic")
    words = ("acceptance", str(path), "--from", "vllm-dynamic")
    check_printed(run_main, words, found)
    assert "K = 2 makes the most" in found.headline()  # (1 + .7 + .4) / 9 > 1.7 / 8 > 1 / 7
    assert "best K by batch size: 1-7: 2, 8-8: 0" in found.text()
    code, out, _ = run_main(*words, "--to", "vllm-schedule", "--max-batch", "32")
    assert (code, json.loads(out)) == (0, {"num_speculative_tokens_per_batch_size": [[1, 7, 2], [8, 32, 0]]})
    assert json.loads(found.written("vllm-dynamic"))["batch_stats"] == DYNAMIC["batch_stats"]
    lengths = tmp_path / "l.yaml"
    assert run_main(*words, "--to", "lengths", "--model", "m", "--mode", "x", "-o", str(lengths))[0] == 0
    read = sp.acceptance(lengths, form="lengths", model="m", mode="x").plain()
    assert read["length-with-bonus"] == pytest.approx([1.7, 2.1])


test_bad_rates_and_formats_are_refused = refused(
    lambda call: call(),
    (lambda: sp.acceptance([0.4, 0.7]), "must not exceed the position before"),
    (lambda: sp.acceptance("x.json", form="yaml"), "must be one of"),
    (lambda: sp.acceptance([0.5]).written("vllm-schedule"), "needs the time of passes"),
    (lambda: sp.acceptance("none", form="lengths"), "No such file"),
    (lambda: sp.acceptance("lr-deepseek-gsm8k"), "holds no token acceptance per position"),
    error=(ParameterError, SchemaError),
)
