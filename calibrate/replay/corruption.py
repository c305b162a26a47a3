r"""Corruption, estimated from recorded answers: the share of acceptance that is lost after a wrong committed step.

A comparison of acceptance before and after a wrong step over all answers is biased: an answer with many accepted drafts
has a false accept early, an answer with few rarely has one, so that the two sides have different problems. Here each
answer has an acceptance of its own: with :math:`a_i` logit-normal over answers,

.. math:: \text{accepted before} \sim \mathrm{Bin}(n_i, a_i), \qquad
          \text{accepted after} \sim \mathrm{Bin}(m_i, a_i (1 - \kappa)),

and kappa maximises the likelihood in which the :math:`a_i` are integrated out; a stopping rule cancels in it. The
interval is that of the likelihood ratio. Assumptions: given the answer, verdicts are independent, and whether a step is
wrong does not depend on the difficulty of the answer.

A scorer reads a draft without the target's step, and may give it a higher score after a wrong step: then kappa is
negative, a share of -kappa of the drafts that would have been refused are accepted. Answers verified by a judge have
few wrong steps, so the kappa of scorers is estimated on answers of the draft model where such were recorded, up to the
first refused step: the steps after a wrong one against the drafts of the same positions in the recorded answer, whose
context is right. (Scores also fall with position; a comparison with the first steps would count that as corruption.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrate.record.answer_records import RecordedAnswer
from calibrate.replay.accuracy import Spoiling, accepts, spoiling
from calibrate.replay.traces import trace_of
from sim.answers.traces import AnswerTrace
from sim.estimate import Estimate
from sim.roles import JUDGE, REWARD, SCORER

__all__ = ["Recorded", "corruption", "corruption_of", "least_corruption"]

Row: TypeAlias = tuple[int, int, int, int]
"""Counts of an answer: verdicts up to its first wrong committed step, accepted among them; verdicts after, accepted."""

_CHI2_95: Final = 3.841458820694124
_Z_95: Final = 1.959963984540054
_NODES: Final = 20
_SIGMAS: Final = (0.01, 4.0)
"""Grid of standard deviations of the log odds between answers."""


def corruption(
    answers: Sequence[RecordedAnswer],
    role: str = JUDGE,
    threshold: float | None = None,
    *,
    traces: Sequence[AnswerTrace] | None = None,
) -> Estimate | None:
    """Share of a verifier's acceptance that is lost after a wrong committed step.

    Parameters
    ----------
    role, threshold : verifier and its least accepted score (`calibrate.replay.accuracy.accepts`); default the judge.

    Returns
    -------
    Maximum-likelihood estimate with the likelihood-ratio interval, in [0, 1] for the judge and in [-1, 1] for others;
    None unless there are verdicts both before and after a wrong step, and one of those before was an acceptance.
    """
    traces = [trace_of(answer) for answer in answers] if traces is None else traces
    rows = [_row(answer, trace, role, threshold) for answer, trace in zip(answers, traces, strict=True)]
    known = tuple(row for row in rows if row is not None)
    return corruption_of(known, least=least_corruption(role)) if len(known) == len(rows) else None


def least_corruption(role: str) -> float:
    """Return the least corruption of a role: 0 for the judge, -1 for scorers."""
    return 0.0 if role == JUDGE else -1.0


def _row(answer: RecordedAnswer, trace: AnswerTrace, role: str, threshold: float | None) -> Row | None:
    """Counts before and after a wrong step; None if the verifier's score is missing for a draft."""
    verdicts = [accepts(step, role, threshold) for step in answer.steps]
    known = [verdict for verdict in verdicts if verdict is not None]
    if len(known) < len(verdicts):
        return None
    corrupted = trace.corrupted()
    if role in (SCORER, REWARD) and threshold is not None and answer.alone:
        own = _own(answer, role, threshold)
        depths = [depth for depth in own if depth < len(known) and not corrupted[depth]]
        before, after = [known[depth] for depth in depths], [own[depth] for depth in depths]
    else:
        before = [verdict for spoilt, verdict in zip(corrupted, known, strict=True) if not spoilt]
        after = [verdict for spoilt, verdict in zip(corrupted, known, strict=True) if spoilt]
    return len(before), sum(before), len(after), sum(after)


def _own(answer: RecordedAnswer, role: str, threshold: float) -> dict[int, bool]:
    """Verdicts on steps of the draft's own answer after a wrong step, by position, up to the first refused step."""
    verdicts: dict[int, bool] = {}
    wrong = False
    for depth, step in enumerate(answer.alone):
        accepted = step.scores[role] >= threshold
        if wrong:
            verdicts[depth] = accepted
        if not accepted:
            break
        wrong = wrong or step.correct is False
    return verdicts


