"""`specplan.thresholds`: what the command prints is what it returns, and its first screen fits a terminal."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from measured_profiles import measured
from refusals import refuses
from screens import Main, check_printed, check_screen

import specplan as sp
from specplan.output import SCREEN


def drawn(n: int = 1200) -> list[dict[str, Any]]:
    """Decisions that are the likelier right the higher their score, six to an answer."""
    draws = random.Random(1)
    scores = [draws.random() ** 0.4 for _ in range(n)]
    return [
        {"score": s, "label": draws.random() < max(s**0.35, 0.995 * (s > 0.97)), "answer": i // 6}
        for i, s in enumerate(scores)
    ]


def judged(n: int = 1200) -> list[dict[str, Any]]:
    """What a gate says, and a judge that agrees the likelier the surer the gate is."""
    draws = random.Random(1)
    return [{"gate": p, "judge": draws.random() < p} for p in (draws.random() ** 0.3 for _ in range(n))]


@pytest.mark.parametrize("risk", [0.05, 0.2])
def test_thresholds_are_what_the_command_prints(tmp_path: Path, run_main: Main, risk: float) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text("\n".join(map(json.dumps, drawn())), encoding="utf-8")
    found = sp.thresholds(pairs=file, c1=0.2, risk=risk)
    words = ("thresholds", "--pairs", str(file), "--c1", "0.2", "--risk", str(risk))
    check_printed(run_main, words, found, code=(0 if found.threshold else 3))
    assert sp.thresholds(pairs=drawn(), c1=0.2, risk=risk).records() == found.records()


@pytest.mark.parametrize(("risk", "status"), [(0.05, "failed"), (0.0001, "too few")])
def test_a_first_screen_answers_and_fits_80_columns(risk: float, status: str) -> None:
    found = sp.thresholds(pairs=drawn(), c1=0.2, risk=risk)
    assert "-v" in check_screen(found, most=30)[-1]
    chosen = [row["threshold"] for row in found.records() if row["chosen"]]
    assert chosen == ([] if found.threshold is None else [found.threshold])
    assert found.text().count("CHOSEN") == len(chosen)
    assert status in found.text()


def test_a_gate_is_told_by_its_costs() -> None:
    found = sp.thresholds(
        pairs=judged(), gate=True, gate_cost=8.7, judge_cost=45.9, bound="accepted-and-wrong", risk=0.1
    )
    chosen = next(row for row in found.records() if row["chosen"])
    assert chosen["cost"] == pytest.approx(8.7 + (1 - chosen["accepted"]) * 45.9)
    assert max(map(len, found.text().splitlines())) <= SCREEN
    assert found.plain()["schema"] == "specplan.gate"


test_bad_arguments_are_refused = refuses(
    sp.thresholds,
    ({}, "profile=None must be given, or pairs"),
    ({"pairs": drawn(12)}, "c1=None must be given"),
    ({"pairs": drawn(12), "c1": 0.2, "gate_cost": 1.0}, "gate_cost=1.0 is for a gate only"),
    ({"pairs": judged(12), "gate": True, "gate_cost": 1.0}, "judge_cost=None must be given"),
    ({"of": measured([True] * 4), "k1": 1}, "k1=1 must be at least 2"),
    ({"of": measured([True] * 4), "gate": True}, "pairs=None must be given"),
)
