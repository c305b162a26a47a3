"""Validations at concurrency 1 as results: first screen of 80 columns, plain data, rows and report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from calibrate.record.files import replacing
from specplan.check.validating.comparison import COLUMNS, compare
from specplan.check.validating.run_record import as_lines
from specplan.check.validating.validation import draw_timelines
from specplan.output import between, narrow, percent, screen
from specplan.show.drawing import scatter
from specplan.show.page import Answer, Bullets, Code, Part, Picture, Report, Section, Table, Text, filled, interval
from specplan.show.plans import advised
from specplan.show.rendering import as_text
from specplan.show.result import Result, flat

if TYPE_CHECKING:
    from calibrate.record.profile import Profile
    from sim.estimate import Estimate
    from specplan.check.validating.under_load import LoadRow
    from specplan.check.validating.validation import Row, Validation
    from specplan.planning.advice import Advice

__all__ = ["Validated", "first_screen", "run_with", "value", "verdict"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Validated(Result):
    """Configurations, predicted and measured at concurrency 1."""

    validation: Validation
    profile: Profile
    advice: Advice
    """Servers and clients that run the configuration that was measured fastest."""

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each configuration."""
        return [
            flat(
                {"method": row.name, "predicted": row.prediction.speedup, "measured": row.measured.speedup}
                | {"error": row.error, "good": row.good, "at_pace": row.at_pace, "replayed": row.replayed}
                | {"accuracy_predicted": row.prediction.accuracy, "accuracy_measured": row.measured.accuracy}
            )
            for row in self.validation.rows
        ]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan validate --json`` prints."""
        result = self.validation
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
            "advice": self.advice.plain(),
        }

    def text(self, *, verbose: bool = False) -> str:
        """Return the text of ``specplan validate``, with ``verbose`` that of ``specplan validate -v``."""
        first = first_screen(self.validation)
        return f"{first}\n\n{as_text(self.report())}" if verbose else first

    def draw(self, path: Path) -> bool:
        """Draw an answer of the fastest configuration, simulated above measured; return False if none was run now."""
        rows = [row for row in self.validation.rows if row.name in self.validation.runs.sessions]
        if not rows:
            return False
        with replacing(path) as temporary:
            fastest = max(rows, key=lambda row: row.measured.speedup.value)
            draw_timelines(self.profile, self.validation, fastest, temporary)
        return True

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        validation, advice = self.validation, self.advice
        sections = [Section("Predicted and measured", list(_rows(validation)))]
        if (compared := compare(validation)) is not None:
            title = f"How well predictions rank the {len(compared.names)} rows, and simpler ones from the same profile"
            sections.append(Section(title, [Table(COLUMNS, compared.cells()), Bullets(compared.notes())]))
        sections += [Section("To run the fastest", list(advised(advice))), *run_with(validation.effective)]
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


def run_with(effective: Mapping[str, Any]) -> list[Section]:
    """Return the section of the parameters in effect, where they are known."""
    return [Section("Run with", [Code("\n".join(as_lines(effective)))])] if effective else []


def _answers(validation: Validation) -> Iterator[Answer]:
    measured = validation.fastest
    chosen = max(validation.rows, key=lambda row: row.prediction.speedup.value)
    c = measured.prediction.configuration
    yield Answer("Which method is fastest?", measured.name, f"k1 = {c.k1}, k2 = {c.k2}")
    lost = measured.measured.speedup.value / chosen.measured.speedup.value - 1.0
    other = f"the measured best is {percent(lost)} faster"
    comparison = "it is also the measured best" if chosen is measured else other
    yield Answer("Was the choice right?", chosen.name, f"predicted to be the fastest; {comparison}")
    good = sum(row.good for row in validation.rows)
    errors = [abs(row.error) for row in validation.rows]
    yield Answer(
        "How good are the predictions?",
        f"{good} of {len(validation.rows)} are good",
        f"mean absolute error {percent(sum(errors) / len(errors))}, largest {percent(max(errors))}; good: "
        "error within 10 %, or the measurement inside its predicted interval",
    )
    yield Answer("At which load?", "One answer at a time", "under load: specplan validate --concurrency")
    worst = max(validation.rows, key=lambda row: abs(row.error))
    error = f"it has the largest error, {percent(worst.error, signed=True)}"
    yield Answer("What to measure next?", f"More of {worst.name}", error)


def _rows(validation: Validation) -> Iterator[Part]:
    rows, base = validation.rows, validation.baseline
    yield filled(
        ("method", [row.name for row in rows]),
        ("predicted", [interval(row.prediction.speedup) for row in rows]),
        ("next measurement", [f"{row.expected.low:.2f} – {row.expected.high:.2f}" for row in rows]),
        ("measured", [interval(row.measured.speedup) for row in rows]),
        ("error", [percent(row.error, signed=True) for row in rows]),
        ("at this speed", [value(row.at_pace) for row in rows]),
        ("replayed", [value(row.replayed) for row in rows]),
        ("closed form", [value(row.closed_form) for row in rows]),
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


def value(number: float | None) -> str:
    """Return a number for a table."""
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
            f"does not explain: mean {percent(fmean(map(abs, left)))}, from {100 * min(left):+.1f} to "
            f"{percent(max(left), signed=True)}, n = {len(left)}"
        )


def first_screen(result: Validation) -> str:
    """Return 80 columns: how good the predictions are in all, compared with simpler ones, and by row."""
    errors = sorted(abs(row.error) for row in result.rows)
    largest = max((row.error for row in result.rows), key=abs)
    good = sum(row.good for row in result.rows)
    sentence = (
        f"{good} of {len(result.rows)} predictions from {result.profile} are good, measured on {result.baseline.n} "
        f"fresh questions. The median error is {percent(median(errors))}, the largest "
        f"{percent(largest, signed=True)}."
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
        ("error", ["–", *map(verdict, rows)]),
    ]
    return screen(" ".join(sentences), narrow(columns), below)


def verdict(row: Row | LoadRow) -> str:
    """Return the error of a prediction, and whether it is off."""
    return percent(row.error, signed=True) + ("" if row.good else " off")
