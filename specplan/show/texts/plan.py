"""The plan for a profile, as a reader sees it: a first screen of 80 columns, and all of it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from specplan.output import SCREEN, by_need, table

if TYPE_CHECKING:
    from sim.estimate import Estimate
    from specplan.planning.advice import Advice
    from specplan.planning.at_once import AtOnce
    from specplan.planning.latency import Timed
    from specplan.planning.planner import Plan, Row
    from specplan.planning.predict import Prediction

__all__ = ["Doubt", "first_screen", "plan_as_text", "summary", "widest"]

_SHOWN: Final = 12
"""Methods on the first screen, plain decoding besides."""
_WIDEST: Final = {
    "sampling": "sampling of {n} answers",
    "profile": "what the profile does not say about timings and step lengths",
    "model": "the error of earlier predictions of this kind",
}
"""Part of an interval to what it is."""


def summary(found: Plan) -> str:
    """Return two sentences: what to do and what it brings, with how sure; what it costs."""
    best = found.best.prediction
    return f"{found.verdict} {_costs(best)}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What makes most of the best row's interval, and what to measure next."""

    what: str
    remedy: str


def widest(found: Plan) -> Doubt | None:
    """Return what the best row's interval is mostly made of; None where it has none."""
    errors = {name: part for name, part in found.best.prediction.errors.items() if part > 0.0}
    if not errors:
        return None
    name, part = max(errors.items(), key=lambda error: error[1])
    what = f"Most of the interval, ±{100 * part:.0f} %, comes from {_WIDEST[name].format(n=found.n_answers)}."
    more = 4 * found.n_answers
    if not found.measured:
        drawn = f"Draw four times as many (-n {more}), or measure" if name == "sampling" else "Measure"
        return Doubt(what=what, remedy=f"{drawn} your own models: specplan calibrate")
    if name == "model":
        return Doubt(what=what, remedy="Run the row that you choose: specplan validate")
    return Doubt(what=what, remedy=f"Answer four times as many questions: specplan calibrate -n {more}")


def first_screen(found: Plan, timings: Timed, at_once: Sequence[AtOnce]) -> str:
    """Return what fits a terminal of 80 columns: what to do, the best rows, what to measure next.

    Parameters
    ----------
    found : the plan for one answer at a time.
    timings : whose they are.
    at_once : the best of each kind of configuration, by number of answers at once.
    """
    shown = _chosen(found.rows)
    about = f"{found.profile}, one answer at a time, at most {found.max_parallel} target positions in flight:"
    parts = [textwrap.fill(summary(found), SCREEN), textwrap.fill(about, SCREEN), _short_table(shown)]
    if at_once:
        parts.append(_by_number(at_once))
    below = [*_below(found, len(shown)), *timings.lines()[: timings.latency is not None]]
    parts.append("\n".join(textwrap.fill(line, SCREEN, subsequent_indent="  ") for line in below))
    return "\n\n".join(parts)


def plan_as_text(found: Plan, timings: Timed | None, at_once: Sequence[AtOnce], advice: Advice | None) -> str:
    """Return all of a plan: every row and column, what it rests on, and the commands to run it."""
    from specplan.planning.crowds_text import crowds_as_text

    headings = ["method", "k1", "k2", "speedup", "95 % interval", "accuracy", "false accepts", "in flight"]
    headings += ["draft waste", "target waste", "why"]
    lines = [
        f"Plan for {found.profile}, for one answer at a time, at most {found.max_parallel} target positions in flight",
        "",
        table(headings, [_cells(row) for row in found.rows]),
        "",
        summary(found),
        "",
        "speedup: time of plain decoding / time of the method, ratio of totals over answers; in flight: target "
        "sequences x tokens per pass at the peak; accuracy: share of right answers; false accepts: wrong drafts let "
        "stand, per answer; waste: tokens generated in vain per committed token.",
    ]
    lines += [f"- not evaluated: {', '.join(names)}: needs {what}" for what, names in by_need(found.unknown).items()]
    about = [] if timings is None else timings.lines()
    notes = dict.fromkeys((*about, *found.assumptions, *(note for row in found.rows for note in row.prediction.notes)))
    lines += [f"- {note}" for note in notes]
    more = [] if advice is None else [advice.text()]
    return "\n\n".join(["\n".join(lines), *crowds_as_text(list(at_once)), *more])


