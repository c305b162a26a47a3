"""The vLLM backend: a model served by vLLM's engine (`AsyncLLM`) that this process starts and ends.

Prompts are passed as token ids, so that generated text is continued with the same tokens. Tokens that contain a whole
stop string end a request inside the engine; the stop string is also passed as text, for stop strings spread over
several tokens. vLLM detects those outside of its core, which then runs another iteration and keeps no record of the
request's speculation. Times are those of the core, on the machine's monotonic clock.

vLLM speculates for all requests of an engine or for none: each speculation that requests have gets an engine of its
own. All of them run on the same cores, so a measurement lets only one of them work at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from calibrate.engines.local import LocalEngine
from calibrate.engines.protocol import Choice, Finish, Generation, Progress, Prompt, Request, Sampling, Times
from calibrate.engines.speculation import Speculation
from calibrate.engines.stop_strings import StopFinder
from calibrate.engines.torch.model import check_model_folder
from calibrate.engines.vllm.config import VllmConfig, speculative_of
from calibrate.engines.vllm.recorder import Active, Recorder
from calibrate.engines.vllm.start import described, end, engine_settings, processes_of, start
from calibrate.engines.work import EngineStatistics
from theory.errors import CalibrationError, ParameterError

if TYPE_CHECKING:
    from vllm.outputs import CompletionOutput, RequestOutput
    from vllm.sampling_params import SamplingParams
    from vllm.v1.engine.async_llm import AsyncLLM

__all__ = ["Read", "VllmEngine"]

_ANSWER_S: Final = 10.0
"""Longest wait for the core's answer after an abort, s: at the end of an event loop vLLM's readers are cancelled."""

_WARM_UP: Final = tuple(
    Request(
        prompt="One and two make three, and",
        max_tokens=32,
        stop=(),
        sampling=Sampling(temperature=0.6),
        seed=n,
        ignore_eos=True,
    )
    for n in range(4)
)
"""Warm-up requests of an engine that speculates: its first drafts take seconds."""


class Read:
    """The outputs of a request's stream, in order."""

    def __init__(self, active: Active) -> None:
        self.active = active
        self.token_ids: list[int] = []
        self.chunks: list[int] = []
        """Tokens of each streamed output; of several passes if this process read late."""
        self.last: RequestOutput | None = None

    @property
    def output(self) -> CompletionOutput:
        """The last output, with the reason of the request's end."""
        assert self.last is not None
        return self.last.outputs[0]

    @property
    def passes(self) -> tuple[tuple[int, int], ...]:
        """Drafted and accepted tokens of each decode pass of the request, as far as its outputs determine them.

        Passes are matched to the tokens that they committed: outputs that are read late are merged.
        """
        active, due = self.active, len(self.token_ids) - 1
        if not active.shared:
            for n, committed in enumerate(accumulate((right + 1 for _, right in active.passes), initial=0)):
                if committed >= due:
                    return tuple(active.passes[:n])
        metrics = self.output.spec_decode_metrics
        if metrics is None:  # it did not speculate, or a stop string outside the core ended it
            return tuple((n - 1, n - 1) for n in self.chunks[1:])
        record = dict(metrics.to_dict())
        drafted = list(zip(record.get("per_step_drafted", ()), record.get("per_step_accepted", ()), strict=True))
        committed = sum(right + 1 for _, right in drafted)
        undrafted = max(due - committed, len(self.chunks) - 1 - len(drafted), 0)  # the last pass may have been cut
        return tuple(drafted + [(0, 0)] * undrafted)

    @property
    def prompt_and_times(self) -> dict[str, Any]:
        """Fields of all results of requests: tokens of the prompt, and times."""
        output = self.last
        assert output is not None
        stats = output.metrics
        assert stats is not None  # statistics are on: the recorder needs them
        times = Times(
            queued=stats.queued_ts,
            prefill_start=stats.scheduled_ts,
            first_token=stats.first_token_ts,
            end=stats.last_token_ts,
        )
        n_cached = output.num_cached_tokens or 0
        return {"n_prompt_tokens": len(output.prompt_token_ids or ()), "n_cached_tokens": n_cached, "times": times}


