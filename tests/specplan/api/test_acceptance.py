"""`specplan.acceptance`, `methods` and `gaps`: what commands print is what they return."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from measured_profiles import measured
from refusals import refused
from screens import Main, check_printed, check_screen

import specplan as sp
from specplan.output import to_json

DYNAMIC = {
    "acceptance_rate_per_pos": [0.7, 0.4],
    "batch_stats": {"1": {"0": 7.0, "1": 8.0, "2": 9.0}, "8": {"0": 8.0, "1": 14.0, "2": 20.0}},
}


def test_acceptance_is_what_the_command_prints(tmp_path: Path, run_main: Main) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps(DYNAMIC), encoding="utf-8")
    found = sp.acceptance(path, form="vllm-dynamic")
    words = ("acceptance", str(path), "--from", "vllm-dynamic")
    check_printed(run_main, words, found)
    assert run_main(*words, "--to", "vllm-schedule")[1] == f"{found.written('vllm-schedule')}\n"
    assert "K = 2 makes the most" in found.headline()  # (1 + .7 + .4) / 9 > 1.7 / 8 > 1 / 7


def test_a_first_screen_says_what_a_draft_brings_in_80_columns() -> None:
    profile = measured([True, False], ngram=True)
    for found in (sp.acceptance(profile), sp.acceptance([0.9**k for k in range(1, 17)])):
        check_screen(found)
    lookup = sp.acceptance(profile)
    assert "Of a draft of 3 tokens 1.17 are accepted on average" in lookup.headline()  # (4 + 2 + 1) / 6
    assert [row["k"] for row in lookup.records()] == [1, 2, 3]


test_bad_rates_and_formats_are_refused = refused(
    lambda call: call(),
    (lambda: sp.acceptance([0.4, 0.7]), "must not exceed the position before"),
    (lambda: sp.acceptance("x.json", form="yaml"), "must be one of"),
    (lambda: sp.acceptance([0.5]).written("vllm-schedule"), "needs the time of passes"),
    (lambda: sp.methods("lr-asink"), "did you mean 'lr-async'"),
)


@pytest.mark.parametrize("words", [(), ("lr-async",), ("--gaps",)])
def test_methods_are_what_the_command_prints(run_main: Main, words: tuple[str, ...]) -> None:
    found = sp.gaps() if words == ("--gaps",) else sp.methods(*words)
    assert run_main("methods", *words) == (0, f"{found.text()}\n", "")
    assert run_main("methods", *words, "--json")[1] == f"{to_json(found.plain())}\n"
    assert found.records()
