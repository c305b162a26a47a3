"""Recorded answers, and what they tell of a pair of models: each worked out once, because a plan asks many times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from calibrate.record.answer_records import RecordedAnswer
from calibrate.replay.accuracy import Spoiling, spoiling
from calibrate.replay.corruption import known_corruption
from calibrate.replay.traces import traces_of
from sim.answers.traces import AnswerTrace
from sim.estimate import Estimate
from sim.operations import JUDGE

__all__ = ["Recorded"]


class Recorded:
    """The answers of a profile."""

    def __init__(self, answers: Sequence[RecordedAnswer]) -> None:
        self._answers = answers
        self._corruption: dict[tuple[str, float | None], tuple[str, Estimate] | None] = {}

    @cached_property
    def traces(self) -> tuple[AnswerTrace, ...]:
        """What is replayed."""
        return tuple(traces_of(self._answers))

    @cached_property
    def spoiling(self) -> Spoiling | None:
        """What a wrong step does to an answer; None where there is no ground truth."""
        return spoiling(self._answers)

    def corruption(self, role: str = JUDGE, threshold: float | None = None) -> tuple[str, Estimate] | None:
        """Return `calibrate.replay.corruption.known_corruption` of a verifier."""
        key = role, threshold
        if key not in self._corruption:
            self._corruption[key] = known_corruption(self._answers, role, threshold, traces=self.traces)
        return self._corruption[key]
