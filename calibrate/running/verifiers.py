"""Verifiers, which decide whether a draft may replace the target's step: judge, embeddings, equal texts, or chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from calibrate.engines.protocol import Backend, Choice
from calibrate.engines.sampling import uniform
from calibrate.running.session import Reply
from sim.operations import Step, Verdict
from sim.roles import EMBEDDING, OWN_THRESHOLDS
from theory.errors import CalibrationError

__all__ = [
    "EmbeddingSimilarity",
    "Encodes",
    "ExactMatch",
    "Judged",
    "LlmJudge",
    "RandomAcceptance",
    "StepText",
    "Verifier",
    "step_text",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepText:
    """Payload of a step of a real run."""

    text: str
    """The step's own text, separator included."""
    token_ids: tuple[int, ...] | None
    """Its token ids, if the engine reported them."""
    tokenizer_id: str | None
    """Fingerprint of the tokenizer of ``token_ids``."""
    written_s: float | None = None
    """When its last token had arrived, s on the machine's monotonic clock; None: when its request ended."""


Judged: TypeAlias = Reply[Verdict, Choice | None]


class Verifier(Protocol):
    """Decides whether a draft step may replace a reference step."""

    async def verify(self, candidate: Step, reference: Step, *, judge: Backend | None, seed: int) -> Judged:
        """Return the verdict. ``judge`` is the backend of the operation's role; ``seed`` is the request's seed."""


def step_text(step: Step) -> str:
    """The text of a step without surrounding white space."""
    payload = step.payload
    assert isinstance(payload, StepText)
    return payload.text.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmJudge:
    """Prompts a model whether two steps mean the same; accepts if the probability of yes reaches a threshold."""

    prompt: Callable[[str, str], str]
    """Makes the prompt from the candidate's and the reference's text."""
    threshold: float = 0.5
    """Least probability of yes, given yes or no, at which a draft is accepted, in [0, 1]."""
    yes: str = " Yes"
    no: str = " No"

    async def verify(self, candidate: Step, reference: Step, *, judge: Backend | None, seed: int) -> Judged:
        """Judge by a forward pass; the score is the probability of yes."""
        if judge is None:
            raise CalibrationError("the LLM judge has no engine: give the clock a backend for the role 'judge'")
        choice = await judge.choose(self.prompt(step_text(candidate), step_text(reference)), (self.yes, self.no))
        score = choice.probability(self.yes)
        return Reply(Verdict(score >= self.threshold, score), choice)


class Encodes(Protocol):
    """Compares two texts by their embeddings: a model in a process (`Encoder`), or on a server (`EmbeddingServer`)."""

    async def cosine(self, first: str, second: str) -> float:
        """Return the cosine of two texts' embeddings, in [-1, 1]."""


@dataclass(frozen=True, slots=True)
class EmbeddingSimilarity:
    """Accepts a draft whose embedding is similar to the reference's: the score is their cosine, in [-1, 1].

    The cheap verifier of Lookahead Reasoning (section 4) and ConfSpec.
    """

    encoder: Encodes

    async def verify(self, candidate: Step, reference: Step, *, judge: Backend | None, seed: int) -> Judged:
        """Embed both texts and compare; ``judge`` is not used."""
        cosine = await self.encoder.cosine(step_text(candidate), step_text(reference))
        return Reply(Verdict(cosine >= OWN_THRESHOLDS[EMBEDDING], cosine), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactMatch:
    """Accepts a draft with the same text as the reference: then greedy speculation does not change the answer.

    Whether the steps end the answer is compared too.
    """

    async def verify(self, candidate: Step, reference: Step, *, judge: Backend | None, seed: int) -> Judged:
        """Compare the texts, and whether they end the answer."""
        same = candidate.payload.text == reference.payload.text and candidate.final == reference.final
        return Reply(Verdict(same, float(same)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomAcceptance:
    """Accepts with a fixed probability, for tests of a schedule independent of the models."""

    probability: float
    """In [0, 1]."""

    async def verify(self, candidate: Step, reference: Step, *, judge: Backend | None, seed: int) -> Judged:
        """Draw the verdict from the seed only: the same pair of steps has the same verdict in every schedule.

        The score is uniform too, so that a threshold t on it accepts a share of 1 - t.
        """
        drawn = uniform(seed, 0)
        return Reply(Verdict(drawn < self.probability, 1.0 - drawn), None)
