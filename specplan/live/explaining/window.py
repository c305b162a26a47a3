"""Work of a server between two readings of its metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np

from calibrate.engines.prometheus import BACK
from sim.estimate import Estimate
from specplan.live.explaining.reading import Reading
from theory.errors import SchemaError

__all__ = ["Window", "since_start", "spanned", "window", "windows", "work_of"]

_LEAST_ROUNDS: Final = 30
_TIMED: Final = dict.fromkeys(
    ("vllm", "sglang"), "buckets of latencies between tokens: save all that GET /metrics returns"
) | {
    "trtllm": "times of decoding: start it with return_perf_metrics: true",
    "llamacpp": "seconds of decoding: use a newer release",
}
"""What a page must have, and how it gets it, by engine."""


def spanned(
    ends: Sequence[float], stderr: float, n: float, how: str, *, unit: str = "", seed: int | None = None
) -> Estimate:
    """Return the estimate of the estimator ``how`` with the low end, the value and the high end of its interval."""
    low, value, high = ends
    return Estimate(value=value, stderr=stderr, low=low, high=high, n=round(n), estimator=how, unit=unit, seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Reading):
    """What counted between two readings, in tokens and seconds: requests are their mean, the cache's use the larger."""

    n_cold: float = 0.0
    """Prefills since the server's start that were cold starts; their times are not in ``histograms``."""

    @classmethod
    def of(cls, reading: Reading, **changed: Any) -> Self:
        """Return the window of a reading in which some of its fields are changed.

        Raises
        ------
        SchemaError : it has no latencies between tokens, or too few rounds.
        """
        made = cls(**{field.name: getattr(reading, field.name) for field in fields(Reading)} | changed)
        gaps, rule = made.histograms.get("gaps"), ""
        if gaps is None:
            rule = f"no {_TIMED[made.engine]}"
        elif made.generated <= 0.0 or gaps.count <= 0.0:
            rule = "no token was generated between the readings: read it while it answers"
        elif made.rounds < _LEAST_ROUNDS:
            rule = f"only {made.rounds:.0f} rounds between the readings, {_LEAST_ROUNDS} are needed: wait longer"
        if rule:
            raise SchemaError(f"{made.source}: {rule}")
        return made

    @property
    def generated(self) -> float:
        """Tokens generated."""
        return self.counters.get("generated", 0.0)

    @property
    def preempted(self) -> float:
        """Requests that were preempted."""
        return self.counters.get("preempted", 0.0)

    @property
    def answers(self) -> float:
        """Answers that began."""
        first = self.histograms.get("first")
        return first.count if first else 0.0

    @property
    def rounds(self) -> float:
        """Rounds of all sequences: passes of the target after prefill, each counted once per sequence."""
        gaps = self.histograms["gaps"]
        return gaps.count / self.committed if self.engine == "sglang" else gaps.count

    @property
    def drafted(self) -> float:
        """Mean tokens that a round drafts; 0 where the server does not report it (SGLang)."""
        return 0.0 if self.spec is None else self.spec.drafted / max(self.rounds, 1.0)

    @property
    def committed(self) -> float:
        """Mean tokens that a round commits to a sequence, >= 1."""
        if self.engine == "sglang":
            return self.accept_length if self.accept_length >= 1.0 else 1.0
        return max((self.generated - self.answers) / self.histograms["gaps"].count, 1.0)

    @property
    def round_s(self) -> float:
        """Mean seconds from one round of a sequence to the next."""
        return self.histograms["gaps"].total / self.rounds

    @property
    def iterations(self) -> float:
        """Passes of the engine, each over a whole batch; NaN where they are not counted."""
        passes = self.histograms.get("iterations")
        return passes.count if passes and passes.count else math.nan

    @property
    def batch(self) -> float:
        """Mean sequences in a round: rounds over passes where passes are counted, else running requests."""
        if math.isfinite(self.iterations):
            return max(self.rounds / self.iterations, 1.0)
        return max(self.running, 1.0)

    def mean(self, name: str) -> float:
        """Return the mean of a histogram; NaN where there is none, or it is empty."""
        histogram = self.histograms.get(name)
        return histogram.mean if histogram else math.nan

    @property
    def answer_s(self) -> float:
        """Seconds of answers for a token: until the first and between tokens; NaN where they are not reported."""
        first = self.histograms.get("first")
        return math.nan if first is None else (first.total + self.histograms["gaps"].total) / self.generated

    @property
    def prompt_tokens(self) -> float:
        """Mean tokens of a prompt; NaN without an answer."""
        return self.counters.get("prompt", math.nan) / self.answers if self.answers else math.nan

    @property
    def read_tokens(self) -> float:
        """Mean tokens of a prompt that were prefilled, without those in the prefix cache."""
        if not self.answers:
            return math.nan
        return max(self.counters.get("prompt", math.nan) - self.counters.get("cached", 0.0), 0.0) / self.answers

    @property
    def answer_tokens(self) -> float:
        """Mean tokens of an answer; NaN without any."""
        return self.generated / self.answers if self.answers else math.nan


