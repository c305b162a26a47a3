"""What a profile holds of engines: raw timings, and in sums what they did while answers were made."""

from __future__ import annotations

from typing import Final, NamedTuple

from calibrate.record.fields import AtLeastOne, Count, Moment, NotNegative, Record, Seconds

__all__ = [
    "DecodeSample",
    "EngineRecord",
    "InUse",
    "IterationSums",
    "PrefillSample",
    "PrefillSums",
    "RequestSums",
    "Sentinel",
    "Work",
]


class DecodeSample(Record):
    """One decode iteration of an engine."""

    batch: AtLeastOne
    """Sequences in the iteration."""
    context: Count
    """Cached tokens of all of them together."""
    tokens: AtLeastOne = 1
    """New tokens per sequence (1 is plain decoding; more is the verification of a token draft)."""
    by: str = ""
    """Token-level method whose drafting is part of the time; empty: none's is."""
    seconds: Seconds


class PrefillSample(Record):
    """One prefill: ``tokens`` new prompt tokens after ``cached`` ones."""

    tokens: Count
    cached: Count = 0
    seconds: Seconds
    together: AtLeastOne = 1
    """Prompts that the same pass read; ``seconds`` is then its share."""
    beside: Count = 0
    """Sequences that decoded in the same pass; ``seconds`` is then what it took longer for the prompts."""


class IterationSums(NamedTuple):
    """Iterations of one batch size, in sums; sums are arrays in files."""

    batch: AtLeastOne
    """Sequences in each."""
    n: Count
    cached_tokens: Count
    seconds: Seconds


class PrefillSums(NamedTuple):
    """Prefills, in sums."""

    n: Count
    tokens: Count
    """Those that were not cached."""
    seconds: Seconds


_NONE: Final = IterationSums(1, 0, 0, 0.0)


class RequestSums(NamedTuple):
    """Requests, in sums."""

    n: Count
    seconds: Seconds
    """What they spent outside the engine."""


class Work(Record):
    """What an engine did, in sums."""

    decode: list[IterationSums] = []
    """One per batch size."""
    prefill: PrefillSums = PrefillSums(0, 0, 0.0)
    waking: PrefillSums = PrefillSums(0, 0, 0.0)
    """The part of ``prefill`` with which it began after a rest (`sim.engines.batching.RESTED_S`)."""
    joined: NotNegative = 0.0
    """How many of ``prefill`` joined a pass that was there anyway: sequences decoded in it, or other prompts
    were read (of k prompts that are read together, each counts as 1 - 1/k)."""

    @property
    def seconds(self) -> float:
        """Seconds of everything."""
        return sum(iterations.seconds for iterations in self.decode) + self.prefill.seconds

    def without(self, part: Work) -> Work:
        """Return what is left without a part of it."""
        less = {iterations.batch: iterations for iterations in part.decode}
        rest = [IterationSums(own.batch, *_less(own[1:], less.get(own.batch, _NONE)[1:])) for own in self.decode]
        return Work(
            decode=[own for own in rest if own.n],
            prefill=PrefillSums(*_less(self.prefill, part.prefill)),
            waking=PrefillSums(*_less(self.waking, part.waking)),
            joined=max(self.joined - part.joined, 0.0),
        )


class InUse(Work):
    """What an engine did while one answer was made: the work as it comes, caches cold and neighbours busy."""

    request: RequestSums = RequestSums(0, 0.0)
    """Requests that met no other of theirs."""

    beside: Work | None = None
    """The part of ``decode`` and ``prefill`` during which another engine worked too; None where that is not known."""

    shared_s: Seconds | None = None
    """Seconds of ``beside`` in which another engine worked; None where that is not known: all."""

    @property
    def undisturbed(self) -> Work:
        """What was done while no other engine worked at all; everything where that is not known."""
        return self.without(self.beside or Work())

    @property
    def company_s(self) -> float:
        """Seconds of ``beside`` in which another engine worked; all of them where that is not known."""
        if self.beside is None:
            return 0.0
        return self.beside.seconds if self.shared_s is None else self.shared_s


def _less(all_of: tuple[int, int, float], part: tuple[int, int, float]) -> tuple[int, int, float]:
    """Number, tokens and seconds without those of a part."""
    return all_of[0] - part[0], all_of[1] - part[1], max(all_of[2] - part[2], 0.0)


class Sentinel(NamedTuple):
    """A small piece of work, always the same, that was timed between two answers."""

    moment_s: Moment
    """Seconds since 1970."""
    iteration_s: Seconds
    """Median of its iterations."""


class EngineRecord(Record):
    """Raw timings of one model server."""

    device: str
    """Name of the processor it runs on; engines of one device share it."""
    decode: list[DecodeSample]
    prefill: list[PrefillSample]
    request_s: list[Seconds]
    """Latency of a request outside the engine's own work: round trip less prefill and iterations."""
    in_use: list[InUse] = []
    """One entry per answer, while asynchronous lookahead reasoning made it, with k1 = 1, 2, 4 in turns; the fit is
    scaled to it."""
    plain_in_use: list[InUse] = []
    """The same while it answered alone: the target, and then the draft; empty where that was not measured."""
    beam_in_use: list[InUse] = []
    """The same while candidates were surveyed, many requests at a time; their latency is that of a whole group."""
    warmup_decode: list[DecodeSample] = []
    warmup_prefill: list[PrefillSample] = []
    sentinels: list[Sentinel] = []
