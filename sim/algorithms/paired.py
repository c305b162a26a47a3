"""The measuring procedure: both models continue the same prefix at every position, and the verifier decides.

This is how the acceptance of Lookahead Reasoning is defined (Fu et al. 2025, section 4, "Evaluation Metrics"): the
accepted draft, or else the target's step, joins the answer. The record of one such run is enough to replay the answer
under any window k1, because with width 1 the committed text does not depend on the schedule. Asked for more, it also
looks at more drafts of each position, and has every draft seen by other verifiers and scorers: then other methods can
be replayed too. What scores say of a text that has gone wrong is seen where none stops it: in the draft's own answers.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from sim.operations import (
    DRAFT,
    EMBEDDING,
    JUDGE,
    TARGET,
    WAIT,
    Action,
    Algorithm,
    Choose,
    Commit,
    Generate,
    Operation,
    Outcome,
    Score,
    Step,
    Verify,
)

__all__ = ["draft_trajectory", "paired_trajectory"]


def paired_trajectory(
    root: Step, *, drafts: int = 1, verifiers: Sequence[str] = (), scorers: Sequence[str] = (), chooser: bool = False
) -> Algorithm:
    """Generate the answer to ``root``, one position after the other, with draft and target side by side.

    Parameters
    ----------
    root : the prompt.
    drafts : drafts per position; the first one decides what is committed, the others are only looked at.
    verifiers : other verifiers that see every draft, besides the judge.
    scorers : roles that score every draft.
    chooser : whether to have one of the drafts chosen, too.
    """
    step = root
    while not step.final:
        target, draft = Generate(TARGET, step), Generate(DRAFT, step)
        yield target
        yield draft
        yield WAIT
        yield WAIT
        verify = Verify(draft.result, target.result)
        yield verify
        yield WAIT
        accepted = verify.result.accepted
        verify.outcome = draft.outcome = Outcome.ACCEPTED if accepted else Outcome.REJECTED
        target.outcome = Outcome.REFERENCE if accepted else Outcome.COMMITTED
        seen = yield from _look(draft, target, drafts, verifiers, scorers)
        if chooser:
            yield from _discarded([Choose(tuple(one.result for one in seen))])
        step = draft.result if accepted else target.result
        yield Commit(step)


def draft_trajectory(root: Step, *, scorers: Sequence[str]) -> Algorithm:
    """Let the draft answer ``root`` alone, and have each of its steps scored by ``scorers``, which decide nothing."""
    step = root
    while not step.final:
        draft = Generate(DRAFT, step)
        yield draft
        yield WAIT
        draft.outcome = Outcome.COMMITTED
        yield from _discarded([Score(draft.result, role=role) for role in scorers])
        step = draft.result
        yield Commit(step)


def _look(
    first: Generate, target: Generate, n_drafts: int, verifiers: Sequence[str], scorers: Sequence[str]
) -> Generator[Action, Any, tuple[Generate, ...]]:
    """Look at the position from other sides; return its drafts. Nothing of it reaches the answer."""
    more = [Generate(DRAFT, first.prefix, branch) for branch in range(1, n_drafts)]
    yield from _discarded(more)
    for draft in (first, *more):
        asked = verifiers if draft is first else (JUDGE, *verifiers)
        opinions: list[Operation] = [Verify(draft.result, target.result, draft.branch, role) for role in asked]
        opinions += [Score(draft.result, draft.branch, role) for role in scorers]
        alone = [opinion for opinion in opinions if opinion.role == EMBEDDING]
        yield from _discarded([opinion for opinion in opinions if opinion.role != EMBEDDING])
        yield from _discarded(alone)  # it shares a processor with the others, and its own time is to be measured
    return first, *more


def _discarded(operations: Sequence[Operation]) -> Generator[Action, Any, None]:
    yield from operations
    for operation in operations:
        operation.outcome = Outcome.DISCARDED
        yield WAIT
