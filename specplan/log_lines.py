"""Lines on a log while something long runs, where there is no terminal for a bar: how far it is, and for how long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import click

__all__ = ["lines_on_log"]

_EVERY_S: Final = 15.0
"""Between two lines, s."""


class _Latest:
    """What is known of the work that runs."""

    def __init__(self) -> None:
        self.text = ""

    def set(self, text: str) -> None:
        """Replace what the next line says."""
        self.text = text


_LATEST: Final[ContextVar[_Latest | None]] = ContextVar("latest", default=None)


@contextmanager
def lines_on_log(name: str) -> Iterator[Callable[[str], None]]:
    """Print a line on stderr from time to time while the body runs, unless stderr is a terminal.

    Within another such work the lines stay that work's, and say how far the inner one is.

    Parameters
    ----------
    name : of the work, with which lines begin.

    Yields
    ------
    A function to call with how far the work is; the next line has it.
    """
    if sys.stderr.isatty():
        yield lambda text: None
        return
    if (outer := _LATEST.get()) is not None:
        try:
            yield lambda text: outer.set(f"{name}: {text}")
        finally:
            outer.set("")
        return
    latest, over, began = _Latest(), threading.Event(), time.monotonic()

    def tell() -> None:
        while not over.wait(_EVERY_S):
            minutes, seconds = divmod(round(time.monotonic() - began), 60)
            click.echo(f"{name}: {minutes}:{seconds:02d}{f', {latest.text}' if latest.text else ''}", err=True)

    token, thread = _LATEST.set(latest), threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield latest.set
    finally:
        over.set()
        thread.join()
        _LATEST.reset(token)
