"""The measuring procedure: both models continue the same prefix at every position, and the verifier decides.

This is how the acceptance of Lookahead Reasoning is defined (Fu et al. 2025, section 4, "Evaluation Metrics"): the
accepted draft, or else the target's step, joins the answer. The record of one such run is enough to replay the answer
under any window k1, because with width 1 the committed text does not depend on the schedule. Optionally the run also
generates more drafts of each position, and has every draft seen by other verifiers and scorers, to replay other methods
too. Scores after wrong steps are recorded in answers of the draft model, where no verifier refuses a wrong step.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from sim.algorithms.candidates import together
from sim.operations import Action, Algorithm, Choose, Commit, Generate, Operation, Outcome, Score, Step, Verify
from sim.roles import DRAFT, EMBEDDING, JUDGE, TARGET

__all__ = ["draft_trajectory", "paired_trajectory"]


def paired_trajectory(
    root: Step, *, drafts: int = 1, verifiers: Sequence[str] = (), scorers: Sequence[str] = (), chooser: bool = False
) -> Algorithm:
    """Generate the answer to ``root``, one position after the other, with concurrent requests to draft and target.

    Parameters
    ----------
    drafts : drafts per position; the first is committed or refused, the others are only verified and scored.
    verifiers : other verifiers that see every draft, in addition to the judge.
    scorers : roles that score every draft.
    chooser : whether a chooser selects one of the drafts, too.
    """
    step = root
    while not step.final:
        target, draft = Generate(TARGET, step), Generate(DRAFT, step)
        yield from together([target, draft])
        verify = Verify(draft.result, target.result)
        yield from together([verify])
        accepted = verify.result.accepted
        verify.outcome = draft.outcome = Outcome.ACCEPTED if accepted else Outcome.REJECTED
        target.outcome = Outcome.REFERENCE if accepted else Outcome.COMMITTED
        seen = yield from _look(draft, target, drafts, verifiers, scorers)
        if chooser:
            yield from _discarded([Choose(tuple(one.result for one in seen))])
        step = draft.result if accepted else target.result
        yield Commit(step)


def draft_trajectory(root: Step, *, scorers: Sequence[str]) -> Algorithm:
    """Generate the answer to ``root`` with the draft only; ``scorers`` score each step and do not change the answer."""
    step = root
    while not step.final:
        draft = Generate(DRAFT, step)
        yield from together([draft])
        draft.outcome = Outcome.COMMITTED
        yield from _discarded([Score(draft.result, role=role) for role in scorers])
        step = draft.result
        yield Commit(step)


def _look(
    first: Generate, target: Generate, n_drafts: int, verifiers: Sequence[str], scorers: Sequence[str]
) -> Generator[Action, Any, tuple[Generate, ...]]:
    """Record further drafts, verdicts and scores of a position, none of them committed; return its drafts."""
    more = [Generate(DRAFT, first.prefix, branch) for branch in range(1, n_drafts)]
    yield from _discarded(more)
    for draft in (first, *more):
        roles = verifiers if draft is first else (JUDGE, *verifiers)
        opinions: list[Operation] = [Verify(draft.result, target.result, draft.branch, role) for role in roles]
        opinions += [Score(draft.result, draft.branch, role) for role in scorers]
        by_embedding = [opinion for opinion in opinions if opinion.role == EMBEDDING]
        yield from _discarded([opinion for opinion in opinions if opinion.role != EMBEDDING])
        yield from _discarded(by_embedding)  # after the others, which use the same processor
    return first, *more


def _discarded(operations: Sequence[Operation]) -> Generator[Action, Any, None]:
    yield from together(operations)
    for operation in operations:
        operation.outcome = Outcome.DISCARDED
