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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from calibrate import pair
from calibrate.engines.vllm.plugin import VARIABLE
from calibrate.engines.vllm.repair import EXTENSION

NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
"""The speculative configuration of the server ``fast`` of `pair_servers`."""

TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n\n{% endfor %}"
"""The chat template of the server ``target``: the bundled models have none."""

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]


@contextmanager
def pair_servers(folder: Path) -> Iterator[dict[str, str]]:
    """Start three servers of the bundled pair at the same time; yield their URLs when all answer.

    ``target`` and ``draft`` have a core of their own where there are two. ``fast`` is the target with n-grams, in a
    cache of 96 blocks of 32 tokens, so that a dozen answers at once fill it.
    """
    target, draft, blocks = pair.target_path(), pair.draft_path(), ["--num-gpu-blocks-override", "96"]
    template = folder / "template.jinja"
    template.write_text(TEMPLATE)
    with (
        vllm_server(target, "target", folder, core=CORES[0], more=["--chat-template", str(template)]) as target_url,
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
) -> Iterator[VllmServer]:
    """Start a server, and end it at the end of the block. Its output goes to ``folder``.

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
    server = VllmServer(words, environment, port, folder / f"{name}.log")
    try:
        yield server
    finally:
        server.end()


class VllmServer:
    """A server; called, it waits until it answers, and returns its URL."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], port: int, log: Path) -> None:
        self._words = words
        self._environment = environment
        self._port = port
        self._log = log
        self.start()

    def start(self) -> None:
        """Start it, also again after its end."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._words, stdout=output, stderr=output, env=self._environment, start_new_session=True
            )

    def __call__(self, seconds: float = 600.0) -> str:
        until = time.monotonic() + seconds
        url = f"http://127.0.0.1:{self._port}"
        while time.monotonic() < until and self._process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return f"{url}/v1"
            time.sleep(0.5)
        raise RuntimeError(f"the server did not come up:\n{self._log.read_text(errors='replace')[-3000:]}")

    def signal(self, sign: int) -> None:
        """Send a signal to all its processes: they have a session of their own."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, sign)

    def end(self, *, gently: bool = True) -> None:
        """End all its processes, by SIGTERM first if ``gently``."""
        for sign in (signal.SIGTERM, signal.SIGKILL)[not gently :]:
            self.signal(sign)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(15.0)
        # The last process of the group has ended when there is nobody left to signal.
        until = time.monotonic() + 15.0
        while time.monotonic() < until:
            try:
                os.killpg(self._process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.1)
