"""Speculative tokens by batch size: vLLM's dynamic speculative decoding.

Two formats. The table ``num_speculative_tokens_per_batch_size`` of vLLM's speculative config is a list of
``[first batch size, last batch size, K]``, both ends included; what lies between two ranges takes the K of the one
before. The JSON of its profiling tool holds ``acceptance_rate_per_pos`` (unconditional, per draft) and ``batch_stats``,
``{batch size: {K: milliseconds}}``, where the time is the median gap between two chunks of a stream, that is the time
of one *pass*, not of a token. vLLM picks the K with the most tokens per millisecond, ``(1 + u_1 + ... + u_K) / time``.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from calibrate.record.json_text import load_json, number
from calibrate.token_acceptance.curves import AcceptanceCurve
from theory.errors import ParameterError, SchemaError

__all__ = ["BatchRange", "DynamicStats", "Schedule"]


class BatchRange(NamedTuple):
    """Batch sizes that draft alike; an array in files."""

    first: int
    last: int
    """Included."""
    k: int
    """Tokens drafted, >= 0."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """K by batch size, as in vLLM's ``num_speculative_tokens_per_batch_size``."""

    ranges: tuple[BatchRange, ...]
    """Sorted, not overlapping, starting at batch size 1."""

    def __post_init__(self) -> None:
        if not self.ranges or self.ranges[0].first != 1:
            raise ParameterError("schedule", self.plain(), "must start at batch size 1: add [1, LAST, K]")
        last = 0
        for first, end, k in self.ranges:
            if not (last < first <= end and k >= 0):
                rule = "must be [first, last, K] with first <= last and K >= 0, after the end of the range before it"
                raise ParameterError("schedule", [first, end, k], rule)
            last = end

    @classmethod
    def of(cls, best: Mapping[int, int], max_batch: int) -> Self:
        """Merge the best K of measured batch sizes into ranges; each holds up to the next measured one.

        Raises
        ------
        ParameterError : batch size 1 is missing, or ``max_batch`` lies below a measured one.
        """
        sizes = sorted(best)
        if not sizes or sizes[-1] > max_batch:
            raise ParameterError("max_batch", max_batch, f"must be at least the largest measured batch size ({sizes})")
        ranges: list[BatchRange] = []
        for first, end in zip(sizes, [*(size - 1 for size in sizes[1:]), max_batch], strict=True):
            if ranges and ranges[-1].k == best[first]:
                ranges[-1] = ranges[-1]._replace(last=end)
            else:
                ranges.append(BatchRange(first, end, best[first]))
        return cls(tuple(ranges))

    @classmethod
    def parse(cls, data: Any, where: str = "schedule") -> Self:
        """Read the table from JSON data.

        Raises
        ------
        SchemaError : not a list of three integers each.
        ParameterError : overlapping or negative entries; the text names ``where``.
        """
        if not isinstance(data, list) or not data:
            raise SchemaError(f"{where}: must be a list of [first batch size, last batch size, K]")
        for i, entry in enumerate(data):
            good = isinstance(entry, list) and len(entry) == 3 and all(type(item) is int for item in entry)
            if not good:
                raise SchemaError(f"{where}[{i}]: must be three integers [first, last, K], got {entry!r}")
        try:
            return cls(tuple(BatchRange(*entry) for entry in sorted(data)))
        except ParameterError as error:
            raise ParameterError(where, error.value, error.rule) from None

    @property
    def most(self) -> int:
        """Largest K."""
        return max(entry.k for entry in self.ranges)

    def at(self, batch: int) -> int:
        """K at a batch size; gaps and what lies beyond the end take the K before.

        >>> Schedule((BatchRange(1, 4, 3), BatchRange(8, 16, 1))).at(6)
        3
        """
        if batch < 1:
            raise ParameterError("batch", batch, "must be an integer >= 1")
        return self.ranges[bisect_right([entry.first for entry in self.ranges], batch) - 1].k

    def plain(self) -> list[list[int]]:
        """The table as JSON data."""
        return [list(entry) for entry in self.ranges]


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicStats:
    """What vLLM's dynamic speculative decoding is computed from."""

    curve: AcceptanceCurve
    pass_ms: Mapping[int, Mapping[int, float]]
    """Batch size -> K -> milliseconds of a pass that verifies K drafted tokens per sequence."""
    is_online: bool = False
    """vLLM's field of that name: whether acceptance is updated while serving."""

    def __post_init__(self) -> None:
        if 1 not in self.pass_ms:
            raise ParameterError("batch_stats", sorted(self.pass_ms), "must have batch size 1")
        for batch, times in self.pass_ms.items():
            if batch < 1 or 0 not in times:
                raise ParameterError(f"batch_stats[{batch}]", sorted(times), "must have K = 0, a pass without drafts")
            for k, milliseconds in times.items():
                if k < 0 or not (math.isfinite(milliseconds) and milliseconds > 0.0):
                    raise ParameterError(f"batch_stats[{batch}][{k}]", milliseconds, "must be milliseconds > 0")

    @classmethod
    def parse(cls, text: str, where: str = "dynamic statistics") -> Self:
        """Read vLLM's JSON (object keys are strings there).

        Raises
        ------
        SchemaError : not JSON, or fields that are missing, of the wrong kind or at odds with each other.
        ParameterError : impossible rates or times.
        """
        data = load_json(text, where)
        for field in ("acceptance_rate_per_pos", "batch_stats"):
            if field not in data:
                raise SchemaError(f"{where}: {field}: missing")
        rates = data["acceptance_rate_per_pos"]
        if not isinstance(rates, list):
            raise SchemaError(f"{where}: acceptance_rate_per_pos: must be a list of rates")
        most = data.get("max_num_speculative_tokens", len(rates))
        if most != len(rates):
            raise SchemaError(f"{where}: max_num_speculative_tokens: {most!r}, but there are {len(rates)} rates")
        online = data.get("is_online", False)
        if not isinstance(online, bool):
            raise SchemaError(f"{where}: is_online: must be true or false, got {online!r}")
        times = {}
        for batch, row in _integer_keys(data["batch_stats"], f"{where}: batch_stats").items():
            place = f"{where}: batch_stats.{batch}"
            times[batch] = {k: number(value, f"{place}.{k}") for k, value in _integer_keys(row, place).items()}
        values = [number(rate, f"{where}: acceptance_rate_per_pos[{j}]") for j, rate in enumerate(rates)]
        return cls(curve=AcceptanceCurve.of(values, "unconditional"), pass_ms=times, is_online=online)

    def plain(self) -> dict[str, Any]:
        """The JSON that vLLM's tool writes; K in rising order, as vLLM asks.

        Raises
        ------
        ParameterError : a batch size without a time for K = 1, which vLLM refuses.
        """
        for batch, times in self.pass_ms.items():
            if 1 not in times:
                raise ParameterError(f"batch_stats[{batch}]", sorted(times), "must have K = 1 for vLLM: measure it")
        return {
            "is_online": self.is_online,
            "max_num_speculative_tokens": self.curve.k,
            "acceptance_rate_per_pos": list(self.curve.unconditional),
            "batch_stats": {str(b): {str(k): row[k] for k in sorted(row)} for b, row in sorted(self.pass_ms.items())},
        }

    def milliseconds(self, batch: int, k: int) -> float:
        """Time of a pass at a measured batch size: measured, or between the measured K on either side.

        With a hit rate below 1 (n-gram lookup) the sequences without a draft bring one token each, and the time lies
        between that of a plain pass and that of a full one in the same proportion: exact where time is linear in
        tokens, and at batch size 1 on average.

        Raises
        ------
        ParameterError : ``k`` is beyond what was measured.
        """
        row, depths = self.pass_ms[batch], sorted(self.pass_ms[batch])
        if not depths[0] <= k <= depths[-1]:
            raise ParameterError("k", k, f"must be in [{depths[0]}, {depths[-1]}], as measured")
        full = float(np.interp(k, depths, [row[depth] for depth in depths]))
        hit = 1.0 if self.curve.hit_rate is None else self.curve.hit_rate
        return hit * full + (1.0 - hit) * row[0]

    def best(self, batch: int) -> int:
        """The K with the most tokens per millisecond at a measured batch size; the smaller of equals."""
        depths = range(min(self.curve.k, max(self.pass_ms[batch])) + 1)
        hit = 1.0 if self.curve.hit_rate is None else self.curve.hit_rate
        accepted = [self.curve.figure("length-without-bonus", k) for k in depths]
        goodput = [(1.0 + hit * accepted[k]) / self.milliseconds(batch, k) for k in depths]
        return next(k for k, value in enumerate(goodput) if value >= max(goodput) * (1.0 - 1e-12))

    def limited(self, k: int) -> DynamicStats:
        """The same statistics for drafts of at most ``k`` tokens, >= 1; times in between are kept for interpolation."""
        return replace(self, curve=replace(self.curve, unconditional=self.curve.unconditional[:k]))

    def schedule(self, max_batch: int | None = None) -> Schedule:
        """The best K for each measured batch size, as ranges up to ``max_batch`` (default the largest measured)."""
        return Schedule.of({batch: self.best(batch) for batch in self.pass_ms}, max_batch or max(self.pass_ms))


def _integer_keys(data: Any, where: str) -> dict[int, Any]:
    """A mapping whose keys are integers, or integers as text, once each."""
    if not isinstance(data, dict) or not data:
        raise SchemaError(f"{where}: must be an object with integer keys")
    table: dict[int, Any] = {}
    for key, value in data.items():
        if isinstance(key, bool) or not (isinstance(key, int) or (isinstance(key, str) and key.isdecimal())):
            raise SchemaError(f"{where}: the key {key!r} must be an integer >= 0")
        if int(key) in table:
            raise SchemaError(f"{where}: the key {int(key)} comes twice")
        table[int(key)] = value
    return table
