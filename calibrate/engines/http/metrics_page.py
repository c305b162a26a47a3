"""The metrics page of a live server, read again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlsplit

from calibrate.engines.http.addresses import http_address, is_local
from theory.errors import CalibrationError, ParameterError

__all__ = ["metrics_url", "pages"]

_TIMEOUT_S: Final = 20.0
"""Longest silence of the server, and longest time to read a page, s."""
_MOST_BYTES: Final = 64 * 2**20


def metrics_url(url: str) -> str:
    """Return the URL of a server's metrics, given its address with or without ``/v1`` or ``/metrics``.

    Raises
    ------
    ParameterError : no http(s) address.

    >>> metrics_url("http://localhost:8000/v1")
    'http://localhost:8000/metrics'
    """
    parts = http_address(url)
    if parts is None or "@" in parts.netloc or parts.query:
        raise ParameterError("url", url, "must be http(s)://HOST[:PORT][/PATH], without user, password or query")
    path = parts.path.rstrip("/").removesuffix("/metrics").removesuffix("/v1")
    return f"{parts.scheme}://{parts.netloc}{path}/metrics"


def pages(url: str, n: int, seconds: float, *, on_page: Callable[[], None]) -> Iterator[tuple[str, float]]:
    """Read a page ``n`` times, spread evenly over ``seconds``; yield each text with its moment, s.

    Parameters
    ----------
    url : address of the server.
    n : readings, >= 2.
    seconds : time between the first and the last reading, > 0.
    on_page : called after each reading, to show progress.

    Raises
    ------
    CalibrationError : the server cannot be reached, or its answer is not a page of metrics.
    """
    import httpx

    where = metrics_url(url)
    local = is_local(urlsplit(where))
    with httpx.Client(timeout=_TIMEOUT_S, trust_env=not local) as client:
        first = time.monotonic()
        for i in range(n):
            wait = first + i * seconds / (n - 1) - time.monotonic()
            if wait > 0.0:
                time.sleep(wait)
            try:
                with client.stream("GET", where) as answer:
                    text = _text(answer, where)
            except httpx.HTTPError as error:
                reason = " ".join(str(error).split()) or type(error).__name__
                raise CalibrationError(f"{where}: cannot be read: {reason}") from None
            on_page()
            yield text, time.monotonic()


def _text(answer: object, where: str) -> str:
    """The text of a response; an error if its status is not 200 or it is too long."""
    import httpx

    assert isinstance(answer, httpx.Response)
    if answer.status_code != 200:
        hint = ": start the server with its metrics on (SGLang: --enable-metrics)" if answer.status_code == 404 else ""
        raise CalibrationError(f"{where}: answered {answer.status_code}{hint}")
    page, begun = bytearray(), time.monotonic()
    for part in answer.iter_bytes():
        page += part
        if time.monotonic() - begun > _TIMEOUT_S:
            raise CalibrationError(f"{where}: takes longer than {_TIMEOUT_S:g} s: this is no page of metrics")
        if len(page) > _MOST_BYTES:
            raise CalibrationError(f"{where}: more than {_MOST_BYTES // 2**20} MiB: this is no page of metrics")
    return page.decode("utf-8", "replace")
