"""Reports of each command: the questions of its reader are answered, and the numbers are the command's."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from planted_metrics import Planted, exposition

from sim.estimate import Estimate
from specplan.check.validating.load_prediction import METRICS
from specplan.check.validating.under_load import LoadRow, LoadValidation, Verdict
from specplan.cli import cli
from specplan.show.drawing import Line, as_svg, lines
from specplan.show.page import Interval, Report, Section, Table
from specplan.show.rendering import as_html, as_markdown
from specplan.show.validations import load_validation_report
from theory.errors import ParameterError


def reported(tmp_path: Path, *arguments: str, ending: str = ".md") -> str:
    path = tmp_path / f"report{ending}"
    words = [*arguments, "--report", str(path), "-o", str(tmp_path / "out"), "--force"]
    cli.main(words, "specplan", standalone_mode=False)
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 1_000_000
    return text


def test_thresholds(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    rows = [{"score": round(0.5 + i % 50 / 100, 2), "label": i % 50 > 5, "answer": f"a{i}"} for i in range(600)]
    pairs.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    text = reported(tmp_path, "thresholds", "--pairs", str(pairs), "--c1", "0.1", "--sampling", "independent")
    assert "Which threshold?" in text
    assert "95 % that the risk is at most 0.05" in text
    html = reported(tmp_path, "thresholds", "--pairs", str(pairs), "--c1", "0.1", ending=".html")
    assert "<svg" in html
    assert "<img" in html
    assert "nan" not in re.sub('base64,[^"]*', "", html)


def test_explain(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.prom" for name in ("before", "after")]
    for path, answers in zip(files, (20, 80), strict=True):
        path.write_text(exposition(Planted(), answers), encoding="utf-8")
    text = reported(tmp_path, "explain", *map(str, files))
    assert "Why is it slow?" in text
    assert "What a round takes" in text


def test_a_table_of_a_paper(tmp_path: Path) -> None:
    assert "Predicted and published" in reported(tmp_path, "reproduce", "lookahead-decoding")


@pytest.mark.parametrize("ending", [".html", ".md"])
def test_theorems(tmp_path: Path, ending: str) -> None:
    text = reported(tmp_path, "theorems", ending=ending)
    assert all(word in text for word in ("specplan theorems --report", "What does not", "LR-T3c", "numpy"))


def test_a_report_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(ParameterError, match="exists"):
        cli.main(["theorems", "--report", str(path)], "specplan", standalone_mode=False)
    with pytest.raises(ParameterError, match=r"must end in \.html or \.md"):
        cli.main(["theorems", "--report", str(tmp_path / "x.pdf")], "specplan", standalone_mode=False)
    assert path.read_text(encoding="utf-8") == "mine"


def test_what_is_not_known_is_not_drawn() -> None:
    unknown = Interval(math.nan, 0.0, math.inf)
    known = Interval(1.0, 0.5, math.inf)
    table = Table(headings=["x"], rows=[[unknown], [known]])
    page = as_html(Report(title="", about="", lead="", answers=[], sections=[Section("", [table])]), [], "")
    assert page.count("<svg") == 1
    line = Line("a", [(1.0, 1.0), (2.0, math.nan), (3.0, 2.0)], [known, unknown, None])
    drawn = as_svg(lines([line], x_name="x", y_name="y"))
    assert "nan" not in drawn
    assert drawn.count('style="fill: #1f77b4') == 2 + 1  # with the legend's


def test_a_validation_under_load() -> None:
    def of(value: float) -> Estimate:
        return Estimate(value=value, stderr=0.1, low=value - 0.2, high=value + 0.2, n=4)

    rows = [
        LoadRow(
            name=name,
            clients=clients,
            predicted=dict.fromkeys(METRICS, of(gain)),
            measured=dict.fromkeys(METRICS, of(gain + 0.1)),
            accuracy=None,
            acceptance=0.8,
            answers_at_once=(clients, clients),
            most_steps=(4, 4),
            beyond={},
        )
        for clients in (1, 8)
        for name, gain in (("autoregressive", 1.0), ("lr-async k1=4", 1.5 / clients**0.3))
    ]
    verdict = Verdict(clients=8, chosen="autoregressive", best="lr-async k1=4", regret=of(0.3))
    made: dict[str, Any] = {
        "profile": "fake",
        "n_questions": 12,
        "n_rounds": 4,
        "slowdown": {},
        "swept": {},
        "most": {},
    }
    found = LoadValidation(rows=tuple(rows), verdicts=(verdict,), off_from=(8, None), **made)
    text = as_markdown(load_validation_report(found), [], "")
    assert "switched off from 8 clients on (predicted), at none of these loads (measured)" in text
    assert "| 1 | lr-async k1=4 | 1.50 \\[1.30, 1.70\\] | 1.60 \\[1.40, 1.80\\] | -6.2 % |" in text
    assert "2 of 2 gains are inside their 95 % interval" in text
