"""Who says how good a step is by itself (SpecReason's grade, RSD's reward), and which of several is best (SpecCoT)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from calibrate.backends.base import Backend, Choice
from calibrate.verifiers import step_text
from sim.operations import Selection, Step
from theory.errors import ParameterError

__all__ = [
    "DIGITS",
    "Chooser",
    "GradeScorer",
    "PromptChooser",
    "Scorer",
    "general_choice_prompt",
    "general_score_prompt",
    "texts_before",
]

DIGITS: Final = tuple("0123456789")


class Scorer(Protocol):
    """Says how good a step is."""

    async def score(self, candidate: Step, *, engine: Backend) -> tuple[float, Choice]:
        """Return the score, greater is better, and the reply behind it."""
        ...


class Chooser(Protocol):
    """Picks one of several steps for a position, or none."""

    async def choose(self, candidates: Sequence[Step], *, engine: Backend) -> tuple[Selection, Choice]:
        """Return the selection, and the reply behind it."""
        ...


def texts_before(step: Step) -> tuple[str, list[str]]:
    """The question, and the texts of the steps between it and ``step``."""
    texts: list[str] = []
    before = step.parent
    assert before is not None
    while before.parent is not None:
        texts.append(step_text(before))
        before = before.parent
    return step_text(before), texts[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeScorer:
    """Asks a model for a one-token grade of a step after the text before it."""

    prompt: Callable[[str, Sequence[str], str], str]
    """Makes the request from the question, the steps before, and the step."""

    grades: tuple[str, ...] = DIGITS
    """Replies, worst first; each one token of the model."""

    reward: bool = False
    """Whether to return the expected grade as a share of the best one, in [0, 1]; else the likeliest grade, from 0."""

    def __post_init__(self) -> None:
        if len(self.grades) < 2:
            raise ParameterError("grades", self.grades, "must be at least 2 replies")

    async def score(self, candidate: Step, *, engine: Backend) -> tuple[float, Choice]:
        """One forward pass; where the engine kept the text before the step, over the step alone."""
        reply = await engine.choose(self.prompt(*texts_before(candidate), step_text(candidate)), self.grades)
        if self.reward:
            expected = sum(grade * p for grade, p in enumerate(reply.probabilities))
            return expected / (len(self.grades) - 1), reply
        return float(self.grades.index(reply.best)), reply


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptChooser:
    """Shows a model all candidates under a letter each, and asks for the letter of the best one, or of none."""

    prompt: Callable[[str, Sequence[str], Sequence[str]], str]
    """Makes the request from the question, the steps before, and the candidates' texts."""

    letters: tuple[str, ...] = (" A", " B", " C", " D", " E", " F", " G", " H")
    """Replies that stand for the candidates, in order; each one token of the model."""

    none: str | None = " X"
    """The reply that refuses all of them; ``None``: one is always taken."""

    async def choose(self, candidates: Sequence[Step], *, engine: Backend) -> tuple[Selection, Choice]:
        """One forward pass over all candidates; the score is the probability of the reply.

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
        return Selection(index, reply.probability(reply.best)), reply


def general_score_prompt(question: str, before: Sequence[str], step: str) -> str:
    """Ask an instruction-tuned model for a grade from 0 to 9; it follows the text, so that a cache serves it."""
    text = "\n\n".join((question, *before, step))
    return f"{text}\n\nHow good is the last step, from 0 (wrong) to 9 (right and useful)? Grade:"


def general_choice_prompt(question: str, before: Sequence[str], candidates: Sequence[str]) -> str:
    """Ask an instruction-tuned model which candidate goes on best, as `PromptChooser` wants it."""
    text = "\n\n".join((question, *before))
    listed = "\n".join(f"({letter}) {step}" for letter, step in zip("ABCDEFGH", candidates, strict=False))
    return f"{text}\n\nWhich of these is the best next step? X if all are wrong.\n{listed}\n\nAnswer:"
