"""Real vLLM servers on 127.0.0.1, started for tests and ended with all their processes."""

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

from calibrate import pair
from calibrate.engines.vllm.plugin import VARIABLE
from calibrate.engines.vllm.repair import EXTENSION

__all__ = ["CORES", "NGRAM", "pair_servers", "vllm_server"]

NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
"""The speculative configuration of the server ``fast`` of `pair_servers`."""

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]


@contextmanager
def pair_servers(folder: Path) -> Iterator[dict[str, str]]:
    """Start three servers of the bundled pair at the same time; yield their URLs when all answer.

    ``target`` and ``draft`` have a core of their own where there are two. ``fast`` is the target with n-grams, in a
    cache of 96 blocks of 32 tokens, so that a dozen answers at once fill it.
    """
    target, draft, blocks = pair.target_path(), pair.draft_path(), ["--num-gpu-blocks-override", "96"]
    with (
        vllm_server(target, "target", folder, core=CORES[0]) as target_url,
        vllm_server(draft, "draft", folder, core=CORES[-1]) as draft_url,
        vllm_server(target, "fast", folder, core=CORES[0], speculative=NGRAM, more=blocks) as fast_url,
    ):
        yield {"target": target_url(), "draft": draft_url(), "fast": fast_url()}


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
