"""Lookahead Reasoning, Table 3: speedups of trees of depth 2, from the printed acceptance of each.

Nothing is fitted to a speedup. The correlation of the verdicts on the drafts of a position follows from the printed
acceptance with W drafts and with one; the time of the 32B judge is that of a target of this size in ConfSpec's Table 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from calibrate.record.library import bundled
from calibrate.replay.recursion import sharing_factor, unshared_seconds
from calibrate.replay.system import System, system_of
from sim.algorithms.rules import PRESETS
from sim.answers.acceptance import Acceptance
from sim.answers.drawn import SyntheticBehaviour
from sim.configuration import PLAIN, Configuration
from sim.roles import JUDGE
from sim.trial import trial_seconds
from specplan.check.reproducing.cells import Compared
from specplan.planning.model_error import PUBLISHED_RULES
from theory.branches import accepted_among
from theory.published.confspec import LATENCY_MS
from theory.published.lookahead_reasoning import TABLE_3, TREE_WIDTHS

__all__ = ["N_TREES", "Tree", "sibling_correlation", "trees"]

N_TREES: Final = len(TABLE_3) * len(TREE_WIDTHS)
_DEPTH: Final = 2
_FACTOR_KNOWN: Final = 0.025
"""Half-width at which what the other drafts of a position cost is known well enough, as a share of the speedup."""
_LARGE_JUDGE_S: Final = float(LATENCY_MS["target verification"]) / 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree(Compared):
    """A cell of the table: a speedup, [-]."""

    dataset: str
    judge: str
    """Size of the judge: ``7B`` or ``32B``."""
    width: int
    """W, drafts per position."""


def trees(n_answers: int = 60, step_done: Callable[[], None] = lambda: None) -> Iterator[Tree]:
    """Predict every cell; ``step_done`` is called after each."""
    for (dataset, judge), row in TABLE_3.items():
        for width, accepted, speedup in zip(TREE_WIDTHS, row["acceptance"], row["speedup"], strict=True):
            yield Tree(
                dataset=dataset,
                judge=judge,
                width=width,
                predicted=_speedup(dataset, judge, width, float(row["acceptance"][0]), float(accepted), n_answers),
                published=float(speedup),
            )
            step_done()


def _speedup(dataset: str, judge: str, width: int, alpha: float, accepted: float, n_answers: int) -> float:
    system = system_of(bundled(f"lr-deepseek-{dataset.lower()}"))
    assert isinstance(system.behaviour, SyntheticBehaviour)
    siblings = sibling_correlation(alpha, accepted, width)
    behaviour = replace(system.behaviour, acceptance=Acceptance(alpha=alpha, siblings=siblings))
    system = replace(
        system,
        behaviour=behaviour.judged_under(PRESETS[PUBLISHED_RULES]),
        seconds={JUDGE: _LARGE_JUDGE_S} if judge == "32B" else system.seconds,
    )
    tree = Configuration(method="lr-async", k1=_DEPTH, width=width, rules=PUBLISHED_RULES)
    plain, method = (_seconds(system, one, n_answers) for one in (PLAIN, tree))
    return plain / method


def _seconds(system: System, configuration: Configuration, n_answers: int) -> float:
    """Seconds of all answers together: few are simulated, and extended by the recursion."""
    unshared = unshared_seconds(system, configuration, range(n_answers))
    assert unshared is not None, "drawn answers of equal numbers of steps, and the judge"
    trial = system.trial(configuration.algorithm(), configuration.spec.meets)
    factor = sharing_factor(partial(trial_seconds, trial), unshared, _FACTOR_KNOWN)
    return factor.value * float(unshared.sum())


def sibling_correlation(alpha: float, accepted: float, width: int) -> float:
    """Return the correlation of the verdicts at which ``accepted`` of the positions have an accepted draft.

    Parameters
    ----------
    alpha : acceptance of one draft, in (0, 1).
    accepted : share of positions with an accepted draft, in [alpha, 1 - (1 - alpha)^width].
    width : drafts, >= 1.

    >>> round(sibling_correlation(0.63, 0.83, 8), 2), sibling_correlation(0.63, 0.63, 1)
    (0.63, 0.0)
    """
    if width == 1:
        return 0.0
    low, high = 1e-9, 1.0 - 1e-9
    while high - low > 1e-6:  # more correlation, fewer positions with an accepted draft
        middle = (low + high) / 2.0
        low, high = (middle, high) if accepted_among(alpha, width, middle) > accepted else (low, middle)
    return low
