"""Replay of recorded candidates: the steps that both models proposed at every position, under another choice rule."""

from __future__ import annotations

from sim.answers.facts import facts_after
from sim.answers.traces import AnswerTrace, DraftTrace
from sim.operations import Choose, Generate, Score, Step, prompt
from sim.random_streams import lot
from sim.roles import LIKELIHOOD, RANDOM, TARGET
from sim.virtual_clock import Answer
from theory.errors import ParameterError

__all__ = ["BeamAnswer"]


class BeamAnswer(Answer):
    """Replay of the candidates that both models wrote at every position of one recorded answer.

    The candidates of a position are the recorded ones, whichever candidates were chosen before, and the answer has as
    many steps as the recorded one: the choice affects lengths, rewards and correctness, not the later candidates.
    """

    __slots__ = ("_index", "_n", "_seen", "_steps", "root", "trace")

    def __init__(self, trace: AnswerTrace, index: int = 0) -> None:
        if not trace.beams:
            rule = f"must be recorded to replay a choice among them: calibrate again ({trace})"
            raise ParameterError("candidates", 0, rule)
        self.trace = trace
        self._steps = trace.beams
        self._n = len(trace.beams)
        self._index = index
        self._seen: set[int] = set()
        self.root = prompt(trace.prompt_tokens)

    def _candidate(self, role: str, depth: int, branch: int) -> DraftTrace:
        position = self._steps[min(depth, self._n - 1)]
        listed = position.targets if role == TARGET else position.drafts
        if branch >= len(listed):
            rule = f"must be at most {len(listed)}, the recorded number of candidates per position and model"
            raise ParameterError("width", branch + 1, rule)
        return listed[branch]

    def generate(self, operation: Generate) -> Step:
        """Return the recorded candidate of this position, role and branch.

        Raises
        ------
        ParameterError : that many candidates were not recorded.
        """
        prefix = operation.prefix
        depth = prefix.depth + 1
        recorded = self._candidate(operation.role, depth, operation.branch)
        last = depth >= self._n - 1
        step = Step(prefix, operation.role, recorded.tokens, final=last, truncated=recorded.truncated)
        if recorded.right is not None:
            step.payload = facts_after(prefix, recorded.right)
        return step

    def score(self, operation: Score) -> float:
        """Return the role's recorded score of this candidate; for the role `RANDOM` a uniform random number.

        Raises
        ------
        ParameterError : no score of the role was recorded.
        """
        step, branch = operation.candidate, operation.branch
        if operation.role == RANDOM:
            return lot(0, f"replay/chance/{branch}", self._index, step.depth)
        return self._candidate(step.role, step.depth, branch).score(operation.role)

    def score_tokens(self, operation: Score | Choose) -> int:
        """Return the prompt tokens that are not in the cache of the scoring engine.

        Text that the target wrote, or has just read for its likelihood, is cached; a likelihood request reads it all.
        """
        if isinstance(operation, Choose):
            return self.trace.score_overhead + sum(step.n_tokens for step in operation.candidates)
        step = operation.candidate
        if operation.role == LIKELIHOOD:
            self._seen.add(id(step))
            return step.n_tokens
        known = step.role == TARGET or id(step) in self._seen
        return self.trace.score_overhead + (0 if known else step.n_tokens)
