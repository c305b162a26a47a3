"""Comparison of two profiles: different settings, and measured differences that are significant.

Timings are compared by runs: the samples of one batch in one round are one measurement, because the speed of a machine
is correlated over many iterations; runs of different rounds are taken as independent, and the means of their logarithms
are compared by Welch's test. Acceptance is compared by the hybrid score interval of Newcombe 1998 (method 10; for the
same questions, his correction for pairs), on the effective number of decisions given their clustering by answer. All
tests of a comparison share an error rate (Holm 1979): if no quantity differs, the probability that any difference is
reported as significant is at most that rate.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import brentq

from calibrate.record.answer_records import RecordedAnswer
from calibrate.record.engine_records import EngineRecord
from calibrate.record.profile import Profile
from sim.estimate import Estimate, ratio_of_totals
from theory.errors import ParameterError

__all__ = [
    "Comparison",
    "Difference",
    "Setting",
    "Share",
    "compare",
    "compare_acceptance",
    "holm",
    "log_ratio",
    "newcombe",
    "settings_that_differ",
]

_LEAST_RUNS: Final = 2
_LEAST_PROBLEMS: Final = 8
"""Fewest common questions from which the correlation is estimated; with fewer it is 0, which is conservative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting, or a property of machine, engine or models, that differs."""

    name: str
    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A measured quantity in two profiles."""

    quantity: str
    kind: Literal["ratio", "difference"]
    """Meaning of ``change``: second / first, or second - first."""
    first: float
    second: float
    n: tuple[int, int]
    """Independent observations behind each: runs, or answers."""
    change: float
    low: float
    high: float
    p: float
    """Interval and p-value of the change, for this quantity without adjustment for the others."""
    adjusted_p: float = 1.0
    """p-value adjusted by Holm's method over all quantities of the comparison."""
    real: bool = False
    """Whether it is significant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Settings and measured quantities of two profiles, compared."""

    first: str
    second: str
    confidence: float
    settings: tuple[Setting, ...]
    differences: tuple[Difference, ...]
    """All compared quantities, significant or not, in a fixed order."""
    not_compared: tuple[str, ...]
    """Quantities that are missing in one of the profiles, or have too few samples."""

    @property
    def real(self) -> tuple[Difference, ...]:
        """The significant differences."""
        return tuple(difference for difference in self.differences if difference.real)


def compare(
    first: Profile,
    second: Profile,
    *,
    speedups: Mapping[str, tuple[Estimate, Estimate]] | None = None,
    confidence: float = 0.95,
) -> Comparison:
    """Compare two profiles.

    Parameters
    ----------
    first, second : profiles of source ``measured`` or ``latency``.
    speedups : predicted speedups by configuration, of the first and of the second, to be compared as well.
    confidence : coverage of each interval, in (0, 1); 1 - confidence is the error rate of all tests together.
    """
    if not 0.0 < confidence < 1.0:
        raise ParameterError("confidence", confidence, "must be in (0, 1)")
    accepted = compare_acceptance(first, second, confidence=confidence)
    results = [*_timings(first, second, confidence), accepted or "step acceptance: not recorded in both"]
    compared = [result for result in results if isinstance(result, Difference)]
    compared += [_speedup(name, *both, confidence) for name, both in (speedups or {}).items()]
    if not compared:
        raise ParameterError("profile", second.name, f"holds no raw samples to compare with those of {first.name}")
    differences = tuple(
        replace(difference, adjusted_p=float(p), real=bool(p < 1.0 - confidence))
        for difference, p in zip(compared, holm([difference.p for difference in compared]), strict=True)
    )
    return Comparison(
        first=first.name,
        second=second.name,
        confidence=confidence,
        settings=tuple(settings_that_differ(first, second)),
        differences=differences,
        not_compared=tuple(result for result in results if isinstance(result, str)),
    )


