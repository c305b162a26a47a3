"""An explanation for a reader, and as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sim.estimate import Estimate
from specplan.live.explaining.causes import flags_of
from specplan.live.explaining.explanation import Explanation
from specplan.output import table

__all__ = ["explanation_as_json", "explanation_as_text", "next_step"]


def explanation_as_json(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as plain data, in seconds and tokens; shares are in [0, 1]."""
    window, depth = explanation.window, explanation.depth
    return {
        "schema": "specplan.explain",
        "schema_version": 1,
        "source": window.source,
        "engine": window.engine,
        "k": explanation.k,
        "rounds": window.rounds,
        "answers": window.answers,
        "batch": window.batch,
        "preempted": window.preempted,
        "cache_usage": window.cache_usage,
        "cache_lost_to_speculation": explanation.cache_lost,
        "acceptance": [asdict(estimate) for estimate in explanation.acceptance.by_position],
        "hit_rate": explanation.acceptance.hit_rate,
        "committed": asdict(explanation.committed),
        "round": {
            "whole": asdict(explanation.time.whole),
            "work": asdict(explanation.time.work),
            "verification": _plain(explanation.verification),
            "drafting": _plain(explanation.drafting),
            "prefill": asdict(explanation.time.prefill),
            "preempted": asdict(explanation.time.preempted),
        },
        "answer": {
            "queue": explanation.answer.queue,
            "prefill": explanation.answer.prefill,
            "decode": explanation.answer.decode,
        },
        "best_k": None if depth is None else asdict(depth.best),
        "gain": None if depth is None else asdict(depth.gain),
        "gains": None if depth is None else [asdict(estimate) for estimate in depth.gains],
        "next": None
        if depth is None
        else {"k": depth.step, "sure": depth.sure, "requests": explanation.requests, "short": asdict(depth.short)},
        "over_plain": None if depth is None else asdict(depth.over_plain),
        "costs_from": explanation.way,
        "causes": [
            {
                "name": cause.name,
                "saves": asdict(cause.saves),
                "why": cause.why,
                "flags": list(cause.flags),
                "sure": cause.sure,
            }
            for cause in explanation.causes
        ],
        "flags": None if depth is None else list(flags_of(window, round(depth.best.value))),
        "missing": list(explanation.missing),
        "notes": list(explanation.notes),
    }


def _plain(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)


def next_step(explanation: Explanation) -> str:
    """Return a sentence that says what to run next where the best k is not sure; else an empty text."""
    depth = explanation.depth
    if depth is None or depth.sure:
        return ""
    return (
        f"It may fall {depth.short.high:.0%} short of the best throughput: run k = {depth.step} for "
        f"{explanation.requests} requests, and explain its metrics with these as another --baseline."
    )


def explanation_as_text(explanation: Explanation) -> str:
    """Return the explanation as text, the verdict first."""
    blocks = [
        _verdict(explanation),
        _round(explanation),
        _answer(explanation),
        _positions(explanation),
        _depths(explanation),
    ]
    notes = [f"- give {what}" for what in explanation.missing] + [f"- {note}" for note in explanation.notes]
    return "\n\n".join([block for block in blocks if block] + (["\n".join(notes)] if notes else []))


def _verdict(explanation: Explanation) -> str:
    window = explanation.window
    batch = f"{window.batch:.1f} sequences in a pass"
    k = f"k = {explanation.k}" if explanation.k else "k unknown"
    lines = [f"{window.engine}, {k}, {window.rounds:.0f} rounds of {window.answers:.0f} answers, {batch}", ""]
    if not explanation.causes:
        lines.append("No cause stands out: removing any single one would save less than 3 % of an answer's time.")
    for i, cause in enumerate(explanation.causes):
        saves = cause.saves
        head = ("Why it is slow" if i == 0 else "Also") if cause.sure else "Possibly (measure first)"
        saved = f"{saves.value:.0%} of an answer's time [{max(saves.low, 0.0):.0%}, {saves.high:.0%}]"
        lines.append(f"{head}: {cause.name}: {saved}. {cause.why[0].upper()}{cause.why[1:]}.")
        lines += [f"    {flag}" for flag in cause.flags]
    return "\n".join(lines)