class VllmEngine(LocalEngine):
    """A model in vLLM whose requests may speculate (a `Backend`). Create it with `start`, in the event loop it is for.

    Parameters
    ----------
    config : configuration; with ``speculative`` all requests speculate so, and none may have a speculation.
    most : largest number of engines for speculations of requests that run at the same time, >= 1; beyond it, the least
        recently used one is ended.

    Raises
    ------
    CalibrationError : from every method, as soon as the engine has died, failed or been closed.
    """

    def __init__(self, config: VllmConfig, *, most: int = 3) -> None:
        self.config: VllmConfig = config
        self.most = most
        self.speculating: dict[Speculation, VllmEngine] = {}
        self._used: dict[Speculation, float] = {}
        self._lock = asyncio.Lock()
        self.recorder = Recorder()
        self._model = check_model_folder(config.model)
        self._stops = StopFinder(self._tokenizer)
        self._stop_ids: dict[tuple[str, ...], list[int]] = {}
        self._settings = engine_settings(config, int(self._model.get("max_position_embeddings", 4096)))
        self._llm: AsyncLLM | None = None
        self._n_requests = 0
        self._description: dict[str, Any] = {}

    @classmethod
    async def start(cls, config: VllmConfig, *, most: int = 3) -> VllmEngine:
        """Start vLLM, load the model, and return when it is ready; this blocks the event loop.

        Raises
        ------
        CalibrationError : vLLM is missing, the model folder is incomplete or corrupt, or the engine did not start.
        """
        engine = cls(config, most=most)
        engine._llm = start(config, engine._settings, engine.recorder)
        try:
            engine._description = described(config, engine._model, engine._settings, engine._llm)
            await engine.generate(Request(prompt=(1,), max_tokens=1, stop=(), ignore_eos=True))
        except BaseException:
            await engine.close()
            raise
        engine.recorder.work.statistics(clear=True)
        return engine

    @property
    def pids(self) -> list[int]:
        """Process ids of the engine, including the model's process, without those of ``speculating``."""
        return [] if self._llm is None else [process.pid for process in processes_of(self._llm)]

    async def engine(self, speculation: Speculation) -> VllmEngine:
        """Return the engine for a speculation of requests; start it if it does not run.

        Raises
        ------
        CalibrationError : it did not come up.
        ParameterError : vLLM does not support the speculation, or this engine speculates itself.
        """
        if self.config.speculative is not None:
            rule = f"must be None: engine {self.name!r} speculates for all requests or for none"
            raise ParameterError("speculation", speculation.method, rule)
        async with self._lock:
            if speculation not in self.speculating:
                wanted = speculative_of(speculation)
                while len(self.speculating) >= self.most:
                    oldest = min(self.speculating, key=self._used.__getitem__)
                    await self.speculating.pop(oldest).close()
                config = replace(self.config, name=f"{self.name}-{speculation.method}", speculative=wanted)
                engine = await VllmEngine.start(config)
                await engine.generate(_WARM_UP[0])
                await asyncio.gather(*map(engine.generate, _WARM_UP))
                await engine.stats(clear=True)
                self.speculating[speculation] = engine
            self._used[speculation] = time.monotonic()
            return self.speculating[speculation]

    async def prepare(self, speculation: Speculation) -> None:
        """Start the engine with a speculation if it does not run; see `engine`."""
        await self.engine(speculation)

    async def generate(self, request: Request, progress: Progress | None = None) -> Generation:
        """Continue a prompt; see `Backend.generate`.

        ``Generation.passes`` are in order for requests at concurrency 1; for others, passes without a draft (no n-gram
        matched) come last.

        Raises
        ------
        CalibrationError : the prompt does not fit, or the engine failed.
        ParameterError : as `engine`, for a request with a speculation.
        """
        if request.speculation is not None:
            engine = await self.engine(request.speculation)
            return await engine.generate(replace(request, speculation=None), progress)
        prompt, limit = self._ids(request.prompt), int(self._settings["max_model_len"])
        if (n := len(prompt)) >= limit:
            raise CalibrationError(f"vLLM engine {self.name!r}: a prompt of {n} tokens; the context is {limit}")
        read = await self._stream(prompt, self._sampling(request, min(request.max_tokens, limit - n)), progress)
        text, ids, finish = self._settled(read, request)
        passes = read.passes if self.config.speculative is not None else ()
        return Generation(
            text=text,
            token_ids=tuple(ids),
            n_generated=len(read.token_ids),
            finish=finish,
            passes=passes,
            **read.prompt_and_times,
        )

    async def choose(self, prompt: Prompt, choices: Sequence[str]) -> Choice:
        """Probabilities of single-token replies, as shares of the whole vocabulary's; see `Backend.choose`."""
        from vllm import SamplingParams

        ids = self._choice_ids(choices)
        options: dict[str, Any] = {"logprob_token_ids": list(ids)}
        if self.config.speculative is not None:  # then vLLM does not report those of single tokens, but of all
            options = {"logprobs": -1}
        parameters = SamplingParams(temperature=0.0, max_tokens=1, detokenize=False, **options)
        read = await self._stream(self._ids(prompt), parameters)
        listed = (read.output.logprobs or [{}])[0]
        missing = [choice for choice, i in zip(choices, ids, strict=True) if i not in listed]
        if missing:
            raise CalibrationError(f"vLLM engine {self.name!r} gave no log-probability of {missing[0]!r}")
        return Choice.of_logs(choices, [listed[i].logprob for i in ids], **read.prompt_and_times)

    async def forget(self) -> None:
        """Empty the prefix caches, after waiting for the blocks of requests that are ending."""
        llm = self._running()
        for _ in range(40):
            try:
                if await llm.reset_prefix_cache():
                    break
            except Exception as error:
                raise self._failure(error) from None
            await asyncio.sleep(0.005)
        for engine in self.speculating.values():
            await engine.forget()

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        """Work of all engines; iterations of one that speculates for requests count as passes, also without a draft."""
        own = self.recorder.work.statistics(clear=clear)
        return own.with_speculating([await engine.stats(clear=clear) for engine in self.speculating.values()])

    def describe(self) -> Mapping[str, Any]:
        """Model, engine, versions, device, every setting in effect, and the speculations of other engines."""
        about = {"engine": "vllm", "name": self.name, "model": str(self.config.model), **self._description}
        return {**about, "speculative": [dict(one.config.speculative or {}) for one in self.speculating.values()]}

    async def close(self) -> None:
        """End the engines and all their processes; requests in flight fail. A second call has no effect."""
        while self.speculating:
            await self.speculating.popitem()[1].close()
        llm, self._llm = self._llm, None
        if llm is None:
            return
        handler = llm.output_handler
        if handler is not None:  # it would report the end of the engine as an error
            handler.cancel()
            await asyncio.wait([handler], timeout=5.0)
        await asyncio.shield(asyncio.to_thread(end, llm))

    async def _stream(self, ids: Sequence[int], parameters: SamplingParams, progress: Progress | None = None) -> Read:
        from vllm.sampling_params import RequestOutputKind

        llm = self._running()
        parameters.output_kind = RequestOutputKind.DELTA
        self._n_requests += 1
        number = f"{self.name}-{self._n_requests}"
        read = Read(Active(len(ids)))
        self.recorder.active[number] = read.active
        try:
            async for output in llm.generate({"prompt_token_ids": list(ids)}, parameters, request_id=number):
                self._take(output, read)
            return read
        except asyncio.CancelledError:
            await self._left()
            raise
        except Exception as error:
            raise self._failure(error) from None
        finally:
            del self.recorder.active[number]
            if progress is not None:
                progress.n_generated = len(read.token_ids)

    def _take(self, output: RequestOutput, read: Read) -> None:
        completion, stats = output.outputs[0], output.metrics
        read.last = output
        if completion.token_ids:
            if not read.chunks and stats is not None:
                n_cached = output.num_cached_tokens or 0
                n_new = len(output.prompt_token_ids or ()) - n_cached
                self.recorder.prefilled(n_new, n_cached, stats.first_token_ts - stats.scheduled_ts)
            read.chunks.append(len(completion.token_ids))
            read.token_ids += completion.token_ids
            read.active.n_generated = max(read.active.n_generated, len(read.token_ids))

    async def _left(self) -> None:
        """Wait until the core has released an aborted request: it answers messages in the order of their arrival."""
        if self._llm is not None and not self._llm.errored:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._llm.is_paused(), _ANSWER_S)

    def _failure(self, error: Exception) -> CalibrationError:
        """Convert an error of vLLM (a dead engine, a refused request) to one of this package."""
        text = " ".join(str(error).split()) or type(error).__name__
        return CalibrationError(f"vLLM engine {self.name!r}: {text[:300]}")

    def _running(self) -> AsyncLLM:
        if self._llm is None:
            raise CalibrationError(f"vLLM engine {self.name!r} is closed")
        if self._llm.errored:
            raise CalibrationError(f"vLLM engine {self.name!r} has died")
        return self._llm

    def _sampling(self, request: Request, max_tokens: int) -> SamplingParams:
        from vllm import SamplingParams

        if request.stop not in self._stop_ids:  # tokens that contain a whole stop string
            pieces = self._tokenizer.decode_batch([[i] for i in range(self._tokenizer.get_vocab_size())])
            known = [i for i, piece in enumerate(pieces) if any(stop in piece for stop in request.stop)]
            self._stop_ids[request.stop] = known
        return SamplingParams(
            temperature=request.sampling.temperature,
            top_p=request.sampling.top_p,
            seed=request.seed & 0x7FFF_FFFF_FFFF_FFFF,
            max_tokens=max_tokens,
            stop=list(request.stop),
            stop_token_ids=self._stop_ids[request.stop],
            include_stop_str_in_output=True,
            ignore_eos=request.ignore_eos,
            skip_special_tokens=False,
        )

    def _settled(self, read: Read, request: Request) -> tuple[str, list[int], Finish]:
        """Text and token ids of a step: up to the end of the stop string, without the end-of-text token."""
        completion, ids = read.output, read.token_ids
        if completion.finish_reason == "abort":
            return self._tokenizer.decode(ids), ids, "abort"
        if completion.finish_reason == "stop" and completion.stop_reason is None:
            ids = ids[:-1]
            return self._tokenizer.decode(ids), ids, "eos"
        text, ids = self._stops.settle(ids, request.stop)
        return text, list(ids), "stop" if any(stop in text for stop in request.stop) else "length"
