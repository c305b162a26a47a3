"""A journal of finished pieces of a long measurement, so that a crash, a full disk or Ctrl-C loses no finished piece.

One JSON object per line: first the settings, then one entry per finished piece with the seconds since the one before,
each flushed to disk before the next piece begins. A line cut by a crash is ignored on resuming, and its piece measured
again; a line that could not be written completely is removed. The last valid entry of a key counts, so nothing is
counted twice. The file is locked while a process measures, so that two processes cannot write into it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from theory.errors import CalibrationError, SchemaError

__all__ = ["Journal", "digest"]

_HEADER: Final = b'{"settings": '


class Journal:
    """Pieces finished so far, on disk.

    Parameters
    ----------
    path : the journal's file; it is created if it does not exist, and removed if no piece was finished.
    settings : settings that the measurement depends on; a journal of pieces made with other settings is refused.

    Attributes
    ----------
    spent_s : time that the finished pieces took, s, those of earlier processes too.

    Raises
    ------
    SchemaError : the file belongs to a measurement with other settings, or is no journal.
    CalibrationError : another process is writing to it, or it cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any]) -> None:
        self.path = Path(path)
        self.spent_s = 0.0
        self._pieces: dict[str, Any] = {}
        self._latest = time.monotonic()
        self._end = 0
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666)
        except OSError as error:
            raise self._unwritten(error) from None
        try:
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise SchemaError(f"{self.path}: is no regular file: choose another output, or remove it")
            with contextlib.suppress(OSError):  # a file system without locks
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise CalibrationError(f"{self.path}: another process is measuring this right now") from None
            self._end = self._load(settings)
            os.ftruncate(self._file, self._end)
            if self._end == 0:
                self._append({"settings": settings})
        except BaseException:
            os.close(self._file)
            raise

    def _load(self, settings: dict[str, Any]) -> int:
        """Read the valid entries; return their number of bytes."""
        valid, first = 0, None
        with self.path.open("rb") as file:
            for number, line in enumerate(file):
                entry = _whole(line)
                if number == 0:
                    if entry is None and _HEADER.startswith(line[: len(_HEADER)]):
                        break  # cut while the header was written: nothing had been measured
                    if entry is None or not isinstance(entry.get("settings"), dict):
                        rule = "not a measurement in progress; choose another output or remove the file"
                        raise SchemaError(f"{self.path}: {rule}")
                    first = entry["settings"]
                elif entry is None and not line.endswith(b"\n"):
                    break
                elif entry is None or not _is_piece(entry):
                    raise SchemaError(f"{self.path}: line {number + 1} is damaged; remove that line, or the file")
                else:
                    self._pieces[entry["key"]] = entry["value"]
                    self.spent_s += entry.get("seconds", 0.0)  # files of earlier versions lack them
                valid += len(line)
        new = json.loads(json.dumps(settings))  # as they are read
        if first is None or first == new:
            return valid
        if not self._pieces:
            return 0  # no finished piece would be lost
        names = sorted(name for name in {*first, *new} if first.get(name) != new.get(name))
        raise SchemaError(
            f"{self.path}: a measurement with other settings ({', '.join(names)}) is in progress there; "
            "repeat its settings to resume it, or remove the file"
        )

    def __contains__(self, key: str) -> bool:
        return key in self._pieces

    def __getitem__(self, key: str) -> Any:
        return self._pieces[key]

    def __len__(self) -> int:
        return len(self._pieces)

    def keys(self) -> list[str]:
        """Return the keys of the finished pieces, in the order in which they were finished."""
        return list(self._pieces)

    def kept(self, key: str, make: Callable[[], Any]) -> Any:
        """Return a piece, which is made and recorded where it is not there."""
        if key not in self._pieces:
            self.add(key, make())
        return self._pieces[key]

    def add(self, key: str, value: Any) -> None:
        """Record a finished piece; on return it is on disk.

        Raises
        ------
        CalibrationError : it could not be written (disk full); earlier entries stay valid.
        """
        now = time.monotonic()
        seconds, self._latest = now - self._latest, now
        self._append({"key": key, "value": value, "seconds": round(seconds, 3)})
        self._pieces[key] = value
        self.spent_s += seconds

    def _append(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, allow_nan=False).encode() + b"\n"
        written = 0
        try:
            while written < len(line):
                written += os.pwrite(self._file, line[written:], self._end + written)
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise self._unwritten(error) from None
        self._end += len(line)

    def _unwritten(self, error: OSError) -> CalibrationError:
        kept = "; what was finished before is kept, the same command goes on from there" if self._pieces else ""
        return CalibrationError(f"{self.path}: cannot be written: {error.strerror}{kept}")

    def close(self, *, remove: bool = False) -> None:
        """Close the file; remove it when the measurement has been written elsewhere."""
        if remove or not self._pieces:
            self.path.unlink(missing_ok=True)
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def digest(*texts: str) -> str:
    """Replacement of a long text in the settings of a journal."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _is_piece(entry: dict[str, Any]) -> bool:
    return isinstance(entry.get("key"), str) and "value" in entry and isinstance(entry.get("seconds", 0), int | float)


def _whole(line: bytes) -> dict[str, Any] | None:
    """The object on a completely written line, else None."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if line.endswith(b"\n") and isinstance(entry, dict) else None
