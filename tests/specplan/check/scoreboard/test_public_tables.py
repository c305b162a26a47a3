"""Reading a folder of public tables: known by their columns, each defect in one line."""

import gzip
from pathlib import Path

import pytest
from public_tables import LOADED_HEAD, SERVED_HEAD, loaded_line, served_line

from specplan.check.scoreboard.board import hardware_board, read_folder
from specplan.check.scoreboard.rows import Loaded, Served
from theory.errors import ParameterError, SchemaError

KINDS = ("served", "loaded")


def test_tables_are_known_by_their_columns_whatever_their_names_and_folders(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "one.csv").write_text(SERVED_HEAD + served_line())
    (tmp_path / "deep" / "two.csv.gz").write_bytes(gzip.compress((LOADED_HEAD + loaded_line() * 2).encode()))
    (tmp_path / "operators.csv").write_text("m,n,k,latency\n1,2,3,0.1\n")
    folder = read_folder(tmp_path, KINDS)
    assert [type(row) for row in folder.rows] == [Loaded, Loaded, Served]
    assert [row.where for row in folder.rows] == ["two.csv.gz:2", "two.csv.gz:3", "one.csv:2"]
    assert (folder.files, folder.passed_over) == (("two.csv.gz", "one.csv"), ("operators.csv",))


def test_one_file_further_columns_a_byte_order_mark_and_empty_counts_of_gpus(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    path.write_text("\ufeff" + LOADED_HEAD.strip() + ",note\n" + loaded_line(attention_dp_size="").strip() + ",x\n")
    (row,) = read_folder(path, KINDS).rows
    assert isinstance(row, Loaded)
    assert (row.attention_dp_size, row.tp_size, row.concurrency) == (1, 4, 16.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LOADED_HEAD.replace("osl,", "") + "x\n", "load.csv: lacks the column 'osl' of a table of loaded rows"),
        (LOADED_HEAD + loaded_line(tpot_ms="nan"), "load.csv:2: tpot_ms='nan': "),
        (LOADED_HEAD + loaded_line(tp_size=1.5), "load.csv:2: tp_size='1.5': "),
        (LOADED_HEAD + loaded_line(model_path=""), "load.csv:2: model_path='': "),
    ],
)
def test_a_defect_is_told_with_file_and_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "load.csv").write_text(text)
    with pytest.raises(SchemaError, match=f"^{says}"):
        read_folder(tmp_path, KINDS)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (loaded_line(tpot_ms=-1.0), "load.csv:3: tpot_ms='-1.0': input should be greater than 0"),
        ("a,b\n", "load.csv:3: has another number of cells than the 16 columns"),
    ],
)
def test_a_bad_row_is_named_and_skipped(tmp_path: Path, bad: str, says: str) -> None:
    (tmp_path / "load.csv").write_text(LOADED_HEAD + loaded_line() + bad + loaded_line())
    folder = read_folder(tmp_path, KINDS)
    assert [row.where for row in folder.rows] == ["load.csv:2", "load.csv:4"]
    assert [(one.where, one.reason) for one in folder.defects] == [("load.csv:3", f"{says}; the row is skipped")]
    board = hardware_board(tmp_path, lambda _: lambda: None)
    assert says in board.refused[0].reason
    assert len(board.outcomes) == 2  # the second of two rows alike repeats the first


def test_no_folder_and_no_table(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="does not exist; give the folder"):
        read_folder(tmp_path / "none", KINDS)
    with pytest.raises(ParameterError, match="holds no CSV table with rows of the kind served"):
        read_folder(tmp_path, KINDS)
    (tmp_path / "load.csv").write_text(LOADED_HEAD)
    (tmp_path / "load.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(ParameterError, match="holds no CSV table"):
        read_folder(tmp_path, KINDS)
