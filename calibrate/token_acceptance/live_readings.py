"""The same speculating requests on vLLM, their acceptance read in four ways (`calibrate.token_acceptance.counts`).

Three are read off an engine that serves: its counters, the records of its requests, and the tokens of its streamed
outputs. The fourth is ``llm.get_metrics()`` of an offline engine in another process, which runs the same requests with
the same seeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calibrate.engines.prometheus import SpecDecode
from calibrate.engines.protocol import Request
from calibrate.engines.vllm.config import VllmConfig
from calibrate.engines.vllm.engine import Read, VllmEngine
from calibrate.engines.vllm.offline import offline_metrics
from calibrate.token_acceptance.counts import TokenCounts
from calibrate.token_acceptance.requests import RequestAcceptance, merged
from theory.errors import CalibrationError, ParameterError

__all__ = ["Readings", "four_readings", "served_readings"]

_MERGED: Final = 0.005
"""Share of passes that a late reader may find merged with others in one output, at most, ..."""

_TRIES: Final = 4
"""... before its stream is read again; so often at most in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What the four sources say."""

    counts: tuple[TokenCounts, ...]
    """Engine counters, per-request records, offline metrics, streamed chunks."""

    records: RequestAcceptance
    """The records of all requests, added up."""


async def four_readings(config: VllmConfig, requests: Sequence[Request]) -> Readings:
    """Run requests one after the other in an engine that serves, then in an offline one, and read their acceptance.

    Parameters
    ----------
    config : both engines; it must speculate.
    requests : at least one. Long ones, since streams hide what is accepted beyond a request's end.

    Raises
    ------
    CalibrationError : an engine failed, or a request was ended by a stop string, of which vLLM keeps no record.
    ParameterError : the engine does not speculate, or there is no request.
    """
    if config.speculative is None or not requests:
        name, value = ("speculative", None) if config.speculative is None else ("requests", 0)
        raise ParameterError(name, value, "must be given: there is no acceptance to be read")
    counted, records, chunks = await _served(config, requests)
    offline = await asyncio.to_thread(offline_metrics, config, requests)
    return Readings(
        counts=(
            TokenCounts.of_counters(counted),
            TokenCounts.of_records(records),
            TokenCounts.of_metrics(offline),
            TokenCounts.of_chunks(chunks, k2=int(config.speculative["num_speculative_tokens"]) + 1),
        ),
        records=merged(records),
    )


async def _served(
    config: VllmConfig, requests: Sequence[Request]
) -> tuple[SpecDecode, list[RequestAcceptance], list[list[int]]]:
    """Return `served_readings` of an engine that is started for it."""
    engine = await VllmEngine.start(config)
    try:
        return await served_readings(engine, requests)
    finally:
        await engine.close()


async def served_readings(
    engine: VllmEngine, requests: Sequence[Request]
) -> tuple[SpecDecode, list[RequestAcceptance], list[list[int]]]:
    """Return the counters over the requests, their records, and the tokens of each output that was streamed.

    vLLM merges outputs that wait for their reader, so passes may be missing in a stream but never too many: of several
    runs, which write the same texts, each request's stream with the most outputs counts.

    Parameters
    ----------
    engine : speculates, and runs nothing else meanwhile.
    requests : as for `four_readings`.

    Raises
    ------
    CalibrationError : as `four_readings`.
    """
    before = engine.counters()
    reads = [await engine.read(request) for request in requests]
    after = engine.counters()
    chunks = [await _chunks(engine, request, read) for request, read in zip(requests, reads, strict=True)]
    assert before is not None  # the engine speculates
    assert after is not None
    return after.since(before), [_record(read) for read in reads], chunks


async def _chunks(engine: VllmEngine, request: Request, read: Read) -> list[int]:
    """The tokens of each output of a stream, read again while too many passes came merged with others."""
    best, n_passes = read.chunks, 0 if read.active is None else len(read.active.passes)
    for _ in range(1, _TRIES):
        if len(best) - 1 >= (1.0 - _MERGED) * n_passes:
            break
        best = max(best, (await engine.read(request)).chunks, key=len)
    return best


def _record(read: Read) -> RequestAcceptance:
    told = read.speculation
    if told is None:
        raise CalibrationError("vLLM kept no record of a request: a stop string ended it; ask for one without any")
    return RequestAcceptance.parse(
        {"metrics": {"speculative_decoding": told}, "usage": {"completion_tokens": len(read.token_ids)}}
    )
