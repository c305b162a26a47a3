"""Why a speculating server is slow, and what moved, as a result: screen, rows and report."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from specplan.live.explaining.causes import flags_of
from specplan.output import SCREEN, percent, screen, table
from specplan.show.drawing import Line, lines
from specplan.show.page import Answer, Bullets, Code, Interval, Part, Picture, Report, Section, Table, Text, interval
from specplan.show.rendering import as_text
from specplan.show.result import Result, flat

if TYPE_CHECKING:
    from sim.estimate import Estimate
    from specplan.live.drift.offline import Drift
    from specplan.live.explaining.causes import Cause
    from specplan.live.explaining.depth import Depth
    from specplan.live.explaining.explanation import Explanation

__all__ = ["Explained", "summary"]

_WAYS: Final = {
    "window": "these readings only",
    "baseline": "the baseline",
    "names": "the names",
    "both": "the baseline and the names",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explained(Result):
    """Why a server is slow, and what moved."""

    explanation: Explanation
    drift: Drift | None
    """What moved from the predictions of a profile; None where none was given."""

    def headline(self) -> str:
        """Return why the server is slow, and the best k with its interval."""
        return summary(self.explanation)

    def records(self) -> list[dict[str, Any]]:
        """Return the causes, the weightiest first."""
        return [
            flat({"cause": one.name, "saves": one.saves, "sure": one.sure, "why": one.why, "set": list(one.flags)})
            for one in self.explanation.causes
        ]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan explain --json`` prints: seconds, tokens, and shares in [0, 1]."""
        explanation = self.explanation
        window, time, depth = explanation.window, explanation.time, explanation.depth
        following = None
        if depth is not None:
            counts = {"k": depth.step, "sure": depth.sure, "requests": explanation.requests}
            following = {**counts, "short": asdict(depth.short)}
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
            "next": following,
            "over_plain": _plain(explanation.over_plain),
            "costs_from": explanation.way,
            "causes": [asdict(cause) for cause in explanation.causes],
            "flags": None if depth is None else list(flags_of(window, round(depth.best.value))),
            "missing": list(explanation.missing),
            "baseline_unlike": explanation.unlike,
            "baseline_renamed": explanation.renamed,
            "notes": list(explanation.notes),
            "drift": None if self.drift is None else self.drift.plain(),
        }

    def text(self, *, verbose: bool = False) -> str:
        """Return the text of ``specplan explain``, with ``verbose`` that of ``specplan explain -v``."""
        text = as_text(self.report()) if verbose else _first_screen(self.explanation)
        return text if self.drift is None else f"{text}\n\n{self.drift.text()}"

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        explanation, window = self.explanation, self.explanation.window
        k = f"k = {explanation.k}" if explanation.k else "k unknown"
        renamed = [f"the baseline: {explanation.renamed}"] if explanation.renamed else []
        sections = [Section(title="Causes", parts=list(_causes(explanation)))] if explanation.causes else []
        sections.append(
            Section(title="What a round takes", parts=[_round(explanation), Bullets(items=_facts(explanation))])
        )
        if explanation.acceptance.k:
            sections.append(Section(title="Acceptance by position", parts=list(_positions(explanation))))
        if explanation.depth is not None:
            sections.append(Section(title="Other k", parts=list(_depths(explanation))))
        return Report(
            title="Why is it slow",
            about=f"{window.engine}, {window.source}, {k}",
            lead=self.headline(),
            answers=list(_answers(explanation)),
            sections=sections,
            made=[("source", window.source), ("rounds", _counted(explanation))],
            notes=[*renamed, *(f"give {one}" for one in explanation.missing), *filter(None, explanation.notes)],
        )


