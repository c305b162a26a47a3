"""The torch backend: a model in a process of its own, which receives requests as messages.

The process is a fresh interpreter (`subprocess`, not `multiprocessing`: nothing is pickled, the caller's main module is
not imported again, and the environment that torch reads at import can be set) connected by a private socket pair.
Messages are JSON objects, one a line.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

from calibrate.engines.local import LocalConfig, LocalEngine
from calibrate.engines.protocol import Choice, Generation, Likelihood, Progress, Prompt, Request, Times
from calibrate.engines.speculation import Speculation
from calibrate.engines.token_vocabulary import OF_REQUEST, VOCABULARY
from calibrate.engines.torch.cuda.devices import check_device
from calibrate.engines.torch.model import check_model_folder, tokenizer_fingerprint
from calibrate.engines.torch.token_methods.eagle import check_head_folder
from calibrate.engines.work import EngineStatistics
from theory.errors import CalibrationError, ParameterError, check_integers

__all__ = ["TorchConfig", "TorchEngine"]

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
_START_S: Final = 300.0
"""Longest start of a worker, s."""
_DTYPES: Final = ("float32", "bfloat16", "float16")
_LONGEST: Final = 1 << 26
"""Most bytes of a message: statistics have up to 10 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchConfig(LocalConfig):
    """Configuration of a torch engine."""

    n_idle: int = 16
    """Finished sequences whose keys and values are kept for prompts that extend them."""
    speculations: tuple[Speculation, ...] = ()
    """Methods of token-level speculation to load; methods without weights are always available. Only the fields
    ``method`` and ``model`` are used."""

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise ParameterError("dtype", self.dtype, f"must be one of {', '.join(_DTYPES)}")
        check_device(self.device)
        LocalConfig.__post_init__(self)
        check_integers(self, n_idle=1)
        for speculation in self.speculations:
            _check_torch_has(speculation)


def _check_torch_has(speculation: Speculation) -> None:
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


