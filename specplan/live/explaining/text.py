"""An explanation as plain data and in 80 columns: why the server is slow, the best k, and what to run next."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from sim.estimate import Estimate
from specplan.live.explaining.causes import Cause, flags_of
from specplan.live.explaining.depth import Depth
from specplan.live.explaining.explanation import Explanation
from specplan.output import SCREEN, screen, table

__all__ = ["explanation_as_json", "first_screen", "next_step", "summary"]


def explanation_as_json(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as plain data, in seconds and tokens; shares are in [0, 1]."""
    window, time, depth = explanation.window, explanation.time, explanation.depth
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
            **{name: asdict(getattr(time, name)) for name in ("whole", "work", "prefill", "preempted")},
            "verification": _plain(explanation.verification),
            "drafting": _plain(explanation.drafting),
        },
        "answer": asdict(explanation.answer),
        "best_k": None if depth is None else asdict(depth.best),
        "gain": None if depth is None else asdict(depth.gain),
        "gains": None if depth is None else [asdict(estimate) for estimate in depth.gains],
        "next": None if depth is None else _next(depth, explanation.requests),
        "over_plain": _plain(explanation.over_plain),
        "costs_from": explanation.way,
        "causes": [asdict(cause) for cause in explanation.causes],
        "flags": None if depth is None else list(flags_of(window, round(depth.best.value))),
        "missing": list(explanation.missing),
        "baseline_unlike": explanation.unlike,
        "notes": list(explanation.notes),
    }


def _next(depth: Depth, requests: int) -> dict[str, Any]:
    return {"k": depth.step, "sure": depth.sure, "requests": requests, "short": asdict(depth.short)}


def _plain(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)


def next_step(explanation: Explanation) -> str:
    """Return a sentence that says what to run next where the best k is not sure; else an empty text."""
    depth = explanation.depth
    if depth is None or depth.sure:
        return ""
    run = (
        f"run k = {depth.step} for {explanation.requests} requests, and explain its metrics with these as another"
        if depth.step
        else f"run it without speculation at this load for {explanation.requests} requests, and give its metrics as"
    )
    return f"It may fall {depth.short.high:.0%} short of the best throughput: {run} --baseline."


def summary(explanation: Explanation) -> str:
    """Return sentences: why the server is slow, the best k with its interval, and whether speculation gains."""
    return f"{_why(explanation)} {_which_k(explanation)} {_gains(explanation)}".rstrip()


def first_screen(explanation: Explanation) -> str:
    """Return the explanation in 80 columns: why the server is slow, the best k, and which flags to set."""
    window = explanation.window
    about = (
        f"{window.engine}, {f'k = {explanation.k}' if explanation.k else 'k unknown'}, {window.rounds:.0f} rounds of "
        f"{window.answers:.0f} answers, {window.batch:.1f} sequences in a pass"
    )
    blocks = [summary(explanation), f"{about}:" if explanation.depth is not None else f"{about}."]
    if explanation.depth is not None:
        blocks.append(_throughputs(explanation.depth))
    if explanation.causes:
        blocks.append("\n".join(line for cause in explanation.causes for line in _reason(cause)))
    return screen(*blocks, "\n".join(map(_filled, _below(explanation))))


def _why(explanation: Explanation) -> str:
    if not explanation.causes:
        return "No cause stands out: removing any single one would save less than 3 % of an answer's time."
    cause = explanation.causes[0]
    saved = f"fixing it would save {_share(cause.saves)} of an answer's time"
    return (
        f"Why it is slow: {cause.name}; {saved}." if cause.sure else f"It may be {cause.name}: {saved}; measure first."
    )


def _which_k(explanation: Explanation) -> str:
    depth = explanation.depth
    if depth is None:
        return "These readings do not show which k is best."
    best, gain = depth.best, depth.gain
    verdict = (
        f"The current k, {depth.now}, {'is' if depth.sure else 'may be'} the best at this load "
        f"[{best.low:.0f}, {best.high:.0f}]."
        if round(best.value) == depth.now
        else f"{'Best k at this load:' if depth.sure else 'The best k may be'} {best.value:.0f} "
        f"[{best.low:.0f}, {best.high:.0f}], {gain.value:.2f} times the current throughput "
        f"[{gain.low:.2f}, {gain.high:.2f}]."
    )
    return f"{verdict} {next_step(explanation)}".rstrip()


def _gains(explanation: Explanation) -> str:
    """Whether speculation is faster than plain decoding, as far as that is known."""
    over = explanation.over_plain
    if over is None:
        return ""
    times = f"{over.value:.2f} [{over.low:.2f}, {over.high:.2f}] times as fast as plain decoding"
    if explanation.unlike:
        return f"Whether speculation gains is open: it is {times}, but {explanation.unlike}."
    if over.low <= 1.0 <= over.high:
        way = " (measure a baseline)" if explanation.way in ("window", "names") else ""
        return f"Whether speculation gains is open{way}: it is {times}."
    return f"Speculation {'gains' if over.low > 1.0 else 'loses'}: it is {times}."


def _throughputs(depth: Depth) -> str:
    """Throughput of the best k and its neighbours, the current k, and plain decoding."""
    best = round(depth.best.value)
    near = {0, depth.now, best - 1, best, best + 1, round(depth.best.low), round(depth.best.high)}
    marks = {depth.now: "now", best: "best" if best != depth.now else "now, best"}
    rows = []
    for k in sorted(k for k in near if 0 <= k < len(depth.gains)):
        gain = depth.gains[k]
        rows.append(
            [str(k), f"{gain.value:.2f}", f"{gain.low:.2f} – {gain.high:.2f}", marks.get(k, "" if k else "plain")]
        )
    return table(["k", "throughput / now", "95 % interval", ""], rows)


def _reason(cause: Cause) -> Iterator[str]:
    """A cause with its reason, and the flags to set."""
    doubt = "" if cause.sure else "possibly (measure first): "
    yield screen([f"- {doubt}{cause.name}, {_share(cause.saves)} of an answer's time: {cause.why}."])
    for flag in cause.flags:
        yield textwrap.fill(
            flag,
            SCREEN,
            initial_indent="    ",
            subsequent_indent="      ",
            break_on_hyphens=False,
            break_long_words=False,
        )


def _below(explanation: Explanation) -> Iterator[str]:
    depth = explanation.depth
    if explanation.missing and (depth is None or depth.step or depth.sure):  # else the next step says so
        yield f"To know more, give {explanation.missing[0]}."
    yield "Time of a round and an answer, acceptance by position, all k, assumptions: -v."


def _share(saves: Estimate) -> str:
    return f"{100 * saves.value:.0f} % [{100 * max(saves.low, 0.0):.0f} %, {100 * saves.high:.0f} %]"


def _filled(text: str) -> str:
    return textwrap.fill(text, SCREEN, break_on_hyphens=False)
