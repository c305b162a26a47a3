"""Small drawings as SVG text: interval bars, lines with intervals, points, and a simulated answer by model and time.

Colours are CSS classes of the page, which follow its light or dark theme; there are no external references. The tooltip
of an element is its attribute ``data-tip``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from specplan.show.page import Interval, cleaned

if TYPE_CHECKING:
    from sim.timeline import Timeline

__all__ = ["Line", "draw_timeline", "element", "interval_bar", "lines", "scatter", "ticks"]

_WIDTH, _HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 14, 46


def element(tag: str, content: str = "", /, **attributes: object) -> str:
    """Return an element with escaped attributes; ``content`` is SVG, or text from `escaped`."""
    pairs = ""
    for name, value in attributes.items():
        said = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        pairs += f' {name.rstrip("_").replace("_", "-")}="{escaped(said)}"'
    return f"<{tag}{pairs}>{content}</{tag}>"


def escaped(text: str) -> str:
    """Escape a text for contents and attributes of SVG and HTML."""
    from markupsafe import escape

    return str(escape(cleaned(text)))


def text(x: float, y: float, said: str, *, anchor: str = "middle", class_: str = "label") -> str:
    """Return a text element."""
    return element("text", escaped(said), x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def interval_bar(interval: Interval, low: float, high: float, reference: float | None, says: str) -> str:
    """Return a bar from low to high with a dot, on the scale from ``low`` to ``high`` of its column."""
    width, height, room = 150.0, 16.0, 6.0
    span = (high - low) or 1.0

    def x(value: float) -> float:
        return room + (width - 2 * room) * (min(max(value, low), high) - low) / span

    drawn = []
    if reference is not None and low <= reference <= high:
        drawn.append(element("line", x1=x(reference), x2=x(reference), y1=0, y2=height, class_="reference"))
    long = max(x(interval.high) - x(interval.low), 1.0)
    drawn.append(element("rect", x=x(interval.low), y=5, width=long, height=6, rx=3, class_="bar"))
    drawn.append(element("circle", cx=x(interval.value), cy=8, r=4, class_="dot"))
    return element(
        *("svg", "".join(drawn)),
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        class_="interval",
        data_tip=says,
        role="img",
        aria_label=says,
    )


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Return about ``about`` round numbers from ``low`` to ``high``.

    >>> ticks(0.0, 2.2)
    [0.0, 0.5, 1.0, 1.5, 2.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(first * step + i * step, 10) for i in range(int((high - first * step) / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Line:
    """Points joined by a line."""

    name: str
    points: Sequence[tuple[float, float]]
    intervals: Sequence[Interval | None] = ()
    """Interval of each point, if any."""


@dataclass(frozen=True, slots=True)
class _Frame:
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    log_x: bool = False
    log_y: bool = False

    def x(self, value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * _place(value, self.x_range, self.log_x)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * _place(value, self.y_range, self.log_y)

    def axes(self, x_name: str, y_name: str, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> list[str]:
        drawn = []
        for value in y_ticks:
            drawn.append(self.level(value, "grid"))
            drawn.append(text(_LEFT - 7, self.y(value) + 4, f"{value:g}", anchor="end"))
        for value in x_ticks:
            drawn.append(text(self.x(value), _HEIGHT - _BOTTOM + 18, f"{value:g}"))
        drawn.append(text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, x_name))
        drawn.append(text(_LEFT - 40, _TOP - 2, y_name, anchor="start"))
        return drawn

    def level(self, value: float, class_: str) -> str:
        return element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=self.y(value), y2=self.y(value), class_=class_)


def _place(value: float, ends: tuple[float, float], log: bool) -> float:
    """Where a value lies on an axis, 0 at its low end and 1 at its high one."""
    low, high, value = (math.log(one) if log else one for one in (*ends, value))
    return (value - low) / (high - low) if high > low else 0.5


def lines(every: Sequence[Line], *, x_name: str, y_name: str, log: bool = False, reference: float | None = None) -> str:
    """Return lines over a common axis, with intervals as whiskers and a legend below."""
    every = [_finite(line) for line in every]
    xs = sorted({x for line in every for x, _ in line.points})
    ends = [end for line in every for one in line.intervals if one is not None for end in (one.low, one.high)]
    ys = [y for line in every for _, y in line.points] + ends + ([] if reference is None else [reference])
    frame = _Frame((xs[0], xs[-1]), (0.0, 1.06 * max(ys)), log)
    marked = xs if len(xs) <= 12 else ticks(xs[0], xs[-1])
    drawn = frame.axes(x_name, y_name, marked, ticks(*frame.y_range))
    if reference is not None:
        drawn.append(frame.level(reference, "reference"))
    abreast = min(len(every), 5)
    for i, line in enumerate(every):
        shift = 3.0 * (i % abreast - (abreast - 1) / 2)  # px, so that whiskers of several lines do not overlap
        drawn += _drawn(line, i, shift if line.intervals else 0.0, frame, x_name)
    return _picture(drawn, [line.name for line in every], f"{y_name} by {x_name}")


def _finite(line: Line) -> Line:
    """The line without unknown points and without infinite intervals."""
    padded = [*line.intervals, *[None] * (len(line.points) - len(line.intervals))]
    kept = [(point, one) for point, one in zip(line.points, padded, strict=True) if math.isfinite(point[1])]
    intervals = [one if one is not None and math.isfinite(one.high - one.low) else None for _, one in kept]
    return Line(line.name, [point for point, _ in kept], intervals if line.intervals else ())


def _drawn(line: Line, place: int, shift: float, frame: _Frame, x_name: str) -> list[str]:
    path = " ".join(f"{frame.x(x) + shift:.1f},{frame.y(y):.1f}" for x, y in line.points)
    shapes = [element("polyline", points=path, class_=f"line s{place % 8}")] if len(line.points) > 1 else []
    for i, (x, y) in enumerate(line.points):
        bar = line.intervals[i] if i < len(line.intervals) else None
        at = frame.x(x) + shift
        if bar is not None:
            ends = {"y1": frame.y(bar.low), "y2": frame.y(bar.high)}
            shapes.append(element("line", x1=at, x2=at, class_=f"whisker s{place % 8}", **ends))
        says = f"{line.name}, {x_name} {x:g}: {bar if bar is not None else f'{y:.3g}'}"
        point = {"class_": f"point s{place % 8}", "data_tip": says, "tabindex": 0}
        shapes.append(element("circle", cx=at, cy=frame.y(y), r=4.5, **point))
    return shapes


def scatter(
    groups: Mapping[str, Sequence[tuple[float, float, str]]],
    *,
    x_name: str,
    y_name: str,
    intervals: Mapping[str, tuple[Interval, Interval]] | None = None,
) -> str:
    """Return a plot of points (x, y, tooltip) by group, with a diagonal; wide ranges are logarithmic.

    ``intervals`` gives the intervals of x and y of a group, drawn as whiskers.
    """
    bars = {} if intervals is None else intervals
    every = [point for points in groups.values() for point in points]
    both = [value for x, y, _ in every for value in (x, y)]
    both += [end for pair in bars.values() for one in pair for end in (one.low, one.high) if math.isfinite(end)]
    low, high = min(both), max(both)
    wide = high > 20.0 * low > 0.0
    low, high = (low / 1.2, high * 1.2) if wide else (low - 0.05 * (high - low), high + 0.05 * (high - low))
    frame = _Frame((low, high), (low, high), wide, wide)
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1) if wide else ()
    marks = [10.0**power for power in powers] or ticks(low, high)
    drawn = frame.axes(x_name, y_name, marks, marks)
    ends = {"x1": frame.x(low), "y1": frame.y(low), "x2": frame.x(high), "y2": frame.y(high)}
    drawn.append(element("line", class_="reference", **ends))
    for i, (name, points) in enumerate(groups.items()):
        drawn += _cross(*bars[name], i, frame) if name in bars else ()
        for x, y, says in points:
            shape = {"cx": frame.x(x), "cy": frame.y(y), "r": 3.5, "class_": f"mark s{i % 8}"}
            drawn.append(element("circle", data_tip=says, **shape))
    return _picture(drawn, list(groups), f"{y_name} against {x_name}")


def _cross(first: Interval, second: Interval, place: int, frame: _Frame) -> Iterator[str]:
    """Whiskers of a point in x and y; an infinite interval is left out."""
    style = f"whisker s{place % 8}"
    if math.isfinite(first.high - first.low):
        level = frame.y(second.value)
        yield element("line", x1=frame.x(first.low), x2=frame.x(first.high), y1=level, y2=level, class_=style)
    if math.isfinite(second.high - second.low):
        level = frame.x(first.value)
        yield element("line", x1=level, x2=level, y1=frame.y(second.low), y2=frame.y(second.high), class_=style)


def _picture(drawn: Sequence[str], names: Sequence[str], says: str) -> str:
    """The drawing, with its legend as HTML below."""
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    svg = element("svg", "".join(drawn), viewBox=box, class_="chart", role="img", aria_label=says)
    legend = "".join(f'<span class="key s{i % 8}">{escaped(name)}</span>' for i, name in enumerate(names))
    return f'<div class="scroll">{svg}</div><p class="legend">{legend}</p>'


_LONG, _LEAST_LEFT, _MARGIN, _LANE, _HEAD = 900, 76, 12, 22, 22
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
    place = {lane: _HEAD + i * _LANE for i, lane in enumerate(lanes)}
    last = min(_SHOWN_STEPS, len(timeline.commits)) - 1
    shown = (timeline.commits[last].time if last >= 0 else timeline.duration) or 1.0
    named = {lane: lane[0] if lane[0] == "answer" else timeline.lane_name(*lane) for lane in lanes}
    left = max(_LEAST_LEFT, round(_LETTER * max(map(len, named.values()))) + 12)
    width = _LONG - left - _MARGIN
    per_s = width / shown
    height = _HEAD + _LANE * len(lanes) + 34
    names = [text(left - 8, y + 15, named[lane], anchor="end") for lane, y in place.items()]
    spans = sorted(timeline.spans, key=lambda span: span.start)[:_MOST_SPANS]
    drawn = []
    for span in spans:
        says = f"{span.role} {span.kind}, step {span.depth}: {span.start:.3f} s to {span.end:.3f} s, {span.outcome}"
        says += f", {span.tokens} tokens" if span.tokens else ""
        y = place[span.role, span.lane]
        drawn.append(_block(span.start, span.end, y, span.outcome, str(span.depth), says, per_s))
    for commit in timeline.commits:
        says = f"step {commit.depth} joins the answer at {commit.time:.3f} s, written by the {commit.role}"
        colour = "accepted" if commit.role == "draft" else "committed"
        drawn.append(_block(commit.time, commit.time, place["answer", 0], colour, "", says, per_s))
    inner = element("svg", "".join(drawn), x=left, y=0, width=width, height=height - 34, class_="spans")
    axis = element("g", "", class_="time", data_y=height - 18)
    svg = element(
        *("svg", "".join(names) + inner + axis),
        viewBox=f"0 0 {_LONG} {height}",
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
    shape = {"height": _LANE - 4, "rx": 2, "class_": f"o-{outcome}", "data_tip": says}
    rect = element("rect", x=x, y=float(y + 2), width=width, **shape)
    hidden = "" if width > 8.0 * len(label) + 2.0 else " hidden"
    named = text(x + width / 2, y + 15, label, class_=f"step t-{outcome}{hidden}") if label else ""
    return element("g", rect + named, data_a=f"{start:.6g}", data_b=f"{end:.6g}")
