"""Validations at concurrency 1 and under load: first screens of 80 columns, plain data, and reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

from calibrate.running.interleaved import BASELINE
from specplan.check.validating.comparison import COLUMNS, compare
from specplan.check.validating.load_prediction import METRICS
from specplan.check.validating.run_record import as_lines
from specplan.output import between, narrow, screen
from specplan.show.drawing import Line, lines, scatter
from specplan.show.page import Answer, Bullets, Code, Part, Picture, Report, Section, Table, Text, filled, interval
from specplan.show.plans import advised

if TYPE_CHECKING:
    from sim.estimate import Estimate
    from specplan.check.validating.under_load import LoadRow, LoadValidation, Verdict
    from specplan.check.validating.validation import Row, Validation
    from specplan.planning.advice import Advice

__all__ = ["first_screen", "load_first_screen", "load_plain", "load_validation_report", "plain", "validation_report"]


def validation_report(validation: Validation, advice: Advice) -> Report:
    """Return the report of a validation."""
    sections = [Section("Predicted and measured", list(_rows(validation)))]
    if (compared := compare(validation)) is not None:
        title = f"How well predictions rank the {len(compared.names)} rows, and simpler ones from the same profile"
        sections.append(Section(title, [Table(COLUMNS, compared.cells()), Bullets(compared.notes())]))
    sections += [Section("To run the fastest", list(advised(advice))), *_run_with(validation.effective)]
    best = validation.fastest
    return Report(
        title=f"Validation of {validation.profile}",
        about=f"{validation.baseline.n} fresh questions, each answered by all configurations and plain decoding",
        lead=f"{best.name} was measured fastest: {best.measured.speedup.value:.2f} times plain decoding "
        f"[{best.measured.speedup.low:.2f}, {best.measured.speedup.high:.2f}], predicted "
        f"{best.prediction.speedup.value:.2f}.",
        answers=list(_answers(validation)),
        sections=sections,
        made=[("profile", validation.profile), ("questions", str(validation.baseline.n))],
        notes=[f"{row.name}: {note}" for row in validation.rows for note in row.prediction.notes],
    )


def _run_with(effective: Mapping[str, Any]) -> list[Section]:
    return [Section("Run with", [Code("\n".join(as_lines(effective)))])] if effective else []


def _answers(validation: Validation) -> Iterator[Answer]:
    measured = validation.fastest
    chosen = max(validation.rows, key=lambda row: row.prediction.speedup.value)
    c = measured.prediction.configuration
    yield Answer("Which method is fastest?", measured.name, f"k1 = {c.k1}, k2 = {c.k2}")
    lost = measured.measured.speedup.value / chosen.measured.speedup.value - 1.0
    other = f"the measured best is {100 * lost:.1f} % faster"
    comparison = "it is also the measured best" if chosen is measured else other
    yield Answer("Was the choice right?", chosen.name, f"predicted to be the fastest; {comparison}")
    good = sum(row.good for row in validation.rows)
    errors = [abs(row.error) for row in validation.rows]
    yield Answer(
        "How good are the predictions?",
        f"{good} of {len(validation.rows)} are good",
        f"mean absolute error {100 * sum(errors) / len(errors):.1f} %, largest {100 * max(errors):.1f} %; good: "
        "error within 10 %, or the measurement inside its predicted interval",
    )
    yield Answer("At which load?", "One answer at a time", "under load: specplan validate --concurrency")
    worst = max(validation.rows, key=lambda row: abs(row.error))
    error = f"it has the largest error, {100 * worst.error:+.1f} %"
    yield Answer("What to measure next?", f"More of {worst.name}", error)


def _rows(validation: Validation) -> Iterator[Part]:
    rows, base = validation.rows, validation.baseline
    yield filled(
        ("method", [row.name for row in rows]),
        ("predicted", [interval(row.prediction.speedup) for row in rows]),
        ("next measurement", [f"{row.expected.low:.2f} – {row.expected.high:.2f}" for row in rows]),
        ("measured", [interval(row.measured.speedup) for row in rows]),
        ("error", [f"{100 * row.error:+.1f} %" for row in rows]),
        ("at this speed", [_value(row.at_pace) for row in rows]),
        ("replayed", [_value(row.replayed) for row in rows]),
        ("closed form", [_value(row.closed_form) for row in rows]),
        ("verdict", ["good" if row.good else "off" for row in rows]),
        reference=1.0,
    )
    both = [(row.prediction.false_accepts, row.measured.false_accepts) for row in rows]
    false_accepts = [
        "–" if a is None or b is None else f"{a.value:.2f} > {b.value:.2f} ± {b.stderr:.2f}" for a, b in both
    ]
    yield filled(
        ("method", [row.name for row in rows]),
        ("acceptance", [f"{row.prediction.acceptance:.2f} > {row.measured.acceptance:.2f}" for row in rows]),
        ("false accepts", false_accepts),
        ("accuracy", [f"{_share(row.prediction.accuracy)} > {_share(row.measured.accuracy)}" for row in rows]),
        folded="Acceptance of judged drafts, wrong drafts let stand per answer, right answers: predicted > measured",
    )
    often = "" if validation.runs.n_plain == 1 else f", which answered each {validation.runs.n_plain} times"
    yield Text(
        "Speedup over plain decoding of the same questions, ratio of totals, 95 % intervals. Next measurement: "
        "the predicted interval of a speedup measured on as many fresh questions. A prediction is good if the "
        f"measurement is inside it, or the error within 10 %. Plain decoding{often}: "
        f"{1e3 * base.seconds_per_answer:.0f} ms/answer, right answers {_share(base.accuracy)}."
    )
    if remarks := list(_remarks(validation)):
        yield Bullets(remarks)
    if len(rows) > 1:
        bars = {row.name: (interval(row.prediction.speedup), interval(row.measured.speedup)) for row in rows}
        points = {name: [(x.value, y.value)] for name, (x, y) in bars.items()}
        draw = partial(scatter, points, x_name="predicted speedup", y_name="measured speedup", intervals=bars)
        yield Picture(draw, "On the dashed line predicted equals measured. Bars: 95 % intervals of both.")


def _value(number: float | None) -> str:
    return "–" if number is None else f"{number:.3f}"


def _share(estimate: Estimate | None) -> str:
    return "–" if estimate is None else str(interval(estimate))


def _remarks(validation: Validation) -> Iterator[str]:
    """The change of the engines' speed since the calibration, and the errors that remain of the texts of the runs."""
    if validation.slowdown:
        ratios = ", ".join(f"{name} {value:.2f}" for name, value in validation.slowdown.items())
        yield (
            "at this speed: the speedup predicted with the engine times of these runs. Time of the engines over the "
            f"time that the profile gives for the same work: {ratios}"
        )
    left = [row.replayed / row.measured.speedup.value - 1.0 for row in validation.rows if row.replayed is not None]
    if left:
        yield (
            "replayed: simulated at this speed from the lengths and verdicts of these runs, where they contain all of "
            "them (rounds of token-level methods are the profile's). Remaining errors, which the choice of questions "
            f"does not explain: mean {100 * fmean(map(abs, left)):.1f} %, from {100 * min(left):+.1f} to "
            f"{100 * max(left):+.1f} %, n = {len(left)}"
        )


