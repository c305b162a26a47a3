"""One reading of a server's metrics and their histograms, with the same names for all engines.

Engines differ in more than names. vLLM's (V1) inter-token latency has one observation per *round* of each sequence,
however many tokens the round committed; SGLang's has one per *token*, the round's time divided by its tokens.
TensorRT-LLM and llama.cpp have none: the seconds of decoding are known, and rounds are the tokens less the accepted
ones. vLLM, TensorRT-LLM and llama.cpp count acceptance by position; SGLang shows the mean acceptance length of its last
batches, and no k. llama.cpp counts no requests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, Self

import numpy as np

from calibrate.engines.prometheus import Sample, SpecDecode, counted, load, parse_metrics
from theory.errors import SchemaError

__all__ = ["COUNTERS", "Histogram", "Reading", "read_metrics"]

_HISTOGRAMS: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {
        "gaps": "vllm:inter_token_latency_seconds",
        "iterations": "vllm:iteration_tokens_total",
        "first": "vllm:time_to_first_token_seconds",
        "queue": "vllm:request_queue_time_seconds",
        "prefill": "vllm:request_prefill_time_seconds",
        "decode": "vllm:request_decode_time_seconds",
        "whole": "vllm:e2e_request_latency_seconds",
    },
    "sglang": {
        "gaps": "sglang:inter_token_latency_seconds",
        "first": "sglang:time_to_first_token_seconds",
        "queue": "sglang:queue_time_seconds",
        "whole": "sglang:e2e_request_latency_seconds",
    },
    "trtllm": {
        "first": "trtllm_time_to_first_token_seconds",
        "queue": "trtllm_request_queue_time_seconds",
        "prefill": "trtllm_request_prefill_time_seconds",
        "decode": "trtllm_request_decode_time_seconds",
        "whole": "trtllm_e2e_request_latency_seconds",
    },
    "llamacpp": {},
}
COUNTERS: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {
        "generated": "vllm:generation_tokens_total",
        "prompt": "vllm:prompt_tokens_total",
        "cached": "vllm:prompt_tokens_cached_total",
        "preempted": "vllm:num_preemptions_total",
    },
    "sglang": {
        "generated": "sglang:generation_tokens_total",
        "prompt": "sglang:prompt_tokens_total",
        "cached": "sglang:cached_tokens_total",
        "preempted": "sglang:num_retracted_requests_total",
    },
    "trtllm": {
        "generated": "trtllm_generation_tokens_total",
        "prompt": "trtllm_prompt_tokens_total",
        "cached": "trtllm_prompt_cached_tokens_total",
    },
    "llamacpp": {"generated": "llamacpp:tokens_predicted_total", "decode_s": "llamacpp:tokens_predicted_seconds_total"},
}
_FORMER: Final[Mapping[str, str]] = {
    "vllm:inter_token_latency_seconds": "vllm:time_per_output_token_seconds",
    "vllm:kv_cache_usage_perc": "vllm:gpu_cache_usage_perc",
}
"""What they were called before vLLM 0.10.2 and 0.9.2."""
_V0: Final = "vllm:spec_decode_num_emitted_tokens"
_STARTED: Final = "process_start_time_seconds"
_USAGE: Final = {
    "vllm": "vllm:kv_cache_usage_perc",
    "sglang": "sglang:token_usage",
    "trtllm": "trtllm_kv_cache_utilization",
}
_COLD: Final = 10.0
"""A cold start takes more than so many medians: models are loaded, kernels compiled and graphs captured."""
_MOST_COLD: Final = 0.1
"""Largest share of cold starts; a larger one is a class of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Observations by bucket, summed over all engines of a server."""

    bounds: tuple[float, ...]
    """Upper ends of the buckets, ascending, the last one infinite."""
    counts: tuple[float, ...]
    """Observations in each bucket (not cumulative), >= 0."""
    total: float
    """Sum of the observations, in their unit."""

    @classmethod
    def read(cls, samples: Iterable[Sample], name: str) -> Self | None:
        """Read the histogram ``name`` from samples; None where there is none.

        Raises
        ------
        SchemaError : its buckets are not cumulative, or it lacks its sum.
        """
        below: dict[float, float] = {}
        total = math.nan
        for sample in samples:
            if sample.name == f"{name}_bucket":
                try:
                    bound = float(sample.labels["le"])
                except (KeyError, ValueError):
                    raise SchemaError(f"metrics: {name}_bucket: needs a label 'le' that is a number") from None
                below[bound] = below.get(bound, 0.0) + counted(sample)
            elif sample.name == f"{name}_sum":
                total = counted(sample) if math.isnan(total) else total + counted(sample)
        if not below:
            return None
        bounds = tuple(sorted(below))
        counts = tuple(high - low for low, high in pairwise((0.0, *(below[bound] for bound in bounds))))
        if math.isnan(total) or min(counts) < 0.0 or bounds[-1] != math.inf:
            raise SchemaError(f"metrics: {name}: must have cumulative buckets up to +Inf, and a sum")
        return cls(bounds=bounds, counts=counts, total=total)

    @property
    def count(self) -> float:
        """Observations."""
        return math.fsum(self.counts)

    @property
    def mean(self) -> float:
        """Mean of the observations; NaN without any."""
        return self.total / self.count if self.count else math.nan

    @property
    def _buckets(self) -> list[tuple[float, float, float]]:
        """Lower end, upper end and count of each bucket."""
        return list(zip((0.0, *self.bounds[:-1]), self.bounds, self.counts, strict=True))

    @property
    def deviation(self) -> float:
        """Standard deviation if observations are uniform within buckets: rough, biased upwards, for error bars only.

        As large as the mean where a single bucket tells nothing.
        """
        if len(self.bounds) < 2 or not self.count:
            return self.mean
        middles = [(low + high) / 2.0 if math.isfinite(high) else 1.5 * low for low, high, _ in self._buckets]
        mean = math.fsum(c * x for c, x in zip(self.counts, middles, strict=True)) / self.count
        spread = [
            c * ((x - mean) ** 2 + (2.0 * (x - low)) ** 2 / 12.0)
            for (low, _, c), x in zip(self._buckets, middles, strict=True)
        ]
        return math.sqrt(math.fsum(spread) / self.count)

    def since(self, earlier: Histogram) -> Histogram:
        """Return the observations since an earlier reading; counts below 0 show that it was not earlier."""
        before = dict(zip(earlier.bounds, earlier.counts, strict=True))
        counts = tuple(c - before.get(bound, 0.0) for bound, c in zip(self.bounds, self.counts, strict=True))
        return Histogram(bounds=self.bounds, counts=counts, total=self.total - earlier.total)

    def above(self, bound: float) -> float:
        """Return the count of buckets that lie wholly above ``bound``."""
        return math.fsum(c for low, _, c in self._buckets if low >= bound)

    def below(self, bound: float) -> float:
        """Return the count of buckets that lie wholly at or below ``bound``."""
        return math.fsum(c for _, high, c in self._buckets if high <= bound)

    def without_cold_starts(self) -> tuple[Histogram, float]:
        """Return the histogram with its cold starts as long as the mean of the others, and the number of cold starts.

        Cold starts are observations of more than `_COLD` times the median, if they are at most `_MOST_COLD` of all.
        """
        reached = list(accumulate(self.counts))
        middle = next((i for i, n in enumerate(reached) if 2.0 * n >= self.count), 0)
        bound = _COLD * self.bounds[middle]
        n_cold = self.above(bound)
        if not 0.0 < n_cold <= _MOST_COLD * self.count:
            return self, 0.0
        rest = self.total - math.fsum(self.largest(n_cold)) / 2.0
        counts = [0.0 if low >= bound else c for low, _, c in self._buckets]
        counts[middle] += n_cold
        total = rest * self.count / (self.count - n_cold)
        return Histogram(bounds=self.bounds, counts=tuple(counts), total=total), n_cold

    def largest(self, n: float) -> tuple[float, float]:
        """Return bounds on the sum of the ``n`` largest observations, from buckets, sum and mean."""
        n = min(n, self.count)
        if n <= 0.0:
            return 0.0, 0.0
        least = most = others = 0.0  # the lower ends of the largest, their upper ends, and the lower ends of the others
        left = n
        for lower, upper, count in reversed(self._buckets):
            taken = min(count, left)
            least += taken * lower
            most += taken * upper if taken else 0.0
            others += (count - taken) * lower
            left -= taken
        return max(n * self.mean, least), min(most, self.total - others)  # the largest are no smaller than the mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Counts of a server's metrics at one moment, since its start."""

    source: str
    """File or address, for messages."""
    engine: str
    """``vllm``, ``sglang``, ``trtllm`` or ``llamacpp``."""
    models: frozenset[str]
    started: float
    """When its process started, s since 1970; NaN where the server does not report it."""
    counters: Mapping[str, float]
    """Values by key of `COUNTERS`; absent ones are left out."""
    histograms: Mapping[str, Histogram]
    """``gaps``, ``iterations``, ``first``, ``queue``, ``prefill``, ``decode``, ``whole``, as far as there are any."""
    spec: SpecDecode | None
    """Counters of speculation by position; None if it does not speculate, or does not count so."""
    accept_length: float
    """SGLang's mean acceptance length with the bonus token; NaN where it is not reported."""
    running: float
    """Requests in the batch; llama.cpp's: the mean since its start, if that is larger."""
    waiting: float
    cache_usage: float
    """Share of the KV cache in use, in [0, 1]; NaN where it is not reported."""
    cache_tokens: float
    """Tokens that fit into the KV cache; NaN where it is not reported."""
    caches_prefixes: bool = True
    """Whether prompts that begin alike are read once, as is vLLM's default; False only where vLLM says so."""

    @property
    def names(self) -> frozenset[str]:
        """What every page of vLLM has from the server's start on, as far as this one has it; none of other engines."""
        if self.engine != "vllm":
            return frozenset()  # these show a counter once it has counted
        named = {"spec": "vllm:spec_decode_num_drafts_total"}
        every = {**_HISTOGRAMS[self.engine], **COUNTERS[self.engine], **named}
        known = {*self.histograms, *self.counters, *(() if self.spec is None else ("spec",))}
        return frozenset(name for key, name in every.items() if key in known)

    @property
    def speculates(self) -> bool:
        """Whether the server drafts tokens."""
        return self.spec is not None or self.accept_length >= 1.0

    @property
    def k(self) -> int:
        """Tokens that a round drafts, as configured, >= 0; 0: no speculation, or not reported (SGLang)."""
        return 0 if self.spec is None else len(self.spec.accepted_at)


