"""Metrics of a server whose causes of slowness are planted: the counters of a simulated engine, as vLLM tells them.

The engine of `sim.serving` is watched: every round of every sequence, every prompt, every lost place. What vLLM counts
of such an event, `prometheus_client` counts here, under vLLM's names and with its buckets.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sim.answers.acceptance import Acceptance
from sim.answers.drawn import SyntheticBehaviour
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.answers.token_passes import DrawnPasses
from sim.configuration import Configuration
from sim.engines.batching import DECODING, READING
from sim.roles import TARGET
from sim.serving.answers import ServedLoad
from sim.serving.engine import Request, ServingEngine
from sim.serving.limits import ServingLimits
from sim.serving.run import closed_loop
from sim.trial import Trial

_GAPS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_LATENCIES = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0)
_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A server and its load; seconds and tokens."""

    k: int = 3
    conditional: float = 0.75
    """Probability that a drafted token is accepted, given those before it."""
    fading: float = 1.0
    """The conditional acceptance of a position over that of the one before."""
    plain_s: float = 0.02
    row_s: float = 1e-5
    """Of a pass for each of its rows."""
    draft_s: float = 0.001
    """Of drafting a token."""
    read_s: float = 2e-5
    """Of reading a token of a prompt."""
    concurrency: int = 8
    prompt: int = 200
    answer: int = 400
    cache: float = 1e9
    places: int = 256
    chunk: int = 8192

    def with_k(self, k: int) -> Planted:
        """The same server with another k."""
        return replace(self, k=k)

    @property
    def accepted(self) -> tuple[float, ...]:
        """Unconditional acceptance by position."""
        found, rate, conditional = [], 1.0, self.conditional
        for _ in range(self.k):
            rate *= conditional
            conditional *= self.fading
            found.append(rate)
        return tuple(found)

    @property
    def work_s(self) -> float:
        """Seconds of an undisturbed round of a full batch."""
        return self.iteration(self.concurrency, 0.0)

    @property
    def request_s(self) -> float:
        """Latency outside the engine."""
        return 0.0

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of a round."""
        return self.plain_s + self.row_s * batch * (self.k + 1) + self.draft_s * self.k

    def mixed(self, batch: int, context: float, prefill_tokens: float, prefill_context: float) -> float:
        """Seconds of a round in whose pass prompts are read."""
        return (self.iteration(batch, context) if batch else self.plain_s) + self.read_s * prefill_tokens

    def prefill(self, n_tokens: int) -> float:
        """Seconds of a prompt read alone."""
        return self.plain_s + self.read_s * n_tokens


class _Counts:
    """vLLM's metrics (V1) of one engine."""

    def __init__(self, planted: Planted) -> None:
        self.registry = CollectorRegistry()
        self._names = {"labelnames": ["model_name", "engine"], "registry": self.registry}
        self._values = {"model_name": "planted", "engine": "0"}
        self.k = planted.k
        for key, name in (("generated", "generation_tokens"), ("prompt", "prompt_tokens"), ("lost", "num_preemptions")):
            setattr(self, key, self._of(Counter, name))
        for key, name, buckets in (
            ("gaps", "inter_token_latency_seconds", _GAPS),
            ("iterations", "iteration_tokens_total", _TOKENS),
            ("first", "time_to_first_token_seconds", _LATENCIES),
            ("queue", "request_queue_time_seconds", _LATENCIES),
            ("prefill", "request_prefill_time_seconds", _LATENCIES),
            ("decode", "request_decode_time_seconds", _LATENCIES),
            ("whole", "e2e_request_latency_seconds", _LATENCIES),
        ):
            setattr(self, key, self._of(Histogram, name, buckets=buckets))
        for key, name in (
            ("running", "num_requests_running"),
            ("waiting", "num_requests_waiting"),
            ("usage", "kv_cache_usage_perc"),
        ):
            setattr(self, key, self._of(Gauge, name))
        info = Gauge("vllm:cache_config_info", "-", ["num_gpu_blocks", "block_size"], registry=self.registry)
        info.labels(num_gpu_blocks=str(int(planted.cache // 16)), block_size="16").set(1)
        if self.k:
            self.drafts = self._of(Counter, "spec_decode_num_drafts")
            self.drafted = self._of(Counter, "spec_decode_num_draft_tokens")
            self.accepted = self._of(Counter, "spec_decode_num_accepted_tokens")
            at = Counter(
                "vllm:spec_decode_num_accepted_tokens_per_pos",
                "-",
                ["model_name", "engine", "position"],
                registry=self.registry,
            )
            self.at = [at.labels(**self._values, position=str(j)) for j in range(self.k)]

    def _of(self, kind: Any, name: str, **more: Any) -> Any:
        return kind(f"vllm:{name}", "-", **self._names, **more).labels(**self._values)

    def passed(self, tokens: int) -> None:
        """Count a pass that committed so many tokens to a sequence."""
        self.generated.inc(tokens)
        if self.k:
            self.drafts.inc()
            self.drafted.inc(self.k)
            self.accepted.inc(tokens - 1)
            for counter in self.at[: tokens - 1]:
                counter.inc()


class _Life:
    """Moments of a request, s."""

    def __init__(self, arrived: float) -> None:
        self.arrived = arrived
        self.scheduled = self.first = self.last = -1.0


class _Watched(ServingEngine):
    """A serving engine that counts as vLLM does."""

    def __init__(self, planted: Planted) -> None:
        limits = ServingLimits(
            cache_tokens=planted.cache,
            max_sequences=planted.places,
            max_batched_tokens=planted.chunk,
            rows=planted.k + 1.0,
        )
        super().__init__(planted, limits=limits)
        self.planted = planted

    def attach(self, env: Any) -> None:
        super().attach(env)
        self.counts = _Counts(self.planted)
        self.lives: dict[Request, _Life] = {}
        self._read = 0.0

    def _on_arrival(self, request: Request) -> None:
        self.lives[request] = _Life(self._env.now)
        super()._on_arrival(request)

    def _take_in(self) -> None:
        super()._take_in()
        for request in self._reading:
            life = self.lives[request]
            if life.scheduled < 0.0:
                life.scheduled = self._env.now

    def _preempt(self, request: Request) -> None:
        self.counts.lost.inc()
        super()._preempt(request)

    def _change(self) -> Sequence[Request]:  # type: ignore[override]
        now, mixed = self._env.now, self._is_reading
        before = round(self._progress) if mixed else round(self._grown_at)
        n = 1 if mixed else self._boundary - before
        decoding = [entry[2] for entry in self._requests if entry[2].state == DECODING and entry[2].finish == entry[0]]
        tokens = [0] * n
        for request in decoding:
            life, start = self.lives[request], request.n_iterations - (request.finish - before)
            for i in range(n):
                at, passes = start + i, request.passes
                passed = 1 if passes is None else passes.committed(at + 1) - passes.committed(at)
                moment = now - (n - 1 - i) * (0.0 if mixed else self._tau)
                self.counts.gaps.observe(moment - life.last)
                life.last = moment
                self.counts.passed(passed)
                tokens[i] += passed
        self._read = 0.0
        finished = super()._change()
        if tokens:
            tokens[-1] += int(self._read)
        for count in tokens:
            if count:
                self.counts.iterations.observe(count)
        for request in finished:
            life = self.lives.pop(request)
            self.counts.queue.observe(life.scheduled - life.arrived)
            self.counts.prefill.observe(life.first - life.scheduled)
            self.counts.decode.observe(life.last - life.first)
            self.counts.whole.observe(life.last - life.arrived)
        return finished

    def _end_chunks(self, finished: list[Request]) -> None:
        reading = [request for request, tokens in self._chunks if request.state == READING]
        super()._end_chunks(finished)
        now = self._env.now
        for request in reading:
            life = self.lives[request]
            if request.state == READING or life.first >= 0.0:
                continue
            life.first = life.last = now
            self.counts.first.observe(now - life.arrived)
            self.counts.generated.inc()
            self.counts.prompt.inc(request.new)
            self._read += request.new + 1

    def exposition(self) -> str:
        """What the server would tell now."""
        self.counts.running.set(self._batch + len(self._reading))
        self.counts.waiting.set(len(self._waiting))
        self.counts.usage.set(self.cache.held / self.cache.capacity)
        return generate_latest(self.counts.registry).decode()


@cache
def _run(planted: Planted, tokens: int, seed: int) -> tuple[str, ServedLoad]:
    engine = _Watched(planted)
    length = Lognormal(mean=planted.answer, cv=0.3)
    behaviour = SyntheticBehaviour(
        lengths=Lengths(target=length, draft=length),
        acceptance=Acceptance(alpha=0.0),
        steps=Fixed(1),
        prompt_tokens=planted.prompt,
        seed=seed,
    )
    trial = Trial.of(Configuration(method="autoregressive").algorithm(), behaviour, {TARGET: engine}, meets="plain")
    if planted.k:
        rates = (1.0, *planted.accepted, 0.0)
        pmf = tuple(high - low for high, low in itertools.pairwise(rates))
        trial = trial.speculating({TARGET: DrawnPasses(pmf=pmf, seed=seed)})
    life = planted.answer * planted.work_s / (1.0 + sum(planted.accepted))
    told = closed_loop(
        trial,
        concurrency=planted.concurrency,
        tokens=tokens,
        warmup_tokens=tokens // 4,
        apart_s=life / planted.concurrency,
    )
    return engine.exposition(), told


def exposition(planted: Planted, answers: float, seed: int = 0) -> str:
    """The metrics after so many answers."""
    return _run(planted, int(answers * planted.answer), seed)[0]


def served(planted: Planted, answers: float, seed: int = 0) -> ServedLoad:
    """What the server delivers."""
    return _run(planted, int(answers * planted.answer), seed)[1]
