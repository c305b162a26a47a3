"""Predictions of a validation beside stand-ins made from the same profile: closed forms, and a constant."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calibrate.running.interleaved import BASELINE
from sim.estimate import Estimate
from specplan.check.validating.telling_apart import LEAST_ROWS, PLAIN, Resampled, Skill, inside, skill
from specplan.check.validating.validation import Validation
from specplan.output import table
from specplan.planning.planner import Request, accuracy_loss
from specplan.planning.predict import Prediction

__all__ = ["Comparison", "compare"]

_OURS: Final = "specplan"
_ALLOWED: Final = "specplan, rows that plan allows"
_SAME_ROWS: Final = "specplan, rows with a closed form"
_FORMS: Final = "closed forms"
_CONSTANT: Final = "a constant"

_EXPLAINED: Final = (
    "tau-b, rho: rank correlation of predicted and measured speedups; [...] 95 % bootstrap over questions. pairs "
    "in order: of those that the measurement tells apart, plain decoding among the rows. regret: how much faster the "
    "measured best is than what is predicted to be (plain decoding counts, with 1); that best was seen on the same "
    "questions, and [...] are simultaneous (max-t) limits for it. held out: against what half of the questions find "
    "best, measured on the other half. error: of predicted / measured, absolute, the largest with its sign. Rows that "
    "plan allows: those that are predicted to lose no more right answers than its default."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How well predictions tell the rows of a validation apart, beside what stands in for them."""

    names: tuple[str, ...]
    """Names of all rows."""
    skills: Mapping[str, tuple[Skill, tuple[int, ...]]]
    """By who predicts: how well, and on which rows."""
    constant: float
    """The geometric mean of the predicted speedups."""
    in_predicted: Estimate
    """Share of measured speedups in the predictions' intervals."""
    in_next: Estimate
    """Share of them in the intervals for the next measurement."""
    n_good: tuple[int, int]
    """Good rows: by that interval, and by the earlier rule, the measurement's own."""

    def choice(self, who: str) -> str:
        """What is predicted to be the fastest, in words."""
        found, rows = self.skills[who]
        if len(found.chosen) > 1:
            return f"any of {len(found.chosen)}"
        return "plain decoding" if found.chosen[0] == PLAIN else self.names[rows[found.chosen[0]]]

    @property
    def without_form(self) -> tuple[str, ...]:
        """Rows of methods without a closed form."""
        known = self.skills[_FORMS][1] if _FORMS in self.skills else range(len(self.names))
        return tuple(name for i, name in enumerate(self.names) if i not in known)

    def sentences(self) -> list[str]:
        """What the choice by these predictions costs, and by the closed forms."""
        ours = self.skills.get(_ALLOWED, self.skills[_OURS])[0]
        who = _ALLOWED if _ALLOWED in self.skills else _OURS
        regret = ours.regret
        found = [
            f"What was predicted to be fastest, {self.choice(who)}, was measured {100 * regret.value:.1f} % "
            f"[{100 * regret.low:.1f}, {100 * regret.high:.1f}] behind the best."
        ]
        if _FORMS in self.skills:
            forms = self.skills[_FORMS][0]
            found.append(
                f"The papers' closed forms: median error {100 * forms.median_error:.0f} %, "
                f"{100 * forms.regret.value:.1f} % behind."
            )
        return found

    def lines(self) -> list[str]:
        """For a reader."""
        head = ["predictions by", "rows", "tau-b", "rho", "pairs in order", "choice", "regret", "held out"]
        head += ["error: mean", "median", "largest"]
        found = [
            "",
            f"How well predictions tell the {len(self.names)} rows apart, beside stand-ins from the same profile:",
            "",
            table(head, [self._cells(who) for who in self.skills]),
            "",
            _EXPLAINED,
        ]
        found.append(
            f"Measured speedups inside the predicted 95 % intervals: {_counted(self.in_predicted)}; inside those for "
            f"the next measurement: {_counted(self.in_next)} (Clopper-Pearson, as if rows were independent). Good: "
            f"{self.n_good[0]}; {self.n_good[1]} if the prediction had to be in the measured interval, or within 10 %."
        )
        if _FORMS not in self.skills:
            found.append(f"Closed forms: fewer than {LEAST_ROWS} rows have one.")
        elif self.without_form:
            found.append(f"Without a closed form: {', '.join(self.without_form)}.")
        return found

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "predictions_by": {
                who: {
                    **dataclasses.asdict(found),
                    "rows": [self.names[i] for i in rows],
                    "chosen": [BASELINE if i == PLAIN else self.names[rows[i]] for i in found.chosen],
                    "best": BASELINE if found.best == PLAIN else self.names[rows[found.best]],
                }
                for who, (found, rows) in self.skills.items()
            },
            "constant": self.constant,
            "inside_predicted": dataclasses.asdict(self.in_predicted),
            "inside_next_measurement": dataclasses.asdict(self.in_next),
            "good": self.n_good[0],
            "good_by_measured_interval": self.n_good[1],
            "without_closed_form": list(self.without_form),
        }

    def _cells(self, who: str) -> list[str]:
        found, _ = self.skills[who]
        regret = found.regret
        return [
            f"{who}, {self.constant:.3f}" if who == _CONSTANT else who,
            str(found.n_rows),
            *(_correlation(one) for one in (found.kendall, found.spearman)),
            f"{found.n_ordered} of {found.n_pairs}",
            self.choice(who),
            f"{100 * regret.value:.1f} % [{100 * regret.low:.1f}, {100 * regret.high:.1f}]",
            f"{100 * found.regret_held_out:+.1f} %",
            *(f"{100 * error:.1f} %" for error in (found.mean_error, found.median_error)),
            f"{100 * found.largest_error:+.1f} %",
        ]


