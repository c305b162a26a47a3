"""Methods that score a draft step without a target step to compare it with: SpecReason, RSD and SpecCoT.

The target writes a step only where no draft has a sufficient score. So the target generates few tokens, and a fluent
but wrong step is refused only if its score is low. Sources: SpecReason is Pan et
al. 2025 (arXiv:2504.07891), RSD Liao et al. 2025 (arXiv:2501.19324), here on a single path, SpecCoT Shi et al. 2025
(EMNLP Findings); the schedules are those that ConfSpec (Liu, Cao, He 2025) describes and compares in its section 5.1.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any, Final, Literal

from sim.algorithms.candidates import together, written_by_target
from sim.algorithms.rules import check_counts
from sim.catalogue import Knob, Method, built
from sim.operations import Action, Algorithm, Choose, Commit, Generate, Outcome, Score, Step
from sim.roles import DRAFT, REWARD, SCORER

__all__ = ["METHODS", "best_of_drafts", "graded_drafts"]

Selector = Literal["grades", "choice"]


def graded_drafts(root: Step, *, threshold: float, role: str = SCORER, first: int = 0) -> Algorithm:
    """Generate the answer to ``root`` step by step: the draft's if its score reaches ``threshold``, else the target's.

    ``role`` scores: ``scorer`` (0 to 9, SpecReason) or ``reward`` (0 to 1, RSD). The target writes the ``first`` steps.
    """
    step = root
    while not step.final:
        kept: Step | None = None
        if step.depth + 1 >= first:
            draft = Generate(DRAFT, step)
            yield from together([draft])
            score = Score(draft.result, role=role)
            yield from together([score])
            good = score.result >= threshold
            score.outcome = draft.outcome = Outcome.ACCEPTED if good else Outcome.REJECTED
            kept = draft.result if good else None
        step = kept if kept is not None else (yield from written_by_target(step))
        yield Commit(step)


def best_of_drafts(root: Step, *, width: int, threshold: float, select: Selector = "grades") -> Algorithm:
    """Generate the answer to ``root``: of ``width`` drafts the best, or the target's step if none is good enough.

    With ``grades`` the target grades each draft (0 to 9), and the best is accepted if it reaches ``threshold``; with
    ``choice`` it chooses one of all.
    """
    check_counts(1, width)
    step = root
    while not step.final:
        drafts = [Generate(DRAFT, step, branch) for branch in range(width)]
        yield from together(drafts)
        taken = yield from (_graded(drafts, threshold) if select == "grades" else _chosen(drafts))
        for i, draft in enumerate(drafts):
            unlucky = Outcome.REJECTED if taken is None else Outcome.DISCARDED
            draft.outcome = Outcome.ACCEPTED if i == taken else unlucky
        step = drafts[taken].result if taken is not None else (yield from written_by_target(step))
        yield Commit(step)


def _graded(drafts: list[Generate], threshold: float) -> Generator[Action, Any, int | None]:
    """Grade every draft; return the index of the best (the first on a tie) if its grade reaches ``threshold``."""
    scores = [Score(draft.result, draft.branch) for draft in drafts]
    yield from together(scores)
    best = max(scores, key=lambda score: (score.result, -score.branch))
    taken = best.branch if best.result >= threshold else None
    for score in scores:
        unlucky = Outcome.REJECTED if taken is None else Outcome.DISCARDED
        score.outcome = Outcome.ACCEPTED if score.branch == taken else unlucky
    return taken


def _chosen(drafts: list[Generate]) -> Generator[Action, Any, int | None]:
    choice = Choose(tuple(draft.result for draft in drafts))
    yield from together([choice])
    taken: int | None = choice.result.index
    choice.outcome = Outcome.REJECTED if taken is None else Outcome.ACCEPTED
    return taken


_METHOD: Final = partial(
    Method,
    level="step",
    exact="the speedup for constant step times and independent acceptance",
    measured="step lengths, scores and truth of the drafts along recorded answers; engine timings",
)
_GRADE: Final = Knob(
    name="threshold", kind="number", default=7.0, low=0.0, high=9.0, help="least grade of an accepted draft, 0 to 9"
)

METHODS = (
    _METHOD(
        name="spec-reason",
        title="SpecReason",
        paper="Pan et al. 2025 (SpecReason); ConfSpec, sections 3.2 and 5.1",
        algorithm=built(graded_drafts, role=SCORER),
        knobs=(
            _GRADE,
            Knob(name="first", kind="integer", default=0, low=0, help="steps at the beginning that the target writes"),
        ),
        roles=(DRAFT, SCORER),
        closed_form="theory.step_methods.graded_speedup",
    ),
    _METHOD(
        name="rsd",
        title="RSD",
        paper="Liao et al. 2025 (Reward-guided Speculative Decoding), single path; ConfSpec, section 5.1",
        algorithm=built(graded_drafts, role=REWARD),
        knobs=(
            Knob(
                name="threshold", kind="number", default=0.7, low=0.0, high=1.0, help="least reward of a draft, 0 to 1"
            ),
        ),
        roles=(DRAFT, REWARD),
        closed_form="theory.step_methods.graded_speedup",
    ),
    _METHOD(
        name="spec-cot",
        title="SpecCoT",
        paper="Shi et al. 2025 (SpecCoT); ConfSpec, sections 3.2 and 5.1",
        algorithm=built(best_of_drafts),
        knobs=(
            Knob(name="width", kind="integer", default=3, low=1, high=64, help="drafts per position, in parallel"),
            _GRADE,
            Knob(
                name="select",
                kind="choice",
                default="grades",
                choices=("grades", "choice"),
                help="the target grades each draft, or chooses among all at once",
            ),
        ),
        roles=(DRAFT, SCORER),
        closed_form="theory.step_methods.best_of_speedup",
    ),
)
