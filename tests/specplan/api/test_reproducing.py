"""`specplan.reproduce`: papers and public tables; what the command prints is what it returns, and fits a terminal."""

import csv
from itertools import product
from pathlib import Path
from statistics import fmean

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
from refusals import refused
from screens import Main, check_printed, check_screen, refusal

import specplan as sp
from specplan.api.reproducing import Reproduced, ReproducedPapers
from specplan.check.reproducing import confspec
from specplan.check.reproducing import lookahead_reasoning as lr
from specplan.output import SCREEN, to_json
from specplan.planning.model_error import PUBLISHED_RULES, rows


@pytest.fixture(scope="module")
def table_1() -> Reproduced:
    """From the simulated rows that are committed."""
    by_name = {row.name: row for row in rows() if row.rules == PUBLISHED_RULES}
    found = {(pair, data): by_name[f"lr-{pair}-{data}"] for pair in lr.PAIRS for data in lr.DATASETS}
    cells = [lr._cell(*key, found, combined=combined) for combined in (False, True) for key in found]
    return Reproduced(paper=lr, cells=tuple(cells))


@pytest.fixture(scope="module")
def tables_2_and_3() -> Reproduced:
    """Of few answers; `test_papers` has the errors with all."""
    return Reproduced(paper=confspec, cells=tuple(confspec.cells(n_answers=2)))


def test_lenient_checks_are_faster_and_the_cascade_lies_between(tables_2_and_3: Reproduced) -> None:
    assert len(tables_2_and_3.cells) == 22
    for benchmark in confspec.DATASETS:
        own = [one for one in tables_2_and_3.records() if (one["benchmark"], one["table"]) == (benchmark, "3")]
        rows = {one["row"]: one["predicted"] for one in own}
        assert rows["Target Verification"] < rows["ConfSpec gamma=0.9"] < rows["Draft Verification"]


def test_a_paper_is_what_the_command_prints(run_main: Main) -> None:
    found = sp.reproduce("lookahead-decoding")
    errors = {row["tag"]: row["error"] for row in found.records() if row["error"] is not None}
    assert list(errors) == [8]  # the balanced setting without prompts; nothing is said of the others
    assert abs(errors[8]) < 0.05
    words = ("reproduce", "lookahead-decoding")
    check_printed(run_main, words, found)
    assert run_main(*words, "-v") == (0, f"{found.text(verbose=True)}\n", "")
    assert run_main(*words, "--json") == (0, f"{to_json(found.plain())}\n", "")


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


# public tables


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


def test_a_board_tells_errors_doubts_and_refusals_as_the_command_prints_them(run_main: Main, hardware: Path) -> None:
    words, found = ("reproduce", "hardware", str(hardware)), sp.reproduce("hardware", hardware)
    assert run_main(*words) == (0, f"{found.text()}\n", "")
    assert run_main(*words, "--rows")[1] == f"{found.text(verbose=True)}\n"
    for said in (
        "rows of time per iteration are predicted",
        "rows of time per output token are predicted",
        "the best measured one in 1 of 1 choices",
        "1  cache is full",
        "1  repeats the measurement of another row",
        "gpu='H900' is not known",
        "model='nobody/nothing' must be",
    ):
        assert said in found.text()
    assert max(map(len, found.text().splitlines())) <= SCREEN
    data = found.plain()
    assert (data["schema"], data["schema_version"]) == ("specplan.check.scoreboard", 1)
    per_token = data["quantities"]["time per output token"]
    assert per_token["counted"]["n"] == 3
    assert set(per_token["by"]["GPU"]) == {"H100 SXM", "B300 SXM"}
    assert len(found.records()) == len(data["rows"])
    assert all(row["predicted_low"] <= row["predicted"] <= row["predicted_high"] for row in found.records())
    rows = {row["row"]: row for row in data["rows"] if row["quantity"] == "time per output token"}
    assert rows["loaded.csv:2"]["low"] < rows["loaded.csv:2"]["predicted"] < rows["loaded.csv:2"]["high"]
    assert rows["loaded.csv:2"]["measured"] == 5.8
    output = hardware / "rows.csv"
    assert run_main(*words, "-o", str(output))[0] == 0
    written = list(csv.DictReader(output.read_text().splitlines()))
    assert len(written) == len(data["rows"]) + len(data["refused"])
    assert {line["row"] for line in written if line["refused"]} == {"served.csv:3", "loaded.csv:4", "loaded.csv:5"}
    (hardware / "served.csv").write_text(SERVED_HEAD + served_line())
    assert "is not known" not in sp.reproduce("hardware", hardware / "served.csv").text()


def test_speculation_with_a_draft_that_is_not_known(tmp_path: Path) -> None:
    lines = (
        speculated_line(), speculated_line(steps=7, topk=4, num_draft_tokens=8, accept_length=3.6, speedup=2.0),
        speculated_line(draft="nobody/unknown head"), speculated_line(target="google/gemma-3n-E4B-it"),
    )  # fmt: skip
    (tmp_path / "speculated.csv").write_text(SPECULATED_HEAD + "".join(lines))
    data = sp.reproduce("speculation", tmp_path).plain()
    rows = [row for row in data["rows"] if row["quantity"] == "speedup"]
    assert [row["row"] for row in rows] == [f"speculated.csv:{n}" for n in (2, 3, 4)]
    # a head of the usual size is taken for the unknown one
    assert rows[2]["predicted"] == pytest.approx(rows[0]["predicted"], rel=0.02)
    (refused,) = data["refused"]
    assert "not modelled" in refused["reason"]


# What docs/scoreboard.md says, with some room for constants that are fitted again


def test_public_servers_under_load() -> None:
    per_token = sp.reproduce("hardware", public_tables()).plain()["quantities"]["time per output token"]
    by_gpu = {name: one["mean"] for name, one in per_token["by"]["GPU"].items()}
    assert by_gpu["H100 SXM"] < 0.09
    assert by_gpu["H200 SXM"] < 0.09
    assert by_gpu["B200 SXM"] < 0.15
    assert 0.90 <= per_token["counted"]["coverage"] <= 0.98


def test_public_speedups() -> None:
    found = sp.reproduce("speculation", public_tables()).plain()["quantities"]["speedup"]
    assert found["counted"]["mean"] < 0.06
    assert 0.90 <= found["counted"]["coverage"] <= 0.98
    losses = [one["loss"] for one in found["regret"]["steps, topk and k of the draft, acceptance lengths known,"]]
    assert sum(losses) / len(losses) < 0.01


test_bad_arguments_are_refused = refused(
    sp.reproduce,
    ("lrr", "which='lrr'"),
    ("lr", "folder", "has no use with lr"),
    ("hardware", "folder=None must be given"),
    ("operators", Path(__file__).parent, "holds no"),
)


def test_what_cannot_be_read_is_told_in_one_line(run_main: Main, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(SPECULATED_HEAD + speculated_line(speedup="x"))
    assert "does not exist" in refusal(run_main, "reproduce", "hardware", str(tmp_path / "no"))
    assert "bad.csv:2: speedup='x'" in refusal(run_main, "reproduce", "speculation", str(tmp_path / "bad.csv"))
