"""One reading of a server's metrics, with the same names for vLLM and SGLang.

vLLM (V1) and SGLang differ in more than names. vLLM's inter-token latency has one observation per *round* of each
sequence, however many tokens the round committed; SGLang's has one per *token*, the round's time divided by its tokens.
vLLM counts acceptance by position; SGLang shows the mean acceptance length of its last batches, and no k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from calibrate.engines.prometheus import Sample, SpecDecode, counted, load, parse_metrics
from specplan.live.explaining.histogram import Histogram
from theory.errors import SchemaError

__all__ = ["COUNTERS", "Reading", "read_metrics"]

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
}
_FORMER: Final[Mapping[str, str]] = {
    "vllm:inter_token_latency_seconds": "vllm:time_per_output_token_seconds",
    "vllm:kv_cache_usage_perc": "vllm:gpu_cache_usage_perc",
}
"""What they were called before vLLM 0.10.2 and 0.9.2."""
_V0: Final = "vllm:spec_decode_num_emitted_tokens"
_STARTED: Final = "process_start_time_seconds"
_USAGE: Final = {"vllm": "vllm:kv_cache_usage_perc", "sglang": "sglang:token_usage"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Counts of a server's metrics at one moment, since its start."""

    source: str
    """File or address, for messages."""
    engine: str
    """``vllm`` or ``sglang``."""
    models: frozenset[str]
    started: float
    """When its process started, s since 1970; NaN where the server does not report it."""
    counters: Mapping[str, float]
    """Values by key of `COUNTERS`; absent ones are left out."""
    histograms: Mapping[str, Histogram]
    """``gaps``, ``iterations``, ``first``, ``queue``, ``prefill``, ``decode``, ``whole``, as far as there are any."""
    spec: SpecDecode | None
    """vLLM's counters of speculation; None if it does not speculate, or is not vLLM."""
    accept_length: float
    """SGLang's mean acceptance length with the bonus token; NaN where it is not reported."""
    running: float
    """Requests in the batch."""
    waiting: float
    cache_usage: float
    """Share of the KV cache in use, in [0, 1]; NaN where it is not reported."""
    cache_tokens: float
    """Tokens that fit into the KV cache; NaN where it is not reported."""
    caches_prefixes: bool = True
    """Whether prompts that begin alike are read once, as is vLLM's default; False only where vLLM says so."""

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
    SchemaError : not Prometheus text, no metrics of vLLM (V1) or SGLang, or a histogram that cannot be one.
    """
    try:
        samples = parse_metrics(text)
        engine = _engine(samples)
        histograms = {
            key: Histogram.read(samples, name) or Histogram.read(samples, _FORMER.get(name, ""))
            for key, name in _HISTOGRAMS[engine].items()
        }
        spec = SpecDecode.read(samples) if engine == "vllm" else None
        sums: dict[str, float] = {}  # over all engines of the server
        counters = {*COUNTERS[engine].values(), _STARTED}
        for sample in samples:
            if sample.name in counters:
                sums[sample.name] = sums.get(sample.name, 0.0) + counted(sample)
    except (SchemaError, ValueError, KeyError) as error:
        raise SchemaError(f"{source}: {error}") from None
    requests = load(samples)
    return Reading(
        source=source,
        engine=engine,
        models=frozenset(s.labels["model_name"] for s in samples if "model_name" in s.labels),
        started=sums.get(_STARTED, math.nan),
        counters={key: sums[name] for key, name in COUNTERS[engine].items() if name in sums},
        histograms={key: histogram for key, histogram in histograms.items() if histogram is not None},
        spec=spec,
        accept_length=_mean(samples, "sglang:spec_accept_length"),
        running=requests.running if requests else 0,
        waiting=requests.waiting if requests else 0,
        cache_usage=_mean(samples, _USAGE[engine], _FORMER.get(_USAGE[engine])),
        cache_tokens=_cache_tokens(samples),
        caches_prefixes=not any(sample.labels.get("enable_prefix_caching") == "False" for sample in samples),
    )


def _engine(samples: Sequence[Sample]) -> str:
    if any(sample.name.startswith(_V0) for sample in samples):
        raise SchemaError("of vLLM's V0 engine, which counts no positions: use V1 (vLLM 0.8 or later)")
    for engine in _HISTOGRAMS:
        if any(sample.name == COUNTERS[engine]["generated"] for sample in samples):
            return engine
    if any(sample.name.startswith(("vllm:", "sglang:")) for sample in samples):
        raise SchemaError("no count of generated tokens: take the metrics of a server that has answered a request")
    other = sorted({sample.name for sample in samples})[:2]
    names = f" (it has {', '.join(other)}, ...)" if other else " (the file has no samples)"
    raise SchemaError(f"no metrics of vLLM or SGLang{names}: save what the server returns for GET /metrics")


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
    return tokens or math.nan
