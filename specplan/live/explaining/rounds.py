r"""Where the time of a round goes: its own work, prefills of other requests, and preemptions.

A preempted request waits and is prefilled again before its next token, so :math:`P` preemptions cause the :math:`P`
longest gaps between rounds. Prompts are prefilled in passes that also decode. With :math:`x` seconds of prefill per
second of work, passes that prefill take a share :math:`s = 1 - e^{-x}` of it (prompts that arrive at random may share a
pass), each :math:`\pi / c` long: the time of a prefill over the passes that it is cut into. The time of rounds without
prompts, :math:`\tau_0`, follows from their mean :math:`\tau_1`:

.. math:: \tau_0 = \tau_1\,\frac{1 - s}{1 - s\,c\,\tau_1 / \pi}

and prompts add :math:`\tau_1 - \tau_0` to a round. Servers count neither s nor c, so the interval spans their ranges.
A row of a prompt takes no longer than one of a round, which also shares the fixed time of its pass: so prompts add at
most their share of all rows. And prefills are timed by prompt, not by pass: where several share one, long passes count
often, so only the passes that read one prompt, :math:`x / (e^x - 1)` of them, are surely :math:`\pi / c` long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sim.estimate import Estimate
from specplan.live.explaining.window import Window, spanned

__all__ = ["CHUNK", "RoundTime", "round_time"]

CHUNK: Final = 8192
"""Default of the most prompt tokens in a pass: vLLM's default on large GPUs is this or twice it."""
_Z: Final = 1.959964


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTime:
    """Mean seconds of a round, by cause."""

    whole: Estimate
    work: Estimate
    """Drafting and verification, undisturbed."""
    prefill: Estimate
    """Added by prompts that are prefilled in the same passes."""
    preempted: Estimate
    """Added by preemptions: waiting for a slot and prefilling again."""
    notes: tuple[str, ...] = ()


def round_time(window: Window, chunk: int = CHUNK) -> RoundTime:
    """Split the time of a round.

    Parameters
    ----------
    window : readings with latencies between rounds.
    chunk : most prompt tokens in a pass, >= 1.
    """
    gaps, value = window.histograms["gaps"], window.round_s
    passes = window.iterations if math.isfinite(window.iterations) else window.rounds / window.batch
    rough = value / gaps.mean * gaps.deviation / math.sqrt(max(passes, 1.0))  # sequences of a pass have the same gap
    ends = (max(value - _Z * rough, 0.0), value, value + _Z * rough)
    whole = spanned(ends, rough, passes, "mean gap, deviation by buckets over passes", unit="s")
    low, high = gaps.largest(window.preempted) if window.engine == "vllm" else (0.0, 0.0)
    n_lost = min(window.preempted, gaps.count - 1.0)
    lost = [max(total - n_lost * value, 0.0) / window.rounds for total in (low, (low + high) / 2.0, high)]
    middle = value - lost[1]
    added, notes = _added(window, middle, chunk)
    work = max(middle - added[2] - (lost[2] - lost[1]), 0.0), max(middle - added[1], 0.0), middle - added[0]
    overlap = "from prefill times; their overlap and number of passes are unknown"
    return RoundTime(
        whole=whole,
        work=_span(work, rough, window, "work"),
        prefill=_span(added, 0.0, window, overlap),
        preempted=_span(lost, 0.0, window, "the longest gaps of the histogram, by its buckets"),
        notes=notes,
    )


def _added(window: Window, round_s: float, chunk: int) -> tuple[tuple[float, float, float], tuple[str, ...]]:
    """Seconds that prompts add to a round: lower bound, most likely value, upper bound."""
    prefill_s = window.mean("prefill")
    prompts = window.read_tokens * window.answers
    most = round_s * prompts / (prompts + window.rounds * (1.0 + window.drafted))
    most = most if math.isfinite(most) else round_s  # NaN: prompts are not counted
    if not (math.isfinite(window.iterations) and prefill_s > 0.0 and window.answers):
        why = "the server does not report prefill times or passes: the time that prompts add to a round is only bounded"
        return (0.0, 0.0, most if window.answers else 0.0), (why,)
    worked = window.iterations * round_s
    load = window.answers * prefill_s / worked
    likely = -math.expm1(-load)
    passes = max(math.ceil(window.read_tokens / chunk), 1)
    most_decoded = max(window.running, 2.0 * window.batch) * (window.k + 1.0)  # in a pass without prompts
    large = window.histograms["iterations"].above(most_decoded) / window.iterations
    shares = (min(large, likely), likely, min(load, (1.0 + likely) / 2.0))
    added = [min(_cost(share, prefill_s / passes, round_s), most) for share in shares]
    alone = load * math.exp(-load) / likely
    return (min(added) * alone if max(added) < most else 0.0, added[1] * (1.0 + alone) / 2.0, max(added)), ()


def _cost(share: float, pass_s: float, round_s: float) -> float:
    """Seconds that passes of ``pass_s`` with prompts, ``share`` of the time, add to a round; inf: nothing follows."""
    if pass_s <= round_s * share or share >= 1.0:
        return math.inf
    undisturbed = round_s * (1.0 - share) / (1.0 - share * round_s / pass_s)
    return max(round_s - undisturbed, 0.0)


def _span(ends: Sequence[float], stderr: float, window: Window, how: str) -> Estimate:
    """An estimate with the lower bound, the value and the upper bound, widened by a standard error."""
    low, value, high = ends
    wider = (max(min(low, value) - _Z * stderr, 0.0), value, max(high, value) + _Z * stderr)
    return spanned(wider, max(stderr, (high - low) / (2.0 * _Z)), window.rounds, how, unit="s")
