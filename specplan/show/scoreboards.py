"""Public measurements with their predictions as results: screens, rows, CSV and reports."""

from __future__ import annotations

import csv
import io
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from specplan.check.scoreboard.score import Outcome, Score, by_label, regrets, score
from specplan.output import SCREEN, percent, screen, table
from specplan.show.drawing import scatter
from specplan.show.page import Answer, Bullets, Part, Picture, Report, Section, filled
from specplan.show.result import Result

if TYPE_CHECKING:
    from specplan.check.scoreboard.board import Board
    from specplan.check.scoreboard.operators import OperatorErrors

__all__ = ["OperatorsScored", "Scored"]

_MOST_POINTS: Final = 1500
"""Most points of a drawing, so that the file stays below a megabyte."""
_MOST_ROWS: Final = 400
_LEGEND: Final = (
    "error: mean of |predicted / measured - 1|, with its median and 90th percentile; bias: mean of predicted / "
    "measured - 1; inside: rows in their 95 % interval. Row by row: --rows."
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Scored(Result):
    """Public measurements and their predictions."""

    board: Board

    def records(self) -> list[dict[str, Any]]:
        """Return every row that was predicted, with the 95 % interval of what is measured."""
        return [
            {
                **{"row": one.where, "quantity": one.quantity, "model": one.model, **one.labels, "unit": one.unit},
                **{"measured": one.measured, "predicted": one.predicted, "error": one.error},
                **{"predicted_low": one.interval[0], "predicted_high": one.interval[1], "doubt": one.doubt},
            }
            for one in self.board.outcomes
        ]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan reproduce`` prints with ``--json``."""
        quantities = {}
        for quantity, outcomes in self.board.quantities().items():
            counted = [one for one in outcomes if one.counts]
            quantities[quantity] = {
                "counted": asdict(score(counted)) if counted else None,
                "all": asdict(score(outcomes)),
                "by": {
                    label: {value: asdict(group) for value, group in by_label(counted, label).items()}
                    for label in _labels(counted)
                },
                "regret": {goal: [asdict(one) for one in choices] for goal, choices in regrets(counted).items()},
            }
        return {
            "schema": "specplan.check.scoreboard",
            "schema_version": 1,
            "files": list(self.board.files),
            "notes": list(self.board.notes),
            "quantities": quantities,
            "refused": [asdict(one) for one in self.board.refused],
            "rows": [_plain(one) for one in self.board.outcomes],
        }

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan reproduce`` prints, with ``verbose`` what it prints with ``--rows``."""
        return _rows_text(self.board) if verbose else _summary_text(self.board)

    def csv(self) -> str:
        """Return all rows as CSV, those that are not predicted too."""
        labels = dict.fromkeys(key for one in self.board.outcomes for key in one.labels)
        heads = [*("row", "quantity", "unit", "model"), *labels, *("measured", "predicted", "low", "high", "error")]
        heads += ["doubt", "refused"]
        out = io.StringIO()
        writer = csv.DictWriter(out, heads, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for one in self.board.outcomes:
            writer.writerow({**one.labels, **_plain(one)})
        for left in self.board.refused:
            writer.writerow({"row": left.where, "model": left.model, "refused": left.reason})
        return out.getvalue().rstrip("\n")

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        counted = {name: [one for one in rows if one.counts] for name, rows in self.board.quantities().items()}
        counted = {name: rows for name, rows in counted.items() if rows}
        scores = {name: score(rows) for name, rows in counted.items()}
        answers = [
            Answer(
                f"How good is {name}?",
                f"{percent(one.mean)} mean absolute error, {percent(one.coverage, 0)} inside the 95 % interval",
                f"{one.n} rows; median {percent(one.median)}, nine of ten within {percent(one.p90)}, "
                f"mean error {percent(one.signed, signed=True)}",
            )
            for name, one in scores.items()
        ]
        n = sum(one.n for one in scores.values())
        sections = [Section(name, list(_quantity(name, rows))) for name, rows in counted.items()]
        if self.board.refused:
            reasons = Counter(one.reason for one in self.board.refused).most_common()
            sections.append(Section("Not predicted", [Bullets([f"{one} rows: {reason}" for reason, one in reasons])]))
        return Report(
            title="Public measurements and predictions",
            about=", ".join(self.board.files),
            lead=f"{n} rows are compared; nothing is fitted to them. {len(self.board.refused)} rows are not predicted.",
            answers=answers,
            sections=sections,
            made=[("files", ", ".join(self.board.files)), ("rows", f"{len(self.board.outcomes)} predicted")],
            notes=list(self.board.notes),
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OperatorsScored(Result):
    """Operators that were timed one by one, and their predictions."""

    errors: tuple[OperatorErrors, ...]

    def records(self) -> list[dict[str, Any]]:
        """Return the errors of each operator on each GPU."""
        return [asdict(one) for one in self.errors]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan reproduce operators --json`` prints."""
        return {"schema": "specplan.operators", "schema_version": 1, "operators": self.records()}

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan reproduce operators`` prints."""
        lines = [
            [one.operator, one.gpu, one.weights, str(one.n), *(f"{x:.1%}" for x in (one.mean, one.median, one.p90)),
             f"{one.signed:+.1%}"]
            for one in self.errors
        ]  # fmt: skip
        return table(["operator", "GPU", "of", "n", "error", "median", "p90", "bias"], lines)


def _quantity(name: str, rows: Sequence[Outcome]) -> Iterator[Part]:
    thinned = list(islice(rows, 0, None, max(1, -(-len(rows) // _MOST_POINTS))))
    points: dict[str, list[tuple[float, float]]] = {}
    for one in thinned:
        points.setdefault(one.model, []).append((one.predicted, one.measured))
    shown = "" if len(thinned) == len(rows) else f" Drawn: {len(thinned)} of {len(rows)} rows."
    draw = partial(scatter, points, x_name=f"predicted {rows[0].unit}", y_name=f"measured {rows[0].unit}")
    yield Picture(draw, f"{name}: on the dashed line predicted equals measured.{shown}")
    scores = by_label(rows, "model")
    yield filled(
        ("model", list(scores)),
        ("rows", [str(s.n) for s in scores.values()]),
        ("mean |error|", [percent(s.mean) for s in scores.values()]),
        ("median", [percent(s.median) for s in scores.values()]),
        ("p90", [percent(s.p90) for s in scores.values()]),
        ("mean error", [percent(s.signed, signed=True) for s in scores.values()]),
        ("in 95 % interval", [percent(s.coverage, 0) for s in scores.values()]),
    )
    worst = sorted(rows, key=lambda one: -abs(one.error))[:_MOST_ROWS]
    yield filled(
        ("row", [one.where for one in worst]),
        ("model", [one.model for one in worst]),
        ("of", [_of(one) for one in worst]),
        ("measured", [f"{one.measured:.3g} {one.unit}" for one in worst]),
        ("predicted", ["{:.3g} [{:.3g}, {:.3g}]".format(one.predicted, *one.interval) for one in worst]),
        ("error", [percent(one.error, signed=True) for one in worst]),
        folded=f"the {len(worst)} rows with the largest errors",
    )


def _of(one: Outcome) -> str:
    return " ".join(f"{key}={value}" for key, value in one.labels.items())


def _summary_text(board: Board) -> str:
    """Errors of each quantity in all and by label, regret, doubted rows and refused ones."""
    parts = []
    for quantity, outcomes in board.quantities().items():
        counted = [one for one in outcomes if one.counts]
        if counted:
            parts.append(_scores_text(quantity, counted))
            parts += _regret_text(counted)
        wide = [one for one in outcomes if one.doubt is None and one.wide is not None]
        parts += _apart(quantity, "have a wide interval", wide, [str(one.wide) for one in wide])
        doubted = [one for one in outcomes if one.doubt is not None]
        parts += _apart(quantity, "are not trusted", doubted, [str(one.doubt) for one in doubted])
    if board.refused:
        reasons = _counted([one.reason for one in board.refused])
        parts.append("\n".join([f"{len(board.refused)} rows are not predicted", *reasons]))
    parts.append(screen(_LEGEND))
    if board.notes:
        parts.append("\n".join(screen(f"note: {note}") for note in board.notes))
    return "\n\n".join(parts)


def _rows_text(board: Board) -> str:
    """Every row with its measured and its predicted value."""
    lines = [
        [
            one.where, one.quantity, one.model, _of(one),
            f"{one.measured:.3f}", f"{one.predicted:.3f}", "[{:.3f}, {:.3f}]".format(*one.interval), one.unit,
            f"{one.error:+.1%}", one.doubt or "",
        ]
        for one in board.outcomes
    ]  # fmt: skip
    heads = ["row", "quantity", "model", "of", "measured", "predicted", "95 % interval", "unit", "error", "doubt"]
    return table(heads, lines)


def _plain(one: Outcome) -> dict[str, Any]:
    low, high = one.interval
    return {
        "row": one.where, "quantity": one.quantity, "unit": one.unit, "model": one.model, "labels": dict(one.labels),
        "measured": one.measured, "predicted": one.predicted, "low": low, "high": high, "error": one.error,
        "doubt": one.doubt, "wide": one.wide,
    }  # fmt: skip


def _labels(outcomes: Sequence[Outcome]) -> list[str]:
    return ["model", *dict.fromkeys(key for one in outcomes for key in one.labels)]


def _scores_text(quantity: str, counted: Sequence[Outcome]) -> str:
    whole = score(counted)
    lines = [_line("all rows", whole)]
    for label in _labels(counted):
        groups = by_label(counted, label)
        if len(groups) > 1 or label == "model":
            lines += [
                _line(value.rpartition("/")[2] if label == "model" else f"{label} {value}", one)
                for value, one in groups.items()
            ]
    said = (
        f"The {whole.n} rows of {quantity} are predicted {percent(whole.mean)} off in the mean, "
        f"{percent(whole.median)} in the median; {percent(whole.coverage, 0)} are inside their 95 % interval, whose "
        f"half-width is ±{percent(np.expm1(whole.half_width), 0)} in the median."
    )
    return f"{screen(said)}\n\n{table(['rows', 'n', 'error', 'median', 'p90', 'bias', 'inside'], lines)}"


def _line(name: str, one: Score) -> list[str]:
    errors = [f"{one.mean:.1%}", f"{one.median:.1%}", f"{one.p90:.1%}", f"{one.signed:+.1%}"]
    return [name, str(one.n), *errors, f"{one.coverage:.0%}"]


def _regret_text(outcomes: Sequence[Outcome]) -> list[str]:
    lines = []
    for goal, choices in regrets(outcomes).items():
        losses = np.array([one.loss for one in choices])
        best = int(np.sum(losses == 0.0))
        lines.append(
            screen(
                f"Choosing {goal} by prediction: the best measured one in {best} of {len(choices)} choices; the chosen "
                f"one loses {losses.mean():.1%} against it on average, {np.quantile(losses, 0.9):.1%} at the 90th "
                f"percentile, {losses.max():.1%} at most."
            )
        )
    return lines


def _apart(quantity: str, what: str, outcomes: Sequence[Outcome], reasons: Sequence[str]) -> list[str]:
    """Rows that are not scored with the others, by reason."""
    if not outcomes:
        return []
    off = score(outcomes)
    heading = f"{quantity}: {off.n} rows {what}, not counted above: error {off.mean:.1%}, {off.coverage:.0%} inside"
    return ["\n".join([screen(heading), *_counted(reasons)])]


def _counted(reasons: Sequence[str]) -> list[str]:
    return [
        textwrap.fill(f"  {count:>5}  {reason}", SCREEN, subsequent_indent=" " * 9)
        for reason, count in Counter(reasons).most_common()
    ]
