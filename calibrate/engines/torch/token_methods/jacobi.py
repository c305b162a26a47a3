"""Jacobi decoding: a block of guesses, all redrawn at once from the target until they converge.

The block contains guesses for the tokens after the current one. A pass draws a token at every position given the
guesses before it; as long as the guesses agree with the draws, these are the tokens of plain decoding and are committed
(Fu et al. 2024, Algorithm 2, which has a single block for the whole output; Santilli et al. 2023 decode in blocks). The
first draw never depends on a guess, so m tokens take at most m passes. The block slides: the draws after the committed
tokens are the guesses of the next pass, and the block is filled up at its end.

The paper has the greedy case. Sampling works in the same way: with a fixed uniform number per position, a draw is a
function of the tokens before it, plain decoding is the fixed point of that system, and the iteration converges to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibrate.engines.torch.token_methods.protocol import OneHot, Rows, Verdict

if TYPE_CHECKING:
    from calibrate.engines.torch.job import Job

__all__ = ["JacobiBlock", "JacobiDecoding"]


class JacobiBlock:
    """The guesses of a sequence.

    Parameters
    ----------
    window : guesses in the block, >= 1; a pass computes and commits at most ``window + 1`` tokens.
    prompt : prompt of the sequence; first guesses are drawn from its tokens.
    seed : seed of the first guesses; it affects the number of passes of a text, never the text.
    """

    def __init__(self, window: int, prompt: Sequence[int], *, seed: int = 0) -> None:
        self.window = window
        self._source: NDArray[np.int64] = np.unique(np.asarray(prompt, np.int64))
        self._random = np.random.default_rng(seed & (2**63 - 1))
        self.guesses = self._fill(window)

    def update(self, drawn: Sequence[int], committed: int) -> None:
        """Replace the guesses by the draws after the first ``committed`` ones."""
        rest = list(drawn[committed:])
        self.guesses = rest + self._fill(self.window - len(rest))

    def _fill(self, n: int) -> list[int]:
        guesses: list[int] = self._random.choice(self._source, n).tolist()
        return guesses


class JacobiDecoding(OneHot):
    """Jacobi decoding for the sequences of an engine, with ``Speculation.window`` guesses each."""

    def propose(self, jobs: Sequence[Job], room: Sequence[int]) -> list[Rows]:
        """The last token and the block of each job, cut to the rest of the request."""
        blocks = [self._block(job).guesses[: left - 1] for job, left in zip(jobs, room, strict=True)]
        return [Rows(ids=[job.tokens[-1], *g], n_drafted=len(g)) for job, g in zip(jobs, blocks, strict=True)]

    def follow(self, job: Job, rows: Rows, line: Sequence[int]) -> Verdict:
        """Commit the draws that do not depend on a wrong guess; the others are the next guesses."""
        verdict = super().follow(job, rows, line)
        self._block(job).update(line, len(verdict.tokens))
        return verdict

    def _block(self, job: Job) -> JacobiBlock:
        if job.memo is None:
            s = job.speculation
            assert s is not None
            job.memo = JacobiBlock(s.window, job.prompt, seed=job.seed)
        block: JacobiBlock = job.memo
        return block
