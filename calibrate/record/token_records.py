"""Records of token-level methods in a profile: passes of the target, and the numbers of right drafted tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from pydantic import model_validator

from calibrate.record.engine_records import PrefillSums, RequestSums
from calibrate.record.fields import AtLeastOne, Count, Record, Seconds

__all__ = ["NGramRecord", "PassSample", "PassSums", "TokenAnswer", "TokenRecord", "TokenRequest"]


class _Counts(Record):
    """Passes of the target, and how many of the drafted tokens were right, per position of the draft.

    Counts per position are *unconditional*: in ``accepted_at[i]`` passes the first i + 1 drafted tokens were all right.
    """

    passes: Count
    """Target passes in all, prefills not counted."""
    drafts: Count
    """Passes with a draft."""
    tokens: Count
    """Tokens that the passes committed in all, without tokens cut at the ends of texts."""
    drafted_at: list[Count]
    accepted_at: list[Count]
    """Per position: drafts of at least that length, and those right up to and including that position."""

    def _consistent(self, depth: int) -> Self:
        if len(self.drafted_at) != depth or len(self.accepted_at) != depth:
            raise ValueError("drafted_at and accepted_at need one entry per drafted position")
        if any(a > d for a, d in zip(self.accepted_at, self.drafted_at, strict=True)) or self.drafts > self.passes:
            raise ValueError("no more can be accepted than drafted, and no more drafts than passes be made")
        return self


class NGramRecord(_Counts):
    """Token acceptance of prompt lookup (n-gram), counted on the target's own answers."""

    max_ngram: AtLeastOne
    n_speculative: AtLeastOne

    @model_validator(mode="after")
    def _checked(self) -> Self:
        return self._consistent(self.n_speculative)


class PassSample(NamedTuple):
    """One target pass over a draft. It commits the right tokens and one more, cut where the text ends."""

    drafted: Count
    """Tokens."""
    right: Count
    """Number of right tokens before the first wrong one."""


class PassSums(NamedTuple):
    """Sums over target passes with the same batch and rows."""

    batch: AtLeastOne
    """Sequences in each pass."""
    rows: AtLeastOne
    """Tokens computed for each sequence."""
    n: Count
    cached_tokens: Count
    seconds: Seconds
    """Seconds of the passes, drafting included."""
    drafting_s: Seconds


class TokenRequest(Record):
    """One request decoded with token-level speculation."""

    tokens: AtLeastOne
    """Generated tokens, including the first one, of the prefill."""
    passes: list[PassSample] = []
    """Passes after the prefill, in order."""
    steps: list[Count] = []
    """Tokens generated up to the end of each of its steps; empty where it wrote one step."""


class TokenAnswer(Record):
    """One problem answered by the target with token-level speculation."""

    problem: str
    requests: list[TokenRequest]
    """One request for the answer; in older profiles one per step, in order."""
    decode: list[PassSums] = []
    """One entry per batch and rows."""
    prefill: PrefillSums = PrefillSums(0, 0, 0.0)
    """Prefills of the target; the time that a draft model takes to read the prompt counts with its first draft."""
    request: RequestSums = RequestSums(0, 0.0)


class TokenRecord(_Counts):
    """Counts and passes of a token-level method on the target, with its settings.

    Where ``answers`` are recorded, the counts were computed from them (`counted`).
    """

    method: str
    """Name in the catalogue of methods, e.g. ``prompt-lookup``."""
    settings: dict[str, int | float | str | bool]
    """Its knobs, including ``k2``: the most tokens that a pass can commit."""
    answers: list[TokenAnswer] = []

    @model_validator(mode="after")
    def _checked(self) -> Self:
        return self._consistent(self.k2 - 1)

    @property
    def k2(self) -> int:
        """Most tokens that a pass can commit."""
        return int(self.settings.get("k2", 1))

    @classmethod
    def counted(
        cls, method: str, settings: Mapping[str, int | float | str | bool], answers: Sequence[TokenAnswer]
    ) -> Self:
        """Return the record of answers, with counts computed from their passes.

        Raises
        ------
        ValueError : a pass drafted more than ``k2 - 1`` tokens.
        """
        requests = [request for answer in answers for request in answer.requests]
        passes = [sample for request in requests for sample in request.passes]
        positions = range(int(settings["k2"]) - 1)
        if any(not sample.right <= sample.drafted <= len(positions) for sample in passes):
            raise ValueError(f"a pass drafts at most k2 - 1 = {len(positions)} tokens, and no more are right")
        return cls(
            method=method,
            settings=dict(settings),
            passes=len(passes),
            drafts=sum(sample.drafted > 0 for sample in passes),
            tokens=sum(request.tokens - 1 for request in requests if request.passes),
            drafted_at=[sum(sample.drafted > i for sample in passes) for i in positions],
            accepted_at=[sum(sample.right > i for sample in passes) for i in positions],
            answers=list(answers),
        )
