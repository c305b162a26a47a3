"""Why a speculating server is slow, and what moved, as a result: screen, rows and report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from specplan.live.explaining.text import explanation_as_json, first_screen, next_step, summary
from specplan.show.page import Answer, Bullets, Code, Interval, Part, Picture, Report, Section, Table, Text, interval
from specplan.show.rendering import as_text
from specplan.show.result import Result, flat
from specplan.show.svg import Line, lines

if TYPE_CHECKING:
    from sim.estimate import Estimate
    from specplan.live.drift.offline import Drift
    from specplan.live.explaining.explanation import Explanation

__all__ = ["Explained"]

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
        """Return what ``specplan explain --json`` prints."""
        return {**explanation_as_json(self.explanation), "drift": None if self.drift is None else self.drift.plain()}

    def text(self, *, verbose: bool = False) -> str:
        """Return the text of ``specplan explain``, with ``verbose`` that of ``specplan explain -v``."""
        text = as_text(self.report()) if verbose else first_screen(self.explanation)
        return text if self.drift is None else f"{text}\n\n{self.drift.text()}"

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        explanation, window = self.explanation, self.explanation.window
        k = f"k = {explanation.k}" if explanation.k else "k unknown"
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
            made=[("source", window.source), ("rounds", f"{window.rounds:.0f} of {window.answers:.0f} answers")],
            notes=[*(f"give {what}" for what in explanation.missing), *explanation.notes],
        )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


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
            detail=f"95 % interval {best.low:.0f} to {best.high:.0f}. {next_step(explanation)}".rstrip(" ."),
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
            [cause.name, _percent(cause.saves), _sentence(cause.why), "yes" if cause.sure else "measure first"]
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
    shares = [f"{name} {value:.3g} s ({value / answer.whole:.0%})" for name, value in parts.items() if value >= 0.0]
    facts = [
        f"a round commits {interval(committed)} tokens: {rate:.1f} tokens/s for each answer",
        f"an answer: {', '.join(shares)}",
    ]
    if explanation.cache_lost >= 0.01:
        facts.append(f"speculation took {explanation.cache_lost:.0%} of the KV cache that the baseline has")
    if explanation.acceptance.hit_rate < 0.995:
        facts.append(f"{explanation.acceptance.hit_rate:.0%} of the rounds had a draft")
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
            [name, interval(one, times=1e3), f"{100 * one.value / whole:.0f} %"]
            for name, one in parts
            if one is not None
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
        yield Picture(svg=lines([line], x_name="position", y_name="accepted"), caption="With 95 % intervals.")
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
        picture = lines([line], x_name="k", y_name="throughput / now", reference=1.0)
        yield Picture(svg=picture, caption="Throughput of other k at this load; the dashed line is the current k.")
    marks = {depth.now: "now"} | {round(depth.best.value): "best"}
    yield Table(
        headings=["k", "throughput / now, 95 % interval", ""],
        rows=[[str(k), interval(gain), marks.get(k, "")] for k, gain in enumerate(depth.gains)],
        reference=1.0,
        strong=round(depth.best.value),
    )
    yield Text(text=f"Based on {_WAYS[explanation.way]}.")
