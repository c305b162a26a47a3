"""vLLM's acceptance per request: ``metrics.speculative_decoding`` of a response (vLLM 0.32).

A server started with ``--per-request-spec-decode-metrics summary`` (or ``detailed``) adds to each response a histogram
of accepted tokens per verification step. Steps without a draft are not in it: how often an
n-gram lookup had no match follows from the answer's tokens. The figures of an entry must agree with each other,
or it is refused: one that was cut or mixed up is not averaged in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from calibrate.record.json_text import load_json, number
from calibrate.token_acceptance.curves import AcceptanceCurve
from theory.errors import ParameterError, SchemaError, shown

__all__ = ["RequestAcceptance", "merged", "read_responses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAcceptance:
    """Acceptance of one request, or of several added up."""

    histogram: tuple[int, ...]
    """Verification steps that accepted exactly 0, 1, ... k drafted tokens; without the bonus token."""
    n_drafted: int
    """Tokens drafted."""
    n_tokens: int | None = None
    """Tokens generated, the first one included; None if not known."""

    @property
    def n_steps(self) -> int:
        """Verification steps that had a draft."""
        return sum(self.histogram)

    @property
    def n_accepted(self) -> int:
        """Drafted tokens accepted."""
        return sum(j * n for j, n in enumerate(self.histogram))

    @property
    def k(self) -> int:
        """Drafted tokens per step at most."""
        return len(self.histogram) - 1

    @classmethod
    def parse(cls, data: dict[str, Any], where: str = "response") -> Self:
        """Read a response body, its ``metrics``, or the entry ``speculative_decoding`` itself.

        Raises
        ------
        SchemaError : no such entry (or null), fields missing, or figures that contradict each other.
        """
        entry = _entry(data, where)
        histogram = entry.get("acceptance_histogram")
        if not isinstance(histogram, list) or len(histogram) < 2:
            raise SchemaError(f"{where}: acceptance_histogram: must be a list of counts of 0 to k >= 1 accepted tokens")
        counts = tuple(_count(n, f"{where}: acceptance_histogram[{j}]") for j, n in enumerate(histogram))
        usage = data.get("usage")
        tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
        request = cls(
            histogram=counts,
            n_drafted=_count(entry.get("num_draft_tokens"), f"{where}: num_draft_tokens"),
            n_tokens=None if tokens is None else _count(tokens, f"{where}: usage.completion_tokens"),
        )
        request._check(entry, where)
        return request

    def _check(self, entry: dict[str, Any], where: str) -> None:
        """Compare the fields that the histogram determines; a mean needs a draft."""
        figures: dict[str, float | None] = {
            "mean_acceptance_length": 1.0 + self.n_accepted / self.n_steps if self.n_steps else None,
            "draft_acceptance_rate": self.n_accepted / self.n_drafted if self.n_drafted else None,
            "num_spec_steps": self.n_steps,
            "num_accepted_draft_tokens": self.n_accepted,
            "num_spec_tokens": self.k,
        }
        for name, counted in figures.items():
            if entry.get(name) is None:
                continue
            stated = number(entry[name], f"{where}: {name}")
            if counted is not None and not math.isclose(stated, counted, rel_tol=1e-6, abs_tol=1e-9):
                raise SchemaError(f"{where}: {name}: {entry[name]}, but the histogram says {counted:g}")
        if self.n_drafted > self.k * self.n_steps or self.n_accepted > self.n_drafted:
            limits = f"between {self.n_accepted} accepted and {self.k} for each of {self.n_steps} steps"
            raise SchemaError(f"{where}: num_draft_tokens: {self.n_drafted} must be {limits}")

    def curve(self) -> AcceptanceCurve:
        """Acceptance per position, unconditional over the steps that had a draft; with the hit rate if it is known.

        The first token of an answer comes from the prefill, every other pass brings its accepted tokens and one more.

        Raises
        ------
        ParameterError : no step had a draft.
        """
        if not self.n_steps:
            raise ParameterError(
                "histogram", list(self.histogram), "must hold counts of 0 to k >= 1 accepted, not all 0"
            )
        rates = [sum(self.histogram[j:]) / self.n_steps for j in range(1, self.k + 1)]
        plain = AcceptanceCurve.of(rates, "unconditional")
        passes = 0 if self.n_tokens is None else self.n_tokens - 1 - self.n_accepted
        if passes < self.n_steps:  # also where the answer was cut inside its last draft
            return plain
        return replace(plain, hit_rate=self.n_steps / passes)


def _count(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SchemaError(f"{where}: must be an integer >= 0, got {shown(repr(value))}")
    return value


def _entry(data: dict[str, Any], where: str) -> dict[str, Any]:
    entry: Any = data
    for key in ("metrics", "speculative_decoding"):
        if isinstance(entry, dict) and key in entry:
            entry = entry[key]
    if not isinstance(entry, dict):
        text = "start the server with --per-request-spec-decode-metrics summary, and ask for one sequence (n = 1)"
        raise SchemaError(f"{where}: metrics.speculative_decoding: missing or null; {text}")
    return entry


def merged(parts: Iterable[RequestAcceptance]) -> RequestAcceptance:
    """Several requests added up; all with the same k. Tokens are known if they are of all.

    Raises
    ------
    ParameterError : no request, or different k.
    """
    items = list(parts)
    depths = {item.k for item in items}
    if len(depths) != 1:
        raise ParameterError("requests", sorted(depths), "must be at least one, all with the same num_spec_tokens")
    passes = [item.n_tokens for item in items]
    # every answer's first token is the prefill's: leave one of them for `curve` to take off
    tokens = None if None in passes else sum(max(n - 1, 0) for n in passes if n is not None) + 1
    return RequestAcceptance(
        histogram=tuple(sum(column) for column in zip(*(item.histogram for item in items), strict=True)),
        n_drafted=sum(item.n_drafted for item in items),
        n_tokens=tokens,
    )


def read_responses(text: str, where: str) -> RequestAcceptance:
    """Add up the responses in a text: one JSON object, or one to a line.

    Raises
    ------
    SchemaError : as `RequestAcceptance.parse`, with the line.
    """
    lines = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise SchemaError(f"{where}: empty file, expected responses in JSON")
    try:
        whole = load_json(text, where)
    except SchemaError:
        if len(lines) == 1 or not lines[0][1].rstrip().endswith("}"):
            raise
        return merged(RequestAcceptance.parse(load_json(line, f"{where}:{i}"), f"{where}:{i}") for i, line in lines)
    return RequestAcceptance.parse(whole, where)
