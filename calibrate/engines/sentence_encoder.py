"""A sentence-embedding model in a process of its own, for `calibrate.running.verifiers.EmbeddingSimilarity`.

The encoder runs in its own process, optionally pinned to a core: in a thread it would hold the interpreter lock for
milliseconds and so delay every event of the wall clock. Requests and replies are lines of JSON; the process ends when
its standard input closes, and so with its parent.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from theory.errors import CalibrationError

__all__ = ["Encoder"]

_WARM_UP: Final = 8
"""Pairs encoded before the first request: torch's first passes are slow."""
_START_S: Final = 300.0
"""Longest start, s."""


class Encoder:
    """A sentence-embedding model in a process of its own. Make one with `start`.

    Raises
    ------
    CalibrationError : from every method, as soon as the process has died, failed or been closed.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._one_at_a_time = asyncio.Lock()
        self._unread = 0  # replies to cancelled requests

    @classmethod
    async def start(cls, folder: Path, *, core: int | None = None) -> Self:
        """Start the process on a core, or any, and load the model of a folder, offline; return when it is warm.

        Raises
        ------
        CalibrationError : no such model, the extra ``embedding`` is not installed, or it was not ready in time.
        """
        if not (folder / "modules.json").is_file():
            rule = "must be the folder of a sentence-transformers model (with modules.json)"
            raise CalibrationError(f"embedding={str(folder)!r} {rule}")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "calibrate.engines.sentence_encoder"),
            *(str(folder), "" if core is None else str(core)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=1 << 20,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        )
        encoder = cls(process)
        try:
            async with asyncio.timeout(_START_S):
                await encoder._reply()
        except BaseException as error:
            await encoder.close()
            if isinstance(error, TimeoutError):
                raise CalibrationError(f"the embedding model was not ready within {_START_S:g} s") from None
            raise
        return encoder

    @property
    def pid(self) -> int:
        """Process id of the encoder."""
        return self._process.pid

    async def cosine(self, first: str, second: str) -> float:
        """Return the cosine of two texts' embeddings, in [-1, 1].

        Pairs are encoded one at a time, in the order of their requests; a cancelled request that has begun is finished,
        one that has not is dropped.
        """
        async with self._one_at_a_time:
            while self._unread:
                await self._reply()
                self._unread -= 1
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps([first, second]).encode() + b"\n")
            self._unread += 1
            value = float((await self._reply())["cosine"])
            self._unread -= 1
            return value

    async def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise CalibrationError("the process of the embedding model has ended")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise CalibrationError(str(reply["error"]))
        return reply

    async def close(self) -> None:
        """End the process. A second call has no effect."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(2.0):
                await self._process.wait()
        except TimeoutError:  # while it loads, it does not read its input
            self._process.kill()
            await self._process.wait()


def cosine_of(model: Any, texts: Sequence[str]) -> float:
    """Return the cosine of two texts' embeddings by a loaded model; clipped to [-1, 1] against rounding."""
    a, b = model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
    cosine = math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    return min(max(cosine, -1.0), 1.0)


def _serve() -> None:
    """The process: load the model, warm up, report that it is ready, and answer pairs until the input ends."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr  # output of libraries must not mix with replies

    def reply(**fields: object) -> None:
        replies.write(json.dumps(fields) + "\n")
        replies.flush()

    try:
        folder, core = sys.argv[1:]
        if core:
            os.sched_setaffinity(0, {int(core)})
        import torch

        torch.set_num_threads(len(os.sched_getaffinity(0)))
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise CalibrationError("sentence-transformers is missing: install the extra 'embedding'") from None
        model = SentenceTransformer(folder, device="cpu", local_files_only=True)
        for number in range(_WARM_UP):
            cosine_of(model, (f"She has {number} apples.", f"That makes {number} apples in all."))
        reply(ready=True)
        for line in sys.stdin:
            reply(cosine=cosine_of(model, json.loads(line)))
    except BrokenPipeError:
        return  # the parent has ended
    except Exception as error:  # any error is reported to the parent before this process ends
        reply(error=f"the embedding model failed: {' '.join(str(error).split())[:300]}")


if __name__ == "__main__":
    _serve()
