"""Records of answers in a profile: steps of both models, verdicts on them, and candidates for them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from calibrate.record.fields import AtLeastOne, Count, Finite, Record, Seconds

__all__ = ["BeamStepRecord", "CandidatesRecord", "Generated", "RecordedAnswer", "StepRecord", "VerdictRecord"]


class Generated(Record):
    """One generated step."""

    tokens: AtLeastOne
    seconds: Seconds
    """Seconds from the request to its end, without other requests on the engine; of an answer that was one request,
    from the end of the step before."""
    final: bool = False
    truncated: bool = False
    correct: bool | None = None
    """Whether it is right by ground truth, where the task has one."""
    accepted: bool | None = None
    """The judge's verdict on a draft that was judged but could not be committed."""
    scores: dict[str, Finite] = {}
    """Scores of a draft by each further verifier and scorer that saw it, by role, in the role's unit."""


class VerdictRecord(Record):
    """A verifier's decision on a draft step."""

    accepted: bool
    score: Finite | None = None
    seconds: Seconds
    prompt_tokens: Count
    """Prompt tokens that the judge read; tokens cached from earlier verdicts are not counted."""
    same_meaning: bool | None = None
    """Whether the two steps mean the same by ground truth, where the task has one."""


class StepRecord(Record):
    """One position of the committed trajectory: both models' steps after the same prefix, and the verdict."""

    draft: Generated
    target: Generated
    verdict: VerdictRecord
    candidates: list[Generated] = []
    """More drafts after the same prefix, none of them committed."""


class CandidatesRecord(Record):
    """Several steps of one model after the same prefix, by branch."""

    tokens: Annotated[list[AtLeastOne], Field(min_length=1)]
    """Lengths of the candidates."""
    truncated: list[Count] = []
    """Indices of the candidates that were cut by the limit on a step's tokens."""
    correct: list[bool] | None = None
    """Whether each is right by ground truth, where the task has one."""
    scores: dict[str, list[Finite]]
    """Role -> score of each candidate: reward, and for drafts log likelihoods under both models, nats."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        n = len(self.tokens)
        sizes = {n, *map(len, self.scores.values()), n if self.correct is None else len(self.correct)}
        if sizes != {n} or max(self.truncated, default=0) >= n:
            raise ValueError("every list needs one entry per candidate, and truncated ones must be among them")
        return self


class BeamStepRecord(Record):
    """One position of an answer that was written by choosing among candidates."""

    drafts: CandidatesRecord
    targets: CandidatesRecord


class RecordedAnswer(Record):
    """One problem: the committed trajectory of lookahead reasoning, and the answer of plain decoding."""

    problem: str
    prompt_tokens: Count
    steps: list[StepRecord]
    baseline: list[Generated]
    answer_correct: bool | None = None
    baseline_correct: bool | None = None
    beams: list[BeamStepRecord] = []
    """Another answer to the problem, with candidates of both models at each of its positions."""
    alone: list[Generated] = []
    """An answer of the draft without the target, each step scored by all scorers."""
