"""Reports of each command: the questions of its reader are answered, and the numbers are the command's."""

import json
import math
import re
from pathlib import Path

import pytest
from planted_metrics import Planted, exposition

from specplan.cli import cli
from specplan.show.drawing import Line, as_svg, lines
from specplan.show.page import Interval, Report, Section, Table
from specplan.show.rendering import as_html
from theory.errors import ParameterError

LABELLED = "\n".join(
    json.dumps({"score": round(0.5 + i % 50 / 100, 2), "label": i % 50 > 5, "answer": f"a{i}"}) for i in range(600)
)
INPUTS = {"pairs.jsonl": LABELLED, **{f"{n}.prom": exposition(Planted(), n) for n in (20, 80)}}
REPORTED = {
    "thresholds --pairs pairs.jsonl --c1 0.1 --sampling independent": (
        1,
        ["Which threshold?", "95 % that the risk is at most 0.05"],
    ),
    "explain 20.prom 80.prom": (2, ["Why is it slow?", "What a round takes"]),
    "reproduce lookahead-decoding": (1, ["Predicted and published"]),
    "theorems": (0, ["specplan theorems --report", "What does not", "LR-T3c", "numpy"]),
}
"""Command to the number of its pictures, and to what its report says."""


@pytest.mark.parametrize("ending", ["html", "md"])
@pytest.mark.parametrize("line", REPORTED)
def test_a_report_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, ending: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in INPUTS.items():
        Path(name).write_text(text, encoding="utf-8")
    cli.main([*line.split(), "--report", f"report.{ending}", "-o", "out"], "specplan", standalone_mode=False)
    page = Path(f"report.{ending}").read_text(encoding="utf-8")
    assert len(page.encode()) < 1_000_000
    n_pictures, said = REPORTED[line]
    assert [words for words in said if words not in page] == []
    assert page.count("<img" if ending == "html" else "(Drawn in the HTML report.)") == n_pictures
    assert not re.search(r"\bnan\b", re.sub('base64,[^"]*', "", page))


def test_a_report_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("mine", encoding="utf-8")
    for name, rule in ((path.name, "exists"), ("x.pdf", r"must end in \.html or \.md")):
        with pytest.raises(ParameterError, match=rule):
            cli.main(["theorems", "--report", str(tmp_path / name)], "specplan", standalone_mode=False)
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
