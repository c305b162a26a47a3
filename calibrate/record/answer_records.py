"""What a profile holds of answers: steps of both models, verdicts on them, and candidates for them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from calibrate.record.fields import AtLeastOne, Count, Finite, Record, Seconds

__all__ = ["BeamStepRecord", "CandidatesRecord", "Generated", "RecordedAnswer", "StepRecord", "VerdictRecord"]


class Generated(Record):
    """One generated step."""

    tokens: AtLeastOne
    seconds: Seconds
    """From the request to its end, with the engine to itself."""
    final: bool = False
    truncated: bool = False
    correct: bool | None = None
    """Against ground truth, where the task has one."""
    accepted: bool | None = None
    """What the judge said of a draft that was only judged."""
    scores: dict[str, Finite] = {}
    """Scores of a draft by each verifier and scorer that saw it besides the judge, by role, in the role's unit."""


class VerdictRecord(Record):
    """A verifier's decision on a draft step."""

    accepted: bool
    score: Finite | None = None
    seconds: Seconds
    prompt_tokens: Count
    """Those that the judge had to read: what it knew from earlier verdicts is not counted."""
    same_meaning: bool | None = None
    """Ground truth, where the task has one."""


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
    """Which of them were cut by the limit on a step's tokens."""
    correct: list[bool] | None = None
    """Each against ground truth, where the task has one."""
    scores: dict[str, list[Finite]]
    """By role, of each candidate: reward, and of drafts log likelihoods under both models, nats."""

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
    """One problem: the committed trajectory of lookahead reasoning, and the target's own answer."""

    problem: str
    prompt_tokens: Count
    steps: list[StepRecord]
    baseline: list[Generated]
    answer_correct: bool | None = None
    baseline_correct: bool | None = None
    beams: list[BeamStepRecord] = []
    """Another answer to the problem, with candidates of both models at each of its positions."""
    alone: list[Generated] = []
    """The draft's own answer to the problem, each step scored by the roles that score."""
