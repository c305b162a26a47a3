"""The README's figures on published tables are those that the commands print."""

from pathlib import Path
from statistics import fmean

import pytest

from specplan.check.reproducing import confspec, specs
from specplan.check.reproducing import lookahead_reasoning as lr

README = (Path(__file__).parents[4] / "README.md").read_text(encoding="utf-8")


def shown(errors: list[float]) -> str:
    return f"{100 * fmean(map(abs, errors)):.1f} %"


def row(beginning: str) -> str:
    """The row of README's table that begins so."""
    (line,) = [line for line in README.splitlines() if line.startswith(f"| {beginning}")]
    return line


def test_specs() -> None:
    steps = [cell for cell in specs.cells() if cell.quantity == "s/step"]
    own, rsd = ([cell for cell in steps if cell.method == method] for method in ("SPECS", "RSD"))
    line = row("SPECS' published Table 1")
    assert f"{len(own)} seconds per step" in line
    assert f"(nothing fitted: {shown([cell.error for cell in own])})" in line
    assert f"| {shown([cell.left_out_error for cell in own])} |" in line
    assert f"| {shown([cell.error for cell in rsd])} |" in row("the same table, RSD")


@pytest.mark.slow
def test_confspec() -> None:
    cells = confspec.cells()
    assert all(abs(cell.error) < 0.15 for cell in cells)
    for pair, beginning in (("deepseek", "ConfSpec's published Tables 2 and 3"), ("qwen3", "the same tables, Qwen3's")):
        own = [cell.error for cell in cells if cell.pair == pair]
        assert f"{len(own)} speedups" in row(beginning)
        assert f"| {shown(own)} | {100 * max(own, key=abs):+.0f} % |" in row(beginning)


@pytest.mark.slow
def test_lookahead_reasoning() -> None:
    cells = lr.cells()
    for level, beginning in (("LR", "LR's published Table 1"), ("LR+SD", "the same table, LR with prompt lookup")):
        own = [cell for cell in cells if cell.level == level]
        assert f"{len(own)} rows," in row(beginning)
        assert f"(nothing fitted: {shown([cell.error for cell in own])})" in row(beginning)
        worst = 100 * max((cell.left_out_error for cell in own), key=abs)
        assert f"| {shown([cell.left_out_error for cell in own])} | {worst:+.0f} % |" in row(beginning)
