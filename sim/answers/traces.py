"""Records of a real run for replay: the lengths and verdicts along the committed trajectory of an answer.

At each position of the committed answer both models generated a step after the same prefix; if the draft was accepted
its step was committed, else the target's. An algorithm of width 1 needs nothing else, whatever its k1: the schedule
determines *when* steps are generated, the trajectory *which* steps. (Drafts after a prefix that is later refused are
the exception; they take time on the engines, but are never committed.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sim.roles import JUDGE
from theory.errors import ParameterError

__all__ = ["AnswerTrace", "BeamStepTrace", "DraftTrace", "StepTrace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTrace:
    """One draft of a position: the one that could be committed, or another that was only scored."""

    tokens: int
    """Its length, tokens, >= 0."""
    accepted: bool
    """Whether the judge accepts it."""
    final: bool = False
    """Whether it ends the answer."""
    truncated: bool = False
    """Whether it was cut by the limit on a step's tokens."""
    right: bool | None = None
    """Whether it is right, by ground truth; ``None`` where there is none."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Recorded scores by role of the verifier or scorer, in the role's own unit."""

    def __post_init__(self) -> None:
        _count("tokens", self.tokens)
        for role, score in self.scores.items():
            if not math.isfinite(score):
                raise ParameterError(f"scores[{role}]", score, "must be finite")

    def score(self, role: str) -> float:
        """Return the score by a role.

        Raises
        ------
        ParameterError : no score of the role was recorded.
        """
        if role not in self.scores:
            known = ", ".join(sorted(self.scores)) or "none"
            raise ParameterError("verifier", role, f"must be one whose scores were recorded ({known}): calibrate again")
        return self.scores[role]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """One position of a committed answer."""

    draft_tokens: int
    """Length of the draft's step, tokens, >= 0."""
    target_tokens: int
    """Length of the target's step after the same prefix, tokens, >= 0."""
    accepted: bool
    """Whether the verifier let the draft's step stand, so that it was committed."""
    draft_final: bool = False
    """Whether the draft's step ended the answer."""
    target_final: bool = False
    """Whether the target's step ended the answer."""
    draft_truncated: bool = False
    """Whether the draft's step was cut by the limit on a step's tokens."""
    target_truncated: bool = False
    """Whether the target's step was cut by the limit on a step's tokens."""
    judge_tokens: int = 0
    """Prompt tokens that the verifier read, >= 0."""
    judge_score: float | None = None
    """The verifier's score, in its own unit; ``None`` if it has none."""
    draft_right: bool | None = None
    """Whether the draft's step is right, by ground truth; ``None`` where there is none."""
    target_right: bool | None = None
    """Whether the target's step is right."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Recorded scores of the draft's step by the role of each other verifier or scorer."""
    others: tuple[DraftTrace, ...] = ()
    """More drafts of this position, none of them committed: branches 1, 2, ..."""

    def __post_init__(self) -> None:
        for name in ("draft_tokens", "target_tokens", "judge_tokens"):
            _count(name, getattr(self, name))
        if self.judge_score is not None and not math.isfinite(self.judge_score):
            raise ParameterError("judge_score", self.judge_score, "must be finite or None")

    def draft(self, branch: int) -> DraftTrace:
        """Return the draft of a branch, 0 being the one that was judged.

        Raises
        ------
        ParameterError : that many drafts were not recorded.
        """
        if branch > len(self.others):
            n = 1 + len(self.others)
            raise ParameterError("width", branch + 1, f"must be at most {n}, the recorded drafts per position")
        if branch:
            return self.others[branch - 1]
        scores = self.scores if self.judge_score is None else {**self.scores, JUDGE: self.judge_score}
        return DraftTrace(
            tokens=self.draft_tokens,
            accepted=self.accepted,
            final=self.draft_final,
            truncated=self.draft_truncated,
            right=self.draft_right,
            scores=scores,
        )

    @property
    def committed_right(self) -> bool | None:
        """Whether the committed step is right, by ground truth."""
        return self.draft_right if self.accepted else self.target_right

    @property
    def final(self) -> bool:
        """Whether the committed step ended the answer."""
        return self.draft_final if self.accepted else self.target_final


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamStepTrace:
    """One position of an answer that was written by choosing among candidates of both models."""

    drafts: tuple[DraftTrace, ...]
    """The draft's candidates, by branch; at least one."""
    targets: tuple[DraftTrace, ...]
    """The target's candidates after the same prefix, by branch; at least one."""

    def __post_init__(self) -> None:
        for name in ("drafts", "targets"):
            if not getattr(self, name):
                raise ParameterError(name, getattr(self, name), "must hold at least one candidate")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTrace:
    """One recorded answer, and the answer of plain decoding to the same question."""

    prompt_tokens: int
    """Length of the prompt, tokens, >= 0."""
    steps: tuple[StepTrace, ...]
    """Positions of the committed answer, in order; only the last is final. Empty where no draft was recorded: then
    only plain decoding can be replayed."""
    baseline: tuple[int, ...] = ()
    """Tokens of each step of an answer by plain decoding; empty if none was recorded."""
    problem: str = ""
    """Name of the question."""
    score_overhead: int = 2
    """Tokens that the request for a score adds to the text, >= 0."""
    beams: tuple[BeamStepTrace, ...] = ()
    """Positions of another answer to the same question, with candidates of both models; empty if none was recorded."""

    def __post_init__(self) -> None:
        _count("prompt_tokens", self.prompt_tokens)
        _count("score_overhead", self.score_overhead)
        if not self.steps and not self.baseline:
            raise ParameterError("steps", self.steps, "must hold at least one step where there is no baseline")
        for i, step in enumerate(self.steps[:-1]):
            if step.final:
                raise ParameterError(f"steps[{i}]", "final", f"must not end the answer before its last step ({self})")
        for i, n in enumerate(self.baseline):
            _count(f"baseline[{i}]", n)

    def corrupted(self) -> tuple[bool, ...]:
        """Return for each position whether a wrong step was committed before it."""
        wrong = [step.committed_right is False for step in self.steps]
        return tuple(any(wrong[:depth]) for depth in range(len(wrong)))

    def __str__(self) -> str:
        """Return a name for messages."""
        return f"trace of {self.problem or 'an unnamed problem'}, {len(self.steps)} steps"


def _count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ParameterError(name, value, "must be an integer >= 0")
