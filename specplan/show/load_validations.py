"""Validations under load as results: first screen of 80 columns, plain data, rows and report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from calibrate.running.interleaved import BASELINE
from specplan.check.validating.load_prediction import METRICS
from specplan.output import between, narrow, percent, screen
from specplan.show.drawing import Line, lines
from specplan.show.page import Answer, Bullets, Part, Picture, Report, Section, Table, filled, interval
from specplan.show.rendering import as_text
from specplan.show.result import Result, flat
from specplan.show.validations import run_with, value, verdict

if TYPE_CHECKING:
    from specplan.check.validating.under_load import LoadValidation, Verdict

__all__ = ["ValidatedUnderLoad"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ValidatedUnderLoad(Result):
    """Configurations, predicted and measured with concurrent clients."""

    validation: LoadValidation

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each number of clients and configuration."""
        return [
            flat(
                {"clients": row.clients, "method": row.name, "error": row.error, "accuracy": row.accuracy}
                | {f"{name}_predicted": value for name, value in row.predicted.items()}
                | {f"{name}_measured": value for name, value in row.measured.items()}
            )
            for row in self.validation.rows
        ]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan validate --concurrency --json`` prints."""
        result = self.validation
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

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan validate --concurrency`` prints."""
        first = _first_screen(self.validation)
        return f"{first}\n\n{as_text(self.report())}" if verbose else first

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        validation = self.validation
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
            regret = f"measured; predicted: {one.chosen}, which is {percent(one.regret.value)} slower"
            answers.append(Answer(f"Which method at {one.clients} clients?", one.best, regret))
        answers.append(Answer("How sure?", f"{inside} of {len(rows)} gains are inside their 95 % interval"))
        off = ["at none of these loads" if load is None else f"from {load} clients on" for load in validation.off_from]
        return Report(
            title=f"Validation of {validation.profile} under load",
            about=f"{validation.n_questions} fresh questions in {n_rounds} rounds",
            lead=f"Speculation should be switched off {off[0]} (predicted), {off[1]} (measured).",
            answers=answers,
            sections=[Section("Predicted and measured", parts), *run_with(validation.effective)],
            made=[
                ("profile", validation.profile),
                ("questions", f"{validation.n_questions}"),
                ("rounds", f"{n_rounds}"),
            ],
        )


def _gains(validation: LoadValidation) -> Table:
    rows = validation.rows
    speculating = [None if row.name == BASELINE else row for row in rows]
    return filled(
        ("clients", [str(row.clients) for row in rows]),
        ("method", [row.name for row in rows]),
        ("gain predicted", ["1" if row is None else interval(row.predicted["gain"]) for row in speculating]),
        ("measured", ["1" if row is None else interval(row.measured["gain"]) for row in speculating]),
        ("error", ["–" if row is None else percent(row.error, signed=True) for row in speculating]),
        ("at this speed", ["–" if row is None else value(row.at_pace) for row in speculating]),
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
            f"{len(rows)} rows, at most {percent(worst.beyond[role][0], 0)} of the time in the prediction and "
            f"{percent(worst.beyond[role][1], 0)} in the measurement ({worst.clients} clients, {worst.name}): there "
            "the costs are extrapolated with the slope of the largest batches"
        )


def _first_screen(result: LoadValidation) -> str:
    """Return 80 columns: how good the predicted gains are, and the choice at each load."""
    rows = [row for row in result.rows if row.name != BASELINE]
    good = sum(row.good for row in rows)
    largest = max((row.error for row in rows), key=abs)
    lead = [
        f"{good} of {len(rows)} gains predicted from {result.profile} are good, measured on {result.n_questions} fresh "
        f"questions in {result.n_rounds} rounds. The median error is "
        f"{percent(median(abs(row.error) for row in rows))}, the largest {percent(largest, signed=True)}.",
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
        ("error", [*map(verdict, rows)]),
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
        f"With {_clients(one.clients)} it chooses {chosen}; {best} measured {percent(one.regret.value)} faster "
        f"[{100 * one.regret.low:.1f}, {100 * one.regret.high:.1f}]."
    )


def _clients(n: int) -> str:
    return f"{n} client{'s' * (n > 1)}"
