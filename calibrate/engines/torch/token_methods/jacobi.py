"""Jacobi decoding: a block of guesses, all redrawn at once from the target until they stand still.

The block holds guesses for the tokens behind the current one. A pass draws a token at every position given the guesses
before it; as far as the guesses agree with what is drawn, the draws are those of plain decoding and are committed
(Fu et al. 2024, Algorithm 2, which has one block for the whole output; Santilli et al. 2023 decode in blocks). The
first draw never depends on a guess, so m tokens take at most m passes. The block slides: what was drawn behind the
committed tokens are the next pass' guesses, and the block is filled up at its end.

The paper has the greedy case. Sampling needs nothing else: with one uniform number per position a draw is a fixed
function of the tokens before it, plain decoding is that system's fixed point, and the same iteration finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibrate.engines.torch.token_methods.protocol import OneHot, Rows, Verdict
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.engines.torch.job import Job

__all__ = ["JacobiBlock", "JacobiDecoding"]


class JacobiBlock:
    """The guesses of one sequence.

    Parameters
    ----------
    window : guesses in the block, >= 1; a pass feeds one token more, and commits at most that many.
    prompt : tokens that the sequence begins with; first guesses are drawn from them.
    seed : of the first guesses; it changes how many passes a text takes, never the text.

    Raises
    ------
    ParameterError : the window is below 1.
    """

    def __init__(self, window: int, prompt: Sequence[int], *, seed: int = 0) -> None:
        if window < 1:
            raise ParameterError("window", window, "must be an integer >= 1")
        self.window = window
        self._source: NDArray[np.int64] = np.unique(np.asarray(prompt, np.int64))
        self._random = np.random.default_rng(seed & (2**63 - 1))
        self.guesses = self._fill(window)

    def update(self, drawn: Sequence[int], committed: int) -> None:
        """Take what was drawn after the current token and each guess, of which the first ``committed`` are done."""
        rest = list(drawn[committed:])
        self.guesses = rest + self._fill(self.window - len(rest))

    def _fill(self, n: int) -> list[int]:
        guesses: list[int] = self._random.choice(self._source, n).tolist()
        return guesses


class JacobiDecoding(OneHot):
    """Jacobi decoding for the sequences of an engine; ``Speculation.window`` guesses each."""

    def propose(self, jobs: Sequence[Job], room: Sequence[int]) -> list[Rows]:
        """The last token and the block of each job, as much of it as the text may still take."""
        blocks = [self._block(job).guesses[: left - 1] for job, left in zip(jobs, room, strict=True)]
        return [Rows(ids=[job.tokens[-1], *g], n_drafted=len(g)) for job, g in zip(jobs, blocks, strict=True)]

    def follow(self, job: Job, asked: Rows, line: Sequence[int]) -> Verdict:
        """Commit what no longer depends on a wrong guess; the other draws are the next guesses."""
        verdict = super().follow(job, asked, line)
        self._block(job).update(line, len(verdict.tokens))
        return verdict

    def _block(self, job: Job) -> JacobiBlock:
        if job.memo is None:
            s = job.speculation
            assert s is not None
            job.memo = JacobiBlock(s.window, job.prompt, seed=job.seed)
        block: JacobiBlock = job.memo
        return block
