"""vLLM's offline engine (`vllm.LLM`) in a process of its own: requests one after the other, then ``llm.get_metrics()``.

The counters of a process belong to the engine that was started last in it, so the offline engine runs in a process of
its own. This module is also the program of that process: it reads its task from standard input and writes the counters
to standard output, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from calibrate.engines.protocol import Request, Sampling
from calibrate.engines.torch.model import check_model_folder
from calibrate.engines.vllm.config import VllmConfig
from calibrate.engines.vllm.start import engine_settings, environment_of
from theory.errors import CalibrationError

__all__ = ["Counted", "offline_metrics"]


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter of ``llm.get_metrics()``."""

    name: str
    value: int


def offline_metrics(config: VllmConfig, requests: Sequence[Request], patience_s: float = 900.0) -> list[Counted]:
    """Run requests in an offline engine and return its counters; blocks, about 30 s for the start.

    Parameters
    ----------
    config : configuration of the engine, as of a serving engine, including the repair of its sampling.
    requests : requests to run one after the other, with the sampling of a serving engine.
    patience_s : longest run, s.

    Raises
    ------
    CalibrationError : vLLM is not installed, the engine did not start, failed, or took too long.
    """
    task = json.dumps({"config": asdict(config), "requests": [asdict(one) for one in requests]}, default=str)
    command = [sys.executable, "-P", "-m", "calibrate.engines.vllm.offline"]
    environment = {**os.environ, **environment_of(config)}
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile() as log:
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=log, env=environment, start_new_session=True
        ) as process:
            try:
                out, _ = process.communicate(task.encode(), timeout=patience_s)
            except subprocess.TimeoutExpired:
                raise CalibrationError(f"offline vLLM {config.name!r}: not done after {patience_s:g} s") from None
            finally:
                with suppress(ProcessLookupError):  # the process group, to include the model's process
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise CalibrationError(f"offline vLLM {config.name!r} failed: {said[-1][:300]}")
    return [Counted(name, value) for name, value in json.loads(out)]


def _config(fields: Mapping[str, Any]) -> VllmConfig:
    cores = fields["cores"]
    return VllmConfig(
        **{**fields, "model": Path(fields["model"]), "cores": None if cores is None else tuple(cores)},
    )


def _request(fields: Mapping[str, Any]) -> Request:
    prompt = fields["prompt"] if isinstance(fields["prompt"], str) else tuple(fields["prompt"])
    changed = {"prompt": prompt, "stop": tuple(fields["stop"]), "sampling": Sampling(**fields["sampling"])}
    return Request(**{**fields, **changed})


def _counted(config: VllmConfig, requests: Sequence[Request]) -> list[tuple[str, int]]:
    from vllm import LLM

    from calibrate.engines.vllm.engine import VllmEngine

    unstarted = VllmEngine(config)  # only makes the parameters of requests
    limit = int(check_model_folder(config.model).get("max_position_embeddings", 4096))
    llm = LLM(**{**engine_settings(config, limit), "disable_log_stats": False})
    try:
        for request in requests:
            ids, parameters = unstarted.vllm_request(request)
            llm.generate({"prompt_token_ids": list(ids)}, parameters, use_tqdm=False)
        return [(one.name, one.value) for one in llm.get_metrics() if isinstance(getattr(one, "value", None), int)]
    finally:
        llm.llm_engine.engine_core.shutdown()


def _main() -> None:
    """Run the task; vLLM's own output goes to standard error."""
    results = os.dup(1)
    os.dup2(2, 1)
    task = json.load(sys.stdin)
    counters = _counted(_config(task["config"]), [_request(one) for one in task["requests"]])
    with os.fdopen(results, "w", encoding="utf-8") as out:
        json.dump(counters, out)


if __name__ == "__main__":
    _main()
