"""The torch backend as its user sees it: starts a worker process, sends it requests, and never waits for a dead one.

The worker is a fresh interpreter (`subprocess`, not `multiprocessing`: nothing is pickled, the caller's main module is
not imported again, and the environment that torch reads at import can be set) connected by a private socket pair.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

from calibrate.engines.choosing import choice_ids, shares
from calibrate.engines.protocol import (
    GREEDY,
    Choice,
    EngineStatistics,
    Generation,
    Progress,
    Prompt,
    Request,
    Times,
    TokenLogprobs,
)
from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.config import TorchConfig, check_torch_has
from calibrate.engines.torch.framing import Frames, encode
from calibrate.engines.torch.likelihood import Likelihood
from calibrate.engines.torch.model import check_model_folder, load_tokenizer, tokenizer_fingerprint
from calibrate.engines.torch.token_methods.eagle_head import check_head_folder
from theory.errors import CalibrationError, ParameterError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["TorchConfig", "TorchEngine"]

_Answer: TypeAlias = "tuple[dict[str, Any], array[int]]"
_ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TQDM_DISABLE": "1",
}


class _Link(asyncio.Protocol):
    """The parent's end of the socket: turns bytes into messages for the engine."""

    def __init__(self, engine: TorchEngine) -> None:
        self._engine = engine
        self._frames = Frames()

    def data_received(self, data: bytes) -> None:
        for header, ids in self._frames.feed(data):
            self._engine._on_message(header, ids)

    def connection_lost(self, exc: Exception | None) -> None:
        self._engine._on_lost()


