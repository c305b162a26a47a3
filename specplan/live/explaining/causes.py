"""Causes of slowness: the share of an answer's time that removing each would save, and the flags that remove it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sim.estimate import Estimate
from specplan.live.explaining.depth import Depth
from specplan.live.explaining.rounds import RoundTime
from specplan.live.explaining.tokens import Acceptance
from specplan.live.explaining.window import Window, spanned

__all__ = ["AnswerTime", "Cause", "answer_time", "causes", "flags_of"]

_LEAST: Final = 0.03
"""Least share of an answer's time at which a cause is named, [-]: a smaller one is within the model's error."""
_SURE: Final = 0.99
"""Least lower end of the gain of a k that is a sure cause, [-]; other sure causes save 1 minus this at least."""
_CHUNK: Final = 2048
"""Tokens of a pass to which smaller chunks would lower it."""
_FULL: Final = 0.9
"""Least share of the cache in use at which waiting requests are counted as waiting for cache, [-]."""
_FLAGS: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {
        "draft": '--speculative-config with "method": "eagle3" or "ngram" (a smaller draft, an EAGLE head or prompt '
        'lookup); a draft on one GPU: "draft_tensor_parallel_size": 1',
        "precision": "--kv-cache-dtype fp8",
        "memory": "--gpu-memory-utilization nearer to 1",
        "places": "--max-num-seqs",
        "chunk": "--max-num-batched-tokens",
        "elsewhere": "prefill on other GPUs",
    },
    "sglang": {
        "draft": "--speculative-algorithm EAGLE3 or NGRAM (a smaller draft, an EAGLE head or prompt lookup)",
        "precision": "--kv-cache-dtype fp8_e5m2",
        "memory": "--mem-fraction-static nearer to 1",
        "places": "--max-running-requests",
        "chunk": "--chunked-prefill-size",
        "elsewhere": "prefill on other GPUs (--disaggregation-mode)",
    },
    "trtllm": {
        "draft": "speculative_config: decoding_type: Eagle3 or NGram (a smaller draft, an EAGLE head or prompt lookup)",
        "precision": "kv_cache_config: dtype: fp8",
        "memory": "kv_cache_config: free_gpu_memory_fraction nearer to 1",
        "places": "--max_batch_size",
        "chunk": "enable_chunked_prefill: true and --max_num_tokens",
        "elsewhere": "prefill on other GPUs (trtllm-serve disaggregated)",
    },
    "llamacpp": {
        "draft": "--spec-type with a smaller --spec-draft-model, an MTP or EAGLE head, or n-grams",
        "precision": "--cache-type-k q8_0 --cache-type-v q8_0",
        "memory": "--ctx-size nearer to what answers need",
        "places": "--parallel",
        "chunk": "--ubatch-size",
        "elsewhere": "--cache-reuse for prompts that share parts",
    },
}


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

    @property
    def decoding(self) -> float:
        """Share of decoding, [-]; 1 where no part is reported."""
        return self.decode / self.whole if self.whole > 0.0 else 1.0


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
    if not decode > 0.0 and window.answers:
        decode = window.histograms["gaps"].total / window.answers
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
    parts = [_cache(window, time, answer, cache_lost), _prefills(window, time, answer), _places(window, answer)]
    if depth is not None:
        share = answer.decoding * time.work.value / time.whole.value
        parts.append(_other_k(window, acceptance, depth, share))
        if split and depth.cheap.value > 1.0:
            left = share / depth.gain.value if depth.gain.value > 1.0 else share
            saves = _saved(depth.cheap, left)
            why = f"drafting a token takes {depth.draft_cost.value:.2f} of a pass without drafts (good drafts: 0.05)"
            flags = (_FLAGS[window.engine]["draft"],)
            parts.append(Cause(name="slow draft", saves=saves, why=why, flags=flags, sure=saves.low >= 1.0 - _SURE))
    named = [cause for cause in parts if cause is not None and cause.saves.value >= _LEAST]
    return tuple(sorted(named, key=lambda cause: (not cause.sure, -cause.saves.value)))


def flags_of(window: Window, k: int) -> tuple[str, ...]:
    """Return the server flags that set k."""
    vllm = f"--speculative-config '{json.dumps({'num_speculative_tokens': k})}' (your other fields as they are)"
    sglang = f"--speculative-num-steps {k} --speculative-eagle-topk 1 --speculative-num-draft-tokens {k + 1}"
    off, flag = {
        "vllm": ("without --speculative-config", vllm),
        "sglang": ("without --speculative-algorithm", sglang),
        "trtllm": ("without speculative_config", f"speculative_config: max_draft_len: {k}"),
        "llamacpp": ("--spec-type none", f"--spec-draft-n-max {k}"),
    }[window.engine]
    return (flag if k else off,)


def _other_k(window: Window, acceptance: Acceptance, depth: Depth, share: float) -> Cause | None:
    """Savings of the best k, where rounds take a ``share`` of an answer's time."""
    best, now = round(depth.best.value), depth.now
    if best == now:
        return None
    rate = acceptance.by_position[min(now, acceptance.k) - 1].value if acceptance.k else math.nan
    return Cause(
        name="k too large" if best < now else "k too small",
        saves=_saved(depth.gain, share),
        why=f"k = {now}; the last position is accepted in {100 * rate:.0f} % of the rounds; k = {best} is best",
        flags=flags_of(window, best),
        sure=depth.gain.low >= _SURE,
    )


