"""A server of sentence embeddings (``/v1/embeddings``: vLLM's pooling models, TEI, OpenAI)."""

from __future__ import annotations

import asyncio
import math
from typing import Self

from calibrate.engines.http.wire import HttpConfig, RefusedError, Wire

__all__ = ["EmbeddingServer"]


class EmbeddingServer:
    """Embeds pairs of texts by the configured model, or the only one of the server. Make one with `start`."""

    def __init__(self, config: HttpConfig) -> None:
        self.config = config
        self.model = config.model
        self._wire = Wire(config)

    @classmethod
    async def start(cls, config: HttpConfig) -> Self:
        """Look up the model, and check that it embeds.

        Raises
        ------
        CalibrationError : unreachable, no such model, or the reply has no embeddings.
        """
        server = cls(config)
        try:
            server.model = config.model or await server._only_model()
            await server.cosine("She has 3 apples.", "That makes 3 apples in all.")
        except BaseException:
            await server.close()
            raise
        return server

    async def cosine(self, first: str, second: str) -> float:
        """Return the cosine of two texts' embeddings, in [-1, 1].

        Raises
        ------
        CalibrationError : the server failed, or its answer does not have two embeddings of the same length.
        """
        answer = await self._wire.post(
            f"{self._wire.api}/embeddings", {"model": self.model, "input": [first, second], "encoding_format": "float"}
        )
        try:
            vectors = sorted(answer["data"], key=lambda one: int(one["index"]))
            a, b = ([float(x) for x in one["embedding"]] for one in vectors)
        except (KeyError, TypeError, ValueError, IndexError):
            raise self._wire.error("sent no two embeddings (POST /embeddings)") from None
        if not (0 < len(a) == len(b) <= 100_000 and all(math.isfinite(x) for x in (*a, *b))):
            raise self._wire.error(f"sent embeddings of {len(a)} and {len(b)} numbers, or not finite ones")
        norms = math.hypot(*a) * math.hypot(*b)
        if not norms > 0.0:
            raise self._wire.error("sent an embedding of zeros")
        return min(max(math.fsum(x * y for x, y in zip(a, b, strict=True)) / norms, -1.0), 1.0)

    async def close(self) -> None:
        """Close the connections. A second call has no effect."""
        await asyncio.shield(self._wire.close())

    async def _only_model(self) -> str:
        try:
            answer = await self._wire.get(f"{self._wire.api}/models")
            names = [str(card["id"]) for card in answer["data"]]
        except (RefusedError, KeyError, TypeError):
            names = []
        if len(names) != 1:
            raise self._wire.error("offers several models or none: name one as URL#model")
        return names[0]
