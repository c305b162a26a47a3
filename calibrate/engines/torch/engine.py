"""The torch backend: a model in a process of its own, which receives requests as messages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from calibrate.engines.local import LocalEngine
from calibrate.engines.protocol import Choice, Generation, Likelihood, Progress, Prompt, Request, Times
from calibrate.engines.torch.model import check_model_folder, tokenizer_fingerprint
from calibrate.engines.torch.process import TorchConfig, WorkerProcess, check_torch_has
from calibrate.engines.torch.token_methods.eagle import check_head_folder
from calibrate.engines.work import EngineStatistics
from theory.errors import CalibrationError, ParameterError

__all__ = ["TorchConfig", "TorchEngine"]


class TorchEngine(LocalEngine):
    """A model in its own process (a `Backend`). Create it with `start`; it belongs to the event loop it started in.

    Raises
    ------
    CalibrationError : from every method, as soon as the process has died, failed or been closed.
    """

    def __init__(self, config: TorchConfig) -> None:
        self.config: TorchConfig = config
        self.process = WorkerProcess(config)
        self._description: dict[str, Any] = {}

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
            engine._description = await engine.process.launch()
        except BaseException:
            await engine.close()
            raise
        return engine

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        assert self.process.popen is not None
        return self.process.popen.pid

    async def generate(self, request: Request, progress: Progress | None = None) -> Generation:
        """Continue a prompt; see `Backend.generate`.

        Raises
        ------
        ParameterError : the request has a speculation that the engine does not support.
        """
        if request.speculation is not None:
            check_torch_has(request.speculation)
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

    async def _submit(self, prompt: Prompt, progress: Progress | None = None, **fields: Any) -> dict[str, Any]:
        """Fields of a request's result, the times among them."""
        result = await self.process.submit({"prompt": list(self._ids(prompt)), **fields}, progress)
        queued, started, read, first, end = result["times"]
        times = Times(queued=queued, prefill_start=started, prefill_end=read, first_token=first, end=end)
        return {**result, "times": times}

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        """Durations of the latest iterations and prefills; ``clear`` empties the records."""
        return EngineStatistics.from_message(await self.process.call({"op": "stats", "clear": clear}))

    async def forget(self) -> None:
        """Drop keys and values of requests that have ended."""
        await self.process.call({"op": "forget"})

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
        await self.process.close()
