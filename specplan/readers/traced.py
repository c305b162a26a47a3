"""Acceptance along recorded requests, acceptance by rank, and fitted times of passes: what simulators of others read.

**Traces** are those of SpecDecode-Bench (arXiv:2601.11580, github.com/SpecDecode-Bench/simulator): JSONL, an object a
request with ``prompt_token_ids`` (or ``prompt_tokens``, their number) and for each drafter ``acc_NAME`` with a list
``acc_len``: entry i is how many tokens a round that starts after i + 1 generated tokens would commit if drafts were
long enough, the target's own one included.

**Ranks** are a JSON object ``{"by_rank": [p_1, p_2, ...]}``: P(the draft of rank r is the accepted one), as Sequoia's
acceptance vector without its first entry.

**Latency** is a JSON object; all times are in seconds, and what is left out costs nothing::

    {"target": {"fixed_s": .., "per_row_s": .., "per_sequence_s": .., "per_context_token_s": ..},
     "round_s": ..,
     "drafts": {NAME: {"fixed_s": .., "per_position_s": .., "per_context_token_s": ..,
                       "share_of_target": .., "drafted_at_miss": ..}}}

A target pass is linear in its rows (tokens of all sequences), sequences, and tokens of context; ``by_rows`` ({rows:
seconds}) are the times of trees where they are measured. ``round_s`` is what each iteration takes besides. Drafting
for a round takes a fixed time, so much for each position of one sequence's pass (k + 1), and so much for each token of
context of the batch; or a share of the target's pass. ``drafted_at_miss`` is the probability that a round has a draft
at all where none would be right (n-gram lookup; default 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from calibrate.record.fields import checked
from calibrate.record.files import read_text
from calibrate.record.json_text import json_lines, parse_json
from theory.errors import SchemaError

__all__ = ["DraftCost", "FittedLatency", "PassCost", "TracedRequest", "read_latency", "read_traced"]

_MOST_BYTES: Final = 512 * 2**20
_MOST_TOKENS: Final = 10_000_000

_Seconds = Annotated[float, Field(ge=0.0, le=1e4)]
_Share = Annotated[float, Field(ge=0.0, le=1.0)]
_Rows = Annotated[int, Field(ge=1, le=1024)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class PassCost(_Strict):
    """Seconds of a pass of the target."""

    fixed_s: _Seconds = 0.0
    per_row_s: _Seconds = 0.0
    per_sequence_s: _Seconds = 0.0
    per_context_token_s: _Seconds = 0.0
    by_rows: dict[_Rows, Annotated[float, Field(gt=0.0, le=1e4)]] | None = None

    def seconds(self, passes: float, rows: float, sequences: float, context: float) -> float:
        """Seconds of several passes, given the totals of their rows, sequences and tokens of context."""
        rest = self.per_sequence_s * sequences + self.per_context_token_s * context
        return self.fixed_s * passes + self.per_row_s * rows + rest


class DraftCost(_Strict):
    """Seconds of drafting for a round."""

    fixed_s: _Seconds = 0.0
    per_position_s: _Seconds = 0.0
    per_context_token_s: _Seconds = 0.0
    share_of_target: _Share = 0.0
    drafted_at_miss: _Share = 1.0


class FittedLatency(_Strict):
    """Fitted times of a target and its drafters on a machine."""

    target: PassCost
    round_s: _Seconds = 0.0
    drafts: Annotated[dict[str, DraftCost], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRequest:
    """A recorded request."""

    prompt_tokens: int
    lengths: Mapping[str, tuple[int, ...]]
    """By drafter: tokens that a round would commit, from each generated token on; as many as the answer has tokens."""


def read_latency(path: str | Path) -> FittedLatency:
    """Read fitted times.

    Raises
    ------
    SchemaError : unreadable, or not as the module says.
    """
    return checked(FittedLatency, parse_json(read_text(path, "fitted latency"), str(path)), str(path))


def read_traced(path: str | Path) -> tuple[TracedRequest, ...] | tuple[float, ...]:
    """Read traces, a request a line; or acceptance by rank.

    Raises
    ------
    SchemaError : unreadable, or neither.
    """
    where = str(path)
    lines = list(json_lines(read_text(path, "acceptance traces", most_bytes=_MOST_BYTES), where))
    if len(lines) == 1 and isinstance(lines[0][1], dict) and "by_rank" in lines[0][1]:
        return tuple(checked(_Ranks, lines[0][1], where).by_rank)
    requests = tuple(_request(item, f"{where}:{number}") for number, item in lines)
    if not requests:
        raise SchemaError(f"{where}: holds no request: one JSON object a line, with prompt_token_ids and acc_NAME")
    return requests


class _Ranks(_Strict):
    by_rank: Annotated[list[_Share], Field(min_length=1, max_length=1024)]


class _Lengths(BaseModel):
    acc_len: list[Annotated[int, Field(ge=1, le=1024)]]


class _Prompt(BaseModel):
    prompt_token_ids: list[int] | None = None
    prompt_tokens: Annotated[int, Field(ge=0, le=_MOST_TOKENS)] | None = None


def _request(item: Any, where: str) -> TracedRequest:
    prompt = checked(_Prompt, item, where)
    tokens = prompt.prompt_tokens if prompt.prompt_token_ids is None else len(prompt.prompt_token_ids)
    if tokens is None:
        raise SchemaError(f"{where}: prompt_token_ids: must be there, or prompt_tokens, their number")
    by_drafter = {key[4:] or "draft": item[key] for key in item if key == "acc" or key.startswith("acc_")}
    if not by_drafter:
        raise SchemaError(f"{where}: acc_NAME: must be there for one drafter at least, with a list acc_len")
    lengths = {
        name: tuple(checked(_Lengths, {"acc_len": value} if isinstance(value, list) else value, where).acc_len)
        for name, value in by_drafter.items()
    }
    return TracedRequest(prompt_tokens=tokens, lengths=lengths)
