"""Processes that a test waits for, though it did not start them."""

import time
from collections.abc import Iterable

import psutil


def wait_until_gone(processes: Iterable[psutil.Process], seconds: float = 30.0) -> None:
    """Return when all have ended; not every system reaps those whose parent has."""
    limit = time.monotonic() + seconds
    while left := [one for one in processes if not _gone(one)]:
        assert time.monotonic() < limit, left
        time.sleep(0.1)


def _gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
