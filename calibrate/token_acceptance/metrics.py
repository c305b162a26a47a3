"""Token acceptance from ``/metrics``: by position from vLLM, llama.cpp and TensorRT-LLM, as a mean length from SGLang.

The former count, per position, the drafts that were accepted up to it, and the passes that had a draft. SGLang
shows the mean acceptance length of its last batches and no position: with the tokens drafted per round (k) it gives one
rate for all positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from calibrate.engines.prometheus import Sample, SpecDecode, counted, parse_metrics
from calibrate.token_acceptance.curves import AcceptanceCurve
from theory.errors import ParameterError, SchemaError, shown

__all__ = ["curve_of_metrics"]

_NEEDED: Final = (
    "no counts of speculative decoding: needed are those of vLLM (vllm:spec_decode_num_drafts_total), llama.cpp "
    "(llamacpp:spec_decode_num_drafts), TensorRT-LLM (trtllm_spec_decode_drafted_tokens_total) or SGLang "
    "(sglang:spec_accept_length) after some answers"
)
_FIRST: Final = ("vllm:time_to_first_token_seconds_count", "trtllm_time_to_first_token_seconds_count")
"""Counts of answers that began: prefills, whose passes verify no draft."""


def curve_of_metrics(dumps: Sequence[tuple[str, str]], k: int | None = None) -> AcceptanceCurve:
    """Return the acceptance that one dump of ``/metrics`` tells, or what was counted between two.

    Parameters
    ----------
    dumps : source and text of one dump, or of two of the same server, the earlier one first.
    k : tokens drafted per round, >= 1: for dumps that do not tell (SGLang's), and to take the first positions only.

    Raises
    ------
    SchemaError : no metrics, none of speculative decoding, or of more than one model.
    ParameterError : two dumps that were swapped or have nothing between them, or ``k`` missing or out of range.
    """
    if not 1 <= len(dumps) <= 2:
        raise ParameterError("metrics", len(dumps), "must be one dump, or two of the same server")
    read = [_samples(text, source) for source, text in dumps]
    source = dumps[-1][0]
    latest, earlier = SpecDecode.read(read[-1]), SpecDecode.read(read[0])
    if latest is None or earlier is None:
        source = dumps[-1 if latest is None else 0][0]
        lengths = [one.value for one in read[-1] if one.name == "sglang:spec_accept_length" and one.value > 0.0]
        if not lengths:
            raise SchemaError(f"{source}: {_NEEDED}")
        length = math.fsum(lengths) / len(lengths)
        if k is None:
            rule = f"SGLang's metrics tell a mean length ({length:.3g}) only: tokens drafted per round"
            raise ParameterError("k", None, f"must be said, since {rule}")
        return AcceptanceCurve.from_length(length, k)
    try:
        counts = latest.since(earlier) if len(dumps) == 2 else latest
    except SchemaError as error:
        raise SchemaError(f"{dumps[0][0]}, {source}: {error}") from None
    if not counts.drafts:
        raise SchemaError(f"{source}: nothing was drafted{' between the dumps' if len(dumps) == 2 else ''}")
    answers = [sum(counted(one) for one in samples if one.name in _FIRST) for samples in read]
    curve = _by_position(counts, answers[-1] - (answers[0] if len(dumps) == 2 else 0.0))
    if k is None or k == curve.k:
        return curve
    if not 1 <= k < curve.k:
        raise ParameterError("k", k, f"must be in [1, {curve.k}], the positions that the metrics count")
    return replace(curve, unconditional=curve.unconditional[:k])


def _samples(text: str, source: str) -> list[Sample]:
    try:
        samples = parse_metrics(text)
    except SchemaError as error:
        raise SchemaError(f"{source}: {error}") from None
    models = sorted({sample.labels["model_name"] for sample in samples if "model_name" in sample.labels})
    if len(models) > 1:
        raise SchemaError(f"{source}: has metrics of several models ({shown(', '.join(models))}): save those of one")
    return samples


def _by_position(counts: SpecDecode, answers: float) -> AcceptanceCurve:
    """The curve of counters; without counts by position, one rate from accepted over drafts."""
    passes = counts.tokens - answers - counts.accepted
    hit_rate = min(counts.drafts / passes, 1.0) if passes > 0 else None
    if not counts.accepted_at:
        k = max(round(counts.drafted / counts.drafts), 1)
        length = 1.0 + counts.accepted / counts.drafts
        return replace(AcceptanceCurve.from_length(length, k), hit_rate=hit_rate)
    rates: list[float] = []
    for accepted in counts.accepted_at:  # read while requests end, a position may be ahead of the one before
        rates.append(min(accepted / counts.drafts, rates[-1] if rates else 1.0))
    return AcceptanceCurve(unconditional=tuple(rates), hit_rate=hit_rate)