def read_metrics(text: str, source: str) -> Reading:
    """Read a server's metrics.

    Raises
    ------
    SchemaError : not Prometheus text, no metrics of a known engine, or a histogram that cannot be one.
    """
    try:
        samples = parse_metrics(text)
        engine = _engine(samples)
        histograms = {
            key: Histogram.read(samples, name) or Histogram.read(samples, _FORMER.get(name, ""))
            for key, name in _HISTOGRAMS[engine].items()
        }
        spec = None if engine == "sglang" else SpecDecode.read(samples)
        if spec is not None and not spec.drafts and engine == "llamacpp":
            spec = None  # it counts zeros where it does not speculate
        sums: dict[str, float] = {}  # over all engines of the server
        counters = {*COUNTERS[engine].values(), _STARTED}
        for sample in samples:
            if sample.name in counters:
                sums[sample.name] = sums.get(sample.name, 0.0) + counted(sample)
    except (SchemaError, ValueError, KeyError) as error:
        other = "; TensorRT-LLM's page is /prometheus/metrics" if text.lstrip()[:1] in ("[", "{") else ""
        raise SchemaError(f"{source}: {error}{other}") from None
    requests, busy, usage = load(samples), _mean(samples, "llamacpp:n_busy_slots_per_decode"), _USAGE.get(engine, "")
    known = {key: sums[name] for key, name in COUNTERS[engine].items() if name in sums}
    reported = {key: histogram for key, histogram in histograms.items() if histogram is not None}
    return Reading(
        source=source,
        engine=engine,
        models=frozenset(s.labels["model_name"] for s in samples if "model_name" in s.labels),
        started=sums.get(_STARTED, math.nan),
        counters=known,
        histograms=reported if "gaps" in _HISTOGRAMS[engine] else reported | _gaps(known, reported, spec),
        spec=spec,
        accept_length=_mean(samples, "sglang:spec_accept_length"),
        running=float(np.fmax(requests.running if requests else 0, busy)),
        waiting=requests.waiting if requests else 0,
        cache_usage=_mean(samples, usage, _FORMER.get(usage)),
        cache_tokens=_cache_tokens(samples),
        caches_prefixes=not any(sample.labels.get("enable_prefix_caching") == "False" for sample in samples),
    )


