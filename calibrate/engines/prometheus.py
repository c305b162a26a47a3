"""Metrics of a model server in Prometheus text: its load, and its counters of speculative decoding.

Counters start with the server, so two readings are subtracted. ``_created`` lines hold times, not counts, and are
skipped. vLLM counts a draft only if tokens were drafted: an n-gram lookup without a match is a target pass without a
draft, so drafts are not passes, and tokens per target pass is N / (N - accepted), with N all tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final, Self

from theory.errors import SchemaError, shown

__all__ = ["BACK", "Load", "Sample", "ServerCounts", "SpecDecode", "counted", "load", "parse_metrics"]

_RUNNING: Final = (
    "vllm:num_requests_running",
    "sglang:num_running_reqs",
    "trtllm_num_requests_running",
    "llamacpp:requests_processing",
    "tgi_batch_current_size",
)
_WAITING: Final = (
    "vllm:num_requests_waiting",
    "sglang:num_queue_reqs",
    "trtllm_num_requests_waiting",
    "llamacpp:requests_deferred",
    "tgi_queue_size",
)
_SPEC: Final = "spec_decode_num_"
_PER_POSITION: Final = f"{_SPEC}accepted_tokens_per_pos"
_GENERATED: Final = "tokens generated"
_NAMED: Final = ("vllm", "llamacpp")
"""Engines whose counters of speculation have vLLM's names after their own prefix."""
_DRAFTED, _ACCEPTED = "trtllm_spec_decode_drafted_tokens", "trtllm_spec_decode_accepted_tokens"
"""TensorRT-LLM's counters of drafted and of accepted tokens, by position."""
_COUNTED: Final = frozenset({"vllm:generation_tokens", "llamacpp:tokens_predicted", "trtllm_generation_tokens"})
"""Counters of all tokens, of engines that count speculation."""
_TOKENS: Final = _COUNTED | {"sglang:generation_tokens"}
BACK: Final = (
    "a counter decreased: the second reading is not later, or the server was restarted between them, or the address "
    "leads to several servers; read one server twice within one run"
)
"""What is wrong with two readings whose counters decrease."""
_MOST: Final = 1e15
"""Largest plausible count: 30 years of a million tokens per second; exact in a float."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample: one line of the text."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse_metrics(text: str) -> list[Sample]:
    """Parse text in Prometheus exposition format; comments and ``_created`` lines are left out.

    Raises
    ------
    SchemaError : a line is neither a comment nor a sample; the message has its number.

    >>> parse_metrics('a_total{x="1"} 2.0')
    [Sample(name='a_total', labels={'x': '1'}, value=2.0)]
    """
    from prometheus_client.parser import text_string_to_metric_families

    def parsed(part: str) -> list[Sample] | None:
        try:
            families = list(text_string_to_metric_families(part))
        except (ValueError, IndexError, KeyError):
            return None
        given = [one for family in families for one in family.samples if not one.name.endswith("_created")]
        return [Sample(one.name, dict(one.labels), float(one.value)) for one in given]

    samples = parsed(text)
    if samples is None:
        odd = (number for number, line in enumerate(text.split("\n"), 1) if parsed(line) is None)
        number = next(odd, 0)  # 0: each line can be parsed on its own
        line = text.split("\n")[number - 1].strip() if number else text
        raise SchemaError(f"metrics: line {number or 1} is no sample: {line[:60]!r}")
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for sample in samples:
        key = sample.name, frozenset(sample.labels.items())
        if key in seen:
            raise SchemaError(f"metrics: {shown(sample.name)} comes twice with the same labels: one reading per file")
        seen.add(key)
    return samples


def counted(sample: Sample) -> float:
    """The value of a counter's sample.

    Raises
    ------
    SchemaError : it is negative, not a number, or larger than any plausible count.
    """
    if not 0.0 <= sample.value < _MOST:
        raise SchemaError(f"metrics: {shown(sample.name)}: must be a count of at least 0, got {sample.value:g}")
    return sample.value


def _counters(sample: Sample) -> Iterator[tuple[str, str, float]]:
    """What a sample counts of speculation: vLLM's name without prefix and ``_total``, position, and count."""
    name, value = sample.name.removesuffix("_total"), sample.value
    prefix, _, rest = name.partition(":")
    position = sample.labels.get("token_position", "")
    if name in _COUNTED:
        yield _GENERATED, "", value
    elif prefix in _NAMED and rest.startswith(_SPEC):
        yield rest, sample.labels.get("position", ""), value
    elif name == _ACCEPTED:
        yield from ((_PER_POSITION, position, value), (f"{_SPEC}accepted_tokens", "", value))
    elif name == _DRAFTED:  # a position that no draft was accepted up to has no other counter
        yield from ((_PER_POSITION, position, 0.0), (f"{_SPEC}draft_tokens", "", value))
        if position == "0":
            yield f"{_SPEC}drafts", "", value


