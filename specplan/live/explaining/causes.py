"""Causes of slowness, each with the share of an answer's time that its cure would save, and the flags that cure it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Final

from sim.estimate import Estimate
from specplan.live.explaining.depth import Depth
from specplan.live.explaining.rounds import RoundTime
from specplan.live.explaining.tokens import Acceptance
from specplan.live.explaining.window import Window

__all__ = ["NAMES", "AnswerTime", "Cause", "answer_time", "causes", "flags_of"]

NAMES: Final = ("k too large", "k too small", "slow draft", "full cache", "heavy prefills", "too few places")
_LEAST: Final = 0.03
"""Share of an answer's time from which a cause is named, [-]: less is within what the model is off by."""
_SURE: Final = 0.99
"""Least that another k must gain at the lower end of its interval to be a cause for sure, [-]."""
_FULL: Final = 0.9
"""Share of the cache in use from which a queue waits for the cache, [-]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTime:
    """Seconds of an answer, mean over those that ended; NaN where the server does not tell."""

    queue: float
    prefill: float
    decode: float

    @property
    def whole(self) -> float:
        """All that is known of it."""
        return math.fsum(value for value in (self.queue, self.prefill, self.decode) if math.isfinite(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause."""

    name: str
    saves: Estimate
    """Share of an answer's time that its cure saves, in [0, 1]."""
    why: str
    flags: tuple[str, ...]
    sure: bool = True
    """Whether the whole interval says so; if not, a measurement should come first."""


def answer_time(window: Window) -> AnswerTime:
    """Return how long answers took, from the window's histograms of requests; decoding else from its rounds."""
    decode = window.mean("decode")
    if not decode > 0.0:
        answers = max(window.answers, 1.0)
        decode = window.histograms["gaps"].total / answers
    return AnswerTime(queue=window.mean("queue"), prefill=window.mean("prefill"), decode=decode)


def causes(
    window: Window, acceptance: Acceptance, time: RoundTime, depth: Depth | None, *, split: bool, cache_lost: float
) -> tuple[Cause, ...]:
    """Return the causes that matter, the weightiest first.

    Parameters
    ----------
    window, acceptance, time, depth : what was found out.
    split : whether the split of a round is more than bounded, so that a draft can be called slow.
    cache_lost : share of the cache that speculation takes, in [0, 1]; NaN: not known.
    """
    answer = answer_time(window)
    decoding = answer.decode / answer.whole if answer.whole > 0.0 else 1.0
    found = [_cache(window, time, answer, cache_lost), _prefills(window, time, decoding), _places(window, answer)]
    if depth is not None:
        found += _rounds(window, acceptance, depth, decoding * time.work.value / time.whole.value, split)
    named = [cause for cause in found if cause is not None and cause.saves.value >= _LEAST]
    return tuple(sorted(named, key=lambda cause: (not cause.sure, -cause.saves.value)))


def flags_of(window: Window, k: int) -> tuple[str, ...]:
    """Return the flags that set k."""
    if window.engine == "sglang":
        if k == 0:
            return ("without --speculative-algorithm",)
        return (f"--speculative-num-steps {k} --speculative-eagle-topk 1 --speculative-num-draft-tokens {k + 1}",)
    if k == 0:
        return ("without --speculative-config",)
    return (f"--speculative-config '{json.dumps({'num_speculative_tokens': k})}' (your other fields as they are)",)


def _rounds(window: Window, acceptance: Acceptance, depth: Depth, share: float, split: bool) -> list[Cause | None]:
    """What another k would save, and what a faster draft would save on top."""
    best, now = round(depth.best.value), depth.now
    found: list[Cause | None] = []
    if best != now:
        name = "k too large" if best < now else "k too small"
        rate = acceptance.by_position[min(now, acceptance.k) - 1].value if acceptance.k else math.nan
        why = f"k = {now}; the last position is accepted in {rate:.0%} of the rounds; k = {best} is best"
        found.append(
            Cause(
                name=name,
                saves=_saved(depth.gain, share),
                why=why,
                flags=flags_of(window, best),
                sure=depth.gain.low >= _SURE,
            )
        )
    if split and depth.cheap.value > 1.0:
        dear = f"drafting a token takes {depth.draft_cost.value:.2f} of a pass without drafts (good drafts: 0.05)"
        cures = "a smaller draft, an EAGLE head or prompt lookup"
        flags = (
            (f'--speculative-config with "method": "eagle3" or "ngram" ({cures}); a draft on one GPU: ')
            + '"draft_tensor_parallel_size": 1'
            if window.engine == "vllm"
            else f"--speculative-algorithm EAGLE3 or NGRAM ({cures})"
        )
        left = share / depth.gain.value if depth.gain.value > 1.0 else share
        found.append(Cause(name="slow draft", saves=_saved(depth.cheap, left), why=dear, flags=(flags,)))
    return found