def _engine(samples: Sequence[Sample]) -> str:
    if any(sample.name.startswith(_V0) for sample in samples):
        raise SchemaError("of vLLM's V0 engine, which counts no positions: use V1 (vLLM 0.8 or later)")
    for engine in _HISTOGRAMS:
        if any(sample.name == COUNTERS[engine]["generated"] for sample in samples):
            return engine
    if any(sample.name.startswith(tuple(_HISTOGRAMS)) for sample in samples):
        rule = "take the metrics of a server that has answered a request (TensorRT-LLM: with return_perf_metrics: true)"
        raise SchemaError(f"no count of generated tokens: {rule}")
    other = sorted({sample.name for sample in samples})[:2]
    names = f" (it has {', '.join(other)}, ...)" if other else " (the file has no samples)"
    known = "vLLM, SGLang, TensorRT-LLM or llama.cpp"
    raise SchemaError(f"no metrics of {known}{names}: save what the server returns for GET /metrics")


def _gaps(
    counters: Mapping[str, float], histograms: Mapping[str, Histogram], spec: SpecDecode | None
) -> dict[str, Histogram]:
    """Rounds of an engine that times no tokens, all in one bucket; none where the seconds of decoding are not known."""
    decode, first = histograms.get("decode"), histograms.get("first")
    seconds = counters.get("decode_s") if decode is None else decode.total
    if seconds is None:
        return {}
    rounds = counters["generated"] - (first.count if first else 0.0) - (spec.accepted if spec else 0)
    return {"gaps": Histogram(bounds=(math.inf,), counts=(max(rounds, 0.0),), total=seconds)}


def _mean(samples: Sequence[Sample], *names: str | None) -> float:
    values = [sample.value for sample in samples if sample.name in names]
    return math.fsum(values) / len(values) if values else math.nan


def _cache_tokens(samples: Sequence[Sample]) -> float:
    tokens = 0.0
    for sample in samples:
        if sample.name == "vllm:cache_config_info":
            try:
                tokens += float(sample.labels["num_gpu_blocks"]) * float(sample.labels["block_size"])
            except (KeyError, ValueError):
                return math.nan
        elif sample.name == "sglang:max_total_num_tokens":
            tokens += sample.value
        elif sample.name == "trtllm_kv_cache_max_blocks":
            tokens += sample.value * _mean(samples, "trtllm_kv_cache_tokens_per_block")
    return tokens or math.nan
