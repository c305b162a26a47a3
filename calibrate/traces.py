"""From recorded answers to traces that the simulator replays."""

from __future__ import annotations

from collections.abc import Sequence

from calibrate.profile import AnswerRecord, Generated, StepRecord
from sim.traces import AnswerTrace, DraftTrace, StepTrace

__all__ = ["trace_of", "traces_of"]


def traces_of(answers: Sequence[AnswerRecord]) -> list[AnswerTrace]:
    """Return the traces of recorded answers, in their order."""
    return [trace_of(answer) for answer in answers]


def trace_of(answer: AnswerRecord) -> AnswerTrace:
    """Return what a recorded answer leaves for replay: lengths, verdicts, scores and truth, but no times."""
    return AnswerTrace(
        problem=answer.problem,
        prompt_tokens=answer.prompt_tokens,
        steps=tuple(_step(step) for step in answer.steps),
        baseline=tuple(step.tokens for step in answer.baseline),
    )


def _step(step: StepRecord) -> StepTrace:
    return StepTrace(
        draft_tokens=step.draft.tokens,
        target_tokens=step.target.tokens,
        accepted=step.verdict.accepted,
        draft_final=step.draft.final,
        target_final=step.target.final,
        draft_truncated=step.draft.truncated,
        target_truncated=step.target.truncated,
        judge_tokens=step.verdict.prompt_tokens,
        judge_score=step.verdict.score,
        draft_right=step.draft.correct,
        target_right=step.target.correct,
        scores=step.draft.scores,
        others=tuple(_draft(draft) for draft in step.candidates),
    )


def _draft(draft: Generated) -> DraftTrace:
    return DraftTrace(
        tokens=draft.tokens,
        accepted=bool(draft.accepted),
        final=draft.final,
        truncated=draft.truncated,
        right=draft.correct,
        scores=draft.scores,
    )