class TorchEngine:
    """A model in a process of its own (a `Backend`). Make one with `start`; it belongs to the event loop it started in.

    Raises
    ------
    CalibrationError : from every method, as soon as the process has died, failed or been closed.
    """

    def __init__(self, config: TorchConfig) -> None:
        self.config = config
        self._tokenizer: Tokenizer | None = None
        self._tokenizer_id: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._pending: dict[int, asyncio.Future[_Answer]] = {}
        self._next_id = 1
        self._error: CalibrationError | None = None
        self._description: dict[str, Any] = {}
        self._closing = False
        self._lost: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, config: TorchConfig) -> TorchEngine:
        """Start the process, load the model, and return when it is ready.

        Raises
        ------
        CalibrationError : the model folder is missing, incomplete or corrupt, or the process did not come up.
        """
        engine = cls(config)
        if config.model is not None:
            check_model_folder(config.model)
            engine._tokenizer = load_tokenizer(config.model)
            engine._tokenizer_id = tokenizer_fingerprint(config.model)
        for speculation in config.speculations:
            _check_drafts(speculation, engine._tokenizer_id)
        try:
            await engine._launch()
        except BaseException:
            await engine.close()
            raise
        return engine

    @property
    def name(self) -> str:
        """The configured name."""
        return self.config.name

    @property
    def tokenizer_id(self) -> str | None:
        """Hash of ``tokenizer.json``; None for random weights, which understand ids only."""
        return self._tokenizer_id

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        assert self._process is not None
        return self._process.pid

    async def generate(self, request: Request, progress: Progress | None = None) -> Generation:
        """Continue a prompt; see `Backend.generate`.

        Raises
        ------
        ParameterError : the request asks for speculation that torch engines have not.
        """
        if request.speculation is not None:
            check_torch_has(request.speculation)
        header, ids = await self._ask(
            {
                "max_tokens": request.max_tokens,
                "stop": request.stop,
                "temperature": request.sampling.temperature,
                "top_p": request.sampling.top_p,
                "seed": request.seed,
                "n_logprobs": request.n_logprobs,
                "ignore_eos": request.ignore_eos,
                "choices": (),
                "speculation": request.speculation.to_message() if request.speculation else None,
            },
            self._ids(request.prompt),
            progress,
        )
        return Generation(
            text=header["text"],
            token_ids=tuple(ids),
            n_generated=header["n_generated"],
            finish=header["finish"],
            n_prompt_tokens=header["n_prompt"],
            n_cached_tokens=header["n_cached"],
            n_iterations=header["n_iterations"],
            times=_times(header),
            logprobs=tuple(
                TokenLogprobs(chosen=chosen, top=tuple((i, p) for i, p in top))
                for chosen, top in header.get("logprobs", ())
            ),
            passes=tuple((drafted, accepted) for drafted, accepted in header.get("passes", ())),
        )

    async def choose(self, prompt: Prompt, choices: Sequence[str]) -> Choice:
        """Probabilities of single-token replies; see `Backend.choose`."""
        header, _ = await self._ask({**_QUESTION, "choices": self._choice_ids(choices)}, self._ids(prompt))
        probabilities, mass = shares(header["choice_logprobs"])
        return Choice(
            choices=tuple(choices),
            probabilities=probabilities,
            mass=mass,
            n_prompt_tokens=header["n_prompt"],
            n_cached_tokens=header["n_cached"],
            times=_times(header),
        )

    async def likelihood(self, prompt: Sequence[int], n_scored: int, *, temperature: float = 1.0) -> Likelihood:
        """Log probabilities of a prompt's last tokens; see `calibrate.engines.torch.likelihood.TellsLikelihood`."""
        if not 1 <= n_scored < len(prompt):
            raise ParameterError("n_scored", n_scored, f"must be an integer in [1, {len(prompt) - 1}]")
        if not (math.isfinite(temperature) and temperature > 0.0):
            raise ParameterError("temperature", temperature, "must be a finite number > 0")
        question = {**_QUESTION, "choices": (), "n_scored": n_scored, "temperature": temperature}
        header, _ = await self._ask(question, prompt)
        return Likelihood(
            logprobs=tuple(header["token_logprobs"]),
            n_prompt_tokens=header["n_prompt"],
            n_cached_tokens=header["n_cached"],
            times=_times(header),
        )

    def encode(self, text: str) -> tuple[int, ...] | None:
        """Token ids of a text as the beginning of a prompt; None with random weights."""
        return None if self._tokenizer is None else tuple(self._tokenizer.encode(text).ids)

    async def count_tokens(self, text: str) -> int:
        """Tokens of a text as a prompt."""
        return len(self._ids(text))

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        """Durations of the latest iterations and prefills; ``clear`` starts afresh."""
        header = await self._call({"op": "stats", "clear": clear})
        return EngineStatistics(
            iterations=tuple((b, c, s) for b, c, s in header["iterations"]),
            prefills=tuple((n, c, s) for n, c, s in header["prefills"]),
            n_aborted_tokens=header["n_aborted_tokens"],
            passes=tuple((b, c, rows, n, s, drafting) for b, c, rows, n, s, drafting in header["passes"]),
            iteration_ends=tuple(header["iteration_ends"]),
            prefill_ends=tuple(header["prefill_ends"]),
            pass_ends=tuple(header["pass_ends"]),
        )

    async def forget(self) -> None:
        """Drop keys and values of requests that have ended."""
        await self._call({"op": "forget"})

    def describe(self) -> Mapping[str, Any]:
        """Model, engine, versions, device, dtype, cores and sizes."""
        config = self.config
        return {
            "engine": "torch",
            "name": config.name,
            "model": str(config.model) if config.model is not None else f"random weights of shape {config.shape}",
            "tokenizer_id": self._tokenizer_id,
            "speculates_per_request": True,
            **self._description,
        }

    async def close(self) -> None:
        """End the process; requests in flight fail. Twice does no harm."""
        self._closing = True
        self._fail(CalibrationError(f"torch engine {self.name!r} is closed"))
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode({"op": "close"}))
            self._transport.close()
        if self._process is not None:
            patience_s = 2.0 if self._description else 0.0  # while it loads its model it hears nothing
            await asyncio.shield(asyncio.to_thread(_end, self._process, patience_s))
        if self._output is not None:
            self._output.close()

    async def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "calibrate.engines.torch.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env=_environment(self.config),
            )
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_connection(lambda: _Link(self), sock=ours)
        ready = self._pending[0] = loop.create_future()
        self._transport.write(encode(_start_message(self.config)))
        try:
            async with asyncio.timeout(self.config.start_timeout_s):
                self._description = (await ready)[0]
        except TimeoutError:
            raise CalibrationError(
                f"torch engine {self.name!r} was not ready after {self.config.start_timeout_s:g} s"
            ) from None
        finally:
            del self._pending[0]
        del self._description["op"]

    async def _ask(self, header: dict[str, Any], ids: Iterable[int], progress: Progress | None = None) -> _Answer:
        """Submit a request and wait for its result; a cancellation is passed on, and its effect awaited."""
        number = self._next_id
        answer = self._send({"op": "submit", **header}, ids)
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
            progress.n_generated = result[0].get("n_generated", 0)
        return result

    async def _call(self, header: dict[str, Any]) -> dict[str, Any]:
        number = self._next_id
        try:
            return (await self._send(header, ()))[0]
        finally:
            self._pending.pop(number, None)

    def _send(self, header: dict[str, Any], ids: Iterable[int]) -> asyncio.Future[_Answer]:
        if self._error is not None:
            raise CalibrationError(str(self._error))
        assert self._transport is not None
        number = header["id"] = self._next_id
        self._next_id += 1
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        self._transport.write(encode(header, ids))
        return answer

    async def _abort(self, number: int, answer: asyncio.Future[_Answer]) -> int:
        """Abort a request; return the tokens that it had drawn. If the engine is gone there is nothing to abort."""
        if answer.done() and not answer.cancelled():  # it finished in the moment of its cancellation
            return 0 if answer.exception() else int(answer.result()[0].get("n_generated", 0))
        if self._error is not None or self._transport is None or self._transport.is_closing():
            return 0
        end = self._pending[number] = asyncio.get_running_loop().create_future()
        self._transport.write(encode({"op": "abort", "id": number}))
        try:
            return int((await end)[0].get("n_generated", 0))
        except CalibrationError:
            return 0

    def _ids(self, prompt: Prompt) -> Sequence[int]:
        if not isinstance(prompt, str):
            return prompt
        if self._tokenizer is None:
            raise CalibrationError(f"torch engine {self.name!r} has random weights and no tokenizer: pass token ids")
        return self._tokenizer.encode(prompt).ids

    def _choice_ids(self, choices: Sequence[str]) -> tuple[int, ...]:
        if self._tokenizer is None:
            raise CalibrationError(f"torch engine {self.name!r} has random weights and no tokenizer: it cannot choose")
        return choice_ids(self._tokenizer, choices, self.name)

    def _on_message(self, header: dict[str, Any], ids: array[int]) -> None:
        op = header["op"]
        if op == "fatal":
            self._fail(CalibrationError(f"torch engine {self.name!r} failed: {header['message']}"))
            return
        future = self._pending.get(header.get("id", 0))
        if future is None or future.done():
            return  # finished in the same moment in which it was aborted
        if op == "error":
            future.set_exception(CalibrationError(f"torch engine {self.name!r} refused: {header['message']}"))
        else:
            future.set_result((header, ids))

    def _on_lost(self) -> None:
        if self._error is None and not self._closing:
            self._lost = asyncio.get_running_loop().create_task(self._explain())

    async def _explain(self) -> None:
        """The socket broke without a word: say what became of the process."""
        process = self._process
        assert process is not None
        for _ in range(200):
            if process.poll() is not None:
                break
            await asyncio.sleep(0.005)
        code = process.returncode
        how = "closed its connection" if code is None else f"exited with code {code}"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        self._fail(CalibrationError(f"torch engine {self.name!r} (pid {process.pid}) {how}{self._last_words()}"))

    def _last_words(self) -> str:
        if self._output is None or self._output.closed:
            return ""
        self._output.seek(0)
        lines = [line.strip() for line in self._output.read()[-4000:].decode(errors="replace").splitlines()]
        lines = [line for line in lines if line]
        return f": {lines[-1][:300]}" if lines else ""

    def _fail(self, error: CalibrationError) -> None:
        if self._error is None:
            self._error = error
        for future in self._pending.values():
            if not future.done():
                future.set_exception(CalibrationError(str(self._error)))