@lru_cache(maxsize=64)
def corruption_of(rows: tuple[Row, ...], least: float = 0.0) -> Estimate | None:
    """`corruption` from counts of verdicts, at least ``least``; cached for the planner's many calls."""
    totals = np.sum(np.array(rows, dtype=np.int64).reshape(-1, 4), axis=0)
    if not totals[1] or not totals[2]:
        return None
    from scipy.optimize import minimize_scalar

    likelihood = _profile_likelihood(rows)
    optimum = float(minimize_scalar(lambda k: -likelihood(k), bounds=(least, 1.0), method="bounded").x)
    best = max((least, 0.0, 1.0, optimum), key=likelihood)
    low, high = _crossing(likelihood, best, least), _crossing(likelihood, best, 1.0)
    return Estimate(
        value=best,
        stderr=(high - low) / (2.0 * _Z_95),
        low=low,
        high=high,
        n=int(totals[2]),
        estimator="maximum likelihood with an acceptance of its own for each answer; likelihood-ratio interval",
    )


def _crossing(likelihood: Callable[[float], float], best: float, end: float) -> float:
    """End of the 95 % likelihood-ratio interval between the maximum of the likelihood and an end of the range."""
    from scipy.optimize import brentq

    level = likelihood(best) - _CHI2_95 / 2.0
    if best == end or likelihood(end) >= level:
        return end
    return float(brentq(lambda k: likelihood(k) - level, best, end, xtol=1e-4))


def _profile_likelihood(rows: Sequence[Row]) -> Callable[[float], float]:
    """Profile log likelihood of kappa: maximised over the distribution of acceptance between answers."""
    from scipy.optimize import minimize

    counted = Counter(rows)
    n, b, m, a = (np.array(column, dtype=np.float64)[:, None] for column in zip(*counted, strict=True))
    weight = np.array(list(counted.values()), dtype=np.float64)
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(_NODES)
    logs = np.log(node_weights / node_weights.sum())
    share = float((weight @ b)[0] + 0.5) / float((weight @ n)[0] + 1.0)
    start = np.array([np.log(share / (1.0 - share)), -1.0])
    known: dict[float, float] = {}

    def at(parameters: NDArray[np.float64], kappa: float) -> float:
        """Log likelihood with the acceptances integrated out by Gauss-Hermite quadrature."""
        x = parameters[0] + np.exp(parameters[1]) * nodes
        log_a, log_not_a = -np.logaddexp(0.0, -x), -np.logaddexp(0.0, x)
        log_kept = np.log1p(-abs(kappa)) if abs(kappa) < 1.0 else -1e3
        fewer = (log_a if kappa >= 0.0 else log_not_a) + log_kept  # probability that kappa > 0, or kappa < 0, reduces
        more = np.log(-np.expm1(np.minimum(fewer, -1e-15)))
        log_b, log_not_b = (fewer, more) if kappa >= 0.0 else (more, fewer)
        terms = b * log_a + (n - b) * log_not_a + a * log_b + (m - a) * log_not_b + logs
        top = terms.max(axis=1)
        return float(weight @ (top + np.log(np.exp(terms - top[:, None]).sum(axis=1))))

    def profile(kappa: float) -> float:
        if kappa not in known:
            bounds = [(-12.0, 12.0), tuple(np.log(_SIGMAS))]
            best = minimize(lambda p: -at(p, kappa), start, method="L-BFGS-B", bounds=bounds)
            start[:] = best.x  # start value for the next kappa
            known[kappa] = -float(best.fun)
        return known[kappa]

    return profile


class Recorded:
    """The answers of a profile, and estimates from them, of which a plan needs each many times."""

    def __init__(self, answers: Sequence[RecordedAnswer]) -> None:
        self._answers = answers
        self._corruption: dict[tuple[str, float | None], tuple[str, Estimate] | None] = {}

    @cached_property
    def traces(self) -> tuple[AnswerTrace, ...]:
        """The traces that are replayed."""
        return tuple(map(trace_of, self._answers))

    @cached_property
    def spoiling(self) -> Spoiling | None:
        """Effect of wrong steps on an answer; None where there is no ground truth."""
        return spoiling(self._answers)

    def corruption(self, role: str = JUDGE, threshold: float | None = None) -> tuple[str, Estimate] | None:
        """Return the role and its `corruption`; the judge and the judge's where its own verdicts do not suffice."""
        key = role, threshold
        if key not in self._corruption:
            each = ((who, corruption(self._answers, who, at, traces=self.traces)) for who, at in (key, (JUDGE, None)))
            self._corruption[key] = next(((who, known) for who, known in each if known is not None), None)
        return self._corruption[key]
