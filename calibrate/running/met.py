"""What a run met along its answer, position by position, so that it can be simulated afterwards."""

from __future__ import annotations

from calibrate.running.session import WallSession
from sim.answers.traces import AnswerTrace, StepTrace
from sim.operations import DRAFT, TARGET, Generate, Outcome, Verify

__all__ = ["trace_of_session"]


def trace_of_session(session: WallSession) -> AnswerTrace | None:
    """Return what a run of Lookahead Reasoning met along its answer; None if a position lacks a step or a verdict."""
    if not session.committed:
        return None
    root = session.committed[0].parent
    assert root is not None  # only the prompt stands after nothing
    prefix, steps = root, list[StepTrace]()
    for committed in session.committed:
        here = {
            o.role: o
            for o in session.operations
            if isinstance(o, Generate) and o.prefix is prefix and o.branch == 0 and o.outcome is not Outcome.DISCARDED
        }
        if not {TARGET, DRAFT} <= here.keys() or here[TARGET].result is None or here[DRAFT].result is None:
            return None
        target, draft = here[TARGET].result, here[DRAFT].result
        if committed is not draft and committed is not target:  # one of several candidates
            return None
        judged = [o for o in session.operations if isinstance(o, Verify) and o.candidate is draft and o.job is not None]
        steps.append(
            StepTrace(
                draft_tokens=draft.n_tokens,
                target_tokens=target.n_tokens,
                accepted=committed is draft,
                draft_final=draft.final,
                target_final=target.final,
                draft_truncated=draft.truncated,
                target_truncated=target.truncated,
                judge_tokens=judged[0].job.n_new_tokens if judged else 0,
            )
        )
        prefix = committed
    return AnswerTrace(prompt_tokens=root.n_tokens, steps=tuple(steps), problem=session.stream)
