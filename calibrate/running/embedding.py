"""Semantic similarity by sentence embeddings: the cheap verifier of Lookahead Reasoning (section 4) and ConfSpec."""

from __future__ import annotations

from typing import Protocol

from calibrate.engines.protocol import Backend
from calibrate.running.session import Reply
from calibrate.running.verifiers import Judged, step_text
from sim.operations import EMBEDDING, OWN_THRESHOLDS, Step, Verdict

__all__ = ["EmbeddingSimilarity", "Encodes"]


class Encodes(Protocol):
    """Compares two texts by their embeddings: a model in a process (`Encoder`), or on a server (`EmbeddingServer`)."""

    async def cosine(self, first: str, second: str) -> float:
        """Return the cosine of two texts' embeddings, in [-1, 1]."""
        ...


class EmbeddingSimilarity:
    """Accepts a draft whose embedding is similar to the reference's: the score is their cosine, in [-1, 1].

    Parameters
    ----------
    encoder : the model.
    """

    def __init__(self, encoder: Encodes) -> None:
        self._encoder = encoder

    async def verify(self, candidate: Step, reference: Step, *, judge: Backend | None, seed: int) -> Judged:
        """Embed both texts and compare; ``judge`` is not used."""
        cosine = await self._encoder.cosine(step_text(candidate), step_text(reference))
        return Reply(Verdict(cosine >= OWN_THRESHOLDS[EMBEDDING], cosine), None)
