"""Causes of slowness: the share of an answer's time that removing each would save, and the flags that remove it."""

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
"""Least share of an answer's time at which a cause is named, [-]: a smaller one is within the model's error."""
_SURE: Final = 0.99
"""Least lower end of the gain of a k that is a sure cause, [-]; other sure causes save 1 minus this at least."""
_CHUNK: Final = 2048
"""Tokens of a pass to which smaller chunks would lower it."""
_FULL: Final = 0.9
"""Least share of the cache in use at which waiting requests are counted as waiting for cache, [-]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTime:
    """Mean seconds of the answers that ended; NaN where the server does not report a part."""

    queue: float
    prefill: float
    decode: float

    @property
    def whole(self) -> float:
        """Sum of the reported parts, s."""
        return math.fsum(value for value in (self.queue, self.prefill, self.decode) if math.isfinite(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause of slowness."""

    name: str
    saves: Estimate
    """Share of an answer's time that removing the cause saves, in [0, 1]."""
    why: str
    flags: tuple[str, ...]
    sure: bool = True
    """Whether the whole interval supports the cause; if not, measure before changing a flag."""


def answer_time(window: Window) -> AnswerTime:
    """Return the time of answers from the window's request histograms; without one for decoding, from its rounds."""
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
    window, acceptance, time, depth : measured and fitted parts of the explanation.
    split : whether a round's split into drafting and verification is estimated rather than only bounded; a draft is
        called slow only then.
    cache_lost : share of the cache that speculation takes, in [0, 1]; NaN: unknown.
    """
    answer = answer_time(window)
    decoding = answer.decode / answer.whole if answer.whole > 0.0 else 1.0
    parts = [_cache(window, time, answer, cache_lost), _prefills(window, time, decoding), _places(window, answer)]
    if depth is not None:
        parts += _rounds(window, acceptance, depth, decoding * time.work.value / time.whole.value, split)
    named = [cause for cause in parts if cause is not None and cause.saves.value >= _LEAST]
    return tuple(sorted(named, key=lambda cause: (not cause.sure, -cause.saves.value)))


def flags_of(window: Window, k: int) -> tuple[str, ...]:
    """Return the server flags that set k."""
    if window.engine == "sglang":
        if k == 0:
            return ("without --speculative-algorithm",)
        return (f"--speculative-num-steps {k} --speculative-eagle-topk 1 --speculative-num-draft-tokens {k + 1}",)
    if k == 0:
        return ("without --speculative-config",)
    return (f"--speculative-config '{json.dumps({'num_speculative_tokens': k})}' (your other fields as they are)",)


def _rounds(window: Window, acceptance: Acceptance, depth: Depth, share: float, split: bool) -> list[Cause | None]:
    """Savings of the best k, and of a faster draft at that k."""
    best, now = round(depth.best.value), depth.now
    parts: list[Cause | None] = []
    if best != now:
        name = "k too large" if best < now else "k too small"
        rate = acceptance.by_position[min(now, acceptance.k) - 1].value if acceptance.k else math.nan
        why = f"k = {now}; the last position is accepted in {rate:.0%} of the rounds; k = {best} is best"
        parts.append(
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
        saves = _saved(depth.cheap, left)
        parts.append(Cause(name="slow draft", saves=saves, why=dear, flags=(flags,), sure=saves.low >= 1.0 - _SURE))
    return parts


def _saved(gain: Estimate, share: float) -> Estimate:
    """Share of the whole time that is saved if a part, ``share`` of it, becomes ``gain`` times as fast."""
    ends = (max(share * (1.0 - 1.0 / max(g, 1e-9)), -1.0) for g in (gain.low, gain.value, gain.high))
    return _spanned(gain, "from the gain, on the share of an answer's time that rounds take", *ends)


def _part(seconds: Estimate, whole: float, share: float) -> Estimate:
    ends = (share * min(x / whole, 1.0) for x in (seconds.low, seconds.value, seconds.high))
    return _spanned(seconds, seconds.estimator, *ends)


def _spanned(of: Estimate, how: str, low: float, value: float, high: float) -> Estimate:
    """What follows from an estimate, with the ends of its interval."""
    stderr = (high - low) / 3.92
    return Estimate(value=value, stderr=stderr, low=low, high=high, n=of.n, estimator=how, seed=of.seed)


def _cache(window: Window, time: RoundTime, answer: AnswerTime, cache_lost: float) -> Cause | None:
    """Preempted requests and requests that wait for cache."""
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
        estimator="preemptions from the longest gaps, plus time in the queue",
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
    """Number of answers of full length that fit into the cache, as text."""
    each = window.prompt_tokens + window.answer_tokens
    if not (math.isfinite(window.cache_tokens) and each > 0.0):
        return "lower"
    return str(max(int(window.cache_tokens / each), 1))


def _prefills(window: Window, time: RoundTime, decoding: float) -> Cause | None:
    """Prompts that are prefilled in the passes that decode."""
    saves = _part(time.prefill, time.whole.value, decoding)
    per_round = window.read_tokens * window.answers / window.rounds
    why = f"{window.read_tokens:.0f} prompt tokens are prefilled per answer, {per_round:.1f} per round"
    passes = window.histograms.get("iterations")
    flags = ["prefill on other GPUs" if window.engine == "vllm" else "prefill on other GPUs (--disaggregation-mode)"]
    if not window.caches_prefixes:
        flags.insert(0, "--enable-prefix-caching")
    if passes is None or passes.above(_CHUNK) > 0.0:  # else no pass reads more than that
        flag = "--max-num-batched-tokens" if window.engine == "vllm" else "--chunked-prefill-size"
        flags.insert(0, f"{flag} lower ({_CHUNK})")
    return Cause(name="heavy prefills", saves=saves, why=why, flags=tuple(flags), sure=saves.low >= 1.0 - _SURE)


def _places(window: Window, answer: AnswerTime) -> Cause | None:
    """Answers that wait although cache is free: too few batch slots, or too few servers."""
    if not answer.queue > 0.0 or window.preempted or window.cache_usage >= _FULL:
        return None
    waits = answer.queue / answer.whole
    saves = Estimate(
        value=waits,
        stderr=0.0,
        low=0.0,
        high=waits,
        n=round(window.answers),
        estimator="queueing time over an answer's time; that more slots slow each round is not counted",
    )
    flags = ("--max-num-seqs higher" if window.engine == "vllm" else "--max-running-requests higher", "more servers")
    why = f"answers wait {answer.queue:.3g} s for a place, {window.waiting:.0f} were waiting"
    return Cause(name="too few places", saves=saves, why=why, flags=flags)