def _costs(best: Prediction) -> str:
    """Return what the best row needs: servers, tokens that the target generates, and how many answers are right."""
    if not best.configuration.speculates:
        return ""
    servers = ["target", *(role for role in best.configuration.spec.roles if role in ("draft", "judge"))]
    need = "one server" if len(servers) == 1 else f"{len(servers)} servers"
    roles = " and ".join(filter(None, [", ".join(servers[:-1]), servers[-1]]))
    kept = f"The target generates {1.0 + best.wasted_target:.2f} tokens for every token that it keeps"
    text = f"You need {need}: {roles}. {kept}"
    if best.accuracy is not None and best.baseline_accuracy is not None:
        right = f"{best.accuracy.value:.2f} [{best.accuracy.low:.2f}, {best.accuracy.high:.2f}]"
        text += f"; {right} of the answers are right, {best.baseline_accuracy.value:.2f} without it"
    return text + "."


def _chosen(rows: Sequence[Row]) -> list[Row]:
    """The best rows, and plain decoding wherever it stands."""
    return [row for i, row in enumerate(rows) if i < _SHOWN or not row.prediction.configuration.speculates]


def _short_table(rows: Sequence[Row]) -> str:
    """The rows in columns that say something: nothing is there twice, and none is empty."""
    columns: list[tuple[str, list[str]]] = [
        ("k1", [str(row.prediction.configuration.k1) for row in rows]),
        ("k2", [str(row.prediction.configuration.k2) for row in rows]),
        ("speedup", [_speedup(row.prediction) for row in rows]),
        ("right", [_value(row.prediction.accuracy) for row in rows]),
        ("target tokens", [f"{1.0 + row.prediction.wasted_target:.2f}" for row in rows]),
    ]
    kept = [(name, cells) for name, cells in columns if len({*cells, "–" if name == "right" else "1"}) > 1]
    left = SCREEN - sum(2 + max(len(name), *map(len, cells)) for name, cells in kept)
    labels = [textwrap.shorten(row.label, left, placeholder=" …") for row in rows]
    body = [[label, *cells] for label, *cells in zip(labels, *(cells for _, cells in kept), strict=True)]
    return table(["method", *(name for name, _ in kept)], body)


def _by_number(at_once: Sequence[AtOnce]) -> str:
    """For each number of answers at once, what is best there."""
    from specplan.planning.crowds_text import beyond_timings
    from specplan.planning.planner import label

    rows = []
    off = None
    for n in dict.fromkeys(row.answers for row in at_once):
        best = max((row for row in at_once if row.answers == n), key=lambda row: row.gain.value)
        if best.gain.value <= 1.0:
            off = n if off is None else off
            rows.append([str(n), "plain decoding", "–", "–", "1.00"])
            continue
        c, gain = best.configuration, best.gain
        rows.append([str(n), label(c), str(c.k1), str(c.k2), f"{gain.value:.2f} [{gain.low:.2f}, {gain.high:.2f}]"])
    lines = [table(["at once", "best", "k1", "k2", "tokens/s, over plain"], rows)]
    lines += [textwrap.fill(line, SCREEN) for line in beyond_timings(at_once)]
    if off is not None:
        lines += ["", f"Switch speculation off from {off} answers at once."]
    return "\n".join(lines)


def _below(found: Plan, n_shown: int) -> Iterator[str]:
    if (hidden := len(found.rows) - n_shown) > 0:
        yield f"{hidden} slower rows are not shown."
    if found.unknown:
        yield f"Not evaluated, for lack of measurements: {', '.join(found.unknown)}."
    if (doubt := widest(found)) is not None:
        yield f"{doubt.what} {doubt.remedy}."
    yield (
        "speedup: over plain decoding, one answer at a time, [95 % interval]; target tokens: generated per token kept. "
        "All rows, columns and assumptions, and the commands to run it: -v."
    )


def _speedup(p: Prediction) -> str:
    if not p.configuration.speculates:
        return f"{p.speedup.value:.2f}"
    return f"{p.speedup.value:.2f} [{p.speedup.low:.2f}, {p.speedup.high:.2f}]"


def _value(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{estimate.value:.2f}"


def _per_answer(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{estimate.value:.2f} [{max(estimate.low, 0.0):.2f}, {estimate.high:.2f}]"


def _cells(row: Row) -> list[str]:
    p = row.prediction
    speculates = p.configuration.speculates
    return [
        row.label,
        str(p.configuration.k1),
        str(p.configuration.k2),
        f"{p.speedup.value:.2f}",
        f"{p.speedup.low:.2f} – {p.speedup.high:.2f}" if speculates else "–",
        "–" if p.accuracy is None else f"{p.accuracy.value:.2f} [{p.accuracy.low:.2f}, {p.accuracy.high:.2f}]",
        _per_answer(p.false_accepts) if speculates else "–",
        f"{p.peak_sequences} x {p.configuration.k2}",
        f"{p.wasted_draft:.2f}",
        f"{p.wasted_target:.2f}",
        row.why,
    ]
