"""Messages between an engine's two processes: a JSON object and a list of int32, after a fixed-size length prefix.

Received data are never unpickled or evaluated.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Final

__all__ = ["Frames", "Message", "encode"]

Message = tuple[dict[str, Any], "array[int]"]
_PREFIX: Final = struct.Struct("<II")
if array("i").itemsize != 4 or sys.byteorder != "little":  # pragma: no cover
    raise ImportError("the torch backend needs a little-endian machine with 32-bit C integers")


def encode(header: dict[str, Any], ids: Iterable[int] = ()) -> bytes:
    """Encode a message: lengths, the header as JSON, the ids as little-endian int32."""
    head = json.dumps(header, separators=(",", ":")).encode()
    tail = array("i", ids).tobytes()
    return _PREFIX.pack(len(head), len(tail)) + head + tail


class Frames:
    """Splits a byte stream, received in parts of any size, into messages."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Add bytes; yield each message that is complete.

        Raises
        ------
        ValueError : a header is not a JSON object.
        """
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _PREFIX.size:
            n_head, n_tail = _PREFIX.unpack_from(buffer)
            end = _PREFIX.size + n_head + n_tail
            if len(buffer) < end:
                return
            header = json.loads(buffer[_PREFIX.size : _PREFIX.size + n_head])
            if not isinstance(header, dict):
                raise ValueError("the header of a message is not a JSON object")
            ids = array("i")
            ids.frombytes(bytes(buffer[_PREFIX.size + n_head : end]))
            del buffer[:end]
            yield header, ids
