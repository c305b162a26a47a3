"""Readers of the files of `vllm bench serve` and `sweep`, guidellm and AIPerf; recognised by their content.

- ``vllm bench serve --save-result --save-detailed``: one JSON object (``--append-result``: one a line) with
  ``start_times``, ``input_lens``, ``output_lens``, ``ttfts``, ``itls`` (a list per request, one entry per output) and
  ``errors``; of a server that speculates also ``spec_decode_*``. ``sweep`` writes a list of such objects.
- guidellm 0.8 (``benchmarks.json``): ``benchmarks[].requests.successful[]``.
- AIPerf 0.13 (``profile_export.jsonl``): an object a line with ``metadata`` and ``metrics``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AliasPath, BaseModel, ConfigDict, Field

from calibrate.record.fields import checked
from calibrate.record.files import STDIN, opened, read_text
from calibrate.record.json_text import json_lines, parse_json
from sim.estimate import Estimate, ratio_of_totals
from sim.serving.arrivals import Arrivals
from theory.errors import SchemaError

__all__ = ["Benchmark", "Request", "is_benchmark", "read_benchmarks"]

_MOST_BYTES: Final = 512 * 2**20
_HEAD: Final = 2**16
_MARKS: Final = (
    b'"spec_decode_',
    b'"total_output_tokens"',
    b'"guidellm_version"',
    b'"benchmarks"',
    b'"request_start_ns"',
)
"""What a file of the tools has within its first bytes, and a trace has not."""
_SECONDS_OF: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}

_Tokens = Annotated[int, Field(ge=0, le=10_000_000)]
_Share = Annotated[float, Field(ge=0.0, le=1.0)]
_Moment = Annotated[float, Field(ge=0.0, le=1e12)]
"""Time on a clock, s."""
_Seconds = Annotated[float, Field(ge=0.0, le=1e7)]
"""Duration."""
_Milliseconds = Annotated[float, Field(ge=0.0, le=1e10)]
_Nanoseconds = Annotated[int, Field(ge=0, le=10**21)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request that succeeded."""

    start_s: float
    """When it was sent, s on any clock."""
    prompt_tokens: int
    answer_tokens: int
    first_s: float
    """From being sent to the first token, s; NaN where the file does not have it."""
    decode_s: float
    """From the first token to the last, s; NaN where the file does not have it."""
    rounds: int
    """Outputs after the first: a round each where the server streams round by round; 0 where the file does not have
    it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Requests of a run, and what its server said of speculation."""

    source: str
    tool: str
    requests: tuple[Request, ...] = field(repr=False)
    accepted_at: tuple[float, ...] = ()
    """Share of the drafts that were accepted up to each position, in [0, 1]; empty: no speculation, or none in the
    file."""
    drafts: int = 1
    """Drafts that these shares are of, >= 1; 1 where the file does not have them."""

    @property
    def k(self) -> int:
        """Tokens drafted per round; 0: none, or none in the file."""
        return len(self.accepted_at)

    @property
    def arrivals(self) -> Arrivals:
        """When requests came, and how long they were.

        Raises
        ------
        SchemaError : there is none.
        """
        if not self.requests:
            raise SchemaError(f"{self.source}: no request that succeeded: vLLM writes them with --save-detailed")
        known = sorted(self.requests, key=lambda request: request.start_s)
        return Arrivals.of(
            [request.start_s for request in known],
            [max(request.prompt_tokens, 0) for request in known],
            [max(request.answer_tokens, 1) for request in known],
        )

    @property
    def concurrency(self) -> float:
        """Requests that decode at once, mean over the run; NaN where the file has no times."""
        ends = [request.start_s + request.first_s + request.decode_s for request in self.requests]
        decoding = math.fsum(request.decode_s for request in self.requests)
        seconds = max(ends, default=math.nan) - min((request.start_s for request in self.requests), default=math.nan)
        return decoding / seconds if seconds > 0.0 else math.nan

    @property
    def round_s(self) -> Estimate:
        """Seconds from one output of a request to the next; prompts of others included.

        Raises
        ------
        SchemaError : the file has no times of single outputs.
        """
        known = [request for request in self.requests if request.rounds and request.decode_s > 0.0]
        if not known:
            raise SchemaError(f"{self.source}: has no times between outputs; with vLLM, use --save-detailed")
        return ratio_of_totals(
            [request.decode_s for request in known],
            [float(request.rounds) for request in known],
            estimator="decode seconds over outputs, ratio of totals over requests",
            unit="s",
        )


