"""A real vLLM server on 127.0.0.1, started for a test and ended with all its processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from calibrate.engines.vllm.plugin import VARIABLE
from calibrate.engines.vllm.repair import EXTENSION

__all__ = ["vllm_server"]


@contextmanager
def vllm_server(
    model: Path,
    name: str,
    folder: Path,
    *,
    core: int,
    speculative: Mapping[str, Any] | None = None,
    more: Sequence[str] = (),
) -> Iterator[Callable[[], str]]:
    """Start a server; yield what waits until it answers and returns its URL. Its output goes to ``folder``.

    ``more`` are further words of its command line.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    words += ["--model", str(model), "--served-model-name", name, "--host", "127.0.0.1", "--port", str(port)]
    words += ["--dtype", "float32", "--max-model-len", "1024", "--max-num-seqs", "16", "--block-size", "32"]
    words += ["--enforce-eager", "--enable-prefix-caching", "--generation-config", "vllm"]
    words += ["--worker-extension-cls", EXTENSION, *more]
    if speculative is not None:
        words += ["--speculative-config", json.dumps(speculative), "--per-request-spec-decode-metrics", "detailed"]
    environment = {
        **os.environ,
        VARIABLE: "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": str(core),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS": "1",
    }
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, env=environment, start_new_session=True)
    try:
        yield lambda: _answering(process, port, log)
    finally:
        _end(process)


def _answering(process: subprocess.Popen[bytes], port: int, log: Path, seconds: float = 600.0) -> str:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            if answer.status == 200:
                return f"http://127.0.0.1:{port}/v1"
        time.sleep(0.5)
    raise RuntimeError(f"the server did not come up:\n{log.read_text(errors='replace')[-3000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server's process group, gently first."""
    for sign, seconds in ((signal.SIGTERM, 15.0), (signal.SIGKILL, 15.0)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    # The group is the session's: its last process has ended when there is nobody left to signal.
    until = time.monotonic() + 15.0
    while time.monotonic() < until:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
