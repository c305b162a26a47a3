"""Lookahead Decoding inside the torch engine: windows and pools of its sequences, kept from step to step.

Sequences are independent: each has its own rows, and a pass serves all of a batch, padded to the longest. A text is
generated step by step, with a request each, so the state of a finished request is kept for requests whose prompts
extend it: the next step, and, where the draft's version of a step replaces the target's, the step after it. A request
never uses n-grams of an earlier reply to its own prompt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from calibrate.engines.sampling import draw, uniform
from calibrate.engines.torch.token_methods.lookahead_decoding import LookaheadSequence
from calibrate.engines.torch.token_methods.protocol import Rows, TokenMethod, Verdict
from calibrate.record.prompt_lookup import common

if TYPE_CHECKING:
    from torch import Tensor

    from calibrate.engines.speculation import Speculation
    from calibrate.engines.torch.job import Job

__all__ = ["LookaheadDecoding", "Shelf"]

_SHELF: Final = 64


class Shelf:
    """The latest ``size`` states of finished requests, for requests whose prompts extend theirs."""

    def __init__(self, size: int = _SHELF) -> None:
        self._size = size
        self._kept: OrderedDict[tuple[int, ...], tuple[tuple[int, ...], LookaheadSequence]] = OrderedDict()
        """Text of a request -> its prompt, and its state."""

    def put(self, prompt: Sequence[int], text: Sequence[int], state: LookaheadSequence) -> None:
        """Keep the final state of a request; ``text`` begins with the prompt."""
        self._kept.pop(tuple(text), None)
        self._kept[tuple(text)] = tuple(prompt), state
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def find(self, prompt: Sequence[int], settings: Speculation) -> LookaheadSequence | None:
        """The state with the same settings whose text has the longest common prefix with the prompt.

        On a tie, the latest. Its own prompt must be a proper prefix of this prompt: then it has no text after this
        prompt, such as an earlier reply to it, and at most another version of its last step.
        """
        whole, best, most = tuple(prompt), None, -1
        for text, (own, state) in self._kept.items():
            if len(own) < len(whole) and state.settings == settings and whole[: len(own)] == own:
                shared = common(text, whole)
                if shared >= most:
                    best, most = state, shared
        return best


class LookaheadDecoding(TokenMethod):
    """Lookahead Decoding for the sequences of an engine; tokens are those that plain decoding draws with the same seed.

    Parameters
    ----------
    max_rows : most rows of a sequence in a pass; n-grams, then the window, are left out beyond that.
    """

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._shelf = Shelf()

    def propose(self, jobs: Sequence[Job], room: Sequence[int]) -> list[Rows]:
        """The window of each job, and the n-grams of its pool that begin with its last token."""
        return [self._state(job).propose(job.tokens[-1], self._max_rows) for job in jobs]

    def verify(self, jobs: Sequence[Job], rows: Sequence[Rows], logits: Tensor, hidden: Tensor) -> list[Verdict]:
        """The longest right n-gram of each job, and one more token."""
        likeliest: list[int] = logits.argmax(-1).tolist()
        verdicts, first = [], 0
        for job, seq in zip(jobs, rows, strict=True):
            end = first + len(seq.ids)
            own, best = logits[first:end], likeliest[first:end]
            verdicts.append(self._state(job).verify(seq, best, partial(_drawn, job, own, best)))
            first = end
        return verdicts

    def leave(self, job: Job) -> None:
        """Keep the state of a job that ended normally."""
        if job.memo is not None and job.finish:
            self._shelf.put(job.prompt, [*job.prompt, *job.tokens], job.memo)
        job.memo = None

    def _state(self, job: Job) -> LookaheadSequence:
        if job.memo is None:
            assert job.speculation is not None
            shelved = self._shelf.find(job.prompt, job.speculation)
            if shelved is None:
                job.memo = LookaheadSequence(job.speculation, job.prompt, seed=job.seed)
            else:
                job.memo = shelved.resumed(job.prompt, seed=job.seed)
        known: LookaheadSequence = job.memo
        return known


def _drawn(job: Job, logits: Tensor, likeliest: Sequence[int], row: int, depth: int) -> int:
    """The token after a row of a pass that plain decoding draws ``depth`` tokens after the committed ones."""
    if job.sampling.temperature == 0.0:
        return likeliest[row]
    return draw(logits[row : row + 1], [job.sampling], [uniform(job.seed, len(job.tokens) + depth)])[0]
