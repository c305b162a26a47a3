"""Coroutines from plain code, in notebooks too."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["finished"]

T = TypeVar("T")


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns; where a loop runs already, as in a notebook, from a thread of its own.

    >>> async def two():
    ...     return 2
    >>> finished(two())
    2
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()
