"""The process that holds a torch model: ``python -m calibrate.engines.torch.worker FD`` with a socket inherited as FD.

It reads its configuration from the socket, loads the model, and then alternates between messages and forward passes. It
ends on a message, when the socket closes (its parent died), or with a ``fatal`` message after an error.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import select
import signal
import socket
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrate.engines.protocol import Sampling
from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.cuda.devices import check_room, opened_device
from calibrate.engines.torch.job import SPARE, Job, Limits
from calibrate.engines.torch.model import check_model_folder, load_model, load_tokenizer, memory_of
from theory.errors import CalibrationError, SpecplanError

if TYPE_CHECKING:
    import torch

    from calibrate.engines.torch.batch import ContinuousBatch
    from calibrate.engines.torch.decoder import Decoder
    from calibrate.engines.torch.token_methods.protocol import TokenMethod

__all__ = ["main"]

_READ: Final = 1 << 20


class _ClosedError(Exception):
    """The parent closed the connection or sent the message to end."""


class Worker:
    """The loop between a socket and an engine."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._unread = b""
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._batch: ContinuousBatch | None = None

    def configure(self) -> None:
        """Read the configuration, load the model, send its description."""
        while self._batch is None:
            for config in self._received():
                self._batch, description = _load(config)
                gc.collect()
                gc.freeze()  # the model's objects never become garbage: exclude them from later collections
                self._send({"op": "ready", **description})

    def run(self) -> None:
        """Serve until the message to end."""
        batch = self._batch
        assert batch is not None
        while True:
            if self._poll.poll(0 if batch.busy else None):
                for message in self._received():
                    self._handle(batch, message)
            if batch.busy:
                for job in batch.advance():
                    self._send(_result(job))

    def fail(self, message: str) -> None:
        """Send the parent the reason why this process ends, if it still reads."""
        try:
            self._send({"op": "fatal", "message": message})
        except OSError:
            return

    def _received(self) -> Iterator[dict[str, Any]]:
        """Wait for data; yield the messages that they complete."""
        data = self._socket.recv(_READ)
        if not data:
            raise _ClosedError
        *lines, self._unread = (self._unread + data).split(b"\n")
        yield from map(json.loads, lines)

    def _send(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _handle(self, batch: ContinuousBatch, message: dict[str, Any]) -> None:
        op, number = message.pop("op"), message.get("id", 0)
        if op == "submit":
            try:
                batch.submit(_job(message))
            except ValueError as error:
                self._send({"op": "error", "id": number, "message": str(error)})
        elif op == "abort":
            job = batch.abort(number)  # None: it ended before the abort arrived, and its result is on the way
            self._send({"op": "aborted", "id": number, "n_generated": len(job.tokens) if job else 0})
        elif op == "stats":
            self._send({"op": "stats", "id": number, **batch.work.statistics(clear=message["clear"]).to_message()})
        elif op == "forget":
            batch.forget()
            self._send({"op": "forgot", "id": number})
        elif op == "close":
            raise _ClosedError


def _job(request: dict[str, Any]) -> Job:
    """A request from a message with the fields of `Job`; missing fields have their defaults."""
    sampling, speculation = Sampling(**request.pop("sampling", {})), request.pop("speculation", None)
    drafted = Speculation.from_message(speculation) if speculation else None
    return Job(**request, sampling=sampling, speculation=drafted, queued=time.monotonic())


def _result(job: Job) -> dict[str, Any]:
    """A message with the fields of the request's result."""
    result: dict[str, Any] = {
        "op": "done",
        "id": job.id,
        "times": [job.queued, job.prefill_start, job.prefill_end, job.end],
        "n_prompt_tokens": len(job.prompt),
        "n_cached_tokens": job.n_cached,
    }
    if job.n_scored or job.choices:
        return {**result, "logprobs": job.logprobs}
    own = ("text", "n_generated", "finish", "passes")
    return {**result, "token_ids": job.tokens, **{name: getattr(job, name) for name in own}}


def _load(config: dict[str, Any]) -> tuple[ContinuousBatch, dict[str, Any]]:
    cores = config["cores"]
    if cores:
        os.sched_setaffinity(0, cores)
    folder = Path(config["model"])
    positions = int(check_model_folder(folder)["max_position_embeddings"])  # before torch, which takes seconds
    import torch
    import transformers

    from calibrate.engines.torch.batch import ContinuousBatch
    from calibrate.engines.torch.decoder import Decoder

    torch.set_num_threads(len(cores) if cores else len(os.sched_getaffinity(0)))
    torch.set_num_interop_threads(1)
    device = opened_device(config["device"])
    dtype = getattr(torch, config["dtype"])
    max_context = min(config["max_context"] or 4096, positions)
    limits = Limits(max_batch=config["max_batch"], n_idle=config["n_idle"], max_context=max_context)
    speculations = [Speculation.from_message(message) for message in config["speculations"]]
    with_weights = [one for one in speculations if one.source]  # a batch always has methods without weights
    _check_memory([folder, *(Path(one.source) for one in with_weights)], limits, device, dtype.itemsize)
    model = load_model(folder, dtype=dtype, device=device)
    decoder = Decoder(model, limits.max_context + SPARE)
    methods: dict[tuple[str, str], TokenMethod] = {
        (one.method, one.source): _load_method(one, decoder, limits) for one in with_weights
    }
    batch = ContinuousBatch(decoder, load_tokenizer(folder), _eos_ids(model), limits, methods)
    return batch, {
        "architecture": model.config.architectures[0] if model.config.architectures else type(model).__name__,
        "n_parameters": decoder.n_parameters,
        "n_layers": decoder.n_layers,
        "vocab_size": decoder.vocab_size,
        "max_context": limits.max_context,
        "max_batch": limits.max_batch,
        "cache_bytes": batch.cache.max_bytes,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "gpus": [device.index] if device.type == "cuda" else None,
        "dtype": config["dtype"],
        "cores": sorted(os.sched_getaffinity(0)),
        "n_threads": torch.get_num_threads(),
        "pid": os.getpid(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }


def _check_memory(folders: list[Path], limits: Limits, device: torch.device, number_bytes: int) -> None:
    """Refuse models that do not fit into a GPU together, before their weights are read, which may take minutes."""
    weights, per_token = (sum(sizes) for sizes in zip(*(memory_of(one, number_bytes) for one in folders), strict=True))
    check_room(device, weights, per_token, limits.max_batch + limits.n_idle, limits.max_context + SPARE)


def _load_method(speculation: Speculation, target: Decoder, limits: Limits) -> TokenMethod:
    """Load the weights of a method of token-level speculation; add new methods with weights here."""
    from calibrate.engines.torch.decoder import Decoder
    from calibrate.engines.torch.token_methods.draft_model import DraftModel
    from calibrate.engines.torch.token_methods.eagle import EagleHead, load_head

    folder, positions = Path(speculation.source), limits.max_context + SPARE
    if speculation.method == "eagle":
        return EagleHead(load_head(folder, target, positions), limits, limits.max_context)
    model = load_model(folder, dtype=target.dtype, device=target.device)
    if model.config.vocab_size != target.vocab_size:
        sizes = f"{model.config.vocab_size} tokens, the target {target.vocab_size}"
        raise CalibrationError(f"{folder} cannot draft for this target: its vocabulary has {sizes}")
    return DraftModel(Decoder(model, positions), limits, int(model.config.max_position_embeddings))


def _eos_ids(model: Any) -> frozenset[int]:
    """End-of-text ids by the generation settings (a chat model often has several), else by the configuration."""
    for settings in (getattr(model, "generation_config", None), model.config):
        ids = getattr(settings, "eos_token_id", None)
        if ids is not None:
            return frozenset([ids] if isinstance(ids, int) else ids)
    return frozenset()


def main() -> None:
    """Serve on the socket whose descriptor is the only argument."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends them
    worker = Worker(socket.socket(fileno=int(sys.argv[1])))
    code = 0
    try:
        worker.configure()
        worker.run()
    except (_ClosedError, ConnectionError):
        pass
    except SpecplanError as error:
        worker.fail(str(error))
        code = 1
    except BaseException as error:  # any error is reported to the parent before this process ends
        text = " ".join(str(error).split())[:300]
        worker.fail(f"{type(error).__name__}: {text}" if text else type(error).__name__)
        code = 1
    sys.stdout.flush()
    os._exit(code)  # skips the exit of torch's thread pools, which may hang


if __name__ == "__main__":
    main()