def _at(*path: str, default: Any = ...) -> Any:
    """A field that stands deeper in the file."""
    return Field(default, validation_alias=AliasPath(*path))


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class _Vllm(_Read):
    start_times: list[_Moment] = []
    input_lens: list[_Tokens] = []
    output_lens: list[_Tokens] = []
    ttfts: list[_Seconds] = []
    itls: list[list[_Seconds]] = []
    errors: list[str | None] = []
    completed: int
    spec_decode_per_position_acceptance_rates: list[_Share] = []
    spec_decode_num_drafts: _Tokens = 0


class _GuideStats(_Read):
    request_start_time: _Moment
    prompt_tokens: _Tokens | None
    output_tokens: _Tokens | None
    time_to_first_token_ms: _Milliseconds | None = None
    request_latency: _Seconds | None = None
    first_token_iteration: _Moment | None = _at("info", "timings", "first_token_iteration", default=None)
    last_token_iteration: _Moment | None = _at("info", "timings", "last_token_iteration", default=None)
    token_iterations: _Tokens = _at("info", "timings", "token_iterations", default=0)
    """Pieces of the stream that held tokens."""


class _GuideBenchmark(_Read):
    requests: list[_GuideStats] = _at("requests", "successful")


class _Guide(_Read):
    benchmarks: Annotated[list[_GuideBenchmark], Field(min_length=1)]


class _Metric(_Read):
    value: float | list[float]
    unit: str


class _Perf(_Read):
    start_ns: _Nanoseconds = _at("metadata", "request_start_ns")
    end_ns: _Nanoseconds = _at("metadata", "request_end_ns")
    phase: str = _at("metadata", "benchmark_phase", default="profiling")
    was_cancelled: bool = _at("metadata", "was_cancelled", default=False)
    metrics: dict[str, _Metric]
    error: Any = None


def is_benchmark(path: Path, what: str) -> bool:
    """Whether a file begins as one of these tools begins it; ``what`` it is read as is for errors.

    Standard input is taken for none.

    Raises
    ------
    SchemaError : it cannot be read.
    """
    if str(path) == STDIN:
        return False
    with opened(path, what, most_bytes=_MOST_BYTES) as file:
        head = file.read(_HEAD)
    return any(mark in head for mark in _MARKS)


def read_benchmarks(path: str | Path) -> list[Benchmark]:
    """Read all runs of a file.

    Raises
    ------
    SchemaError : unreadable, too large, of none of the tools, or not as its tool writes it.
    """
    where = str(path)
    objects = _objects(read_text(path, "a benchmark", most_bytes=_MOST_BYTES), where)
    first = objects[0] if objects else None
    if isinstance(first, dict) and "metadata" in first and "metrics" in first:
        return [_perf(objects, where)]
    if isinstance(first, dict) and "benchmarks" in first:
        return _guide(first, where)
    if isinstance(first, dict) and "completed" in first:
        return [_vllm(item, f"{where}[{i}]" if len(objects) > 1 else where) for i, item in enumerate(objects)]
    raise SchemaError(f"{where}: neither of vllm bench, nor of guidellm, nor of AIPerf (profile_export.jsonl)")


def _objects(text: str, where: str) -> list[Any]:
    """The objects of a file: its list, the one that it is, or one a line."""
    first, _, rest = text.strip().partition("\n")
    if rest and first.endswith("}"):  # a whole object, and more after it
        return [item for _, item in json_lines(text, where)]
    whole = parse_json(text, where)
    return whole if isinstance(whole, list) else [whole]