def compare(found: Validation, *, seed: int = 0) -> Comparison | None:
    """Compare the predictions of a validation with stand-ins; None with fewer than three rows.

    Parameters
    ----------
    found : its rows were run on the same questions.
    seed : of the resamples of questions.
    """
    if len(found.rows) < LEAST_ROWS:
        return None
    seconds = [[run.seconds for run in found.runs.by_name[row.name]] for row in found.rows]
    measured = Resampled(seconds, found.runs.plain_seconds, seed=seed)
    predicted = [row.prediction.speedup.value for row in found.rows]
    forms = {i: row.closed_form for i, row in enumerate(found.rows) if row.closed_form is not None}
    known, constant = tuple(forms), float(np.exp(np.mean(np.log(predicted))))
    everything = tuple(range(len(predicted)))
    skills = {_OURS: (skill(predicted, measured), everything)}
    allowed = tuple(i for i, row in enumerate(found.rows) if _is_allowed(row.prediction))
    if LEAST_ROWS <= len(allowed) < len(everything):
        skills[_ALLOWED] = skill([predicted[i] for i in allowed], measured.only(allowed)), allowed
    if len(known) >= LEAST_ROWS:
        there = measured.only(known)
        if known != everything:
            skills[_SAME_ROWS] = skill([predicted[i] for i in known], there), known
        skills[_FORMS] = skill(list(forms.values()), there), known
    skills[_CONSTANT] = skill([constant] * len(predicted), measured), everything
    return Comparison(
        names=tuple(row.name for row in found.rows),
        skills=skills,
        constant=constant,
        in_predicted=_inside([row.prediction.speedup for row in found.rows], measured),
        in_next=_inside([row.expected for row in found.rows], measured),
        n_good=(sum(row.good for row in found.rows), sum(row.good_by_measured_interval for row in found.rows)),
    )


def _is_allowed(prediction: Prediction) -> bool:
    """Whether it is predicted to lose no more right answers than ``plan`` allows by default."""
    return accuracy_loss(prediction) <= Request().max_accuracy_loss


def _inside(intervals: Sequence[Estimate], measured: Resampled) -> Estimate:
    return inside([one.low for one in intervals], [one.high for one in intervals], measured.speedups)


def _correlation(found: Estimate | None) -> str:
    return "undefined" if found is None else f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _counted(share: Estimate) -> str:
    return f"{round(share.value * share.n)} of {share.n}, {share.value:.2f} [{share.low:.2f}, {share.high:.2f}]"
