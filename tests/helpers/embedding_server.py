"""A real sentence-embedding model behind ``/v1/embeddings`` on 127.0.0.1."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pair_servers import running
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

__all__ = ["embedding_server"]


@asynccontextmanager
async def embedding_server(folder: Path) -> AsyncIterator[str]:
    """Serve a sentence-transformers model in this loop; yield its URL."""
    from sentence_transformers import SentenceTransformer

    model: Any = SentenceTransformer(str(folder), device="cpu", local_files_only=True)

    async def models(request: Request) -> Response:
        return JSONResponse({"data": [{"id": "sentences"}]})

    async def embeddings(request: Request) -> Response:
        texts = (await request.json())["input"]
        vectors = await asyncio.to_thread(model.encode, texts, show_progress_bar=False)
        data = [{"index": i, "embedding": vector.tolist()} for i, vector in enumerate(vectors)]
        return JSONResponse({"data": data[::-1]})  # in any order: the index counts

    routes = [Route("/v1/models", models), Route("/v1/embeddings", embeddings, methods=["POST"])]
    async with running(Starlette(routes=routes)) as url:
        yield url