def _vllm(item: Any, where: str) -> Benchmark:
    read = checked(_Vllm, item, where)
    lists = (read.start_times, read.input_lens, read.output_lens, read.ttfts, read.itls)
    n = len(read.start_times)
    if any(len(values) != n for values in lists):
        raise SchemaError(f"{where}: start_times, input_lens, output_lens, ttfts, itls: must be equally long")
    requests = [
        Request(
            start_s=start,
            prompt_tokens=prompt,
            answer_tokens=answer,
            first_s=first,
            decode_s=math.fsum(gaps),
            rounds=len(gaps),
        )
        for i, (start, prompt, answer, first, gaps) in enumerate(zip(*lists, strict=True))
        if answer and not (i < len(read.errors) and read.errors[i])
    ]
    return Benchmark(
        source=where,
        tool="vllm bench",
        requests=tuple(requests),
        accepted_at=tuple(read.spec_decode_per_position_acceptance_rates),
        drafts=max(read.spec_decode_num_drafts, 1),
    )


def _guide(item: Any, where: str) -> list[Benchmark]:
    runs = []
    for i, run in enumerate(checked(_Guide, item, where).benchmarks):
        requests = [
            Request(
                start_s=stats.request_start_time,
                prompt_tokens=stats.prompt_tokens or 0,
                answer_tokens=stats.output_tokens or 0,
                first_s=_or_nan(stats.time_to_first_token_ms) / 1e3,
                decode_s=_decoding(stats),
                rounds=max(stats.token_iterations - 1, 0),
            )
            for stats in run.requests
            if stats.output_tokens
        ]
        runs.append(Benchmark(source=f"{where}: benchmarks[{i}]", tool="guidellm", requests=tuple(requests)))
    return runs


def _decoding(stats: _GuideStats) -> float:
    """From the first piece of a stream to the last, s; else what is left of the request after the first token."""
    if stats.first_token_iteration is not None and stats.last_token_iteration is not None:
        return max(stats.last_token_iteration - stats.first_token_iteration, 0.0)
    return _or_nan(stats.request_latency) - _or_nan(stats.time_to_first_token_ms) / 1e3


def _perf(objects: list[Any], where: str) -> Benchmark:
    requests = []
    for number, item in enumerate(objects, 1):
        read = checked(_Perf, item, f"{where}:{number}")
        if read.error or read.was_cancelled or read.phase != "profiling":
            continue
        first = next(iter(_times(read.metrics, "time_to_first_token", f"{where}:{number}", several=False)), math.nan)
        whole = (read.end_ns - read.start_ns) / 1e9
        gaps = _times(read.metrics, "inter_chunk_latency", f"{where}:{number}", several=True)
        requests.append(
            Request(
                start_s=read.start_ns / 1e9,
                prompt_tokens=_count(read.metrics, "input_sequence_length", f"{where}:{number}"),
                answer_tokens=_count(read.metrics, "output_sequence_length", f"{where}:{number}"),
                first_s=first,
                decode_s=math.fsum(gaps) if gaps else whole - first,
                rounds=len(gaps),
            )
        )
    return Benchmark(source=where, tool="AIPerf", requests=tuple(requests))


def _count(metrics: Mapping[str, _Metric], name: str, where: str) -> int:
    metric = metrics.get(name)
    if metric is None or isinstance(metric.value, list) or not 0 <= metric.value <= 10_000_000:
        raise SchemaError(f"{where}: metrics.{name}: must be there, a count of tokens")
    return int(metric.value)


def _times(metrics: Mapping[str, _Metric], name: str, where: str, *, several: bool) -> list[float]:
    """Seconds of a metric, which has one value or several; none where the file has none."""
    metric = metrics.get(name)
    if metric is None:
        return []
    values, unit = (metric.value if isinstance(metric.value, list) else [metric.value]), _SECONDS_OF.get(metric.unit)
    if (
        isinstance(metric.value, list) is not several
        or unit is None
        or not all(0.0 <= value <= 1e16 for value in values)
    ):
        kind = "times" if several else "a time"
        raise SchemaError(f"{where}: metrics.{name}: must be {kind} in one of {', '.join(_SECONDS_OF)}")
    return [value * unit for value in values]


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
