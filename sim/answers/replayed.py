"""Replay of recorded answers: what the models said then, under another schedule, verifier or threshold."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile

from sim.answers.candidates import BeamAnswer
from sim.answers.facts import facts_after, is_corrupted
from sim.answers.traces import AnswerTrace, StepTrace
from sim.operations import Choose, Generate, Score, Selection, Step, Verdict, Verify, prompt
from sim.random_streams import lot
from sim.roles import JUDGE, OWN_THRESHOLDS, RANDOM, TARGET
from sim.virtual_clock import Answer
from theory.errors import ParameterError

__all__ = ["BaselineAnswer", "TraceAnswer", "TraceBehaviour"]

_REFUSED = -1.0
"""Score of a draft past the recorded end, or refused because of a corrupted context: below every threshold."""

_CERTAIN = 9.0
"""Score of a draft that is accepted because of a corrupted context: the best there is."""


@dataclass(frozen=True, slots=True)
class TraceBehaviour:
    """Replay of recorded answers under other schedules, verifiers and thresholds.

    Exact at width 1 for all that is committed under the recorded verifier: lengths and verdicts along the committed
    trajectory are those recorded, for any k1. Approximate where a run leaves the recorded trajectory:

    - a draft or target step after another prefix is as long, and scored, as the recorded one of its position;
    - sync commits a target step unjudged at the end of a fully accepted cycle, and the released code refuses some
      drafts unjudged: the positions after it are replayed as they were recorded after the draft's step;
    - past the recorded end a draft is as long as the last recorded one and refused, and the target ends the answer;
      where a score decides about drafts without a target step (``ends_alone``), it ends the answer, and has the score
      of the last recorded one;
    - after a wrong step that the recording did not commit, drafts are refused, or accepted, with the probability
      ``corruption``.
    """

    traces: tuple[AnswerTrace, ...]
    """The recorded answers; answer ``index`` is number ``index`` modulo their count."""
    corruption: float = 0.0
    """Share of acceptance lost after a wrong committed step; if negative, the share of refusals lost; in [-1, 1]."""
    ends_alone: bool = False
    """Whether a draft past the recorded end ends the answer: where no target step is generated, none can end it."""
    seed: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "traces", tuple(self.traces))
        if not self.traces:
            raise ParameterError("traces", self.traces, "must hold at least one recorded answer")
        if not -1.0 <= self.corruption <= 1.0:
            raise ParameterError("corruption", self.corruption, "must be in [-1, 1]")

    @property
    def n_answers(self) -> int:
        """Number of recorded answers."""
        return len(self.traces)

    def answer(self, index: int) -> TraceAnswer:
        """Return recorded answer ``index`` modulo their count."""
        return TraceAnswer(self.traces[index % len(self.traces)], index, self.corruption, ends_alone=self.ends_alone)

    def baseline_answer(self, index: int) -> BaselineAnswer:
        """Return the recorded answer of plain decoding to the same question.

        Raises
        ------
        ParameterError : none was recorded.
        """
        return BaselineAnswer(self.traces[index % len(self.traces)])

    def beam_answer(self, index: int) -> BeamAnswer:
        """Return the recorded candidates of both models for question ``index`` modulo the questions with candidates.

        Raises
        ------
        ParameterError : no candidates were recorded.
        """
        n = sum(1 for _ in takewhile(lambda trace: trace.beams, self.traces)) or len(self.traces)
        return BeamAnswer(self.traces[index % n], index)


class TraceAnswer:
    """Replay of one recorded answer."""

    __slots__ = ("_corrupted", "_corruption", "_ends_alone", "_index", "_n", "_steps", "root", "trace")

    def __init__(
        self, trace: AnswerTrace, index: int = 0, corruption: float = 0.0, *, ends_alone: bool = False
    ) -> None:
        self.trace = trace
        self._steps = trace.steps
        self._n = len(trace.steps)
        self._index = index
        self._corruption = corruption
        self._ends_alone = ends_alone
        self._corrupted = trace.corrupted() if corruption else ()
        self.root = prompt(trace.prompt_tokens)

    def _at(self, depth: int) -> StepTrace:
        return self._steps[depth if depth < self._n else -1]

    def generate(self, operation: Generate) -> Step:
        """Return the recorded step of this position, role and branch; a branch not recorded is as long as the first."""
        prefix = operation.prefix
        depth = prefix.depth + 1
        step, past = self._at(depth), depth >= self._n
        if operation.role == TARGET:
            final, right = step.target_final or past, step.target_right
            result = Step(prefix, TARGET, step.target_tokens, final, step.target_truncated)
        elif operation.branch and operation.branch <= len(step.others):
            draft = step.others[operation.branch - 1]
            final, right = self._ends_alone if past else draft.final, draft.right
            result = Step(prefix, operation.role, draft.tokens, final, draft.truncated)
        else:
            final, right = self._ends_alone if past else step.draft_final, step.draft_right
            result = Step(prefix, operation.role, step.draft_tokens, final, step.draft_truncated)
        if right is not None:
            result.payload = facts_after(prefix, right)
        return result

    def verify(self, operation: Verify) -> Verdict:
        """Return the recorded verdict of this position, branch and role, at the operation's threshold.

        Raises
        ------
        ParameterError : the verifier's scores, or that many drafts of a position, were not recorded.
        """
        candidate, role, threshold = operation.candidate, operation.role, operation.threshold
        if role == RANDOM and candidate.depth < self._n:  # past the recorded end it refuses, so that the answer ends
            score = self._chance(f"chance/{operation.branch}", candidate.depth)
        elif (turned := self._turned(candidate, operation.branch)) is not None:
            return Verdict(turned, float(turned))
        else:
            step = self._at(candidate.depth)
            if role == JUDGE and threshold is None and not operation.branch:
                return Verdict(step.accepted, step.judge_score)
            draft = step.draft(operation.branch)
            if role == JUDGE and threshold is None:
                return Verdict(draft.accepted, draft.scores.get(JUDGE))
            score = draft.score(role)
        limit = OWN_THRESHOLDS.get(role, 0.5) if threshold is None else threshold
        return Verdict(score >= limit, score)

    def score(self, operation: Score) -> float:
        """Return the recorded score of this position, branch and role; target steps have none.

        Raises
        ------
        ParameterError : it was not recorded; scores of target steps never are, see `TraceBehaviour.beam_answer`.
        """
        if operation.candidate.role == TARGET:
            rule = "has no scores of target steps: replay methods that choose among candidates on recorded candidates"
            raise ParameterError("replay", operation.role, rule)
        turned = self._turned(operation.candidate, operation.branch)
        if turned is not None:
            return _CERTAIN if turned else _REFUSED
        return self._at(operation.candidate.depth).draft(operation.branch).score(operation.role)

    def choose(self, operation: Choose) -> Selection:
        """Return the candidate with the best recorded score of the role, the first on a tie; none below 0.

        Raises
        ------
        ParameterError : scores of the role were not recorded.
        """
        step = self._at(operation.candidates[0].depth)
        scores = [
            _REFUSED if self._turned(candidate, i) is False else step.draft(i).score(operation.role)
            for i, candidate in enumerate(operation.candidates)
        ]
        best = max(range(len(scores)), key=scores.__getitem__)
        return Selection(best if scores[best] >= 0.0 else None, scores[best])

    def written_lengths(self) -> list[int]:
        """Return the lengths of the target's steps by position, tokens."""
        return [step.target_tokens for step in self._steps]

    def judge_tokens(self, operation: Verify) -> int:
        """Return the recorded prompt length of the verifier."""
        return self._at(operation.candidate.depth).judge_tokens

    def score_tokens(self, operation: Score | Choose) -> int:
        """Return the tokens of the step or steps and of the recorded instructions."""
        steps = operation.candidates if isinstance(operation, Choose) else (operation.candidate,)
        return self.trace.score_overhead + sum(step.n_tokens for step in steps)

    def _turned(self, candidate: Step, branch: int) -> bool | None:
        """The verdict on a draft past the recorded end, or changed by a corrupted context; None: as recorded."""
        depth = candidate.depth
        if depth >= self._n:
            return None if self._ends_alone else False
        if not self._corruption or self._corrupted[depth]:
            return None
        assert candidate.parent is not None
        decides = is_corrupted(candidate.parent)
        decides = decides and self._chance(f"corruption/{branch}", depth) < abs(self._corruption)
        return self._corruption < 0.0 if decides else None

    def _chance(self, name: str, depth: int) -> float:
        return lot(0, f"replay/{name}", self._index, depth)


class BaselineAnswer(Answer):
    """Replay of the recorded answer of plain decoding, of one request where it is requested as a whole."""

    __slots__ = ("_tokens", "root", "trace")

    whole = True
    """Whether it is one request where it is requested as a whole."""

    def __init__(self, trace: AnswerTrace) -> None:
        if not trace.baseline:
            raise ParameterError("baseline", trace.baseline, f"must be recorded to be replayed ({trace})")
        self.trace = trace
        self._tokens = trace.baseline
        self.root = prompt(trace.prompt_tokens)

    def generate(self, operation: Generate) -> Step:
        """Return the recorded step of this position, or the last one of the answer if it is requested as a whole."""
        step, last = operation.prefix, len(self._tokens) - 1
        depths = range(step.depth + 1, len(self._tokens) if operation.whole else step.depth + 2)
        for depth in depths:
            step = Step(step, operation.role, self._tokens[depth], depth == last)
        return step

    def written_lengths(self) -> list[int]:
        """Return the lengths of the steps by position, tokens."""
        return list(self._tokens)
