"""Records of engines in a profile: raw timings, and sums of their work while answers were generated, and by load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from calibrate.record.fields import AtLeastOne, Count, Moment, NotNegative, Record, Seconds

__all__ = [
    "FIELD_OF_USE",
    "STEPWISE",
    "ClientsInUse",
    "DecodeSample",
    "EngineRecord",
    "InUse",
    "IterationSums",
    "JoinedSums",
    "LoadRecord",
    "LoadedSums",
    "PrefillSample",
    "PrefillSums",
    "RequestSums",
    "Sentinel",
    "Use",
    "Work",
    "as_json",
]

Use: TypeAlias = Literal["plain", "steps", "beams"]
"""Uses of an engine, which differ in caches, in other engines at work and in batch size, and so in times.

``plain``: plain decoding; ``steps``: steps in turns with another engine; ``beams``: many candidates at once.
"""

FIELD_OF_USE: Final[Mapping[Use, str]] = {"plain": "plain_in_use", "steps": "in_use", "beams": "beam_in_use"}
"""Use -> field of `EngineRecord` with the engine's work in that use; journals have the same names."""
STEPWISE: Final = "stepwise_in_use"
"""Field of `EngineRecord` and of journals with the work of a target without a draft, in a request for each step."""


class DecodeSample(Record):
    """One decode iteration of an engine."""

    batch: AtLeastOne
    """Sequences in the iteration."""
    context: Count
    """Cached tokens of all sequences together."""
    tokens: AtLeastOne = 1
    """New tokens per sequence (1 is plain decoding; more is the verification of a token draft)."""
    by: str = ""
    """Token-level method whose drafting is included in the time; empty: no drafting is."""
    seconds: Seconds


class PrefillSample(Record):
    """One prefill: ``tokens`` new prompt tokens after ``cached`` ones."""

    tokens: Count
    cached: Count = 0
    seconds: Seconds
    together: AtLeastOne = 1
    """Prompts that the same pass read; ``seconds`` is the time of the pass / this number."""
    beside: Count = 0
    """Sequences that decoded in the same pass; if > 0, ``seconds`` is the time that the prompts added to the pass."""


class IterationSums(NamedTuple):
    """Sums over iterations of one batch size; an array in files."""

    batch: AtLeastOne
    """Sequences in each."""
    n: Count
    cached_tokens: Count
    seconds: Seconds


class PrefillSums(NamedTuple):
    """Sums over prefills; an array in files."""

    n: Count
    tokens: Count
    """Prompt tokens that were not cached."""
    seconds: Seconds


_NONE: Final = IterationSums(1, 0, 0, 0.0)


class RequestSums(NamedTuple):
    """Sums over requests; an array in files."""

    n: Count
    seconds: Seconds
    """Seconds of the requests outside the engine."""


class Work(Record):
    """Sums over the work of an engine."""

    decode: list[IterationSums] = []
    """One entry per batch size."""
    passes: list[IterationSums] = []
    """One entry per batch size: passes in which a sequence speculated, drafting included."""
    prefill: PrefillSums = PrefillSums(0, 0, 0.0)
    waking: PrefillSums = PrefillSums(0, 0, 0.0)
    """The part of ``prefill`` that followed `sim.engines.batching.RESTED_S` or more without work."""
    joined: NotNegative = 0.0
    """Prefills of ``prefill`` that shared a pass with decoding sequences or other prompts (each of k prompts in a pass
    counts as 1 - 1/k)."""

    @property
    def seconds(self) -> float:
        """Seconds of iterations, passes and prefills."""
        return sum(sums.seconds for sums in (*self.decode, *self.passes)) + self.prefill.seconds

    def without(self, part: Work) -> Work:
        """Return the work without a part of it."""
        return Work(
            decode=_rest(self.decode, part.decode),
            passes=_rest(self.passes, part.passes),
            prefill=PrefillSums(*_less(self.prefill, part.prefill)),
            waking=PrefillSums(*_less(self.waking, part.waking)),
            joined=max(self.joined - part.joined, 0.0),
        )


class InUse(Work):
    """Work of an engine while one answer was generated, with cold caches and other engines at work, unlike a sweep."""

    request: RequestSums = RequestSums(0, 0.0)
    """Requests that did not overlap with another one of the same engine."""
    beside: Work | None = None
    """The part of ``decode`` and ``prefill`` during which another engine worked too; None if unknown."""
    shared_s: Seconds | None = None
    """Seconds of ``beside`` in which another engine worked; None if unknown: then all."""

    @property
    def undisturbed(self) -> Work:
        """The work during which no other engine worked; all work if that is unknown."""
        return self.without(self.beside or Work())

    @property
    def company_s(self) -> float:
        """Seconds of ``beside`` in which another engine worked; all of them if that is unknown."""
        if self.beside is None:
            return 0.0
        return self.beside.seconds if self.shared_s is None else self.shared_s


