"""Compares the predictions of a validation with simpler ones from the same profile: closed forms, and a constant."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calibrate.running.interleaved import BASELINE
from sim.estimate import Estimate
from specplan.check.validating.telling_apart import LEAST_ROWS, PLAIN, Resampled, Skill, inside, resampled, skill
from specplan.check.validating.validation import Validation
from specplan.output import between
from specplan.planning.candidates import Request
from specplan.planning.planner import accuracy_loss

__all__ = ["COLUMNS", "Comparison", "compare"]

_OURS: Final = "specplan"
_ALLOWED: Final = "specplan, rows that plan allows"
_SAME_ROWS: Final = "specplan, rows with a closed form"
_FORMS: Final = "closed forms"
_CONSTANT: Final = "a constant"

COLUMNS: Final = (
    *("predictions by", "rows", "tau-b", "rho", "pairs in order", "choice", "regret"),
    *("error: mean", "median", "largest"),
)
"""Headings of the table of predictions and simpler ones."""
_EXPLAINED: Final = (
    "tau-b, rho: rank correlation of predicted and measured speedups; [...] 95 % bootstrap over questions. pairs "
    "in order: correctly ranked pairs, of the pairs (with plain decoding) that differ measurably. regret: how much "
    "faster the measured best is than the predicted best (plain decoding counts, with 1); the measured best is chosen "
    "on the same questions, so [...] are simultaneous (max-t) limits. error: predicted / measured - 1, absolute; the "
    "largest with its sign. Rows that plan allows: those that are predicted to lose no more right answers than its "
    "default."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How well predictions, and simpler ones, rank the rows of a validation."""

    names: tuple[str, ...]
    """Names of all rows."""
    skills: Mapping[str, tuple[Skill, tuple[int, ...]]]
    """Skill and row indices by source of the predictions."""
    constant: float
    """The geometric mean of the predicted speedups."""
    in_predicted: Estimate
    """Share of measured speedups inside the predictions' intervals."""
    in_next: Estimate
    """Share of measured speedups inside the intervals for the next measurement."""
    n_good: int
    """Number of good rows."""

    def choice(self, who: str) -> str:
        """Return the name of the configuration that is predicted to be fastest."""
        result, rows = self.skills[who]
        if len(result.chosen) > 1:
            return f"any of {len(result.chosen)}"
        return "plain decoding" if result.chosen[0] == PLAIN else self.names[rows[result.chosen[0]]]

    @property
    def without_form(self) -> tuple[str, ...]:
        """Rows of methods without a closed form."""
        known = self.skills[_FORMS][1] if _FORMS in self.skills else range(len(self.names))
        return tuple(name for i, name in enumerate(self.names) if i not in known)

    def sentences(self) -> list[str]:
        """Return the regret of the choice by these predictions, and by the closed forms."""
        who = _ALLOWED if _ALLOWED in self.skills else _OURS
        regret = self.skills[who][0].regret
        sentences = [
            f"The predicted best, {self.choice(who)}, was measured {100 * regret.value:.1f} % "
            f"[{100 * regret.low:.1f}, {100 * regret.high:.1f}] slower than the measured best."
        ]
        if _FORMS in self.skills:
            forms = self.skills[_FORMS][0]
            sentences.append(
                f"The papers' closed forms: median error {100 * forms.median_error:.0f} %, "
                f"their choice is {100 * forms.regret.value:.1f} % slower."
            )
        return sentences

    def cells(self) -> list[list[str]]:
        """Return a row for each source of predictions, in the columns of `COLUMNS`."""
        return [
            [
                f"{who}, {self.constant:.3f}" if who == _CONSTANT else who,
                str(result.n_rows),
                *("undefined" if one is None else between(one) for one in (result.kendall, result.spearman)),
                f"{result.n_ordered} of {result.n_pairs}",
                self.choice(who),
                "{:.1f} % [{:.1f}, {:.1f}]".format(
                    *(100 * one for one in (result.regret.value, result.regret.low, result.regret.high))
                ),
                *(f"{100 * error:.1f} %" for error in (result.mean_error, result.median_error)),
                f"{100 * result.largest_error:+.1f} %",
            ]
            for who, (result, _) in self.skills.items()
        ]

    def notes(self) -> list[str]:
        """Return what the columns mean, and how many measured speedups are where they were predicted to be."""
        notes = [
            _EXPLAINED,
            f"Measured speedups inside the predicted 95 % intervals: {_counted(self.in_predicted)}; inside those for "
            f"the next measurement: {_counted(self.in_next)} (Clopper-Pearson, as if rows were independent). Good: "
            f"{self.n_good}.",
        ]
        if _FORMS not in self.skills:
            notes.append(f"Closed forms: fewer than {LEAST_ROWS} rows have one.")
        elif self.without_form:
            notes.append(f"Without a closed form: {', '.join(self.without_form)}.")
        return notes

    def plain(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return {
            "predictions_by": {
                who: {
                    **dataclasses.asdict(result),
                    "rows": [self.names[i] for i in rows],
                    "chosen": [BASELINE if i == PLAIN else self.names[rows[i]] for i in result.chosen],
                    "best": BASELINE if result.best == PLAIN else self.names[rows[result.best]],
                }
                for who, (result, rows) in self.skills.items()
            },
            "constant": self.constant,
            "inside_predicted": dataclasses.asdict(self.in_predicted),
            "inside_next_measurement": dataclasses.asdict(self.in_next),
            "good": self.n_good,
            "without_closed_form": list(self.without_form),
        }


def compare(validation: Validation) -> Comparison | None:
    """Compare the predictions of a validation with simpler ones; None with fewer than three rows."""
    if len(validation.rows) < LEAST_ROWS:
        return None
    seconds = [[run.seconds for run in validation.runs.by_name[row.name]] for row in validation.rows]
    measured = resampled(seconds, validation.runs.plain_seconds)
    predicted = [row.prediction.speedup.value for row in validation.rows]
    forms = {i: row.closed_form for i, row in enumerate(validation.rows) if row.closed_form is not None}
    known, constant = tuple(forms), float(np.exp(np.mean(np.log(predicted))))
    everything = tuple(range(len(predicted)))
    skills = {_OURS: (skill(predicted, measured), everything)}
    most = Request().max_accuracy_loss  # that plan allows by default
    allowed = tuple(i for i, row in enumerate(validation.rows) if accuracy_loss(row.prediction) <= most)
    if LEAST_ROWS <= len(allowed) < len(everything):
        skills[_ALLOWED] = skill([predicted[i] for i in allowed], measured.only(allowed)), allowed
    if len(known) >= LEAST_ROWS:
        there = measured.only(known)
        if known != everything:
            skills[_SAME_ROWS] = skill([predicted[i] for i in known], there), known
        skills[_FORMS] = skill(list(forms.values()), there), known
    skills[_CONSTANT] = skill([constant] * len(predicted), measured), everything
    return Comparison(
        names=tuple(row.name for row in validation.rows),
        skills=skills,
        constant=constant,
        in_predicted=_inside([row.prediction.speedup for row in validation.rows], measured),
        in_next=_inside([row.expected for row in validation.rows], measured),
        n_good=sum(row.good for row in validation.rows),
    )


def _inside(intervals: Sequence[Estimate], measured: Resampled) -> Estimate:
    return inside([one.low for one in intervals], [one.high for one in intervals], measured.speedups)


def _counted(share: Estimate) -> str:
    return f"{round(share.value * share.n)} of {share.n}, {between(share)}"
