"""Traces that the simulator replays, made from recorded answers."""

from __future__ import annotations

from calibrate.record.answer_records import CandidatesRecord, Generated, RecordedAnswer, StepRecord
from sim.answers.traces import AnswerTrace, BeamStepTrace, DraftTrace, StepTrace

__all__ = ["trace_of"]


def trace_of(answer: RecordedAnswer) -> AnswerTrace:
    """Return the trace of a recorded answer: lengths, verdicts, scores and ground truth, without times."""
    return AnswerTrace(
        problem=answer.problem,
        prompt_tokens=answer.prompt_tokens,
        steps=tuple(map(_step, answer.steps)),
        baseline=tuple(step.tokens for step in answer.baseline),
        beams=tuple(BeamStepTrace(drafts=_beam(p.drafts), targets=_beam(p.targets)) for p in answer.beams),
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
        others=tuple(map(_draft, step.candidates)),
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


def _beam(record: CandidatesRecord) -> tuple[DraftTrace, ...]:
    return tuple(
        DraftTrace(
            tokens=n,
            accepted=False,  # not judged
            truncated=i in record.truncated,
            right=None if record.correct is None else record.correct[i],
            scores={role: values[i] for role, values in record.scores.items()},
        )
        for i, n in enumerate(record.tokens)
    )