def window(before: Reading, after: Reading) -> Window:
    """Return the work between two readings.

    Raises
    ------
    SchemaError : they are of different servers, in the wrong order, or with a restart between them; or there are too
        few rounds between them.
    """
    where = f"{before.source}, {after.source}"
    _check_same(before, after, where)
    spec = after.spec
    if spec is not None and before.spec is not None:
        try:
            spec = spec.since(before.spec)
        except SchemaError as error:
            raise SchemaError(f"{where}: {error}") from None
    lengths = [r.accept_length for r in (before, after) if r.accept_length >= 1.0]
    return Window.of(
        after,
        source=where,
        spec=spec,
        accept_length=math.fsum(lengths) / len(lengths) if lengths else math.nan,  # SGLang's are of its last batches
        counters={key: value - before.counters.get(key, 0.0) for key, value in after.counters.items()},
        histograms={
            key: histogram.since(before.histograms[key]) if key in before.histograms else histogram
            for key, histogram in after.histograms.items()
        },
        running=(before.running + after.running) / 2.0,
        waiting=(before.waiting + after.waiting) / 2.0,
        cache_usage=float(np.fmax(before.cache_usage, after.cache_usage)),
    )


def work_of(readings: Sequence[Reading]) -> Window:
    """Return the work between the first and the last reading; with a single one, since the server's start.

    Raises
    ------
    SchemaError : as `window` and `since_start`.
    """
    return since_start(readings[0]) if len(readings) == 1 else window(readings[0], readings[-1])


def windows(readings: Sequence[Reading]) -> list[Window]:
    """Return the work between neighbouring readings; windows with too few rounds are left out."""
    usable = []
    for before, after in pairwise(readings):
        try:
            usable.append(window(before, after))
        except SchemaError:
            continue  # the server was idle
    return usable


def since_start(reading: Reading) -> Window:
    """Return the work since the server's start, without the long prefills of cold starts.

    Raises
    ------
    SchemaError : there were too few rounds.
    """
    histograms, n_cold = dict(reading.histograms), 0.0
    if "prefill" in histograms:
        histograms["prefill"], n_cold = histograms["prefill"].without_cold_starts()
    if n_cold and "first" in histograms:
        histograms["first"], _ = histograms["first"].without_cold_starts()
    return Window.of(reading, histograms=histograms, n_cold=n_cold)


def _check_same(before: Reading, after: Reading, where: str) -> None:
    values = [(before.counters.get(key, 0.0), value) for key, value in after.counters.items()]
    for key, histogram in after.histograms.items():
        if key in before.histograms:
            values += [(before.histograms[key].count, histogram.count), (before.histograms[key].total, histogram.total)]
    fallen = any(new < old for old, new in values)
    rule = ""
    if before.engine != after.engine:
        rule = f"the first is of {before.engine}, the second of {after.engine}: give two readings of one server"
    elif before.models and after.models and before.models != after.models:
        names = f"{', '.join(sorted(before.models))} and {', '.join(sorted(after.models))}"
        rule = f"of different models ({names}): give two readings of one server"
    elif before.started != after.started and not (math.isnan(before.started) or math.isnan(after.started)):
        rule = "of two runs of the server, or of two servers behind one address: read one run twice"
    elif cut := before.names ^ after.names:
        which = "second" if cut & before.names else "first"
        rule = f"the {which} lacks {min(cut)}, which the other has: save all that GET /metrics returns"
    elif fallen and not any(new > old for old, new in values):
        rule = "every counter decreases: the files are swapped; give the earlier one first"
    elif fallen:
        rule = BACK
    if rule:
        raise SchemaError(f"{where}: {rule}")
