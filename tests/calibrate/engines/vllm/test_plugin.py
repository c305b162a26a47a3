"""vLLM's processes doze while they wait only where that was asked for; vLLM itself is not needed to see it."""

import os
import subprocess
import sys
import threading
import time
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

import psutil
import pytest
from processes import wait_until_gone

from calibrate.engines.vllm.plugin import PARENT, VARIABLE, register

NAME = "vllm.distributed.device_communicators"


def _wait(self: Any, timeout_ms: int | None = None) -> None:
    self.notified = timeout_ms


@pytest.fixture
def shm_broadcast(monkeypatch: pytest.MonkeyPatch) -> Any:
    found: Any = ModuleType(f"{NAME}.shm_broadcast")
    found.sched_yield = "vLLM's own"
    found.SpinCondition = type("SpinCondition", (), {"wait": _wait})
    names = ("vllm", "vllm.distributed", NAME)
    modules: dict[str, Any] = {name: ModuleType(name) for name in names}
    modules[NAME].shm_broadcast = found
    for name, module in {**modules, f"{NAME}.shm_broadcast": found}.items():
        monkeypatch.setitem(sys.modules, name, module)
    return found


@pytest.mark.parametrize("value", ["", "0"])
def test_nothing_is_changed_unasked(monkeypatch: pytest.MonkeyPatch, shm_broadcast: Any, value: str) -> None:
    monkeypatch.setenv(VARIABLE, value)
    register()
    assert shm_broadcast.sched_yield == "vLLM's own"
    assert shm_broadcast.SpinCondition.wait is _wait


def test_the_longer_a_reader_has_waited_the_longer_it_dozes(
    monkeypatch: pytest.MonkeyPatch, shm_broadcast: Any
) -> None:
    """At most 2 % late and 2 ms; after vLLM's busy phase, its own wait for a notification."""
    monkeypatch.setenv(VARIABLE, "1")
    register()
    register()
    dozed: list[float] = []
    monkeypatch.setattr("calibrate.engines.vllm.plugin.time.sleep", dozed.append)
    monkeypatch.setattr("calibrate.engines.vllm.plugin.time.monotonic", lambda: 100.0)
    shm_broadcast.sched_yield()
    reader = shm_broadcast.SpinCondition()
    reader.busy_loop_s = 1.0
    for waited in (0.0, 0.01, 0.05, 0.9, 1.1):
        reader.last_read = 100.0 - waited
        reader.wait(7)
    assert dozed == pytest.approx([2e-5, 2e-5, 2e-4, 1e-3, 2e-3])
    assert reader.notified == 7


CHILD = """
import time
from calibrate.engines.vllm import plugin
plugin._WATCH_S = 0.05
plugin.register()
plugin.register()
print("watching", flush=True)
time.sleep(60)
"""
STARTS = f"""
import os, subprocess, sys, time
environment = {{**os.environ, "{PARENT}": str(os.getpid())}}
print(subprocess.Popen([sys.executable, "-c", {CHILD!r}], env=environment).pid, flush=True)
time.sleep(60)
"""


def test_an_engine_ends_with_the_process_that_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert parent.stdout.readline() == "watching\n"
        time.sleep(0.2)
        assert child.is_running()
        parent.kill()
        wait_until_gone([child])


def test_others_do_not_end_with_their_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of somebody's own, and the process that starts an engine."""
    before = threading.active_count()
    for value in ("", str(os.getpid())):
        monkeypatch.setenv(PARENT, value)
        register()
    assert threading.active_count() == before


def test_vllm_finds_it() -> None:
    (entry,) = entry_points(group="vllm.general_plugins", name="specplan")
    assert entry.load() is register
