"""Reading and writing text files: refused with a reason, written all at once or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from theory.errors import SchemaError

__all__ = ["read_text", "write_atomically"]


def read_text(path: str | os.PathLike[str], what: str) -> str:
    """The text of a file.

    Raises
    ------
    SchemaError : it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SchemaError(f"{path}: cannot be read as {what}: {reason}") from None


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` so that a crash or a full disk leaves the old file or the new one, never a part.

    Raises
    ------
    OSError : the folder cannot be written; nothing has changed then.
    """
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent or Path(), prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