def _answers(explanation: Explanation) -> Iterator[Answer]:
    depth = explanation.depth
    first = explanation.causes[0] if explanation.causes else None
    yield Answer(
        question="Why is it slow?",
        answer="no cause stands out" if first is None else first.name,
        detail="" if first is None else ("sure" if first.sure else "not sure: measure first"),
    )
    if depth is not None:
        best = depth.best
        yield Answer(
            question="Which k?",
            answer=f"k = {best.value:.0f} (now {depth.now})",
            detail=f"95 % interval {best.low:.0f} to {best.high:.0f}. {_next_step(explanation)}".rstrip(" ."),
        )
        yield Answer(
            question="What is the gain?",
            answer=f"{interval(depth.gain)} times the current throughput",
            detail=f"now is {interval(depth.over_plain)} times plain decoding",
        )
    yield Answer(
        question="At which load?",
        answer=f"{explanation.window.batch:.1f} sequences in a pass",
        detail=f"a round commits {interval(explanation.committed)} tokens",
    )
    if explanation.missing:
        yield Answer(
            question="What to measure next?", answer=explanation.missing[0], detail="; ".join(explanation.missing[1:])
        )


def _causes(explanation: Explanation) -> Iterator[Part]:
    yield Table(
        headings=["cause", "share of an answer's time", "why", "sure"],
        rows=[
            [cause.name, _percent(cause.saves), f"{cause.why}.", "yes" if cause.sure else "measure first"]
            for cause in explanation.causes
        ],
        strong=0,
    )
    flags = [flag for cause in explanation.causes for flag in cause.flags]
    if flags:
        yield Code(text="\n".join(dict.fromkeys(flags)))


def _facts(explanation: Explanation) -> list[str]:
    """Throughput of an answer, and its time by part."""
    committed, answer = explanation.committed, explanation.answer
    rate = committed.value / explanation.time.whole.value
    parts = {"queue": answer.queue, "prefill": answer.prefill, "decoding": answer.decode}
    shares = [f"{name} {v:.3g} s ({percent(v / answer.whole, 0)})" for name, v in parts.items() if v >= 0.0]
    facts = [f"a round commits {interval(committed)} tokens: {rate:.1f} tokens/s for each answer"]
    if shares:
        facts.append(f"an answer: {', '.join(shares)}")
    if explanation.cache_lost >= 0.01:
        facts.append(f"speculation took {percent(explanation.cache_lost, 0)} of the KV cache that the baseline has")
    if explanation.acceptance.hit_rate < 0.995:
        facts.append(f"{percent(explanation.acceptance.hit_rate, 0)} of the rounds had a draft")
    return facts


def _percent(share: Estimate) -> Interval:
    return Interval(value=100 * share.value, low=100 * max(share.low, 0.0), high=100 * share.high, digits=0)


def _round(explanation: Explanation) -> Table:
    parts = [
        ("verification", explanation.verification),
        ("drafting", explanation.drafting),
        ("verification and drafting", explanation.time.work if explanation.verification is None else None),
        ("prefills of other requests", explanation.time.prefill),
        ("preemptions", explanation.time.preempted),
        ("a round", explanation.time.whole),
    ]
    whole = explanation.time.whole.value
    return Table(
        headings=["part", "ms, 95 % interval", "share"],
        rows=[
            [name, interval(one, times=1e3), percent(one.value / whole, 0)] for name, one in parts if one is not None
        ],
        reference=0.0,
    )


def _positions(explanation: Explanation) -> Iterator[Part]:
    rates = explanation.acceptance.by_position
    line = Line(
        name="accepted",
        points=[(float(j), rate.value) for j, rate in enumerate(rates, 1)],
        intervals=[interval(rate, 3) for rate in rates],
    )
    if len(rates) > 1:
        yield Picture(partial(lines, [line], x_name="position", y_name="accepted"), caption="With 95 % intervals.")
    yield Table(
        headings=["position", "accepted, 95 % interval", "tokens at this k"],
        rows=[
            [str(j), interval(rate, 3), f"{explanation.acceptance.committed(j):.2f}"] for j, rate in enumerate(rates, 1)
        ],
    )


