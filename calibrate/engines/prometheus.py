"""What a model server says about itself in Prometheus text: its load, and its counters of speculative decoding.

Counters grow from the server's start, so two readings are subtracted. ``_created`` lines carry times, not counts, and
are skipped. vLLM counts a draft only where something was drafted: an n-gram lookup that finds nothing is a target pass
without a draft, so drafts are not passes, and tokens per target pass is N / (N - accepted), N being all tokens.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from theory.errors import ParameterError, SchemaError, shown

__all__ = ["Load", "Sample", "SpecDecode", "counted", "load", "parse_metrics"]

_LINE: Final = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?")
_LABEL: Final = re.compile(r'\s*([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE: Final = re.compile(r"\\(.)")
_RUNNING: Final = ("vllm:num_requests_running", "sglang:num_running_reqs", "tgi_batch_current_size")
_WAITING: Final = ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "tgi_queue_size")
_SPEC: Final = "vllm:spec_decode_num_"
_PER_POSITION: Final = f"{_SPEC}accepted_tokens_per_pos_total"
_GENERATED: Final = "vllm:generation_tokens_total"
_MOST: Final = 1e15
"""Largest count that is believed: 30 years of a million tokens per second; exact in a float."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of an exposition."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse_metrics(text: str) -> list[Sample]:
    """Read a Prometheus text exposition; comments and ``_created`` lines are left out.

    Raises
    ------
    SchemaError : a line is neither a comment nor a sample; the text carries its number.

    >>> parse_metrics('a_total{x="1"} 2.0')
    [Sample(name='a_total', labels={'x': '1'}, value=2.0)]
    """
    samples = []
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        sample = _sample(stripped)
        if sample is None:
            raise SchemaError(f"metrics: line {number} is no sample: {stripped[:60]!r}")
        if not sample.name.endswith("_created"):
            samples.append(sample)
    return samples


def counted(sample: Sample) -> float:
    """The value of a sample that counts something.

    Raises
    ------
    SchemaError : it is negative, not a number, or more than any server counts.
    """
    if not 0.0 <= sample.value < _MOST:
        raise SchemaError(f"metrics: {shown(sample.name)}: must be a count of at least 0, got {sample.value:g}")
    return sample.value


def _position(sample: Sample) -> int:
    """The position of a count of accepted tokens."""
    label = sample.labels.get("position", "")
    if not (label.isascii() and label.isdigit() and len(label) <= 4):
        raise SchemaError(f"metrics: {_PER_POSITION}: needs a label 'position' that is a number, got {shown(label)!r}")
    return int(label)


def _sample(line: str) -> Sample | None:
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    labels: dict[str, str] = {}
    rest, position = match[2] or "", 0
    while position < len(rest):
        label = _LABEL.match(rest, position)
        if label is None:
            return None
        labels[label[1]] = _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], label[2])
        position = label.end()
    try:
        return Sample(match[1], labels, float(match[3]))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Load:
    """Requests on a server at one moment."""

    running: int
    waiting: int

    @property
    def idle(self) -> bool:
        """Whether there are none."""
        return self.running == 0 and self.waiting == 0


def load(samples: Iterable[Sample]) -> Load | None:
    """Requests that a vLLM, SGLang or TGI server reports, all engines and models together; None: it reports none."""
    known = [sample for sample in samples if sample.name in _RUNNING + _WAITING and 0.0 <= sample.value < _MOST]
    if not known:
        return None
    running, waiting = (int(sum(s.value for s in known if s.name in names)) for names in (_RUNNING, _WAITING))
    return Load(running, waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDecode:
    """vLLM's counters of speculative decoding, since the server's start or between two readings."""

    tokens: int
    """Tokens generated in all, N."""

    drafts: int
    """Target passes that verified a draft; passes without one are not counted."""

    drafted: int
    accepted: int
    """Drafted tokens, and those of them that were accepted."""

    accepted_at: tuple[int, ...] = field(default=())
    """Drafts of which the token at this position was accepted (unconditional, from position 0)."""

    @classmethod
    def read(cls, samples: Iterable[Sample]) -> Self | None:
        """Find the counters; None where the server does not speculate.

        Raises
        ------
        SchemaError : a count is none, or positions are left out.
        """
        sums: dict[str, float] = {}
        positions: dict[int, float] = {}
        for sample in samples:
            if sample.name == _PER_POSITION:
                position = _position(sample)
                positions[position] = positions.get(position, 0.0) + counted(sample)
            elif sample.name.startswith(_SPEC) or sample.name == _GENERATED:
                sums[sample.name] = sums.get(sample.name, 0.0) + counted(sample)
        if f"{_SPEC}drafts_total" not in sums:
            return None
        if sorted(positions) != list(range(len(positions))):
            raise SchemaError(f"metrics: {_PER_POSITION}: positions must be 0, 1, 2, ..., none left out")
        return cls(
            tokens=int(sums.get(_GENERATED, 0.0)),
            drafts=int(sums[f"{_SPEC}drafts_total"]),
            drafted=int(sums.get(f"{_SPEC}draft_tokens_total", 0.0)),
            accepted=int(sums.get(f"{_SPEC}accepted_tokens_total", 0.0)),
            accepted_at=tuple(int(positions[p]) for p in sorted(positions)),
        )

    def since(self, earlier: SpecDecode) -> SpecDecode:
        """What was counted between an earlier reading and this one.

        Raises
        ------
        ParameterError : a counter went back: the server was started anew in between.
        """
        before = earlier.accepted_at + (0,) * (len(self.accepted_at) - len(earlier.accepted_at))
        difference = SpecDecode(
            tokens=self.tokens - earlier.tokens,
            drafts=self.drafts - earlier.drafts,
            drafted=self.drafted - earlier.drafted,
            accepted=self.accepted - earlier.accepted,
            accepted_at=tuple(a - b for a, b in zip(self.accepted_at, before, strict=False)),
        )
        if min(difference.tokens, difference.drafts, difference.drafted, difference.accepted) < 0:
            raise ParameterError("earlier", earlier, "must be an earlier reading of the same server run")
        return difference

    @property
    def tokens_per_pass(self) -> float:
        """Tokens per target pass, N / (N - accepted): every pass gives one token besides those that it accepted."""
        return self.tokens / (self.tokens - self.accepted) if self.tokens > self.accepted else math.nan

    @property
    def acceptance_rate(self) -> float:
        """Accepted over drafted tokens, in [0, 1]; NaN if nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else math.nan