@dataclass(frozen=True, slots=True)
class Load:
    """Numbers of requests on a server at one moment."""

    running: int
    waiting: int

    @property
    def idle(self) -> bool:
        """Whether there are no requests."""
        return self.running == 0 and self.waiting == 0


def load(samples: Iterable[Sample]) -> Load | None:
    """Requests that a server reports, of all engines and models; None without such metrics."""
    known = [sample for sample in samples if sample.name in _RUNNING + _WAITING and 0.0 <= sample.value < _MOST]
    if not known:
        return None
    running, waiting = (int(sum(s.value for s in known if s.name in names)) for names in (_RUNNING, _WAITING))
    return Load(running, waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDecode:
    """Counters of speculative decoding by position, since the server's start or between two readings.

    vLLM, llama.cpp and TensorRT-LLM have them (the last where ``return_perf_metrics`` is set).
    """

    tokens: int
    """Tokens generated in all, N."""
    drafts: int
    """Target passes that verified a draft; passes without one are not counted."""
    drafted: int
    accepted: int
    """Drafted tokens, and accepted ones among them."""
    accepted_at: tuple[int, ...] = field(default=())
    """Number of drafts whose token at this position was accepted (unconditional, from position 0)."""

    @classmethod
    def read(cls, samples: Iterable[Sample]) -> Self | None:
        """Extract the counters; None where the server does not speculate.

        Raises
        ------
        SchemaError : a value is not a count, or positions are missing.
        """
        sums: dict[str, float] = {}
        positions: dict[int, float] = {}
        for sample in samples:
            for name, label, count in _counters(sample):
                counted(sample)
                if name != _PER_POSITION:
                    sums[name] = sums.get(name, 0.0) + count
                elif label.isascii() and label.isdigit() and len(label) <= 4:
                    positions[int(label)] = positions.get(int(label), 0.0) + count
                else:
                    rule = f"needs a label with the position, a number, got {shown(label)!r}"
                    raise SchemaError(f"metrics: {_PER_POSITION}: {rule}")
        if f"{_SPEC}drafts" not in sums:
            return None
        if sorted(positions) != list(range(len(positions))):
            raise SchemaError(f"metrics: {_PER_POSITION}: positions must be 0, 1, 2, ..., none left out")
        return cls(
            tokens=int(sums.get(_GENERATED, 0.0)),
            drafts=int(sums[f"{_SPEC}drafts"]),
            drafted=int(sums.get(f"{_SPEC}draft_tokens", 0.0)),
            accepted=int(sums.get(f"{_SPEC}accepted_tokens", 0.0)),
            accepted_at=tuple(int(positions[p]) for p in sorted(positions)),
        )

    def since(self, earlier: SpecDecode) -> SpecDecode:
        """The counts between an earlier reading and this one.

        Raises
        ------
        SchemaError : a counter decreased: the server was restarted in between.
        """
        names = ("tokens", "drafts", "drafted", "accepted")
        counts = {name: getattr(self, name) - getattr(earlier, name) for name in names}
        at = tuple(a - b for a, b in zip_longest(self.accepted_at, earlier.accepted_at, fillvalue=0))
        if min(*counts.values(), *at) < 0:
            raise SchemaError(BACK)
        return SpecDecode(**counts, accepted_at=at)

    @property
    def tokens_per_pass(self) -> float:
        """Tokens per target pass, N / (N - accepted): every pass commits a token in addition to accepted ones."""
        return self.tokens / (self.tokens - self.accepted) if self.tokens > self.accepted else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCounts:
    """Counters of a server since its start, and its requests at that moment."""

    retries: int = 0
    """Requests that this process sent again, because the server had refused them or broken the connection."""
    load: Load | None = None
    tokens: int | None = None
    """Tokens generated; None where the server does not tell."""
    preempted: int = 0
    """Requests that lost their place in the cache and were computed again."""
    speculation: SpecDecode | None = None

    @classmethod
    def read(cls, samples: Sequence[Sample], retries: int = 0) -> Self:
        """Extract the counters from a reading of ``/metrics``; an empty one tells none.

        Raises
        ------
        SchemaError : a value is not a count.
        """
        tokens = [counted(s) for s in samples if s.name.removesuffix("_total") in _TOKENS]
        preempted = [counted(s) for s in samples if s.name.removesuffix("_total") == "vllm:num_preemptions"]
        return cls(
            retries=retries,
            load=load(samples),
            tokens=int(sum(tokens)) if tokens else None,
            preempted=int(sum(preempted)),
            speculation=SpecDecode.read(samples),
        )