def _depths(explanation: Explanation) -> Iterator[Part]:
    depth = explanation.depth
    assert depth is not None
    line = Line(
        name="throughput / now",
        points=[(float(k), gain.value) for k, gain in enumerate(depth.gains)],
        intervals=[interval(gain) for gain in depth.gains],
    )
    if len(depth.gains) > 1:
        draw = partial(lines, [line], x_name="k", y_name="throughput / now", reference=1.0)
        yield Picture(draw, caption="Throughput of other k at this load; the dashed line is the current k.")
    marks = {depth.now: "now"} | {round(depth.best.value): "best"}
    yield Table(
        headings=["k", "throughput / now, 95 % interval", ""],
        rows=[[str(k), interval(gain), marks.get(k, "")] for k, gain in enumerate(depth.gains)],
        reference=1.0,
        strong=round(depth.best.value),
    )
    yield Text(text=f"Based on {_WAYS[explanation.way]}.")


def _plain(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)


def _next_step(explanation: Explanation) -> str:
    """Return a sentence that says what to run next where the best k is not sure; else an empty text."""
    depth = explanation.depth
    if depth is None or depth.sure:
        return ""
    run = (
        f"run k = {depth.step} for {explanation.requests} requests, and explain its metrics with these as another"
        if depth.step
        else f"run it without speculation at this load for {explanation.requests} requests, and give its metrics as"
    )
    return f"It may fall {percent(depth.short.high, 0)} short of the best throughput: {run} --baseline."


def summary(explanation: Explanation) -> str:
    """Return sentences: why the server is slow, the best k with its interval, and whether speculation gains."""
    why = "No cause stands out: removing any single one would save less than 3 % of an answer's time."
    if explanation.causes:
        cause = explanation.causes[0]
        saved = f"fixing it would save {_share(cause.saves)} of an answer's time"
        why = f"Why it is slow: {cause.name}; {saved}."
        why = why if cause.sure else f"It may be {cause.name}: {saved}; measure first."
    which = "These readings do not show which k is best."
    if (depth := explanation.depth) is not None:
        best, gain = depth.best, depth.gain
        within = f"[{best.low:.0f}, {best.high:.0f}]"
        if round(best.value) == depth.now:
            which = f"The current k, {depth.now}, {'is' if depth.sure else 'may be'} the best at this load {within}."
        else:
            which = (
                f"{'Best k at this load:' if depth.sure else 'The best k may be'} {best.value:.0f} {within}, "
                f"{gain.value:.2f} times the current throughput [{gain.low:.2f}, {gain.high:.2f}]."
            )
    return " ".join(filter(None, (why, which, _next_step(explanation), _gains(explanation))))


def _counted(explanation: Explanation, unit: str = "") -> str:
    """How many rounds there were, and of how many answers where these are counted."""
    window = explanation.window
    answers = f"of {window.answers:.0f} answers" if window.answers else ""
    return " ".join(filter(None, (f"{window.rounds:.0f}", unit, answers)))


def _first_screen(explanation: Explanation) -> str:
    """The explanation in 80 columns: why the server is slow, the best k, and which flags to set."""
    window, depth = explanation.window, explanation.depth
    k = f"k = {explanation.k}" if explanation.k else "k unknown"
    about = f"{window.engine}, {k}, {_counted(explanation, 'rounds')}, {window.batch:.1f} sequences in a pass"
    blocks = [summary(explanation), f"{about}." if depth is None else f"{about}:"]
    if explanation.renamed:
        other = f"Is the baseline of the same model? {explanation.renamed[0].upper()}{explanation.renamed[1:]}."
        blocks.insert(1, textwrap.fill(other, SCREEN, break_on_hyphens=False))
    if depth is not None:
        blocks.append(_throughputs(depth))
    if explanation.causes:
        blocks.append("\n".join(line for cause in explanation.causes for line in _reason(cause)))
    more = ["Time of a round and an answer, acceptance by position, all k, assumptions: -v."]
    if explanation.missing and (depth is None or depth.step or depth.sure):  # else the next step says so
        more.insert(0, f"To know more, give {explanation.missing[0]}.")
    return screen(*blocks, "\n".join(textwrap.fill(text, SCREEN, break_on_hyphens=False) for text in more))


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


def _share(saves: Estimate) -> str:
    return f"{percent(saves.value, 0)} [{percent(max(saves.low, 0.0), 0)}, {percent(saves.high, 0)}]"
