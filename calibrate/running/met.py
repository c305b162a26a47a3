"""The trace of a real run, position by position, so that the same run can be simulated."""

from __future__ import annotations

from calibrate.running.session import WallSession
from sim.answers.traces import AnswerTrace, StepTrace
from sim.operations import Generate, Outcome, Verify
from sim.roles import DRAFT, JUDGE, TARGET

__all__ = ["trace_of_session"]


def trace_of_session(session: WallSession) -> AnswerTrace | None:
    """Return the trace of a run of plain decoding (also with token-level speculation), Lookahead Reasoning or ConfSpec.

    None if a position lacks a step or verdict. An answer that was one request has its lengths only, as ``baseline``.

    At a position without a draft (the last one of a cycle of LR sync), the trace has the target's own step as a refused
    draft, which the schedule of the run never requests.
    """
    if not session.committed:
        return None
    root = session.committed[0].parent
    assert root is not None  # only the prompt has no parent
    if isinstance(first := session.operations[0], Generate) and first.whole:
        lengths = tuple(step.n_tokens for step in session.committed)
        return AnswerTrace(prompt_tokens=root.n_tokens, steps=(), baseline=lengths, problem=session.stream)
    prefix, steps = root, list[StepTrace]()
    for committed in session.committed:
        here = {
            o.role: o
            for o in session.operations
            if isinstance(o, Generate) and o.prefix is prefix and o.branch == 0 and o.outcome is not Outcome.DISCARDED
        }
        if TARGET not in here:
            return None
        target, draft = here[TARGET].result, here.get(DRAFT, here[TARGET]).result
        if target is None or draft is None:
            return None
        if committed is not draft and committed is not target:  # one of several candidates
            return None
        verdicts = [
            o
            for o in session.operations
            if isinstance(o, Verify) and o.candidate is draft and o.job is not None and o.result is not None
        ]
        scores = {o.role: o.result.score for o in verdicts if o.result.score is not None}
        steps.append(
            StepTrace(
                draft_tokens=draft.n_tokens,
                target_tokens=target.n_tokens,
                accepted=committed is not target,
                draft_final=draft.final,
                target_final=target.final,
                draft_truncated=draft.truncated,
                target_truncated=target.truncated,
                judge_tokens=verdicts[0].job.n_new_tokens if verdicts else 0,
                judge_score=scores.get(JUDGE),
                scores={role: score for role, score in scores.items() if role != JUDGE},
            )
        )
        prefix = committed
    return AnswerTrace(prompt_tokens=root.n_tokens, steps=tuple(steps), problem=session.stream)
