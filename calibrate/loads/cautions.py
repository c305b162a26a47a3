"""What a closed loop cannot tell, or tells with a doubt: a line each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from calibrate.loads.closed_loop import Loop
from calibrate.record.engine_records import LoadRecord
from theory.errors import ParameterError

__all__ = ["cautions", "unusable"]

_SHARE: Final = 0.02
"""Difference between counters and streams that is put down to their definitions, as a share, [-]."""
_PASSES: Final = 3
"""Passes by which the moments of a reading may be off, for each reading."""
_ANEW: Final = "warning: the server's counters started anew in between: only its streams are used"
_Z: Final = 4.0
"""Standard errors by which counted and streamed tokens per pass may differ."""


def unusable(loop: Loop, record: LoadRecord | None) -> str:
    """Return why a level is left out; empty if it can be used."""
    if loop.ended and not any(one.n_generated > 1 for one in loop.ended):
        return f"all {len(loop.ended)} answers were empty"
    if record is None:
        return "no pass ended in its time: give fewer answers at once (--concurrency)"
    before, after = loop.begun.counts, loop.closed.counts
    if before is None or after is None:
        return ""
    if after.retries > before.retries:
        return f"the server refused or broke off {after.retries - before.retries} requests, which were sent again"
    if after.preempted > before.preempted:
        return f"the server preempted {after.preempted - before.preempted} answers for want of cache"
    return ""


def cautions(loop: Loop, record: LoadRecord) -> Iterator[str]:
    """Yield what is to be known of a level, a line each."""
    if record.queued:
        yield f"the server ran {record.most} answers at once, the others waited"
    n_cut = sum(one.finish == "length" for one in loop.ended)
    if n_cut:
        yield f"{n_cut} of {len(loop.ended)} answers were cut at the limit of tokens"
    n_empty = sum(one.n_generated <= 1 for one in loop.ended)
    if n_empty:
        yield f"{n_empty} of {len(loop.ended)} answers were empty"
    if loop.ended and not any(one.n_prompt_tokens for one in loop.ended):
        yield "warning: the server's streams tell no usage: a chunk counts as a token, prompts as without length"
    yield from _disagreements(loop, record)


def _disagreements(loop: Loop, record: LoadRecord) -> Iterator[str]:
    """Where the server's counters and the tokens of the streams differ by more than chance; the streams' are kept."""
    before, after = loop.opened.counts, loop.closed.counts
    if before is None or after is None or before.tokens is None or after.tokens is None:
        return
    counted = after.tokens - before.tokens
    if counted < 0:
        yield _ANEW
        return
    rate = record.tokens / record.seconds
    unsure_s = sum(reading.ended - reading.begun for reading in (loop.opened, loop.closed))
    allowed = _SHARE * record.tokens + rate * unsure_s + 2 * _PASSES * record.k2 * record.most
    if abs(counted - record.tokens) > allowed:
        yield f"warning: the server counted {counted} tokens, its streams had {record.tokens}: does it serve others?"
    elif before.speculation is not None and after.speculation is not None:
        try:
            drafts = after.speculation.since(before.speculation)
        except ParameterError:
            yield _ANEW
            return
        passes = sum(one.batch * one.n for one in record.passes)
        if not passes or drafts.tokens <= drafts.accepted:
            return
        streamed = sum(one.tokens for one in record.passes) / passes
        error = record.k2 / 2.0 * math.sqrt(1.0 / passes + 1.0 / (drafts.tokens - drafts.accepted))
        if abs(drafts.tokens_per_pass - streamed) > _Z * error + _SHARE * streamed:
            said = f"{drafts.tokens_per_pass:.2f} tokens per pass and answer, its streams had {streamed:.2f}"
            yield f"warning: the server counted {said}"
