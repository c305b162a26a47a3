"""Compares the predictions of a validation with simpler ones from the same profile: closed forms, and a constant.

How well each ranks the configurations is said by rank correlations, the regret of the choice, errors, and coverage.
All intervals but those of coverage resample questions, the same for all configurations, since every configuration
answers each question and its difficulty is common to them. Noise lowers a correlation, and resamples contain it twice,
so a percentile interval lies too low. The interval of a correlation is the union of the percentile interval and its
mirror image about the value (the "basic" interval). With rows 2 to 10 % apart, each measured to 4.5 % (standard error),
it contained the correlation with the true speedups in 94 to 100 % of 120 simulated cases, for 6, 12 and 24 rows; except
for tau of 24 rows 2 % apart, in 81 %. The coverage of the percentile interval fell to almost zero there, and that of
Efron's BCa to 83 % with 12 rows.

Regret is how much faster the best row is than the chosen one. The best row is selected on the same questions, so the
measured regret is too large on average, the more so the closer the rows are. Its interval is therefore that of a
maximum: simultaneous (max-t) limits on the logarithm of every row's speedup over the chosen one's hold together with
95 % probability, and so do the largest lower and the largest upper limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from calibrate.running.interleaved import BASELINE
from sim.estimate import Estimate, student_quantile
from specplan.check.validating.validation import Validation
from specplan.output import between, percent
from specplan.planning.candidates import Request
from specplan.planning.planner import accuracy_loss

__all__ = [
    "COLUMNS",
    "LEAST_ROWS",
    "PLAIN",
    "Comparison",
    "Resampled",
    "Skill",
    "compare",
    "inside",
    "kendall_tau",
    "resampled",
    "skill",
    "spearman_rho",
]

LEAST_ROWS = 3
"""Least number of rows that are compared."""
PLAIN = -1
"""Index of plain decoding among the choices."""
_RESAMPLES = 2000
_SEED = 0
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

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Resampled:
    """Speedups measured on the same questions, and on questions drawn from these with replacement."""

    n: int
    """Number of questions."""
    speedups: Floats
    """Ratios of totals, shape (m,)."""
    resamples: Floats
    """Those on resampled questions, shape (2000, m)."""

    def only(self, rows: Sequence[int]) -> Resampled:
        """Return the given rows, on the same resamples."""
        return Resampled(self.n, self.speedups[list(rows)], self.resamples[:, list(rows)])


def resampled(seconds: ArrayLike, baseline: ArrayLike) -> Resampled:
    """Return the speedups of times by configuration and question, shape (m, n), over plain decoding's, shape (n,)."""
    own, plain = np.asarray(seconds, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    rng = np.random.default_rng([0x7465_6C6C, _SEED])
    drawn = rng.multinomial(plain.size, np.full(plain.size, 1.0 / plain.size), size=_RESAMPLES).astype(np.float64)
    return Resampled(plain.size, plain.sum() / own.sum(axis=1), (drawn @ plain)[:, None] / (drawn @ own.T))


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """How well predictions rank rows."""

    n_rows: int
    kendall: Estimate | None
    """Kendall's tau-b of predicted and measured speedups; None where all predictions are equal."""
    spearman: Estimate | None
    """Spearman's rank correlation, as ``kendall``."""
    n_pairs: int
    """Pairs of rows (with plain decoding) that differ measurably: the 95 % interval of their ratio excludes 1."""
    n_ordered: int
    """Pairs of these that are predicted in the measured order."""
    chosen: tuple[int, ...]
    """Indices of the rows that are predicted to be fastest, or `PLAIN`; several where predictions are equal."""
    best: int
    """Index of the row that was measured fastest, or `PLAIN`."""
    regret: Estimate
    """Measured speedup of the best row / of the chosen one (geometric mean of several) - 1, [-], >= 0."""
    mean_error: float
    """Mean of abs(predicted / measured - 1), [-]."""
    median_error: float
    largest_error: float
    """Predicted / measured - 1 of the row where its absolute value is largest."""


def skill(predicted: ArrayLike, measured: Resampled) -> Skill:
    """Compare predicted speedups, shape (m,), with those measured of the same rows, at least `LEAST_ROWS`."""
    x = np.asarray(predicted, dtype=np.float64)
    errors = x / measured.speedups - 1.0
    all_logs = _with_plain(np.log(measured.speedups))
    chosen = np.flatnonzero(_with_plain(np.log(x)) == max(0.0, float(np.log(x).max())))
    n_pairs, n_ordered = _pairs(x, measured)
    return Skill(
        n_rows=x.size,
        kendall=_correlation(kendall_tau, x, measured, "Kendall's tau-b"),
        spearman=_correlation(spearman_rho, x, measured, "Spearman's rho"),
        n_pairs=n_pairs,
        n_ordered=n_ordered,
        chosen=tuple(int(one) - 1 for one in chosen),
        best=int(all_logs.argmax()) - 1,
        regret=_regret(chosen, measured),
        mean_error=float(np.abs(errors).mean()),
        median_error=float(np.median(np.abs(errors))),
        largest_error=float(errors[np.abs(errors).argmax()]),
    )


def inside(low: ArrayLike, high: ArrayLike, measured: ArrayLike) -> Estimate:
    """Return the share of values inside their intervals, with Clopper and Pearson's interval for independent rows.

    >>> share = inside([1.0, 1.0], [2.0, 2.0], [1.5, 3.0])
    >>> share.value, round(share.low, 3), round(share.high, 3)
    (0.5, 0.013, 0.987)
    """
    values = np.asarray(measured, dtype=np.float64)
    hits = int(((np.asarray(low) <= values) & (values <= np.asarray(high))).sum())
    limits = stats.binomtest(hits, values.size).proportion_ci(0.95, method="exact")
    share = hits / values.size
    return Estimate(
        value=share,
        stderr=math.sqrt(share * (1.0 - share) / values.size),
        low=float(limits.low),
        high=float(limits.high),
        n=values.size,
        estimator="proportion (Clopper-Pearson)",
    )


def kendall_tau(x: Floats, y: Floats) -> Floats:
    """Kendall's tau-b of ``x``, shape (m,), with each row of ``y``, shape (..., m); NaN where either is constant."""
    i, j = np.triu_indices(x.size, 1)
    sx, sy = np.sign(x[i] - x[j]), np.sign(y[..., i] - y[..., j])
    with np.errstate(invalid="ignore"):
        return np.asarray((sy @ sx) / np.sqrt((sx @ sx) * (sy * sy).sum(axis=-1)))


def spearman_rho(x: Floats, y: Floats) -> Floats:
    """Spearman's correlation of ``x``, shape (m,), with each row of ``y``, (..., m); NaN where one is constant."""
    rx = stats.rankdata(x) - (x.size + 1) / 2.0
    ry = stats.rankdata(y, axis=-1) - (x.size + 1) / 2.0
    with np.errstate(invalid="ignore"):
        return np.asarray((ry @ rx) / np.sqrt((rx @ rx) * (ry * ry).sum(axis=-1)))


def _correlation(
    form: Callable[[Floats, Floats], Floats], x: Floats, measured: Resampled, name: str
) -> Estimate | None:
    value = float(form(x, measured.speedups))
    if not math.isfinite(value):
        return None
    resamples = form(x, measured.resamples)
    low, high = (float(end) for end in np.quantile(resamples, [0.025, 0.975]))
    low, high = min(low, 2.0 * value - high), max(high, 2.0 * value - low)
    return Estimate(
        value=value,
        stderr=float(resamples.std(ddof=1)),
        low=max(low, -1.0),
        high=min(high, 1.0),
        n=measured.n,
        estimator=f"{name}, percentile and basic bootstrap over questions",
        seed=_SEED,
    )


def _with_plain(logs: Floats) -> Floats:
    """Logarithms of speedups with that of plain decoding before them."""
    return np.concatenate([np.zeros((*logs.shape[:-1], 1)), logs], axis=-1)


def _over_chosen(speedups: Floats, chosen: NDArray[np.int64]) -> Floats:
    """Logarithms of the speedups of plain decoding and all rows over the chosen one's."""
    logs = _with_plain(np.log(speedups))
    return np.asarray(logs - logs[..., chosen].mean(axis=-1, keepdims=True))


def _regret(chosen: NDArray[np.int64], measured: Resampled) -> Estimate:
    ahead = _over_chosen(measured.speedups, chosen)
    noise = _over_chosen(measured.resamples, chosen) - ahead
    spread = noise.std(axis=0, ddof=1)
    t = np.divide(noise, spread, out=np.zeros_like(noise), where=spread > 1e-12)
    few = student_quantile(0.95, measured.n - 1) / stats.norm.isf(0.025)  # the spread is estimated as well
    down, up = (few * np.quantile(extreme, 0.975) for extreme in (t.max(axis=1), (-t).max(axis=1)))
    return Estimate(
        value=max(math.expm1(ahead.max()), 0.0),
        stderr=float(np.expm1((noise + ahead).max(axis=1)).std(ddof=1)),
        low=max(math.expm1((ahead - down * spread).max()), 0.0),
        high=max(math.expm1((ahead + up * spread).max()), 0.0),
        n=measured.n,
        estimator="best / chosen - 1, simultaneous max-t limits over questions",
        seed=_SEED,
    )


def _pairs(x: Floats, measured: Resampled) -> tuple[int, int]:
    """Number of pairs that differ measurably, and of those that are predicted in the measured order."""
    i, j = np.triu_indices(x.size + 1, 1)
    logs = _with_plain(np.log(measured.resamples))
    low, high = np.quantile(logs[:, i] - logs[:, j], [0.025, 0.975], axis=0)
    order = np.sign(np.where(low > 0.0, 1.0, np.where(high < 0.0, -1.0, 0.0)))
    expected = _with_plain(np.log(x))
    agreed = order * np.sign(expected[i] - expected[j]) > 0.0
    return int((order != 0.0).sum()), int(agreed.sum())


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
            f"The predicted best, {self.choice(who)}, was measured {percent(regret.value)} "
            f"[{100 * regret.low:.1f}, {100 * regret.high:.1f}] slower than the measured best."
        ]
        if _FORMS in self.skills:
            forms = self.skills[_FORMS][0]
            sentences.append(
                f"The papers' closed forms: median error {percent(forms.median_error, 0)}, "
                f"their choice is {percent(forms.regret.value)} slower."
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
                *(percent(error) for error in (result.mean_error, result.median_error)),
                percent(result.largest_error, signed=True),
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
                    **asdict(result),
                    "rows": [self.names[i] for i in rows],
                    "chosen": [BASELINE if i == PLAIN else self.names[rows[i]] for i in result.chosen],
                    "best": BASELINE if result.best == PLAIN else self.names[rows[result.best]],
                }
                for who, (result, rows) in self.skills.items()
            },
            "constant": self.constant,
            "inside_predicted": asdict(self.in_predicted),
            "inside_next_measurement": asdict(self.in_next),
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