def settings_that_differ(first: Profile, second: Profile) -> list[Setting]:
    """Settings, provenance, models and placement that differ, by dotted name."""
    ours, theirs = _flat(first), _flat(second)
    return [
        Setting(name=name, first=str(ours.get(name, "-")), second=str(theirs.get(name, "-")))
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def _flat(profile: Profile) -> dict[str, Any]:
    machine = profile.provenance.model_dump(exclude={"created", "command", "notes", "citation"})  # differ anyway
    packages = machine.pop("packages")
    parts: dict[str, Mapping[str, Any]] = {"settings": profile.settings, "machine": machine, "packages": packages}
    parts |= {"placement": profile.placement}
    parts |= {f"models.{role}": model.model_dump() for role, model in profile.models.items()}
    return {f"{part}.{key}": value for part, values in parts.items() for key, value in values.items()}


def _timings(first: Profile, second: Profile, confidence: float) -> Iterator[Difference | str]:
    for name in sorted(first.engines.keys() | second.engines.keys()):
        if name not in first.engines or name not in second.engines:
            yield f"engine {name}: only in {(first if name in first.engines else second).name}"
            continue
        runs = _runs(first.engines[name]), _runs(second.engines[name])
        for key in sorted(runs[0].keys() | runs[1].keys()):
            quantity = f"{name}: {key[0]} {key[1]}".rstrip()
            x, y = runs[0].get(key, []), runs[1].get(key, [])
            if min(len(x), len(y)) < _LEAST_RUNS or min(*x, *y) <= 0.0:
                yield f"{quantity}: {len(x)} and {len(y)} runs"
                continue
            yield Difference(
                quantity=quantity,
                kind="ratio",
                first=float(np.exp(np.mean(np.log(x)))),
                second=float(np.exp(np.mean(np.log(y)))),
                n=(len(x), len(y)),
                **log_ratio(x, y, confidence)._asdict(),
            )


Key = tuple[str, str]


def _runs(record: EngineRecord) -> dict[Key, list[float]]:
    """Mean seconds of each run, by kind of run; the contexts of a batch are pooled, round by round."""
    means = {
        key: [float(np.exp(np.mean([np.log(max(float(np.mean(cell)), 1e-12)) for cell in cells]))) for cells in rounds]
        for key, rounds in _decode_rounds(record).items()
    }
    samples: dict[Key, list[float]] = defaultdict(list)
    for prefill in record.prefill:
        kind = "prefill while others decode" if prefill.beside else "prefill"
        samples[kind, f"{prefill.tokens:4d} tokens"].append(prefill.seconds)
    samples["request", ""] = list(record.request_s)
    for key, seconds in samples.items():
        if len(seconds) >= 4 * _LEAST_RUNS and min(seconds) > 0.0:
            # Consecutive parts: six, the rounds of a default calibration, or fewer if there are few samples.
            parts = np.array_split(np.asarray(seconds), min(6, len(seconds) // 2))
            means[key] = [float(np.mean(part)) for part in parts]
    return means


def _decode_rounds(record: EngineRecord) -> dict[Key, list[list[list[float]]]]:
    """Runs of a batch (samples of consecutive iterations whose context grows), grouped to rounds over its cells.

    A cell is a context, and for passes over drafts the number of tokens; the i-th run of each cell is of round i.
    """
    runs: dict[tuple[int, int], list[tuple[int, list[float]]]] = defaultdict(list)
    before = None
    for sample in record.decode:
        kind = sample.batch, sample.tokens
        grown = 0 if before is None else sample.context - before.context
        same = before is not None and kind == (before.batch, before.tokens) and 0 < grown <= 64 * sample.batch
        if not same:
            runs[kind].append((sample.context // (64 * sample.batch), []))
        runs[kind][-1][1].append(sample.seconds)
        before = sample
    cells: dict[Key, dict[tuple[int, int], list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for (batch, tokens), of_kind in runs.items():
        longest = max(len(seconds) for _, seconds in of_kind)
        for context, seconds in of_kind:
            if 2 * len(seconds) > longest:  # shorter runs occur while a batch fills up
                cells["iteration" if tokens == 1 else "pass", f"batch {batch:3d}"][tokens, context].append(seconds)
    rounds: dict[Key, list[list[list[float]]]] = {}
    for key, by_cell in cells.items():
        most = max(len(cell) for cell in by_cell.values())
        whole = [cell for cell in by_cell.values() if len(cell) == most]  # a cell that a round lacks is left out
        rounds[key] = [[cell[i] for cell in whole] for i in range(most)]
    return rounds


def compare_acceptance(first: Profile, second: Profile, *, confidence: float = 0.95) -> Difference | None:
    """Compare only the shares of accepted drafts; None where one of the profiles has no answers with drafts."""
    if not all(any(answer.steps for answer in profile.all_answers) for profile in (first, second)):
        return None
    shares = _worth(_verdicts(first.all_answers)), _worth(_verdicts(second.all_answers))
    return Difference(
        quantity="step acceptance alpha1",
        kind="difference",
        first=shares[0].value,
        second=shares[1].value,
        n=(len(first.all_answers), len(second.all_answers)),
        **newcombe(*shares, confidence=confidence, correlation=_correlation(first, second))._asdict(),
    )


def _verdicts(answers: Sequence[RecordedAnswer]) -> NDArray[np.float64]:
    """Accepted and judged steps of each answer, shape (n, 2)."""
    return np.array([[sum(s.verdict.accepted for s in a.steps), len(a.steps)] for a in answers], dtype=np.float64)


def _worth(counts: NDArray[np.float64]) -> Share:
    """Share of accepted drafts, and the effective number of decisions given clustering, at most their number."""
    accepted, judged = counts.T
    n = float(judged.sum())
    share = float(accepted.sum()) / n
    spread = share * (1.0 - share)
    if len(counts) < 2 or spread == 0.0:
        return Share(share, n)
    clustered = ratio_of_totals(accepted, judged).stderr ** 2
    return Share(share, min(spread / clustered, n) if clustered > 0.0 else n)


def _correlation(first: Profile, second: Profile) -> float:
    """Return the correlation of the two acceptances over the same questions; 0 with few of them or different ones."""
    ours, theirs = (
        {answer.problem: row for answer, row in zip(answers, _verdicts(answers), strict=True)}
        for answers in (first.all_answers, second.all_answers)
    )
    if ours.keys() != theirs.keys() or len(ours) < _LEAST_PROBLEMS:
        return 0.0
    x, y = (np.array([table[name] for name in sorted(ours)]) for table in (ours, theirs))
    residuals = [rows[:, 0] - rows[:, 0].sum() / rows[:, 1].sum() * rows[:, 1] for rows in (x, y)]
    if min(float(r.std()) for r in residuals) <= 0.0:
        return 0.0
    r = float(np.corrcoef(*residuals)[0, 1])
    # The lower end of Fisher's interval: a correlation by chance must not make the interval too short.
    return max(math.tanh(math.atanh(min(max(r, -0.999), 0.999)) - 1.645 / math.sqrt(len(ours) - 3)), 0.0)


def _speedup(name: str, first: Estimate, second: Estimate, confidence: float) -> Difference:
    """Speedups compared by logarithm, with the half-widths of the predictions; questions are taken as different."""
    gap = math.log(second.value / first.value)
    spread = [math.log(e.high / e.low) / 2.0 / float(stats.norm.ppf(0.5 + e.confidence / 2.0)) for e in (first, second)]
    stderr = math.hypot(*spread)
    half = float(stats.norm.ppf(0.5 + confidence / 2.0)) * stderr
    p = 2.0 * float(stats.norm.sf(abs(gap) / stderr)) if stderr > 0.0 else float(gap == 0.0)
    return Difference(
        quantity=f"speedup of {name}",
        kind="ratio",
        first=first.value,
        second=second.value,
        n=(first.n, second.n),
        change=math.exp(gap),
        low=math.exp(gap - half),
        high=math.exp(gap + half),
        p=p,
    )


class Share(NamedTuple):
    """A proportion, in [0, 1], and the effective number of independent decisions behind it, > 0."""

    value: float
    n: float


class Change(NamedTuple):
    """Change from a first to a second measurement, with its confidence interval and p-value."""

    change: float
    low: float
    high: float
    p: float


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values: if no effect is real, the smallest is below alpha with probability <= alpha.

    This holds for any dependence between the tests.

    References
    ----------
    Holm 1979, Scand. J. Statist. 6, 65-70.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def log_ratio(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> Change:
    """Ratio of the geometric means of independent positive measurements, its interval, and Welch's p-value.

    Parameters
    ----------
    first, second : measurements, shapes (n,) and (m,), n, m >= 2.
    """
    x, y = np.log(np.asarray(first, dtype=np.float64)), np.log(np.asarray(second, dtype=np.float64))
    gap = float(y.mean() - x.mean())
    if x.var(ddof=1) / x.size + y.var(ddof=1) / y.size <= 1e-24 * max(gap * gap, 1.0):  # any difference is significant
        return Change(math.exp(gap), math.exp(gap), math.exp(gap), float(abs(gap) < 1e-12))
    welch = stats.ttest_ind(y, x, equal_var=False)
    low, high = welch.confidence_interval(confidence)
    return Change(math.exp(gap), math.exp(low), math.exp(high), float(welch.pvalue))


def newcombe(first: Share, second: Share, *, confidence: float = 0.95, correlation: float = 0.0) -> Change:
    """Difference of two proportions, its hybrid score interval, and the p-value at which the interval excludes 0.

    Parameters
    ----------
    correlation : correlation of the two estimated proportions, in (-1, 1).

    References
    ----------
    Newcombe 1998, Statistics in Medicine 17, 873-890 (method 10) and 2635-2650 (method 10, pairs).

    >>> [round(x, 4) for x in newcombe(Share(48 / 80, 80), Share(56 / 70, 70))[:3]]
    [0.2, 0.0524, 0.3339]
    """
    gap = second.value - first.value
    wanted = float(stats.norm.ppf(0.5 + confidence / 2.0))
    low, high = _hybrid(first, second, wanted, correlation)

    def edge(z: float) -> float:
        ends = _hybrid(first, second, z, correlation)
        return ends[0] if gap > 0.0 else -ends[1]

    nearly_none, top = 1e-9, 40.0
    if gap == 0.0 or edge(nearly_none) <= 0.0:
        return Change(gap, low, high, 1.0)
    # The end of strongly correlated shares near 0 or 1 may cross 0 several times: the crossing on the side of `wanted`.
    low_z, high_z = (wanted, top) if edge(wanted) > 0.0 else (nearly_none, wanted)
    z = top if edge(high_z) > 0.0 else float(brentq(edge, low_z, high_z))
    return Change(gap, low, high, 2.0 * float(stats.norm.sf(z)))


def _hybrid(first: Share, second: Share, z: float, correlation: float) -> tuple[float, float]:
    (p, n), (q, m) = first, second
    (p_low, p_high), (q_low, q_high) = _wilson(p, n, z), _wilson(q, m, z)
    gap = q - p

    def arm(a: float, b: float) -> float:
        return math.sqrt(max(a * a + b * b - 2.0 * correlation * a * b, 0.0))

    return gap - arm(q - q_low, p_high - p), gap + arm(q_high - q, p - p_low)


def _wilson(p: float, n: float, z: float) -> tuple[float, float]:
    centre = (p + z * z / (2.0 * n)) / (1.0 + z * z / n)
    half = z / (1.0 + z * z / n) * math.sqrt(p * (1.0 - p) / n + z * z / (4.0 * n * n))
    return max(centre - half, 0.0), min(centre + half, 1.0)