def _saved(gain: Estimate, share: float) -> Estimate:
    """What a gain in pace on a share of the time saves of all of it."""
    low, value, high = (max(share * (1.0 - 1.0 / max(g, 1e-9)), -1.0) for g in (gain.low, gain.value, gain.high))
    return Estimate(
        value=value,
        stderr=(high - low) / 3.92,
        low=low,
        high=high,
        n=gain.n,
        estimator="from the gain, on the share of an answer's time that rounds take",
        seed=gain.seed,
    )


def _part(seconds: Estimate, whole: float, share: float) -> Estimate:
    low, value, high = (share * min(x / whole, 1.0) for x in (seconds.low, seconds.value, seconds.high))
    return Estimate(
        value=value, stderr=(high - low) / 3.92, low=low, high=high, n=seconds.n, estimator=seconds.estimator
    )


def _cache(window: Window, time: RoundTime, answer: AnswerTime, cache_lost: float) -> Cause | None:
    """Places lost for want of cache, and waiting for room in it."""
    full = window.cache_usage >= _FULL
    if not window.preempted and not full:
        return None
    decoding = answer.decode / answer.whole if answer.whole > 0.0 else 1.0
    lost = _part(time.preempted, time.whole.value, decoding)
    waits = answer.queue / answer.whole if math.isfinite(answer.queue) and answer.whole > 0.0 else 0.0
    saves = Estimate(
        value=lost.value + waits,
        stderr=lost.stderr,
        low=lost.low,
        high=min(lost.high + waits, 1.0),
        n=round(window.preempted),
        estimator="lost places by the longest gaps, and waiting for a place",
    )
    usage = f", {window.cache_usage:.0%} of the cache in use" if math.isfinite(window.cache_usage) else ""
    each = window.preempted / max(window.answers, 1.0)
    why = f"{window.preempted:.0f} requests lost their place ({each:.2g} per answer){usage}"
    if cache_lost >= 0.01:
        why += f", speculation took {cache_lost:.0%} of it"
    flags = (
        ("--kv-cache-dtype fp8", "--gpu-memory-utilization nearer to 1", f"--max-num-seqs {_places_that_fit(window)}")
        if window.engine == "vllm"
        else (
            "--kv-cache-dtype fp8_e5m2",
            "--mem-fraction-static nearer to 1",
            f"--max-running-requests {_places_that_fit(window)}",
        )
    )
    return Cause(name="full cache", saves=saves, why=why, flags=(*flags, "a smaller draft leaves more cache"))


def _places_that_fit(window: Window) -> str:
    """Answers that fit into the cache at their full length."""
    each = window.prompt_tokens + window.answer_tokens
    if not (math.isfinite(window.cache_tokens) and each > 0.0):
        return "lower"
    return str(max(int(window.cache_tokens / each), 1))


def _prefills(window: Window, time: RoundTime, decoding: float) -> Cause | None:
    """Prompts that are read in the passes that decode."""
    saves = _part(time.prefill, time.whole.value, decoding)
    per_round = window.read_tokens * window.answers / window.rounds
    why = f"{window.read_tokens:.0f} tokens of prompts are read per answer, {per_round:.1f} for each round"
    flags = (
        ("--max-num-batched-tokens lower (2048)", "--enable-prefix-caching", "prefill on other GPUs")
        if window.engine == "vllm"
        else ("--chunked-prefill-size lower (2048)", "prefill on other GPUs (--disaggregation-mode)")
    )
    return Cause(name="heavy prefills", saves=saves, why=why, flags=flags)


def _places(window: Window, answer: AnswerTime) -> Cause | None:
    """Answers that wait although there is cache: too few places, or too few servers."""
    if not answer.queue > 0.0 or window.preempted or window.cache_usage >= _FULL:
        return None
    waits = answer.queue / answer.whole
    saves = Estimate(
        value=waits,
        stderr=0.0,
        low=0.0,
        high=waits,
        n=round(window.answers),
        estimator="waiting over an answer's time; more places slow each round, by how much is not counted",
    )
    flags = ("--max-num-seqs higher" if window.engine == "vllm" else "--max-running-requests higher", "more servers")
    why = f"answers wait {answer.queue:.3g} s for a place, {window.waiting:.0f} were waiting"
    return Cause(name="too few places", saves=saves, why=why, flags=flags)
