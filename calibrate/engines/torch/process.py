"""The process of a torch worker, on the engine's side: configuration, launch, messages, and errors when it dies.

The worker is a fresh interpreter (`subprocess`, not `multiprocessing`: nothing is pickled, the caller's main module is
not imported again, and the environment that torch reads at import can be set) connected by a private socket pair.
Messages are JSON objects, one a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

from calibrate.engines.local import LocalConfig
from calibrate.engines.protocol import Progress
from calibrate.engines.speculation import Speculation
from calibrate.engines.token_vocabulary import OF_REQUEST, VOCABULARY
from calibrate.engines.torch.cuda.devices import check_device
from theory.errors import CalibrationError, ParameterError, check_integers

__all__ = ["TorchConfig", "WorkerProcess", "check_torch_has"]

_ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TQDM_DISABLE": "1",
}
_PATIENCE_S: Final = 2.0
"""What a worker may take to end a request that is to be the last, or to end itself; then it is killed."""
_DTYPES: Final = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchConfig(LocalConfig):
    """Configuration of a torch engine."""

    n_idle: int = 16
    """Finished sequences whose keys and values are kept for prompts that extend them."""
    speculations: tuple[Speculation, ...] = ()
    """Methods of token-level speculation to load; methods without weights are always available. Only the fields
    ``method`` and ``model`` are used."""
    start_timeout_s: float = 300.0

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise ParameterError("dtype", self.dtype, f"must be one of {', '.join(_DTYPES)}")
        check_device(self.device)
        LocalConfig.__post_init__(self)
        check_integers(self, n_idle=1)
        for speculation in self.speculations:
            check_torch_has(speculation)


def check_torch_has(speculation: Speculation) -> None:
    """Refuse speculation that the torch engine does not support, before it starts.

    Raises
    ------
    ParameterError : a method that it does not have (EAGLE-3 heads run on vLLM only), or settings of another engine.
    """
    if not OF_REQUEST[speculation.method].torch:
        names = ", ".join(terms.requested for terms in VOCABULARY if terms.torch)
        rule = f"must be one of {names} on torch engines; heads of EAGLE-3 run on vLLM engines"
        raise ParameterError("method", speculation.method, rule)
    if speculation.extra:
        raise ParameterError("extra", dict(speculation.extra), "must be empty: these are settings of vLLM")


class WorkerProcess(asyncio.Protocol):
    """A worker, and the parent's end of the socket to it; it belongs to the event loop that it was launched in.

    Raises
    ------
    CalibrationError : from every method, as soon as the process has died, failed or been closed.
    """

    def __init__(self, config: TorchConfig) -> None:
        self.config = config
        self.popen: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._output: IO[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._next_id = 1
        self._error: CalibrationError | None = None
        self._ready = self._closing = False
        self._explanation: asyncio.Task[None] | None = None
        self._owner: asyncio.Task[Any] | None = None
        """The task that started the engine: if it is cancelled, as by Ctrl-C, all is to end soon."""

    async def launch(self) -> dict[str, Any]:
        """Start the process and load its model; return its description."""
        self._owner = asyncio.current_task()
        ours, theirs = socket.socketpair()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        with theirs:
            self.popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "calibrate.engines.torch.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env=_environment(self.config),
            )
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_connection(lambda: self, sock=ours)
        answer = self._pending[0] = loop.create_future()
        speculations = [one.to_message() for one in self.config.speculations]
        start = {**asdict(self.config), "model": str(self.config.model.resolve()), "speculations": speculations}
        self._write(start)
        try:
            async with asyncio.timeout(self.config.start_timeout_s):
                description = await answer
        except TimeoutError:
            limit = f"{self.config.start_timeout_s:g} s"
            raise CalibrationError(f"torch engine {self.config.name!r} was not ready after {limit}") from None
        finally:
            del self._pending[0]
        self._ready = True
        return description

    async def close(self) -> None:
        """End the process; requests in flight fail. A second call has no effect."""
        self._closing = True
        self._fail(CalibrationError(f"torch engine {self.config.name!r} is closed"))
        if self._transport is not None and not self._transport.is_closing():
            self._write({"op": "close"})
            self._transport.close()
        if self.popen is not None:
            patience_s = _PATIENCE_S if self._ready else 0.0  # while it loads its model it reads no messages
            await asyncio.shield(asyncio.to_thread(_end, self.popen, patience_s))
        if self._output is not None:
            self._output.close()

    async def submit(self, request: dict[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        """Submit a request and wait for its result; a cancellation is passed on, and its effect awaited.

        Parameters
        ----------
        request : fields of a `calibrate.engines.torch.job.Job`.
        """
        number = self._next_id
        answer = self._send({"op": "submit", **request})
        try:
            result = await answer
        except asyncio.CancelledError:
            n_generated = await self._abort(number, answer)
            if progress is not None:
                progress.n_generated = n_generated
            raise
        finally:
            self._pending.pop(number, None)
        if progress is not None:
            progress.n_generated = result.get("n_generated", 0)
        return result

    async def call(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message other than a request, and wait for the reply."""
        number = self._next_id
        try:
            return await self._send(message)
        finally:
            self._pending.pop(number, None)

    def _send(self, message: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        if self._error is not None:
            raise CalibrationError(str(self._error))
        number = self._next_id
        self._next_id += 1
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        self._write({**message, "id": number})
        return answer

    def _write(self, message: dict[str, Any]) -> None:
        assert self._transport is not None
        self._transport.write(json.dumps(message).encode() + b"\n")

    async def _abort(self, number: int, answer: asyncio.Future[dict[str, Any]]) -> int:
        """Abort a request; return its number of generated tokens. No effect if the engine has ended.

        A worker reads messages between passes. Where a pass does not end and all is to end, it is killed.
        """
        if answer.done() and not answer.cancelled():  # it finished at the moment of its cancellation
            return 0 if answer.exception() else int(answer.result().get("n_generated", 0))
        if self._error is not None or self._transport is None or self._transport.is_closing():
            return 0
        end = self._pending[number] = asyncio.get_running_loop().create_future()
        self._write({"op": "abort", "id": number})
        while not (await asyncio.wait([end], timeout=_PATIENCE_S))[0]:
            if self._owner is not None and self._owner.cancelling() and self.popen is not None:
                self.popen.kill()
                self._fail(CalibrationError(f"torch engine {self.config.name!r} did not answer and was killed"))
        try:
            return int((await end).get("n_generated", 0))
        except CalibrationError:
            return 0

    def data_received(self, data: bytes) -> None:
        """Handle messages of the worker; called by asyncio."""
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            op, future = message.pop("op"), self._pending.get(message.pop("id", 0))
            if op == "fatal":
                self._fail(CalibrationError(f"torch engine {self.config.name!r} failed: {message['message']}"))
            elif future is None or future.done():
                continue  # finished at the moment of its abort
            elif op == "error":
                said = f"torch engine {self.config.name!r} refused: {message['message']}"
                future.set_exception(CalibrationError(said))
            else:
                future.set_result(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all requests with the reason why the worker has ended; called by asyncio."""
        if self._error is None and not self._closing:
            self._explanation = asyncio.get_running_loop().create_task(self._explain())

    async def _explain(self) -> None:
        """The socket closed without a message: return an error with the exit status of the process."""
        process = self.popen
        assert process is not None
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(process.wait, 1.0)
        code = process.returncode
        how = "closed its connection" if code is None else f"exited with code {code}"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        last = ""
        if self._output is not None and not self._output.closed:
            self._output.seek(0)
            lines = self._output.read()[-4000:].decode(errors="replace").splitlines()
            last = next((f": {line.strip()[:300]}" for line in reversed(lines) if line.strip()), "")
        self._fail(CalibrationError(f"torch engine {self.config.name!r} (pid {process.pid}) {how}{last}"))

    def _fail(self, error: CalibrationError) -> None:
        if self._error is None:
            self._error = error
        for future in self._pending.values():
            if not future.done():
                future.set_exception(CalibrationError(str(self._error)))


def _environment(config: TorchConfig) -> dict[str, str]:
    """The worker's environment: that of this process, offline, without progress bars, with a thread per core."""
    environment = {**os.environ, **_ENVIRONMENT}
    here = str(Path(__file__).resolve().parents[3])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    if config.cores is not None:
        for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[variable] = str(len(config.cores))
    return environment


def _end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Wait until a process that was sent its end has ended; kill it after ``patience_s``.

    A driver may take long to end a killed process of a GPU: that is not waited for.
    """
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S)