class ClientsInUse(InUse):
    """Work of an engine while several clients were answered by asynchronous lookahead reasoning at the same time."""

    clients: AtLeastOne
    in_flight: NotNegative
    """Answers in flight, mean over the time that all of them took; fewer than clients while the last ones end."""


def as_json(work: Mapping[str, InUse]) -> dict[str, Any]:
    """Return the work of engines by name as a journal holds it."""
    return {engine: did.model_dump(mode="json") for engine, did in work.items()}


def _rest(all_of: Sequence[IterationSums], part: Sequence[IterationSums]) -> list[IterationSums]:
    """Sums by batch size without those of a part; batch sizes of which nothing is left are dropped."""
    less = {sums.batch: sums for sums in part}
    rest = [IterationSums(own.batch, *_less(own[1:], less.get(own.batch, _NONE)[1:])) for own in all_of]
    return [own for own in rest if own.n]


def _less(all_of: tuple[int, int, float], part: tuple[int, int, float]) -> tuple[int, int, float]:
    """Number, tokens and seconds without those of a part."""
    return all_of[0] - part[0], all_of[1] - part[1], max(all_of[2] - part[2], 0.0)


class Sentinel(NamedTuple):
    """A reference measurement: a small fixed workload that was timed between two answers."""

    moment_s: Moment
    """Seconds since 1970."""
    iteration_s: Seconds
    """Median of its iterations."""


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
    """The largest number of answers that a pass decoded or read, but in one of twenty."""
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
    """Mean time from a request to its first token, of answers that began and ended in the window, else of all that
    ended; None: none ended."""
    passes: list[LoadedSums] = []
    joined: list[JoinedSums] = []

    @property
    def k2(self) -> int:
        """Most tokens that a pass commits to a sequence; 1 for plain decoding."""
        return int(self.settings.get("k2", 1))


class EngineRecord(Record):
    """Raw timings of one model server."""

    device: str
    """Name of the processor it runs on; engines of one device share it."""
    decode: list[DecodeSample]
    prefill: list[PrefillSample]
    request_s: list[Seconds]
    """Latency of a request outside the engine: round trip - prefill - iterations."""
    in_use: list[InUse] = []
    """Work for each answer by asynchronous lookahead reasoning, with k1 = 1, 2, 4 in turns; the fitted costs are scaled
    to it."""
    plain_in_use: list[InUse] = []
    """Work for each answer by plain decoding: one request to the target, and the draft step by step. Empty where it was
    not measured. Older profiles have the target's requests for single steps here (`stepwise`)."""
    stepwise_in_use: list[InUse] = []
    """Work for each answer by the target without a draft, in a request for each step, as in step-level methods."""
    beam_in_use: list[InUse] = []
    """Work for each answer with candidates, in groups of concurrent requests; a request latency is that of a group."""
    clients_in_use: list[ClientsInUse] = []
    """Work with several clients at a time, which have the engines work at the same time more often than one does."""
    by_load: list[LoadRecord] = []
    """Closed loops of whole answers, plain and by token-level methods, several of a load at different times; of the
    target's engine."""
    warmup_decode: list[DecodeSample] = []
    warmup_prefill: list[PrefillSample] = []
    sentinels: list[Sentinel] = []

    def work_in(self, use: Use) -> list[InUse]:
        """Return the work of the engine in a use, one entry per answer."""
        return cast("list[InUse]", getattr(self, FIELD_OF_USE[use]))

    @property
    def timed_methods(self) -> frozenset[str]:
        """Token-level methods whose own passes were timed, drafting included, by sweep or load."""
        return frozenset([*(sample.by for sample in self.decode), *(loop.method for loop in self.by_load)]) - {""}

    @property
    def stepwise(self) -> list[InUse]:
        """Work for each answer of an engine with a request for each step, while no other engine works."""
        if any(one.prefill.n for one in self.stepwise_in_use):  # a draft has entries without work
            return self.stepwise_in_use
        n_requests = sum(one.prefill.n for one in self.plain_in_use)
        return self.plain_in_use if n_requests > len(self.plain_in_use) else []
