"""Records of a server by load: what its passes took while it wrote whole answers, so many at once."""

from __future__ import annotations

from typing import NamedTuple

from calibrate.record.fields import AtLeastOne, Count, NotNegative, Record, Seconds

__all__ = ["JoinedSums", "LoadRecord", "LoadedSums"]


class LoadedSums(NamedTuple):
    """Sums over passes in which no prompt was read, of the same batch and rows; an array in files."""

    batch: AtLeastOne
    """Sequences in each."""
    rows: AtLeastOne
    """Tokens computed for each sequence, mean over the sequences of a pass, rounded."""
    n: Count
    cached_tokens: Count
    """Cached tokens of all sequences, summed over the passes."""
    tokens: Count
    """Tokens committed to all sequences."""
    seconds: Seconds


class JoinedSums(NamedTuple):
    """Sums over passes that read the prompts of new requests, of the same batch and joiners; an array in files."""

    batch: Count
    """Sequences that decoded in each; 0: the pass read prompts only."""
    joiners: AtLeastOne
    """Prompts that each of them read."""
    reads: Count
    """Number of times that so many prompts were read."""
    n: Count
    """Passes; more than ``reads`` where prompts were read in parts."""
    cached_tokens: Count
    """Cached tokens of the sequences that decoded, summed over the reads."""
    prompt_tokens: Count
    """Prompt tokens read that were not cached."""
    tokens: Count
    """Tokens committed to the sequences that decoded."""
    seconds: Seconds


class LoadRecord(Record):
    """A closed loop of whole answers: so many clients, each sending its next request when its last answer is complete.

    Sums over passes are of the whole loop; the other figures are of its window, which opens when all clients are busy.
    """

    method: str = ""
    """Token-level method in the catalogue; empty: plain decoding."""
    settings: dict[str, int | float | str | bool] = {}
    """Its knobs, including ``k2``."""
    at_once: AtLeastOne
    """Clients: answers in flight."""
    running: NotNegative
    """Answers that a pass decoded or read, mean over the time of the window; fewer than ``at_once`` where requests
    waited."""
    most: AtLeastOne
    """The largest number of answers that a pass decoded or read."""
    queued: bool = False
    """Whether the server ran ``most`` answers at once at the most, and let others wait."""
    seconds: Seconds
    """Length of the window."""
    answers: Count
    """Answers that ended in the window."""
    tokens: Count
    """Tokens generated in the window."""
    prompt_tokens: Count
    answer_tokens: Count
    """Tokens of the prompts and answers of all answers that ended in the loop, ``ended`` in number."""
    ended: Count
    first_token_s: Seconds | None = None
    """Mean time from a request to its first token, of answers that were asked for and ended in the window, else of all
    that ended; None: none ended."""
    passes: list[LoadedSums] = []
    joined: list[JoinedSums] = []

    @property
    def k2(self) -> int:
        """Most tokens that a pass commits to a sequence; 1 for plain decoding."""
        return int(self.settings.get("k2", 1))

    @property
    def seconds_per_token(self) -> float | None:
        """Mean time between the tokens of an answer while it is decoded, s: by passes, joined ones too."""
        tokens = sum(one.tokens for one in self.passes) + sum(one.tokens for one in self.joined)
        busy = sum(one.batch * one.seconds for one in self.passes) + sum(one.batch * one.seconds for one in self.joined)
        return busy / tokens if tokens else None
