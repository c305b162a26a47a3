"""Reading of input files and writing of output files, for the whole package.

Inputs are regular files of bounded size, or ``-`` for standard input: reading a device may never end, and opening a
pipe may block forever. Outputs are written atomically, links are followed, and the file keeps its mode or has the mode
of the user's umask.
"""

from __future__ import annotations

import errno
import gzip
import os
import secrets
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, cast

from theory.errors import SchemaError, shown

__all__ = ["MOST_BYTES", "STDIN", "opened", "read_text", "replacing", "write_atomically"]

MOST_BYTES: Final = 512 * 2**20
"""Largest input that is read, bytes: ten times the largest profiles."""
STDIN: Final = "-"
"""Path that means standard input."""
_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_text(path: str | os.PathLike[str], what: str, *, most_bytes: int = MOST_BYTES, packed: bool = False) -> str:
    """The text of a file without its byte order mark; of standard input for ``-``.

    Parameters
    ----------
    packed : whether a file with a name that ends in ``.gz`` is unpacked.

    Raises
    ------
    SchemaError : it cannot be read, is no regular file, is larger, or no UTF-8 text.
    """
    with opened(path, what, most_bytes=most_bytes, packed=packed) as file:
        data = file.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise _too_large(path, what, most_bytes)
        return data.decode("utf-8-sig")


@contextmanager
def opened(
    path: str | os.PathLike[str], what: str, *, most_bytes: int = MOST_BYTES, packed: bool = False
) -> Iterator[BinaryIO]:
    """Open a file to read it in parts; errors while it is read are raised as by `read_text`.

    Parameters and errors are those of `read_text`, but the caller has to limit the unpacked size of a packed file.
    """
    try:
        if str(path) == STDIN:
            yield sys.stdin.buffer
            return
        if not str(path):
            raise SchemaError(f"{what}: the name of the file is empty")
        # Without O_NONBLOCK, opening a pipe without a writer would block.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            os.close(number)
            kind = next((name for is_one, name in _KINDS if is_one(about.st_mode)), "no file")
            remedy = "" if kind == "a folder" else ", or - for standard input"
            rule = f"it is {kind}: give a regular file{remedy}"
            raise SchemaError(f"{shown(str(path))}: cannot be read as {what}: {rule}")
        with open(number, "rb") as file:
            if about.st_size > most_bytes:
                raise _too_large(path, what, most_bytes)
            if packed and str(path).endswith(".gz"):
                with gzip.open(file) as unpacked:
                    yield cast(BinaryIO, unpacked)
            else:
                yield file
    except UnicodeDecodeError:
        raise SchemaError(f"{shown(str(path))}: cannot be read as {what}: not UTF-8 text") from None
    except (OSError, EOFError, zlib.error) as error:  # the last two: a packed file that is truncated or corrupt
        reason = getattr(error, "strerror", None) or shown(str(error))
        raise SchemaError(f"{shown(str(path))}: cannot be read as {what}: {reason}") from None
    except ValueError as error:
        if "null byte" not in str(error):
            raise
        raise SchemaError(f"{shown(str(path))}: cannot be read as {what}: a name cannot hold a zero byte") from None


def _too_large(path: str | os.PathLike[str], what: str, most_bytes: int) -> SchemaError:
    return SchemaError(f"{shown(str(path))}: larger than {most_bytes} bytes, the most that is read of {what}")


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` so that a crash or a full disk leaves the old file or the new one, never a part.

    Raises
    ------
    OSError : it cannot be written, or is no regular file; the old file is unchanged.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the name of a temporary file with the same suffix; at the end that file replaces ``path``.

    A link stays a link, and its file is replaced; a file keeps its mode and owner, a new one has the mode of the umask.

    Raises
    ------
    OSError : as `write_atomically`; it names ``path``.
    """
    temporary = None
    try:
        final = Path(os.path.realpath(path))
        old = final.stat() if final.exists() else None
        if old is not None and not stat.S_ISREG(old.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file")
        ending = final.suffix if len(final.suffix) <= 8 else ""
        name = final.with_name(f".specplan-{secrets.token_hex(6)}.part{ending}")
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if old is None else 0o600))
        temporary = name
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        if old is not None:
            with suppress(OSError):  # only root may change the owner of a file
                os.chown(temporary, old.st_uid, old.st_gid)
            temporary.chmod(stat.S_IMODE(old.st_mode))
        os.replace(temporary, final)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
