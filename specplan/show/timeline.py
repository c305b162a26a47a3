"""A simulated answer as a zoomable drawing, with a lane for each model and parallel sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from specplan.show.svg import element, escaped, text

if TYPE_CHECKING:
    from sim.timeline import Timeline

__all__ = ["draw_timeline"]

_WIDTH, _LEAST_LEFT, _RIGHT, _LANE, _TOP = 900, 76, 12, 22, 22
_LETTER: Final = 6.2
"""Width of a letter in the name of a lane, px."""
_MOST_SPANS: Final = 1200
"""Most spans in a drawing; an answer of 100 steps has fewer."""
_SHOWN_STEPS: Final = 20
"""Steps that fill the initial width."""
_MEANING: Final = {
    "accepted": "draft accepted (in the answer)",
    "committed": "target step in the answer",
    "reference": "target step used to verify only",
    "rejected": "draft rejected",
    "discarded": "discarded",
    "escalated": "passed on to another verifier",
    "pending": "undecided",
}


def draw_timeline(timeline: Timeline) -> str:
    """Return the drawing; the page's script moves elements by ``data-a`` and ``data-b``, their start and end in s."""
    lanes = [("answer", 0)] + [(role, i) for role in timeline.roles for i in range(timeline.n_lanes(role))]
    place = {lane: _TOP + i * _LANE for i, lane in enumerate(lanes)}
    last = min(_SHOWN_STEPS, len(timeline.commits)) - 1
    shown = (timeline.commits[last].time if last >= 0 else timeline.duration) or 1.0
    named = {lane: lane[0] if lane[0] == "answer" else timeline.lane_name(*lane) for lane in lanes}
    left = max(_LEAST_LEFT, round(_LETTER * max(map(len, named.values()))) + 12)
    width = _WIDTH - left - _RIGHT
    per_s = width / shown
    height = _TOP + _LANE * len(lanes) + 34
    names = [text(left - 8, y + 15, named[lane], anchor="end") for lane, y in place.items()]
    spans = sorted(timeline.spans, key=lambda span: span.start)[:_MOST_SPANS]
    drawn = []
    for span in spans:
        says = f"{span.role} {span.kind}, step {span.depth}: {span.start:.3f} s to {span.end:.3f} s, {span.outcome}"
        says += f", {span.tokens} tokens" if span.tokens else ""
        drawn.append(
            _block(span.start, span.end, place[span.role, span.lane], span.outcome, str(span.depth), says, per_s)
        )
    for commit in timeline.commits:
        says = f"step {commit.depth} joins the answer at {commit.time:.3f} s, written by the {commit.role}"
        colour = "accepted" if commit.role == "draft" else "committed"
        drawn.append(_block(commit.time, commit.time, place["answer", 0], colour, "", says, per_s))
    inner = element("svg", "".join(drawn), x=left, y=0, width=width, height=height - 34, class_="spans")
    axis = element("g", "", class_="time", data_y=height - 18)
    svg = element(
        *("svg", "".join(names) + inner + axis),
        viewBox=f"0 0 {_WIDTH} {height}",
        class_="timeline",
        role="img",
        aria_label=f"timeline of one simulated answer, {timeline.label}",
        data_end=timeline.duration,
        data_shown=shown,
        data_left=left,
        data_width=width,
    )
    there = [name for name in _MEANING if any(span.outcome == name for span in spans)]
    legend = "".join(f'<span class="key o-{name}">{escaped(_MEANING[name])}</span>' for name in there)
    return f'<div class="scroll">{svg}</div><p class="legend">{legend}</p>'


def _block(start: float, end: float, y: float, outcome: str, label: str, says: str, per_s: float) -> str:
    x, width = start * per_s, max((end - start) * per_s, 1.5)
    rect = element(
        "rect", "", x=x, y=float(y + 2), width=width, height=_LANE - 4, rx=2, class_=f"o-{outcome}", data_tip=says
    )
    hidden = "" if width > 8.0 * len(label) + 2.0 else " hidden"
    named = text(x + width / 2, y + 15, label, class_=f"step t-{outcome}{hidden}") if label else ""
    return element("g", rect + named, data_a=f"{start:.6g}", data_b=f"{end:.6g}")