def load_validation_report(validation: LoadValidation) -> Report:
    """Return the report of a validation under load."""
    rows, n_rounds = [row for row in validation.rows if row.name != BASELINE], validation.n_rounds
    parts: list[Part] = []
    if len({row.clients for row in rows}) > 1:
        drawn = [
            Line(
                f"{name}, {side}",
                [(float(row.clients), getattr(row, side)["gain"].value) for row in rows if row.name == name],
                [interval(getattr(row, side)["gain"]) for row in rows if row.name == name],
            )
            for name in dict.fromkeys(row.name for row in rows)
            for side in ("predicted", "measured")
        ]
        draw = partial(lines, drawn, x_name="clients", y_name="gain", log=True, reference=1.0)
        parts.append(Picture(draw, "Gain over plain decoding with the same number of clients, 95 % intervals."))
    verdicts = validation.verdicts
    choices = filled(
        ("clients", [str(one.clients) for one in verdicts]),
        ("predicted best", [one.chosen for one in verdicts]),
        ("measured best", [one.best for one in verdicts]),
        ("regret, %", [interval(one.regret, 1, times=100.0) for one in verdicts]),
    )
    parts += [_gains(validation), _speeds(validation), choices, Bullets(list(_load_remarks(validation)))]
    inside = sum(row.inside for row in rows)
    answers = []
    for one in verdicts:
        regret = f"measured; predicted: {one.chosen}, which is {100 * one.regret.value:.1f} % slower"
        answers.append(Answer(f"Which method at {one.clients} clients?", one.best, regret))
    answers.append(Answer("How sure?", f"{inside} of {len(rows)} gains are inside their 95 % interval"))
    off = ["at none of these loads" if load is None else f"from {load} clients on" for load in validation.off_from]
    return Report(
        title=f"Validation of {validation.profile} under load",
        about=f"{validation.n_questions} fresh questions in {n_rounds} rounds",
        lead=f"Speculation should be switched off {off[0]} (predicted), {off[1]} (measured).",
        answers=answers,
        sections=[Section("Predicted and measured", parts), *_run_with(validation.effective)],
        made=[("profile", validation.profile), ("questions", f"{validation.n_questions}"), ("rounds", f"{n_rounds}")],
    )


