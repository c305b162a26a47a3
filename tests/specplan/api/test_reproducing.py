"""`specplan.reproduce`: what the command prints is what it returns, and its first screen fits a terminal."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from statistics import fmean

import pytest
from public_tables import LOADED_HEAD, SERVED_HEAD, loaded_line, served_line
from screens import Main, check_printed, check_screen

import specplan as sp
from specplan.api.reproducing import Reproduced, ReproducedPapers
from specplan.check.reproducing import confspec
from specplan.check.reproducing import lookahead_reasoning as lr
from specplan.output import SCREEN
from specplan.planning.model_error import PUBLISHED_RULES, rows
from theory.errors import ParameterError


@pytest.fixture(scope="module")
def table_1() -> Reproduced:
    """From the simulated rows that are committed."""
    by_name = {row.name: row for row in rows() if row.rules == PUBLISHED_RULES}
    found = {(pair, data): by_name[f"lr-{pair}-{data}"] for pair in lr.PAIRS for data in lr.DATASETS}
    cells = [lr._cell(*key, found, combined=combined) for combined in (False, True) for key in found]
    return Reproduced(paper=lr, cells=tuple(cells))


@pytest.fixture(scope="module")
def tables_2_and_3() -> Reproduced:
    return Reproduced(paper=confspec, cells=tuple(confspec.cells(n_answers=2)))


def test_a_paper_is_what_the_command_prints(run_main: Main) -> None:
    found = sp.reproduce("lookahead-decoding")
    check_printed(run_main, ("reproduce", "lookahead-decoding"), found)


def test_first_screens_say_how_good_in_80_columns(table_1: Reproduced, tables_2_and_3: Reproduced) -> None:
    for found in (table_1, tables_2_and_3, sp.reproduce("specs"), sp.reproduce("lookahead-decoding")):
        screen = "\n".join(check_screen(found))
        assert all(reason in " ".join(screen.split()) for reason in found.paper.REASONS)
        assert len(found.records()) == len(found.cells)


def test_all_papers_are_each_paper_in_short(table_1: Reproduced, tables_2_and_3: Reproduced) -> None:
    one = {"lr": table_1, "confspec": tables_2_and_3, "specs": sp.reproduce("specs")}
    found = ReproducedPapers(papers=one)
    screen = found.text()
    assert max(map(len, screen.splitlines())) <= SCREEN
    assert len(screen.splitlines()) < 40
    assert all(paper.headline() in " ".join(screen.split()) for paper in one.values())
    assert len(found.records()) == sum(len(paper.cells) for paper in one.values())
    assert found.text(verbose=True).count("\n\n\n") == len(one) - 1
    assert found.plain()["papers"]["specs"] == one["specs"].plain()
    page = found.report()
    assert [section.title for section in page.sections] == [paper.paper.TITLE for paper in one.values()]


def test_headlines_say_the_mean_error_and_the_coverage(table_1: Reproduced, tables_2_and_3: Reproduced) -> None:
    for pair, level in product(lr.PAIRS, ("LR", "LR+SD")):
        own = [abs(row["error"]) for row in table_1.records() if (row["pair"], row["level"]) == (pair, level)]
        assert f"{100 * fmean(own):.1f} % ({level})" in table_1.headline()
    inside = sum(row["low"] <= row["published"] <= row["high"] for row in table_1.records())
    assert f"{inside} of 28 are inside" in table_1.headline()
    assert table_1.text().count(" off\n") + table_1.text().count(" off  ") == 28 - inside
    for pair in lr.PAIRS:
        rows_of = [row for row in tables_2_and_3.records() if row["pair"] == pair]
        errors = [abs(row["predicted"] / row["published"] - 1) for row in rows_of]
        assert f"{100 * fmean(errors):.1f} % ({100 * max(errors):.1f} % at most)" in tables_2_and_3.headline()


def test_a_board_is_what_the_command_prints(tmp_path: Path, run_main: Main) -> None:
    (tmp_path / "served.csv").write_text(SERVED_HEAD + served_line())
    (tmp_path / "loaded.csv").write_text(LOADED_HEAD + loaded_line() + loaded_line(tpot_ms=7.0))
    found = sp.reproduce("hardware", tmp_path)
    assert run_main("reproduce", "hardware", str(tmp_path)) == (0, f"{found.text()}\n", "")
    assert run_main("reproduce", "hardware", str(tmp_path), "--rows")[1] == f"{found.text(verbose=True)}\n"
    assert len(found.records()) == len(found.plain()["rows"])
    assert all(row["predicted_low"] <= row["predicted"] <= row["predicted_high"] for row in found.records())


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    for arguments, message in (
        (("lrr",), "which='lrr'"),
        (("lr", tmp_path), "has no use with lr"),
        (("hardware",), "folder=None must be given"),
        (("operators", tmp_path), "holds no"),
    ):
        with pytest.raises(ParameterError, match=message):
            sp.reproduce(*arguments)  # type: ignore[call-overload]