def _round(explanation: Explanation) -> str:
    whole = explanation.time.whole.value
    parts = [
        ("verification", explanation.verification),
        ("drafting", explanation.drafting),
        ("prefills of other requests", explanation.time.prefill),
        ("preemptions", explanation.time.preempted),
    ]
    if explanation.verification is None:
        parts[:2] = [("verification and drafting", explanation.time.work)]
    rows = [
        [name, f"{part.value * 1e3:.2f}", f"{part.low * 1e3:.2f} – {part.high * 1e3:.2f}", f"{part.value / whole:.0%}"]
        for name, part in parts
        if part is not None
    ]
    time, committed = explanation.time.whole, explanation.committed
    tokens_per_s = committed.value / time.value
    last = [
        "a round",
        f"{whole * 1e3:.2f}",
        f"{time.low * 1e3:.2f} – {time.high * 1e3:.2f}",
        "100%",
    ]
    commits = f"It commits {committed} [{committed.low:.2f}, {committed.high:.2f}]"
    rounds = table(["a round takes", "ms", "95 % interval", "share"], [*rows, last])
    return f"{rounds}\n{commits}: {tokens_per_s:.1f} tokens/s for each answer."


def _answer(explanation: Explanation) -> str:
    answer, lines = explanation.answer, []
    parts = {"queue": answer.queue, "prefill": answer.prefill, "decoding": answer.decode}
    shares = [f"{name} {value:.3g} s ({value / answer.whole:.0%})" for name, value in parts.items() if value >= 0.0]
    lines.append(f"An answer: {', '.join(shares)}.")
    if explanation.cache_lost >= 0.01:
        lines.append(f"Speculation took {explanation.cache_lost:.0%} of the KV cache that the baseline has.")
    if explanation.acceptance.hit_rate < 0.995:
        lines.append(f"{explanation.acceptance.hit_rate:.0%} of the rounds had a draft.")
    return "\n".join(lines)


def _positions(explanation: Explanation) -> str:
    if not explanation.acceptance.k:
        return ""
    rates = explanation.acceptance.by_position
    rows = [
        [str(j), f"{rate.value:.3f}", f"{rate.low:.3f} – {rate.high:.3f}", f"{explanation.acceptance.committed(j):.2f}"]
        for j, rate in enumerate(rates, 1)
    ]
    return table(["position", "accepted", "95 % interval", "tokens at this k"], rows)


def _depths(explanation: Explanation) -> str:
    depth = explanation.depth
    if depth is None:
        return ""
    shown = sorted({0, 1, 2, 3, depth.now, round(depth.best.value), len(depth.gains) - 1, *range(depth.now + 2)})
    step = max(len(shown) // 12, 1)
    kept = {depth.now, round(depth.best.value), 0}
    rows = [
        [
            str(k),
            f"{depth.gains[k].value:.2f}",
            f"{depth.gains[k].low:.2f} – {depth.gains[k].high:.2f}",
            "now" if k == depth.now else ("best" if k == round(depth.best.value) else ""),
        ]
        for i, k in enumerate(shown)
        if k < len(depth.gains) and (k in kept or i % step == 0)
    ]
    best = depth.best
    verdict = (
        f"Best k at this load: {best.value:.0f} [{best.low:.0f}, {best.high:.0f}], {depth.gain.value:.2f} times the "
        f"current throughput [{depth.gain.low:.2f}, {depth.gain.high:.2f}]; now is {depth.over_plain.value:.2f} times "
        f"plain decoding [{depth.over_plain.low:.2f}, {depth.over_plain.high:.2f}]. Based on {_WAYS[explanation.way]}."
    )
    return (
        table(["k", "throughput / now", "95 % interval", ""], rows) + f"\n{verdict} {next_step(explanation)}".rstrip()
    )


_WAYS = {
    "window": "these readings only",
    "baseline": "the baseline",
    "names": "the names",
    "both": "the baseline and the names",
}
