"""Scorers of single steps (SpecReason's grade, RSD's reward, SPECS' likelihood), and choosers among several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from calibrate.engines.protocol import Backend, Choice, Likelihood, TellsLikelihood
from calibrate.running.session import Reply
from calibrate.running.verifiers import StepText, step_text
from sim.operations import Selection, Step, steps_after
from theory.errors import CalibrationError, ParameterError

__all__ = [
    "DIGITS",
    "Chooser",
    "GradeChooser",
    "GradeScorer",
    "LikelihoodScorer",
    "PromptChooser",
    "Scorer",
    "general_choice_prompt",
    "general_score_prompt",
    "texts_before",
]

DIGITS: Final = tuple("0123456789")


class Scorer(Protocol):
    """Scores a step after its prefix."""

    async def score(self, candidate: Step, *, engine: Backend) -> Reply[float, Choice | Likelihood | None]:
        """Return the score, greater is better."""


class Chooser(Protocol):
    """Chooses one of several steps for a position, or none."""

    async def choose(self, candidates: Sequence[Step], *, engine: Backend) -> Reply[Selection, Choice]:
        """Return the selection."""


def texts_before(step: Step) -> tuple[str, list[str]]:
    """The question, and the texts of the steps between it and ``step``."""
    question, *before = map(step_text, steps_after(None, step)[:-1])
    return question, before


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeScorer:
    """Requests a one-token grade of a step after its prefix from a model."""

    prompt: Callable[[str, Sequence[str], str], str]
    """Makes the request from the question, the steps before, and the step."""
    grades: tuple[str, ...] = DIGITS
    """Replies, worst first; each a single token of the model."""
    reward: bool = False
    """Whether to return the expected grade / the best grade, in [0, 1]; else the likeliest grade, from 0."""

    async def score(self, candidate: Step, *, engine: Backend) -> Reply[float, Choice]:
        """Score by a forward pass; if the engine has cached the prefix, over the step only."""
        reply = await engine.choose(self.prompt(*texts_before(candidate), step_text(candidate)), self.grades)
        if self.reward:
            expected = sum(grade * p for grade, p in enumerate(reply.probabilities))
            return Reply(expected / (len(self.grades) - 1), reply)
        return Reply(float(self.grades.index(reply.best)), reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelihoodScorer:
    """Scores a step by its log likelihood after its prefix, nats; the end of the text does not count as a token.

    Probabilities are at the sampling temperature, but without top-p, under which many steps of another model would have
    probability 0.
    """

    temperature: float = 1.0
    """Divides the logits, > 0."""

    async def score(self, candidate: Step, *, engine: Backend) -> Reply[float, Likelihood | None]:
        """Score by a forward pass; if the engine has cached the prefix, over the step only.

        Raises
        ------
        CalibrationError : the engine does not compute likelihoods of a given text.
        """
        if not isinstance(engine, TellsLikelihood):
            raise CalibrationError(f"{engine.name} computes no likelihood of a given text, which this method needs")
        prompt, n_scored = _ids(candidate, engine)
        if not n_scored:  # the model ended the text at once: the empty text has probability 1
            return Reply(0.0, None)
        likelihood = await engine.likelihood(prompt, n_scored, temperature=self.temperature)
        return Reply(likelihood.total, likelihood)


def _ids(step: Step, engine: Backend) -> tuple[tuple[int, ...], int]:
    """The text up to the end of a step as token ids, and the number of ids of the step."""
    payloads: list[StepText] = [one.payload for one in steps_after(None, step)]
    own = [payload for payload in payloads if payload.tokenizer_id == engine.tokenizer_id]
    parts = [payload.token_ids for payload in own if payload.token_ids is not None]
    if len(parts) == len(payloads):
        return tuple(token for part in parts for token in part), len(parts[-1])
    texts = [payload.text for payload in payloads]
    whole, before = engine.encode("".join(texts)), engine.encode("".join(texts[:-1]))
    if whole is None or before is None:
        raise CalibrationError(f"{engine.name} has no tokenizer for a text whose likelihood is needed")
    return whole, len(whole) - len(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptChooser:
    """Shows a model all candidates, each with a letter, and requests the letter of the best one, or of none."""

    prompt: Callable[[str, Sequence[str], Sequence[str]], str]
    """Makes the request from the question, the steps before, and the candidates' texts."""
    letters: tuple[str, ...] = (" A", " B", " C", " D", " E", " F", " G", " H")
    """Replies for the candidates, in order; each a single token of the model."""
    none: str | None = " X"
    """The reply that refuses all candidates; ``None``: one candidate is always taken."""

    async def choose(self, candidates: Sequence[Step], *, engine: Backend) -> Reply[Selection, Choice]:
        """Choose by a forward pass over all candidates; the score is the probability of the reply.

        Raises
        ------
        ParameterError : more candidates than letters.
        """
        if len(candidates) > len(self.letters):
            raise ParameterError("width", len(candidates), f"must be at most {len(self.letters)}: no letters are left")
        replies = self.letters[: len(candidates)] + (() if self.none is None else (self.none,))
        question, before = texts_before(candidates[0])
        reply = await engine.choose(self.prompt(question, before, [step_text(c) for c in candidates]), replies)
        index = None if reply.best == self.none else self.letters.index(reply.best)
        refused = 0.0 if self.none is None else reply.probability(self.none)
        scores = tuple(reply.probability(letter) - refused for letter in replies[: len(candidates)])
        return Reply(Selection(index, reply.probability(reply.best), scores), reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeChooser:
    """Grades all candidates concurrently, and takes the best if its reward reaches a threshold.

    For models that grade a step but were not trained to answer with a letter. Grades are expectations, not the
    likeliest digits, so that ties are rare.
    """

    scorer: GradeScorer
    """Scorer of the candidates; its scores must be rewards in [0, 1]."""
    least: float = 0.7
    """Least reward at which the best candidate is taken, in [0, 1]."""

    async def choose(self, candidates: Sequence[Step], *, engine: Backend) -> Reply[Selection, Choice]:
        """Choose by a forward pass per candidate, batched by the engine; the score is the best reward.

        The reply is that for the chosen candidate, with the times of all requests together.
        """
        replies = await asyncio.gather(*(self.scorer.score(candidate, engine=engine) for candidate in candidates))
        scores = tuple(reply.result - self.least for reply in replies)
        best = max(range(len(scores)), key=scores.__getitem__)
        times = [reply.record.times for reply in replies]
        first, last = min(times, key=lambda t: t.prefill_start), max(times, key=lambda t: t.end)
        whole = replace(last, queued=first.queued, prefill_start=first.prefill_start)
        selection = Selection(best if scores[best] >= 0.0 else None, replies[best].result, scores)
        return Reply(selection, replace(replies[best].record, times=whole))


def general_score_prompt(question: str, before: Sequence[str], step: str) -> str:
    """Prompt an instruction-tuned model for a grade from 0 to 9, after the text, so that the text may be cached."""
    text = "\n\n".join((question, *before, step))
    return f"{text}\n\nHow good is the last step, from 0 (wrong) to 9 (right and useful)? Grade:"


def general_choice_prompt(question: str, before: Sequence[str], candidates: Sequence[str]) -> str:
    """Prompt an instruction-tuned model for the letter of the best candidate, for `PromptChooser`."""
    text = "\n\n".join((question, *before))
    listed = "\n".join(f"({letter}) {step}" for letter, step in zip("ABCDEFGH", candidates, strict=False))
    return f"{text}\n\nWhich of these is the best next step? X if all are wrong.\n{listed}\n\nAnswer:"