def _gains(validation: LoadValidation) -> Table:
    rows = validation.rows
    speculating = [None if row.name == BASELINE else row for row in rows]
    return filled(
        ("clients", [str(row.clients) for row in rows]),
        ("method", [row.name for row in rows]),
        ("gain predicted", ["1" if row is None else interval(row.predicted["gain"]) for row in speculating]),
        ("measured", ["1" if row is None else interval(row.measured["gain"]) for row in speculating]),
        ("error", ["–" if row is None else f"{100 * row.error:+.1f} %" for row in speculating]),
        ("at this speed", ["–" if row is None else _value(row.at_pace) for row in speculating]),
        ("in flight", [f"{row.answers_at_once[0]:.1f} > {row.answers_at_once[1]:.1f}" for row in rows]),
        ("accuracy", ["–" if row.accuracy is None else f"{row.accuracy.value:.2f}" for row in rows]),
        reference=1.0,
    )


_SPEEDS: Final = {
    "answers/s": ("answers_per_s", 2, 1.0),
    "tokens/s": ("tokens_per_s", 0, 1.0),
    "ms/token": ("token_s", 1, 1e3),
    "first ms": ("first_s", 1, 1e3),
    "p50 s": ("p50_s", 2, 1.0),
    "p90 s": ("p90_s", 2, 1.0),
}
"""Heading to the metric, its digits and its unit."""


def _speeds(validation: LoadValidation) -> Table:
    """Predicted and measured rates and times."""
    rows = []
    for row in validation.rows:
        cells = [
            f"{unit * row.predicted[name].value:.{digits}f} > {unit * row.measured[name].value:.{digits}f}"
            for name, digits, unit in _SPEEDS.values()
        ]
        rows.append([str(row.clients), row.name, *cells])
    return Table(["clients", "method", *_SPEEDS], rows, folded="Predicted > measured")


