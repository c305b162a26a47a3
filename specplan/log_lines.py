"""Lines on a log while something long runs, where there is no terminal for a bar: how far it is, and for how long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import click

__all__ = ["lines_on_log", "news"]

_EVERY_S: Final = 15.0
"""Between two lines, s."""


class _Latest:
    """What is known of the work that runs."""

    def __init__(self) -> None:
        self.text = ""


_LATEST: Final[ContextVar[_Latest | None]] = ContextVar("latest", default=None)


def news(text: str) -> None:
    """Say how far the work is; the next line has it. Without `lines_on_log` nothing happens."""
    if (latest := _LATEST.get()) is not None:
        latest.text = text


@contextmanager
def lines_on_log(name: str, *, every_s: float = _EVERY_S) -> Iterator[None]:
    """Print a line on stderr from time to time while the body runs, unless stderr is a terminal.

    Parameters
    ----------
    name : of the work, with which lines begin.
    every_s : seconds between lines, > 0.
    """
    if sys.stderr.isatty():
        yield
        return
    latest, over, began = _Latest(), threading.Event(), time.monotonic()

    def tell() -> None:
        while not over.wait(every_s):
            minutes, seconds = divmod(round(time.monotonic() - began), 60)
            click.echo(f"{name}: {minutes}:{seconds:02d}{f', {latest.text}' if latest.text else ''}", err=True)

    token, thread = _LATEST.set(latest), threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        _LATEST.reset(token)
