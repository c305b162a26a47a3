"""Embeddings by a server: the cosine of what it sends, and one line for what it should not send."""

from collections.abc import Mapping
from typing import Any

import pytest
from pair_servers import running
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from calibrate.engines.http.embeddings import EmbeddingServer
from calibrate.engines.http.wire import HttpConfig
from theory.errors import CalibrationError


def sent(*vectors: list[Any]) -> dict[str, Any]:
    return {"data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]}


def application(given: Mapping[str, Any], models: int = 1) -> Starlette:
    """A server that sends what is ``given`` as the answer."""

    async def embeddings(request: Request) -> Response:
        body = await request.json()
        assert body["model"] == "m0"
        assert len(body["input"]) == 2
        return JSONResponse(given["answer"])

    async def listed(request: Request) -> Response:
        return JSONResponse({"data": [{"id": f"m{i}"} for i in range(models)]})

    return Starlette(routes=[Route("/v1/embeddings", embeddings, methods=["POST"]), Route("/v1/models", listed)])


async def test_the_cosine_of_what_is_sent_in_any_order() -> None:
    answer = sent([3.0, 0.0], [6.0, 8.0])
    answer["data"].reverse()
    async with running(application({"answer": answer})) as url:
        server = await EmbeddingServer.start(HttpConfig.of("embedding", url))
        assert await server.cosine("a", "b") == pytest.approx(0.6)
        await server.close()
        await server.close()


async def test_what_is_no_embedding_is_told_in_one_line() -> None:
    given: dict[str, Any] = {}
    async with running(application(given)) as url:
        for given["answer"], said in (
            (sent([1.0]), "no two embeddings"),
            (sent([1.0], [1.0], [1.0]), "no two embeddings"),
            (sent([1.0], ["x"]), "no two embeddings"),
            (sent([1.0], [1.0, 2.0]), "1 and 2 numbers"),
            (sent([], []), "0 and 0 numbers"),
            (sent([0.0], [1.0]), "zeros"),
            ([], "no two embeddings"),
            ({"data": None}, "no two embeddings"),
        ):
            with pytest.raises(CalibrationError, match=said) as caught:
                await EmbeddingServer.start(HttpConfig.of("embedding", url, retries=0))
            assert "\n" not in str(caught.value)


async def test_a_model_must_be_named_among_several() -> None:
    async with running(application({"answer": sent([1.0], [1.0])}, models=2)) as url:
        with pytest.raises(CalibrationError, match="URL#model"):
            await EmbeddingServer.start(HttpConfig.of("embedding", url))
        server = await EmbeddingServer.start(HttpConfig.of("embedding", f"{url}#m0"))
        await server.close()