def _load_remarks(validation: LoadValidation) -> Iterator[str]:
    """What the columns mean, how many figures are inside their intervals, and where predictions extrapolate."""
    yield (
        "gain: seconds of plain decoding / seconds of the method until the last answer of a round, both with the "
        "same number of clients, ratio of totals over the same rounds; of methods that verify tokens only, which "
        "write other texts of the same distribution, seconds for as many tokens. Predicted > measured: answers and "
        "tokens per second over rounds, ms per token after an answer's first, ms to the first token that a user "
        "sees (of methods that write steps, to the first step), percentiles of the seconds of an answer, mean "
        f"answers in flight. Intervals of 95 %: predicted, of the next {validation.n_rounds} rounds (other "
        "questions, timings resampled); measured, Student's over rounds. regret: measured gain of the measured "
        "best / of the predicted best - 1"
    )
    counts = []
    for name in METRICS:
        rows = [row for row in validation.rows if name != "gain" or row.name != BASELINE]
        n = sum(row.predicted[name].contains(row.measured[name].value) for row in rows)
        counts.append(f"{name} {n} of {len(rows)}")
    yield f"measured figures inside their predicted intervals: {', '.join(counts)}"
    ratios = []
    for load, engines in validation.slowdown.items():
        of_load = ", ".join(f"{engine} {value:.2f}" for engine, value in engines.items())
        ratios += [f"{load} clients {of_load}"] if engines else []
    if ratios:
        yield (
            "at this speed: the gain predicted with the engine times of this load. Time of the engines over the time "
            f"that the profile gives for the same work: {'; '.join(ratios)}"
        )
    for role, swept in validation.swept.items():
        rows = [row for row in validation.rows if max(row.beyond[role]) > 0.0]
        if not rows:
            continue
        worst = max(rows, key=lambda row: max(row.beyond[role]))
        most = f" (of which it decodes {validation.most[role]} in a batch)" if role in validation.most else ""
        yield (
            f"the {role}'s batches were timed up to {swept}. More steps than that were in flight{most} in "
            f"{len(rows)} rows, at most {100 * worst.beyond[role][0]:.0f} % of the time in the prediction and "
            f"{100 * worst.beyond[role][1]:.0f} % in the measurement ({worst.clients} clients, {worst.name}): there "
            "the costs are extrapolated with the slope of the largest batches"
        )


def first_screen(result: Validation) -> str:
    """Return 80 columns: how good the predictions are in all, compared with simpler ones, and by row."""
    errors = sorted(abs(row.error) for row in result.rows)
    largest = max((row.error for row in result.rows), key=abs)
    good = sum(row.good for row in result.rows)
    sentence = (
        f"{good} of {len(result.rows)} predictions from {result.profile} are good, measured on {result.baseline.n} "
        f"fresh questions. The median error is {100 * median(errors):.1f} %, the largest "
        f"{100 * largest:+.1f} %."
    )
    compared = compare(result)
    sentences = [sentence, *(() if compared is None else compared.sentences())]
    below = []
    if moved := {name: value for name, value in result.slowdown.items() if abs(value - 1.0) > 0.05}:
        ratios = ", ".join(f"{name} {value:.2f}" for name, value in moved.items())
        below.append(f"Time of the engines over their time in the calibration: {ratios}.")
    below.append(
        "speedup: over plain decoding, ratio of totals, [95 % interval]. A prediction is good if its interval for the "
        "next measurement contains the measured speedup, or its error is within 10 %. Right answers, simpler "
        "predictions, settings, versions: -v, or -o FILE."
    )
    rows, plain_s = result.rows, f"{1e3 * result.baseline.seconds_per_answer:.0f} ms/answer"
    columns = [
        ("method", ["plain decoding", *(row.name for row in rows)]),
        ("predicted", ["1", *(between(row.prediction.speedup) for row in rows)]),
        ("measured", [plain_s, *(between(row.measured.speedup) for row in rows)]),
        ("error", ["–", *map(_verdict, rows)]),
    ]
    return screen(" ".join(sentences), narrow(columns), below)


def _verdict(row: Row | LoadRow) -> str:
    return f"{100 * row.error:+.1f} %" + ("" if row.good else " off")


