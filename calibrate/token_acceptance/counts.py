"""Token acceptance of an engine read in four ways, all brought to one definition.

Tokens per target pass are N / (N - accepted): N tokens were generated, and every pass of the target gives one besides
those that were drafted and accepted. A prefill is such a pass, so the first token of a request is in N. Passes without
a draft (an n-gram that was not found) are passes: drafts are fewer, and 1 + accepted / drafts would be too much.

The last pass of a request may have accepted tokens beyond its end; counters, records and offline metrics count them as
accepted, streams do not show them. That is less than k2 tokens for each request, and nothing if requests are long.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from calibrate.engines.prometheus import SpecDecode
from calibrate.token_acceptance.requests import RequestAcceptance
from theory.errors import ParameterError, SchemaError

__all__ = ["DEFINITION", "TokenCounts", "disagreement", "report"]

DEFINITION: Final = (
    "tokens per target pass = N / (N - accepted), N all generated tokens, first ones included; passes without a draft "
    "count as passes"
)
_SPEC: Final = "vllm:spec_decode_num_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    """What one source says about the same requests."""

    source: str
    tokens: int
    """Tokens generated, N."""

    accepted: int
    """Drafted tokens that were accepted."""

    drafts: int | None = None
    """Passes with a draft; None where the source does not tell them from passes without."""

    drafted: int | None = None
    """Drafted tokens; None where the source does not tell."""

    def __post_init__(self) -> None:
        if not 0 <= self.accepted < max(self.tokens, 1):
            raise ParameterError("accepted", self.accepted, f"must be >= 0 and less than the {self.tokens} tokens")

    @classmethod
    def of_counters(cls, counted: SpecDecode) -> Self:
        """Read a server's ``/metrics``, the difference of two readings."""
        return cls(
            source="engine counters",
            tokens=counted.tokens,
            accepted=counted.accepted,
            drafts=counted.drafts,
            drafted=counted.drafted,
        )

    @classmethod
    def of_records(cls, records: Iterable[RequestAcceptance]) -> Self:
        """Read the records of requests (``--per-request-spec-decode-metrics``).

        Raises
        ------
        ParameterError : there is none, or one without its number of tokens.
        """
        told = list(records)
        if not told or any(record.n_tokens is None for record in told):
            raise ParameterError("records", len(told), "must be at least one, each with its number of tokens")
        return cls(
            source="per-request records",
            tokens=sum(record.n_tokens or 0 for record in told),
            accepted=sum(record.n_accepted for record in told),
            drafts=sum(record.n_steps for record in told),
            drafted=sum(record.n_drafted for record in told),
        )

    @classmethod
    def of_metrics(cls, metrics: Iterable[Any]) -> Self:
        """Read what vLLM's offline ``llm.get_metrics()`` returns; the names lack ``_total`` there.

        Raises
        ------
        SchemaError : it has no counters of speculative decoding (``disable_log_stats`` must be False).
        """
        sums: dict[str, int] = {}
        for metric in metrics:
            value = getattr(metric, "value", None)
            if isinstance(value, int):
                sums[metric.name] = sums.get(metric.name, 0) + value
        if f"{_SPEC}drafts" not in sums:
            raise SchemaError("metrics: no counters of speculative decoding; disable_log_stats must be False")
        return cls(
            source="offline metrics",
            tokens=sums.get("vllm:generation_tokens", 0),
            accepted=sums[f"{_SPEC}accepted_tokens"],
            drafts=sums[f"{_SPEC}drafts"],
            drafted=sums[f"{_SPEC}draft_tokens"],
        )

    @classmethod
    def of_chunks(cls, streams: Iterable[Sequence[int]], k2: int) -> Self:
        """Count the tokens of each streamed output: those accepted in a pass, and one more.

        Parameters
        ----------
        streams : for each request the tokens of its outputs, in order.
        k2 : tokens that a pass commits at most, >= 1. An output with more holds several passes, which a slow reader
            found merged; it counts as the fewest that it can be.

        >>> TokenCounts.of_chunks([(1, 3, 1, 4)], k2=4).tokens_per_pass
        2.25
        """
        if k2 < 1:
            raise ParameterError("k2", k2, "must be an integer >= 1")
        chunks = [[n for n in stream if n] for stream in streams]
        tokens = sum(map(sum, chunks))
        passes = sum(math.ceil(n / k2) for stream in chunks for n in stream)
        return cls(source="streamed chunks", tokens=tokens, accepted=tokens - passes)

    @property
    def tokens_per_pass(self) -> float:
        """Tokens per target pass, N / (N - accepted), >= 1; NaN without any."""
        return self.tokens / (self.tokens - self.accepted) if self.tokens else math.nan

    @property
    def acceptance_rate(self) -> float:
        """Accepted over drafted tokens, in [0, 1]; NaN where the source does not tell."""
        return self.accepted / self.drafted if self.drafted else math.nan


def disagreement(counts: Sequence[TokenCounts]) -> float:
    """Return the largest tokens per pass over the smallest, less 1.

    Raises
    ------
    ParameterError : fewer than two sources, or one that counted nothing.
    """
    values = [source.tokens_per_pass for source in counts]
    if len(values) < 2 or not all(math.isfinite(value) for value in values):
        raise ParameterError("counts", values, "must be at least two, none of them empty")
    return max(values) / min(values) - 1.0


def report(counts: Sequence[TokenCounts]) -> str:
    """Return what every source says, one to a line, with the definition and how far they are apart."""
    lines = [DEFINITION]
    for told in counts:
        drafts = "" if told.drafts is None else f", {told.drafts} drafts of {told.drafted} tokens"
        accepted = f"{told.accepted} accepted{drafts}"
        lines.append(f"{told.source}: {told.tokens_per_pass:.4f} ({told.tokens} tokens, {accepted})")
    return "\n".join([*lines, f"largest over smallest: {100 * disagreement(counts):+.2f} %"])
