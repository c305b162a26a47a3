"""Reports of why a server that speculates is slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from specplan.live.explaining.text import next_step
from specplan.show.page import Answer, Bullets, Code, Interval, Part, Picture, Report, Section, Table
from specplan.show.plans import interval
from specplan.show.svg import Line, lines

if TYPE_CHECKING:
    from sim.estimate import Estimate
    from specplan.live.explaining.explanation import Explanation

__all__ = ["explanation_report"]


def explanation_report(found: Explanation) -> Report:
    """Return the report of an explanation."""
    window = found.window
    first = found.causes[0] if found.causes else None
    lead = "Nothing stands out: no cure of what counters show would save 3 % of an answer's time."
    if first is not None:
        lead = f"{first.name}: {100 * first.saves.value:.0f} % of an answer's time. {_sentence(first.why)}"
    sections = [Section(title="Causes", parts=list(_causes(found)))] if found.causes else []
    sections.append(Section(title="What a round takes", parts=[_round(found)]))
    if found.acceptance.k:
        sections.append(Section(title="Acceptance by position", parts=list(_positions(found))))
    if found.depth is not None:
        sections.append(Section(title="Other k", parts=list(_depths(found))))
    return Report(
        title="Why is it slow",
        about=f"{window.engine}, {window.source}",
        lead=lead,
        answers=list(_answers(found)),
        sections=sections,
        made=[
            ("source", window.source),
            ("rounds", f"{window.rounds:.0f} of {window.answers:.0f} answers"),
            ("costs of other k", found.way),
        ],
        notes=[*(f"measure {what}" for what in found.missing), *found.notes],
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _answers(found: Explanation) -> Iterator[Answer]:
    depth = found.depth
    first = found.causes[0] if found.causes else None
    yield Answer(
        question="Why is it slow?",
        answer="nothing stands out" if first is None else first.name,
        detail="" if first is None else ("sure" if first.sure else "it may be: measure first"),
    )
    if depth is not None:
        best = depth.best
        yield Answer(
            question="Which k?",
            answer=f"k = {best.value:.0f} (now {depth.now})",
            detail=f"95 % interval {best.low:.0f} to {best.high:.0f}. {next_step(found)}".rstrip(" ."),
        )
        yield Answer(
            question="What would it bring?",
            answer=f"{interval(depth.gain)} times the pace of now",
            detail=f"now is {interval(depth.over_plain)} times plain decoding",
        )
    yield Answer(
        question="At which load?",
        answer=f"{found.window.batch:.1f} sequences in a pass",
        detail=f"a round commits {interval(found.committed)} tokens",
    )
    if found.missing:
        yield Answer(question="What to measure next?", answer=found.missing[0], detail="; ".join(found.missing[1:]))


def _causes(found: Explanation) -> Iterator[Part]:
    yield Table(
        headings=["cause", "share of an answer's time", "why", "sure"],
        rows=[
            [
                cause.name,
                _percent(cause.saves),
                _sentence(cause.why),
                "yes" if cause.sure else "measure first",
            ]
            for cause in found.causes
        ],
        strong=0,
    )
    flags = [flag for cause in found.causes for flag in cause.flags]
    if flags:
        yield Code(text="\n".join(dict.fromkeys(flags)))


def _percent(share: Estimate) -> Interval:
    """In per cent."""
    return Interval(value=100 * share.value, low=100 * max(share.low, 0.0), high=100 * share.high, digits=0)


def _round(found: Explanation) -> Table:
    parts = [
        ("verification", found.verification),
        ("drafting", found.drafting),
        ("verification and drafting", found.time.work if found.verification is None else None),
        ("prompts of others", found.time.prefill),
        ("lost places", found.time.preempted),
        ("a round", found.time.whole),
    ]
    whole = found.time.whole.value
    return Table(
        headings=["part", "ms, 95 % interval", "share"],
        rows=[
            [
                name,
                Interval(value=1e3 * one.value, low=1e3 * one.low, high=1e3 * one.high),
                f"{100 * one.value / whole:.0f} %",
            ]
            for name, one in parts
            if one is not None
        ],
        reference=0.0,
    )


def _positions(found: Explanation) -> Iterator[Part]:
    rates = found.acceptance.by_position
    line = Line(
        name="accepted",
        points=[(float(j), rate.value) for j, rate in enumerate(rates, 1)],
        intervals=[interval(rate, 3) for rate in rates],
    )
    if len(rates) > 1:
        yield Picture(svg=lines([line], x_name="position", y_name="accepted"), caption="With 95 % intervals.")
    yield Table(
        headings=["position", "accepted, 95 % interval", "tokens if k ended here"],
        rows=[[str(j), interval(rate, 3), f"{found.acceptance.committed(j):.2f}"] for j, rate in enumerate(rates, 1)],
    )


def _depths(found: Explanation) -> Iterator[Part]:
    depth = found.depth
    assert depth is not None
    line = Line(
        name="pace / now",
        points=[(float(k), gain.value) for k, gain in enumerate(depth.gains)],
        intervals=[interval(gain) for gain in depth.gains],
    )
    if len(depth.gains) > 1:
        picture = lines([line], x_name="k", y_name="pace / now", reference=1.0)
        yield Picture(svg=picture, caption="What other k would do at this load; the dashed line is now.")
    yield Bullets(items=[f"best k: {depth.best.value:.0f}", f"now: {depth.now}"])
