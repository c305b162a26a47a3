"""Semantic similarity by sentence embeddings: the cheap verifier of Lookahead Reasoning (section 4) and ConfSpec."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from calibrate.backends.base import Backend
from calibrate.verifiers import Judgement, step_text
from sim.operations import EMBEDDING, OWN_THRESHOLDS, Step, Verdict
from theory.errors import CalibrationError, ParameterError

__all__ = ["EmbeddingSimilarity", "open_embedding"]


class EmbeddingSimilarity:
    """Accepts a draft whose embedding points the way of the reference's: the score is their cosine, in [-1, 1].

    Parameters
    ----------
    encoder : a sentence-transformers model.
    threshold : least cosine at which a draft is accepted, in [-1, 1].
    """

    def __init__(self, encoder: Any, *, threshold: float = OWN_THRESHOLDS[EMBEDDING]) -> None:
        if not -1.0 <= threshold <= 1.0:
            raise ParameterError("threshold", threshold, "must be in [-1, 1]")
        self._encoder = encoder
        self._threshold = threshold
        self._lock = asyncio.Lock()

    async def verify(self, candidate: Step, reference: Step, *, judge: Backend | None, seed: int) -> Judgement:
        """Embed both texts in a thread, one pair at a time: one model, one processor."""
        texts = [step_text(candidate), step_text(reference)]
        async with self._lock:
            cosine = await asyncio.to_thread(self._cosine, texts)
        return Judgement(verdict=Verdict(cosine >= self._threshold, cosine))

    def _cosine(self, texts: list[str]) -> float:
        a, b = self._encoder.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        return float(min(max(a @ b, -1.0), 1.0))


def open_embedding(folder: Path, *, threshold: float = OWN_THRESHOLDS[EMBEDDING]) -> EmbeddingSimilarity:
    """Open a sentence-embedding model from a local folder, on the CPU, without any network access.

    Raises
    ------
    CalibrationError : no such folder, or the extra ``embedding`` is not installed.
    """
    if not folder.is_dir():
        raise CalibrationError(f"embedding={str(folder)!r} must be the folder of a sentence-transformers model")
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise CalibrationError("sentence-transformers is missing: install the extra 'embedding'") from None
    encoder = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return EmbeddingSimilarity(encoder, threshold=threshold)