def plain(result: Validation) -> dict[str, Any]:
    """Return the validation as plain data."""
    compared = compare(result)
    return {
        "schema": "specplan.validation",
        "schema_version": 1,
        "profile": result.profile,
        "effective": result.effective,
        "pace": dict(result.slowdown),
        "rows": [
            {
                "name": row.name,
                "prediction": row.prediction.plain(),
                "measured": asdict(row.measured),
                "error": row.error,
                "at_pace": row.at_pace,
                "replayed": row.replayed,
                "good": row.good,
                "next_measurement": asdict(row.expected),
                "closed_form": row.closed_form,
                "seconds": [run.seconds for run in result.runs.by_name[row.name]],
            }
            for row in result.rows
        ],
        "telling_apart": None if compared is None else compared.plain(),
        "baseline": {
            **asdict(result.baseline),
            "seconds": result.runs.plain_seconds,
            "answers_per_question": result.runs.n_plain,
        },
    }


def load_plain(result: LoadValidation) -> dict[str, Any]:
    """Return the validation as plain data."""
    return {
        "schema": "specplan.load-validation",
        "schema_version": 1,
        "profile": result.profile,
        "questions": result.n_questions,
        "rounds": result.n_rounds,
        "pace": {load: dict(engines) for load, engines in result.slowdown.items()},
        "swept_batches": dict(result.swept),
        "max_batch": dict(result.most),
        "off_from": dict(zip(("predicted", "measured"), result.off_from, strict=True)),
        "verdicts": [asdict(verdict) for verdict in result.verdicts],
        "rows": [{**asdict(row), "error": row.error, "inside": row.inside} for row in result.rows],
        "effective": result.effective,
    }


def load_first_screen(result: LoadValidation) -> str:
    """Return 80 columns: how good the predicted gains are, and the choice at each load."""
    rows = [row for row in result.rows if row.name != BASELINE]
    good = sum(row.good for row in rows)
    largest = max((row.error for row in rows), key=abs)
    lead = [
        f"{good} of {len(rows)} gains predicted from {result.profile} are good, measured on {result.n_questions} fresh "
        f"questions in {result.n_rounds} rounds. The median error is "
        f"{100 * median(abs(row.error) for row in rows):.1f} %, the largest {100 * largest:+.1f} %.",
        *(_choice(one) for one in result.verdicts),
    ]
    if result.off_from != (None, None):
        predicted, measured = ("never" if load is None else f"from {_clients(load)} on" for load in result.off_from)
        lead.append(f"Speculation should be switched off: {predicted} (predicted), {measured} (measured).")
    columns = [
        ("clients", [str(row.clients) for row in rows]),
        ("method", [row.name for row in rows]),
        ("predicted", [between(row.predicted["gain"]) for row in rows]),
        ("measured", [between(row.measured["gain"]) for row in rows]),
        ("error", [*map(_verdict, rows)]),
    ]
    below = (
        "gain: over plain decoding with the same number of clients, in answers per second for methods that write steps "
        "and in tokens per second for the others, [95 % interval]. A prediction is good if the measured gain is inside "
        "its interval, or within 10 %. "
        "Rates, seconds of an answer, right answers, settings, versions: -v, or -o FILE."
    )
    return screen(" ".join(lead), narrow(columns, long=1), [below])


def _choice(one: Verdict) -> str:
    chosen = "plain decoding" if one.chosen == BASELINE else one.chosen
    if one.regret.value <= 0.0:
        return f"With {_clients(one.clients)} the plan chooses {chosen}, which measured fastest."
    best = "plain decoding" if one.best == BASELINE else one.best
    return (
        f"With {_clients(one.clients)} it chooses {chosen}; {best} measured {100 * one.regret.value:.1f} % faster "
        f"[{100 * one.regret.low:.1f}, {100 * one.regret.high:.1f}]."
    )


def _clients(n: int) -> str:
    return f"{n} client{'s' * (n > 1)}"