def _saved(gain: Estimate, share: float) -> Estimate:
    """Share of the whole time that is saved if a part, ``share`` of it, becomes ``gain`` times as fast."""
    how = "from the gain, on the share of an answer's time that rounds take"
    return _mapped(gain, how, lambda g: max(share * (1.0 - 1.0 / max(g, 1e-9)), -1.0))


def _part(seconds: Estimate, time: RoundTime, answer: AnswerTime) -> Estimate:
    """Share of an answer's time that is spent on a part of its rounds."""
    return _mapped(seconds, seconds.estimator, lambda x: answer.decoding * min(x / time.whole.value, 1.0))


def _mapped(of: Estimate, how: str, function: Callable[[float], float]) -> Estimate:
    """What follows from an estimate, with the ends of its interval."""
    low, value, high = map(function, (of.low, of.value, of.high))
    return spanned((low, value, high), (high - low) / 3.92, of.n, how, seed=of.seed)


def _cache(window: Window, time: RoundTime, answer: AnswerTime, cache_lost: float) -> Cause | None:
    """Preempted requests and requests that wait for cache."""
    if not window.preempted and not window.cache_usage >= _FULL:
        return None
    lost = _part(time.preempted, time, answer)
    waits = answer.queue / answer.whole if math.isfinite(answer.queue) and answer.whole > 0.0 else 0.0
    ends = (lost.low, lost.value + waits, min(lost.high + waits, 1.0))
    how = "preemptions from the longest gaps, plus time in the queue"
    saves = spanned(ends, lost.stderr, window.preempted, how)
    usage = f", {100 * window.cache_usage:.0f} % of the cache in use" if math.isfinite(window.cache_usage) else ""
    each = window.preempted / max(window.answers, 1.0)
    why = f"{window.preempted:.0f} requests lost their place ({each:.2g} per answer){usage}"
    if cache_lost >= 0.01:
        why += f", speculation took {100 * cache_lost:.0f} % of it"
    length = window.prompt_tokens + window.answer_tokens
    fit = math.isfinite(window.cache_tokens) and length > 0.0  # answers of full length
    places = max(int(window.cache_tokens / length), 1) if fit else "lower"
    flags = _FLAGS[window.engine]
    less = (flags["precision"], flags["memory"], f"{flags['places']} {places}", "a smaller draft leaves more cache")
    return Cause(name="full cache", saves=saves, why=why, flags=less)


def _prefills(window: Window, time: RoundTime, answer: AnswerTime) -> Cause | None:
    """Prompts that are prefilled in the passes that decode."""
    saves = _part(time.prefill, time, answer)
    per_round = window.read_tokens * window.answers / window.rounds
    why = f"{window.read_tokens:.0f} prompt tokens are prefilled per answer, {per_round:.1f} per round"
    passes = window.histograms.get("iterations")
    flags = [_FLAGS[window.engine]["elsewhere"]]
    if not window.caches_prefixes:
        flags.insert(0, "--enable-prefix-caching")
    if passes is None or passes.above(_CHUNK) > 0.0:  # else no pass reads more than that
        flags.insert(0, f"{_FLAGS[window.engine]['chunk']} lower ({_CHUNK})")
    return Cause(name="heavy prefills", saves=saves, why=why, flags=tuple(flags), sure=saves.low >= 1.0 - _SURE)


def _places(window: Window, answer: AnswerTime) -> Cause | None:
    """Answers that wait although cache is free: too few batch slots, or too few servers."""
    if not answer.queue > 0.0 or window.preempted or window.cache_usage >= _FULL:
        return None
    waits = answer.queue / answer.whole
    how = "queueing time over an answer's time; that more slots slow each round is not counted"
    saves = spanned((0.0, waits, waits), 0.0, window.answers, how)
    flags = (f"{_FLAGS[window.engine]['places']} higher", "more servers")
    why = f"answers wait {answer.queue:.3g} s for a place, {window.waiting:.0f} were waiting"
    return Cause(name="too few places", saves=saves, why=why, flags=flags)
