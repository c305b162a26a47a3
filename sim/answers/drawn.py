"""Behaviours: the models' answers (lengths, verdicts, scores), independent of the times at which they are generated.

A behaviour is a seeded stream of answers. The virtual clock queries each answer (length of a step, verdict on a draft);
its values are random draws indexed by answer, depth, role and branch, never by time or order of calls: all schedules,
widths and k1 use the same answers (common random numbers), and replays are exact.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sim.algorithms.rules import Rules
from sim.answers.acceptance import Acceptance
from sim.answers.facts import Quality, facts_after, is_corrupted
from sim.answers.lengths import Fixed, Lengths, Marginal
from sim.answers.replayed import TraceBehaviour
from sim.operations import Choose, Generate, Score, Selection, Step, Verdict, Verify, prompt
from sim.random_streams import lot, stream, uniforms
from sim.roles import DRAFT_LIKELIHOOD, GATE, LIKELIHOOD, RANDOM, SCORER, TARGET
from sim.virtual_clock import Answer
from theory.errors import ParameterError

__all__ = ["Behaviour", "DrawnAnswer", "QualityAnswer", "SyntheticBehaviour", "TraceBehaviour"]


_SCORES: Final = np.array([NormalDist().inv_cdf((i + 0.5) / 1000) for i in range(1000)])
"""Midpoints of 1000 quantiles: shares of a distribution are computed to 0.001."""

_YES, _NO = Verdict(True, 1.0), Verdict(False, 0.0)
_TOP = {SCORER: 9.0}
"""Score of an accepted step, 1 for other roles: drawn answers have no grades, only accepted and refused steps."""


class Behaviour(Protocol):
    """A stream of answers."""

    @property
    def seed(self) -> int | None:
        """Seed of the stream; ``None`` if nothing is drawn."""

    @property
    def n_answers(self) -> int | None:
        """Number of different answers; ``None`` if unlimited."""

    def answer(self, index: int) -> Answer:
        """Return the ``index``-th answer, for methods that speculate."""

    def baseline_answer(self, index: int) -> Answer:
        """Return the answer of plain decoding to the ``index``-th question."""

    def beam_answer(self, index: int) -> Answer:
        """Return the ``index``-th answer, for methods that choose among candidates of both models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticBehaviour:
    """Answers drawn from a model of lengths and acceptance; plain decoding has the same target steps."""

    lengths: Lengths
    """Step lengths of both models."""
    acceptance: Acceptance
    """Step acceptance."""
    steps: Marginal
    """Number of steps of an answer."""
    prompt_tokens: int = 0
    """Length of the prompt, tokens, >= 0."""
    judge_overhead_tokens: int = 0
    """Prompt tokens that a verifier reads in addition to the two steps, >= 0."""
    seed: int = 0
    """Seed of all streams, >= 0."""
    quality: Quality | None = None
    """How often steps are wrong; ``None`` where only time is of interest."""
    block: int = 1
    """Answers that share a stream of random numbers, >= 1: a large block is faster for many answers, slower for one."""

    def __post_init__(self) -> None:
        for name, least in (("prompt_tokens", 0), ("judge_overhead_tokens", 0), ("seed", 0), ("block", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ParameterError(name, value, f"must be an integer >= {least}")

    @property
    def n_answers(self) -> None:
        """None: the number of answers is unlimited."""
        return None

    def judged_under(self, rules: Rules) -> SyntheticBehaviour:
        """Return answers of which a schedule with ``rules`` accepts the share of drafts given by ``acceptance``.

        A published acceptance rate counts all positions, those that a schedule refuses unjudged because the step before
        was cut among the refused ones (LR's scripts for Table 1 refuse them, too). So more of the judged drafts pass.
        """
        if not rules.reject_after_truncation:
            return self
        judged, limit = 1.0, self.lengths.limit
        if limit is not None:  # a position follows a cut step: the draft's where it was accepted, else the target's
            alpha = self.acceptance.alpha
            draft, target = (float((of.at(_SCORES) > limit).mean()) for of in (self.lengths.draft, self.lengths.target))
            judged -= alpha * draft + (1.0 - alpha) * target
        alpha = min(self.acceptance.alpha / judged, 1.0) if judged > 0.0 else 1.0
        return replace(self, acceptance=replace(self.acceptance, alpha=alpha))

    def answer(self, index: int) -> DrawnAnswer:
        """Return the ``index``-th answer."""
        return _drawn(self, index)

    def baseline_answer(self, index: int) -> DrawnAnswer:
        """Return the same answer: plain decoding writes the same target steps."""
        return self.answer(index)

    def beam_answer(self, index: int) -> DrawnAnswer:
        """Return the same answer: the draws of a position do not depend on the candidates chosen before it."""
        return self.answer(index)


@lru_cache(maxsize=256)
def _drawn(behaviour: SyntheticBehaviour, index: int) -> DrawnAnswer:
    """An answer, cached: all configurations that are compared run on the same one."""
    quality = behaviour.quality
    return DrawnAnswer(behaviour, index) if quality is None else QualityAnswer(behaviour, index, quality)


class DrawnAnswer:
    """An answer of a `SyntheticBehaviour`; values are drawn when they are first needed."""

    def __init__(self, behaviour: SyntheticBehaviour, index: int) -> None:
        self._behaviour = behaviour
        self.index = index
        seed, lengths = behaviour.seed, behaviour.lengths
        if isinstance(behaviour.steps, Fixed):  # a stream takes as long as the lengths of some steps
            n_steps = behaviour.steps.n
        else:
            n_steps = int(behaviour.steps.at(stream(seed, "steps", index).standard_normal(1))[0])
        self._last = n_steps - 1
        self._limit = sys.maxsize if lengths.limit is None else lengths.limit  # compared faster than with a float
        self._scores = lengths.target_scores(seed, index, n_steps, behaviour.block)
        self._target: list[int] = lengths.target.at(self._scores).tolist()
        self._drafts: list[list[int]] = []
        self._verdicts: list[list[bool]] = []
        self._others: dict[int, tuple[list[int], list[bool]]] = {}
        self._first: tuple[NDArray[np.bool_], NDArray[np.float64]] | None = None
        self.root = prompt(behaviour.prompt_tokens)

    @property
    def n_steps(self) -> int:
        """Number of steps of the answer."""
        return self._last + 1

    def generate(self, operation: Generate) -> Step:
        """Return the step that the role writes at this position."""
        prefix = operation.prefix
        depth = prefix.depth + 1
        role = operation.role
        if role == TARGET:
            n_tokens = (self._target_candidates(operation.branch)[0] if operation.branch else self._target)[depth]
        else:
            try:
                n_tokens = self._drafts[operation.branch][depth]
            except IndexError:  # not drawn yet; cheaper than a check on every call
                first = len(self._drafts)
                self._drafts += [self.draft_lengths(one) for one in range(first, operation.branch + 1)]
                n_tokens = self._drafts[operation.branch][depth]
        if n_tokens > self._limit:
            return Step(prefix, role, self._limit, depth == self._last, True)
        return Step(prefix, role, n_tokens, depth == self._last)

    def verify(self, operation: Verify) -> Verdict:
        """Return the verdict drawn for this position and branch; acceptance does not depend on the threshold."""
        if operation.role == RANDOM:
            return _chance(self._behaviour.seed, self.index, operation)
        try:  # `_passes`, inlined
            return _YES if self._verdicts[operation.branch][operation.candidate.depth] else _NO
        except IndexError:
            return _YES if self._passes(operation.candidate, operation.branch) else _NO

    def _passes(self, candidate: Step, branch: int) -> bool:
        try:
            return self._verdicts[branch][candidate.depth]
        except IndexError:
            self._verdicts += [self.accepted(one) for one in range(len(self._verdicts), branch + 1)]
            return self._verdicts[branch][candidate.depth]

    def score(self, operation: Score) -> float:
        """Return the top score for a step that is drawn to be accepted, else 0; 0 for likelihoods, which are not drawn.

        Each further candidate that the target writes at a position is drawn like a further draft of it.
        """
        role, branch = operation.role, operation.branch
        if role == RANDOM:
            return lot(self._behaviour.seed, f"chance/{branch}", self.index, operation.candidate.depth)
        if role in (LIKELIHOOD, DRAFT_LIKELIHOOD):
            return 0.0
        if operation.candidate.role == TARGET:
            return _TOP.get(role, 1.0) * self._target_candidates(branch)[1][operation.candidate.depth]
        return _TOP.get(operation.role, 1.0) if self._passes(operation.candidate, operation.branch) else 0.0

    def choose(self, operation: Choose) -> Selection:
        """Choose the first candidate, in the order of branches, that is drawn to be accepted, if any."""
        passing = (i for i, step in enumerate(operation.candidates) if self._passes(step, i))
        return Selection(next(passing, None))

    def score_tokens(self, operation: Score | Choose) -> int:
        """Return the tokens of the step or steps, and of the instructions."""
        steps = operation.candidates if isinstance(operation, Choose) else (operation.candidate,)
        return self._behaviour.judge_overhead_tokens + sum(step.n_tokens for step in steps)

    def judge_tokens(self, operation: Verify) -> int:
        """Return the tokens of both steps, and the verifier's instructions."""
        overhead = self._behaviour.judge_overhead_tokens
        return overhead + operation.candidate.n_tokens + operation.reference.n_tokens

    def _target_candidates(self, branch: int) -> tuple[list[int], list[bool]]:
        """Lengths of another target step at every position, and whether it is accepted; its draws use branch < 0."""
        others = self._others.get(branch)
        if others is None:
            lengths, as_draft = self._behaviour.lengths, -1 - branch
            scores = self._draft_scores(as_draft)
            others = self._others[branch] = lengths.target.at(scores).tolist(), self.accepted(as_draft)
        return others

    def target_lengths(self) -> list[int]:
        """Return the lengths of the target's steps by position, tokens, before any limit."""
        return self._target

    def written_lengths(self) -> list[int]:
        """Return the lengths of the target's steps by position, tokens, at most the limit."""
        return [min(length, self._limit) for length in self._target]

    def draft_lengths(self, branch: int = 0) -> list[int]:
        """Return the lengths of a branch's drafts by position, tokens, before any limit."""
        result: list[int] = self._behaviour.lengths.draft.at(self._draft_scores(branch)).tolist()
        return result

    def _draft_scores(self, branch: int) -> NDArray[np.floating[Any]]:
        behaviour = self._behaviour
        return behaviour.lengths.draft_scores(behaviour.seed, self.index, self._scores, branch, behaviour.block)

    def accepted(self, branch: int = 0) -> list[bool]:
        """Return whether a branch's draft is accepted, by position."""
        behaviour = self._behaviour
        if self._first is None:
            self._first = behaviour.acceptance.first(behaviour.seed, self.index, self.n_steps, behaviour.block)
        first, probability = self._first
        if branch == 0:
            result: list[bool] = first.tolist()
        else:
            drawn = behaviour.acceptance.sibling(
                behaviour.seed, self.index, branch, first, probability, behaviour.block
            )
            result = drawn.tolist()
        return result


class QualityAnswer(DrawnAnswer):
    """An answer whose steps are right or wrong, with a gate that is confident about a verdict or not."""

    def __init__(self, behaviour: SyntheticBehaviour, index: int, quality: Quality) -> None:
        super().__init__(behaviour, index)
        self._quality = quality
        self._drawn: dict[str, NDArray[np.float64]] = {}

    def generate(self, operation: Generate) -> Step:
        """Return the step with its facts; a draft that the verifier would refuse counts as wrong."""
        step = super().generate(operation)
        if operation.role == TARGET:
            name = f"target/{operation.branch}" if operation.branch else "target"
            right = not self._below(name, step.depth, self._quality.wrong_target)
        else:
            judged = super()._passes(step, operation.branch)
            right = judged and not self._below(f"accepted/{operation.branch}", step.depth, self._quality.wrong_accepted)
        step.payload = facts_after(operation.prefix, right)
        return step

    def verify(self, operation: Verify) -> Verdict:
        """Return the verdict drawn for this position, branch and role."""
        if operation.role == RANDOM:
            return super().verify(operation)
        depth, branch, quality = operation.candidate.depth, operation.branch, self._quality
        accepted = self._passes(operation.candidate, branch)
        if operation.role != GATE:
            return _YES if accepted else _NO
        if self._below(f"gate/unsure/{branch}", depth, quality.escalation):
            return Verdict(accepted, 0.5)
        if self._below(f"gate/error/{branch}", depth, quality.gate_error):
            accepted = not accepted
        return _YES if accepted else _NO

    def _passes(self, candidate: Step, branch: int) -> bool:
        if not super()._passes(candidate, branch):
            return False
        assert candidate.parent is not None
        lost = is_corrupted(candidate.parent) and self._quality.corruption > 0.0
        return not (lost and self._below(f"corruption/{branch}", candidate.depth, self._quality.corruption))

    def _below(self, name: str, depth: int, share: float) -> bool:
        """Whether the uniform number drawn for a position is below ``share``."""
        if share <= 0.0:
            return False
        drawn = self._drawn.get(name)
        if drawn is None:
            seed, block = self._behaviour.seed, self._behaviour.block
            drawn = self._drawn[name] = uniforms(seed, f"quality/{name}", self.index, self.n_steps, block)
        return bool(drawn[depth] < share)


def _chance(seed: int, index: int, operation: Verify) -> Verdict:
    """Accept by chance: the score is uniform, so that a threshold t accepts a share of 1 - t."""
    score = lot(seed, f"chance/{operation.branch}", index, operation.candidate.depth)
    return Verdict(score >= (0.5 if operation.threshold is None else operation.threshold), score)
