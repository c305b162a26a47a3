"""The metrics page of a live server, read again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from calibrate.engines.http.addresses import http_address, is_local
from theory.errors import CalibrationError, ParameterError

__all__ = ["metrics_page", "metrics_url", "pages"]

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
        value = "(hidden)" if "@" in url or "?" in url else url  # it may be a secret
        raise ParameterError("url", value, "must be http(s)://HOST[:PORT][/PATH], without user, password or query")
    path = parts.path.rstrip("/").removesuffix("/metrics").removesuffix("/v1")
    return f"{parts.scheme}://{parts.netloc}{path}/metrics"


def pages(url: str, n: int, seconds: float, *, on_page: Callable[[], None]) -> Iterator[str]:
    """Read a server's page ``n`` >= 2 times, spread evenly over ``seconds`` > 0; yield the text of each.

    After the first, readings that fail are left out: a busy server may miss one, and what was read of one that dies
    counts.
    ``on_page`` is called after each reading, to show progress.

    Raises
    ------
    CalibrationError : the first reading failed, or all others did.
    """
    first, n_read = time.monotonic(), 0
    for i in range(n):
        wait = first + i * seconds / (n - 1) - time.monotonic()
        if wait > 0.0:
            time.sleep(wait)
        try:
            yield metrics_page(url)
            n_read += 1
        except CalibrationError:
            if not n_read or (i == n - 1 and n_read == 1):
                raise
        on_page()


def metrics_page(url: str) -> str:
    """Read a server's page once.

    Raises
    ------
    CalibrationError : the server cannot be reached, or its answer is not a page of metrics.
    """
    where = metrics_url(url)
    reach = build_opener(*((ProxyHandler({}),) if is_local(urlsplit(where)) else ())).open
    try:
        with reach(where, timeout=_TIMEOUT_S) as answer:
            return _text(answer, where)
    except HTTPError as error:
        error.close()
        hint = ": start the server with its metrics on (SGLang: --enable-metrics)" if error.code == 404 else ""
        raise CalibrationError(f"{where}: answered {error.code}{hint}") from None
    except (OSError, HTTPException) as error:
        reason = " ".join(str(getattr(error, "reason", error)).split()) or type(error).__name__
        raise CalibrationError(f"{where}: cannot be read: {reason}") from None


def _text(answer: HTTPResponse, where: str) -> str:
    """The text of a response; an error if it is too long."""
    page, begun = bytearray(), time.monotonic()
    while part := answer.read1(2**16):
        page += part
        if time.monotonic() - begun > _TIMEOUT_S:
            raise CalibrationError(f"{where}: takes longer than {_TIMEOUT_S:g} s: this is no page of metrics")
        if len(page) > _MOST_BYTES:
            raise CalibrationError(f"{where}: more than {_MOST_BYTES // 2**20} MiB: this is no page of metrics")
    if answer.length:  # which read1 leaves to its callers
        raise IncompleteRead(bytes(page), answer.length)
    return page.decode("utf-8", "replace")