_QUESTION: Final[dict[str, Any]] = {
    "max_tokens": 1,
    "stop": (),
    "temperature": GREEDY.temperature,
    "top_p": GREEDY.top_p,
    "seed": 0,
    "n_logprobs": 0,
    "ignore_eos": True,
}


def _check_drafts(speculation: Speculation, tokenizer_id: str | None) -> None:
    """A draft model's ids must mean what the target's mean; a head must be one."""
    if speculation.method == "eagle" and speculation.model is not None:
        check_head_folder(speculation.model)
    if speculation.method == "draft" and speculation.model is not None:
        check_model_folder(speculation.model)
        if tokenizer_id is not None and tokenizer_fingerprint(speculation.model) != tokenizer_id:
            raise CalibrationError(f"{speculation.model} cannot draft for this target: its tokenizer is another one")


def _start_message(config: TorchConfig) -> dict[str, Any]:
    return {
        "model": str(config.model.resolve()) if config.model is not None else None,
        "shape": config.shape,
        "seed": config.seed,
        "device": config.device,
        "dtype": config.dtype,
        "cores": config.cores,
        "max_batch": config.max_batch,
        "n_idle": config.n_idle,
        "max_context": config.max_context,
        "speculations": [speculation.to_message() for speculation in config.speculations],
    }


def _environment(config: TorchConfig) -> dict[str, str]:
    """The worker's environment: ours, offline and quiet, able to import this package, with one thread per core."""
    environment = {**os.environ, **_ENVIRONMENT}
    here = str(Path(__file__).resolve().parents[3])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    if config.cores is not None:
        for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[variable] = str(len(config.cores))
    return environment


def _times(header: dict[str, Any]) -> Times:
    queued, prefill_start, prefill_end, first_token, end = header["times"]
    return Times(queued=queued, prefill_start=prefill_start, prefill_end=prefill_end, first_token=first_token, end=end)


def _end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Wait for a process that was asked to end; kill it when patience is over."""
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
