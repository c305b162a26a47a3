"""An explanation for a reader, and as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sim.estimate import Estimate
from specplan.live.explaining.causes import flags_of
from specplan.live.explaining.explanation import Explanation
from specplan.output import table

__all__ = ["explanation_as_json", "explanation_as_text", "next_step"]


def explanation_as_json(found: Explanation) -> dict[str, Any]:
    """The explanation as plain data; seconds and tokens, shares in [0, 1]."""
    window, depth = found.window, found.depth
    return {
        "schema": "specplan.explain",
        "schema_version": 1,
        "source": window.source,
        "engine": window.engine,
        "k": found.k,
        "rounds": window.rounds,
        "answers": window.answers,
        "batch": window.batch,
        "preempted": window.preempted,
        "cache_usage": window.cache_usage,
        "cache_lost_to_speculation": found.cache_lost,
        "acceptance": [asdict(estimate) for estimate in found.acceptance.by_position],
        "hit_rate": found.acceptance.hit_rate,
        "committed": asdict(found.committed),
        "round": {
            "whole": asdict(found.time.whole),
            "work": asdict(found.time.work),
            "verification": _plain(found.verification),
            "drafting": _plain(found.drafting),
            "prefill": asdict(found.time.prefill),
            "preempted": asdict(found.time.preempted),
        },
        "answer": {
            "queue": found.answer.queue,
            "prefill": found.answer.prefill,
            "decode": found.answer.decode,
        },
        "best_k": None if depth is None else asdict(depth.best),
        "gain": None if depth is None else asdict(depth.gain),
        "gains": None if depth is None else [asdict(estimate) for estimate in depth.gains],
        "next": None
        if depth is None
        else {"k": depth.step, "sure": depth.sure, "requests": found.requests, "short": asdict(depth.short)},
        "over_plain": None if depth is None else asdict(depth.over_plain),
        "costs_from": found.way,
        "causes": [
            {
                "name": cause.name,
                "saves": asdict(cause.saves),
                "why": cause.why,
                "flags": list(cause.flags),
                "sure": cause.sure,
            }
            for cause in found.causes
        ],
        "flags": None if depth is None else list(flags_of(window, round(depth.best.value))),
        "missing": list(found.missing),
        "notes": list(found.notes),
    }


def _plain(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)


def next_step(found: Explanation) -> str:
    """Return what to run next, in a sentence, where the best k is not sure; else nothing."""
    depth = found.depth
    if depth is None or depth.sure:
        return ""
    return (
        f"That may miss {depth.short.high:.0%} of the best pace: run k = {depth.step} for {found.requests} requests, "
        "and explain its metrics with these as one more --baseline."
    )


def explanation_as_text(found: Explanation) -> str:
    """The explanation for a reader: the verdict first."""
    blocks = [_verdict(found), _round(found), _answer(found), _positions(found), _depths(found)]
    notes = [f"- measure {what}" for what in found.missing] + [f"- {note}" for note in found.notes]
    return "\n\n".join([block for block in blocks if block] + (["\n".join(notes)] if notes else []))


def _verdict(found: Explanation) -> str:
    window = found.window
    batch = f"{window.batch:.1f} sequences in a pass"
    k = f"k = {found.k}" if found.k else "k not told"
    lines = [f"{window.engine}, {k}, {window.rounds:.0f} rounds of {window.answers:.0f} answers, {batch}", ""]
    if not found.causes:
        lines.append("Nothing stands out: no cure of what counters show would save 3 % of an answer's time.")
    for i, cause in enumerate(found.causes):
        saves = cause.saves
        head = ("Why it is slow" if i == 0 else "Also") if cause.sure else "It may be, measure first"
        told = f"{saves.value:.0%} of an answer's time [{max(saves.low, 0.0):.0%}, {saves.high:.0%}]"
        lines.append(f"{head}: {cause.name}: {told}. {cause.why[0].upper()}{cause.why[1:]}.")
        lines += [f"    {flag}" for flag in cause.flags]
    return "\n".join(lines)


def _round(found: Explanation) -> str:
    whole = found.time.whole.value
    parts = [
        ("verification", found.verification),
        ("drafting", found.drafting),
        ("prompts of others", found.time.prefill),
        ("lost places", found.time.preempted),
    ]
    if found.verification is None:
        parts[:2] = [("verification and drafting", found.time.work)]
    rows = [
        [name, f"{part.value * 1e3:.2f}", f"{part.low * 1e3:.2f} – {part.high * 1e3:.2f}", f"{part.value / whole:.0%}"]
        for name, part in parts
        if part is not None
    ]
    time, committed = found.time.whole, found.committed
    pace = committed.value / time.value
    last = [
        "a round",
        f"{whole * 1e3:.2f}",
        f"{time.low * 1e3:.2f} – {time.high * 1e3:.2f}",
        "100%",
    ]
    told = f"It commits {committed} [{committed.low:.2f}, {committed.high:.2f}]: {pace:.1f} tokens/s for each answer."
    return table(["a round takes", "ms", "95 % interval", "share"], [*rows, last]) + f"\n{told}"


def _answer(found: Explanation) -> str:
    answer, lines = found.answer, []
    parts = {"waiting": answer.queue, "reading its prompt": answer.prefill, "decoding": answer.decode}
    told = [f"{name} {value:.3g} s ({value / answer.whole:.0%})" for name, value in parts.items() if value >= 0.0]
    lines.append(f"An answer: {', '.join(told)}.")
    if found.cache_lost >= 0.01:
        lines.append(f"Speculation took {found.cache_lost:.0%} of the KV cache that the baseline has.")
    if found.acceptance.hit_rate < 0.995:
        lines.append(f"{found.acceptance.hit_rate:.0%} of the rounds had a draft.")
    return "\n".join(lines)


def _positions(found: Explanation) -> str:
    if not found.acceptance.k:
        return ""
    rates = found.acceptance.by_position
    rows = [
        [str(j), f"{rate.value:.3f}", f"{rate.low:.3f} – {rate.high:.3f}", f"{found.acceptance.committed(j):.2f}"]
        for j, rate in enumerate(rates, 1)
    ]
    return table(["position", "accepted", "95 % interval", "tokens if k ended here"], rows)


def _depths(found: Explanation) -> str:
    depth = found.depth
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
    told = (
        f"Best k at this load: {best.value:.0f} [{best.low:.0f}, {best.high:.0f}], {depth.gain.value:.2f} times the "
        f"pace of now [{depth.gain.low:.2f}, {depth.gain.high:.2f}]; now is {depth.over_plain.value:.2f} times plain "
        f"decoding [{depth.over_plain.low:.2f}, {depth.over_plain.high:.2f}]. Rests on: {_WAYS[found.way]}."
    )
    return table(["k", "pace / now", "95 % interval", ""], rows) + f"\n{told} {next_step(found)}".rstrip()


_WAYS = {
    "window": "these readings alone",
    "baseline": "the baseline",
    "names": "the names",
    "both": "the baseline and the names",
}
