"""Speculation by an EAGLE head inside the torch engine: drafts generated from the target's hidden states.

The head reads the target's hidden states of all committed text, as passes and prefills compute them, and then drafts
from its own outputs. Its own outputs are dropped from its cache after each draft, since the verification computes the
target's hidden states. Drafts are verified like those of a draft model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from calibrate.engines.torch.token_methods.draft_model import DraftModel, text_from
from calibrate.engines.torch.token_methods.protocol import Rows, Verdict
from calibrate.engines.torch.token_pass import CHUNK, read_tokens

if TYPE_CHECKING:
    import torch

    from calibrate.engines.torch.job import Job, Limits
    from calibrate.engines.torch.token_methods.eagle_head import HeadDecoder

__all__ = ["EagleHead"]

_FEW: Final = 16
"""Most tokens that a row reads in a pass with other rows, which are padded; longer texts are read separately."""
_UNKNOWN: Final = -1


class EagleHead(DraftModel):
    """An EAGLE head, for all sequences that use it; the parameters are those of `DraftModel`.

    Its cache identifies slot i by the token at i + 1. The first token of a text is thus not compared when a cached
    prefix is reused: after another first token the head drafts from slightly wrong hidden states; the target verifies.
    """

    def __init__(self, decoder: HeadDecoder, limits: Limits, max_context: int) -> None:
        super().__init__(decoder, limits, max_context)
        self._features: dict[Job, torch.Tensor] = {}
        """Hidden states of the target that the head has not read yet: those of the slots after the cached ones."""

    def join(self, job: Job, n_cached: int) -> int:
        """Assign a row to the job; prompt tokens that the target has cached but the head has not are computed again."""
        prompt = [*job.prompt[1:], _UNKNOWN]
        self.cache.reserve(len(prompt))
        known = self.cache.admit(prompt)
        self._jobs.append(job)
        self._features[job] = self._nothing()
        return min(n_cached, known)

    def read(self, job: Job, first: int, hidden: torch.Tensor) -> None:
        """Keep the hidden states of the prompt after the end of the head's cache."""
        n = int(self.cache.length[self._jobs.index(job)]) + len(self._features[job])
        self._add(job, hidden[max(n - first, 0) :])

    def verify(
        self, jobs: Sequence[Job], rows: Sequence[Rows], logits: torch.Tensor, hidden: torch.Tensor
    ) -> list[Verdict]:
        """Verify like drafts of a model, and keep the hidden states of committed tokens."""
        verdicts = super().verify(jobs, rows, logits, hidden)
        first = 0
        for job, seq, verdict in zip(jobs, rows, verdicts, strict=True):
            self._add(job, hidden[first : first + 1 + verdict.n_accepted])
            first += len(seq.ids)
        return verdicts

    def leave(self, job: Job) -> None:
        """End a job's row, and drop hidden states that the head has not read."""
        super().leave(job)
        self._features.pop(job, None)

    def _nothing(self) -> torch.Tensor:
        import torch

        return torch.empty(0, self.decoder.hidden_size, dtype=self.decoder.dtype, device=self.decoder.device)

    def _add(self, job: Job, hidden: torch.Tensor) -> None:
        import torch

        self._features[job] = torch.cat((self._features[job], hidden))

    def _write(self, wanted: Sequence[int]) -> tuple[list[list[int]], list[torch.Tensor]]:
        if not any(wanted):
            return [[] for _ in wanted], []
        few = _FEW if len(self._jobs) > 1 else CHUNK
        for row, job in enumerate(self._jobs):
            while len(self._features[job]) > few:
                unread = self._unread(row, job)
                n = min(len(unread.ids) - 1, CHUNK)  # the draft begins after the last token
                assert unread.features is not None
                read_tokens(self.decoder, self.cache, row, unread.ids[:n], unread.features[:n])
                self._features[job] = unread.features[n:]
        drafted = super()._write(wanted)
        for row, job in enumerate(self._jobs):
            self.cache.truncate(row, len(job.prompt) + len(job.tokens) - 1)
            self._features[job] = self._nothing()
        return drafted

    def _unread(self, row: int, job: Job) -> Rows:
        """The tokens that are not in the row yet, and the hidden states before them."""
        return Rows(ids=text_from(job, int(self.cache.length[row]) + 1), features=self._features[job])

    def _drafted(self, drafts: Sequence[list[int]], ends: torch.Tensor) -> list[Rows]:
        """The latest drafted token of each row, and the head's prediction of the hidden state before it."""
        return [Rows(ids=draft[-1:], features=ends[row : row + 1]) for row, draft in enumerate(drafts)]
