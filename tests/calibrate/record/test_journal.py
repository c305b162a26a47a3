"""The journal loses nothing and counts nothing twice, wherever it is cut."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calibrate.record.journal import Journal
from theory.errors import CalibrationError, SchemaError

SETTINGS = {"seed": 1, "model": "a"}


@given(cut=st.integers(min_value=0, max_value=400), sizes=st.lists(st.integers(0, 30), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_cut_anywhere_keeps_whole_pieces(tmp_path: Path, cut: int, sizes: list[int]) -> None:
    path = tmp_path / "cut"
    path.unlink(missing_ok=True)
    ends = []
    with Journal(path, SETTINGS) as journal:
        for number, size in enumerate(sizes):
            journal.add(str(number), "x" * size)
            ends.append(path.stat().st_size)
    path.write_bytes(path.read_bytes()[:cut])
    kept = sum(end <= cut for end in ends)
    with Journal(path, SETTINGS) as journal:
        assert journal.keys() == [str(n) for n in range(kept)]
        for number, size in list(enumerate(sizes))[kept:]:
            journal.add(str(number), "x" * size)
    with Journal(path, SETTINGS) as journal:
        assert [journal[str(n)] for n in range(len(sizes))] == ["x" * size for size in sizes]
    with pytest.raises(SchemaError, match=r"other settings \(seed\)"):
        Journal(path, {**SETTINGS, "seed": 2})
    Journal(path, SETTINGS).close(remove=True)
    assert not path.exists()


def test_a_journal_without_pieces_blocks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(path, SETTINGS):
        header = path.read_bytes()
    assert not path.exists(), "a command that fails before it has measured leaves nothing behind"
    path.write_bytes(header)  # of a process that was killed
    with Journal(path, {**SETTINGS, "seed": 2}) as journal:
        journal.add("one", 1)
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0])["settings"]["seed"] == 2


def test_time_is_that_of_the_pieces_in_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 3.0, 7.5, 1000.0, 1002.0]).__next__
    monkeypatch.setattr("calibrate.record.journal.time.monotonic", now)
    with Journal(tmp_path / "j", SETTINGS) as journal:
        journal.add("one", 1)
        journal.add("two", 2)
    with Journal(tmp_path / "j", SETTINGS) as journal:
        assert journal.spent_s == 7.5
        journal.add("three", 3)
        assert journal.spent_s == 9.5


IN_LINE_3 = [
    b"nonsense\n", b'{"key": 5, "value": 1}\n', b'{"key": "a"}\n', b"[" * 5000 + b"\n",
    b'{"key": "a", "value": 1, "seconds": "1"}\n',
]  # fmt: skip
ALONE = [b"hello\n", b'{"schema_version": 1}\n', b"\x00\xff", b"[1]\n"]


@pytest.mark.parametrize("bad", [*IN_LINE_3, *ALONE])
def test_a_damaged_line_and_a_foreign_file_are_refused_and_left_alone(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "j"
    with Journal(path, SETTINGS) as journal:
        journal.add("one", 1)
        journal.add("two", 2)
    header, one, two = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(found := bad if bad in ALONE else header + one + bad + two)
    with pytest.raises(SchemaError, match="not a measurement in progress" if bad in ALONE else "line 3 is damaged"):
        Journal(path, SETTINGS)
    assert path.read_bytes() == found


def test_a_failed_write_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "j", os.pwrite

    def full(file: int, data: bytes, offset: int) -> int:
        if b"second" in data:
            return write(file, data[:5], offset)
        if offset > first:
            raise OSError(28, "No space left on device")
        return write(file, data, offset)

    with Journal(path, SETTINGS) as journal:
        journal.add("first", 1)
        with pytest.raises(CalibrationError, match="another process is measuring"):
            Journal(path, SETTINGS)
        with pytest.raises(ValueError, match="JSON"):
            journal.add("bad", float("nan"))
        first = path.stat().st_size
        monkeypatch.setattr("os.pwrite", full)
        with pytest.raises(CalibrationError, match="No space left on device; what was finished before is kept"):
            journal.add("second", "x" * 50)
        assert path.stat().st_size == first
        monkeypatch.undo()
        journal.add("third", 3)
    with Journal(path, SETTINGS) as journal:
        assert journal.keys() == ["first", "third"]
