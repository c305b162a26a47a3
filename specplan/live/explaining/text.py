"""An explanation as plain data, and what to run next."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sim.estimate import Estimate
from specplan.live.explaining.causes import flags_of
from specplan.live.explaining.explanation import Explanation

__all__ = ["explanation_as_json", "next_step"]


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
        "over_plain": _plain(explanation.over_plain),
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