class TorchEngine(LocalEngine):
    """A model in its own process (a `Backend`). Create it with `start`; it belongs to the event loop it started in.

    Raises
    ------
    CalibrationError : from every method, as soon as the process has died, failed or been closed.
    """

    def __init__(self, config: TorchConfig) -> None:
        self.config: TorchConfig = config
        self.popen: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._next_id = 1
        self._error: CalibrationError | None = None
        self._description: dict[str, Any] = {}
        self._owner: asyncio.Task[Any] | None = None
        """The task that started the engine: if it is cancelled, as by Ctrl-C, all is to end soon."""

    @classmethod
    async def start(cls, config: TorchConfig) -> TorchEngine:
        """Start the process, load the model, and return when it is ready.

        Raises
        ------
        CalibrationError : the model folder is missing, incomplete or corrupt, or the process did not start.
        """
        engine = cls(config)
        check_model_folder(config.model)
        engine.encode("")  # a tokenizer that does not load is refused before the process starts
        for one in config.speculations:
            if one.method == "eagle" and one.model is not None:
                check_head_folder(one.model)
            if one.method == "draft" and one.model is not None:
                check_model_folder(one.model)
                if tokenizer_fingerprint(one.model) != engine.tokenizer_id:
                    raise CalibrationError(f"{one.model} cannot draft for this target: its tokenizer is another one")
        try:
            await engine._launch()
        except BaseException:
            await engine.close()
            raise
        return engine

    async def _launch(self) -> None:
        """Start the process, and wait until its model is loaded."""
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
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=_LONGEST)
        self._listening = asyncio.create_task(self._listen(reader))
        answer = self._pending[0] = asyncio.get_running_loop().create_future()
        speculations = [one.to_message() for one in self.config.speculations]
        self._write({**asdict(self.config), "model": str(self.config.model.resolve()), "speculations": speculations})
        try:
            async with asyncio.timeout(_START_S):
                self._description = await answer
        except TimeoutError:
            raise CalibrationError(f"torch engine {self.name!r} was not ready after {_START_S:g} s") from None
        finally:
            del self._pending[0]

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        assert self.popen is not None
        return self.popen.pid

    async def generate(self, request: Request, progress: Progress | None = None) -> Generation:
        """Continue a prompt; see `Backend.generate`.

        Raises
        ------
        ParameterError : the request has a speculation that the engine does not support.
        """
        if request.speculation is not None:
            _check_torch_has(request.speculation)
        result = await self._submit(
            request.prompt,
            progress,
            max_tokens=request.max_tokens,
            stop=request.stop,
            sampling=asdict(request.sampling),
            seed=request.seed,
            ignore_eos=request.ignore_eos,
            speculation=request.speculation.to_message() if request.speculation else None,
        )
        result["token_ids"], result["passes"] = tuple(result["token_ids"]), tuple(map(tuple, result["passes"]))
        return Generation(**result)

    async def choose(self, prompt: Prompt, choices: Sequence[str]) -> Choice:
        """Probabilities of single-token replies; see `Backend.choose`."""
        result = await self._submit(prompt, choices=self._choice_ids(choices))
        return Choice.of_logs(choices, result.pop("logprobs"), **result)

    async def likelihood(self, prompt: Sequence[int], n_scored: int, *, temperature: float = 1.0) -> Likelihood:
        """Log probabilities of a prompt's last tokens; see `calibrate.engines.protocol.TellsLikelihood`."""
        if not 1 <= n_scored < len(prompt):
            raise ParameterError("n_scored", n_scored, f"must be an integer in [1, {len(prompt) - 1}]")
        if not (math.isfinite(temperature) and temperature > 0.0):
            raise ParameterError("temperature", temperature, "must be a finite number > 0")
        result = await self._submit(tuple(prompt), n_scored=n_scored, sampling={"temperature": temperature})
        return Likelihood(**{**result, "logprobs": tuple(result["logprobs"])})

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        """Durations of the latest iterations and prefills; ``clear`` empties the records."""
        return EngineStatistics.from_message(await self._call({"op": "stats", "clear": clear}))

    async def forget(self) -> None:
        """Drop keys and values of requests that have ended."""
        await self._call({"op": "forget"})

    def describe(self) -> Mapping[str, Any]:
        """Model, engine, versions, device, dtype, cores and sizes."""
        return {
            "engine": "torch",
            "name": self.config.name,
            "model": str(self.config.model),
            "tokenizer_id": self.tokenizer_id,
            "speculates_per_request": True,
            **self._description,
        }

    async def close(self) -> None:
        """End the process; requests in flight fail. A second call has no effect."""
        self._fail(CalibrationError(f"torch engine {self.name!r} is closed"))
        if self._listening is not None:
            self._listening.cancel()
        if self._writer is not None and not self._writer.is_closing():
            self._write({"op": "close"})
            self._writer.close()
        if self.popen is not None:
            patience_s = _PATIENCE_S if self._description else 0.0  # while it loads its model it reads no messages
            await asyncio.shield(asyncio.to_thread(_end, self.popen, patience_s))
        if self._output is not None:
            self._output.close()

    async def _submit(self, prompt: Prompt, progress: Progress | None = None, **fields: Any) -> dict[str, Any]:
        """Submit a request, given by fields of a `Job`, and return its result; a cancellation's effect is awaited."""
        number = self._next_id
        answer = self._send({"op": "submit", "prompt": list(self._ids(prompt)), **fields})
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
        queued, started, first, end = result["times"]
        times = Times(queued=queued, prefill_start=started, first_token=first, end=end)
        return {**result, "times": times}

    async def _call(self, message: dict[str, Any]) -> dict[str, Any]:
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
        assert self._writer is not None
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def _abort(self, number: int, answer: asyncio.Future[dict[str, Any]]) -> int:
        """Abort a request; return its number of generated tokens. No effect if the engine has ended.

        A worker reads messages between passes. Where a pass does not end and all is to end, it is killed.
        """
        if answer.done() and not answer.cancelled():  # it finished at the moment of its cancellation
            return 0 if answer.exception() else int(answer.result().get("n_generated", 0))
        if self._error is not None or self._writer is None or self._writer.is_closing():
            return 0
        end = self._pending[number] = asyncio.get_running_loop().create_future()
        self._write({"op": "abort", "id": number})
        while not (await asyncio.wait([end], timeout=_PATIENCE_S))[0]:
            if self._owner is not None and self._owner.cancelling() and self.popen is not None:
                self.popen.kill()
                self._fail(CalibrationError(f"torch engine {self.name!r} did not answer and was killed"))
        try:
            return int((await end).get("n_generated", 0))
        except CalibrationError:
            return 0

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Hand the worker's messages to those who wait for them, until it ends; then tell them why it has ended."""
        with suppress(ConnectionError, ValueError):  # the latter: it died as it wrote
            async for line in reader:
                message = json.loads(line)
                op, future = message.pop("op"), self._pending.get(message.pop("id", 0))
                if op == "fatal":
                    self._fail(CalibrationError(f"torch engine {self.name!r} failed: {message['message']}"))
                elif future is None or future.done():
                    continue  # finished at the moment of its abort
                elif op == "error":
                    said = f"torch engine {self.name!r} refused: {message['message']}"
                    future.set_exception(CalibrationError(said))
                else:
                    future.set_result(message)
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
        self._fail(CalibrationError(f"torch engine {self.name!r} (pid {process.pid}) {how}{last}"))

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
