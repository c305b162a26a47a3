"""Recorded answers, and what they tell of a pair of models: each worked out once, because a plan asks many times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from calibrate.record.answer_records import RecordedAnswer
from calibrate.record.profile import Profile
from calibrate.replay.accuracy import Spoiling, spoiling
from calibrate.replay.corruption import known_corruption
from calibrate.replay.traces import traces_of
from sim.answers.traces import AnswerTrace
from sim.estimate import Estimate
from sim.operations import JUDGE, TARGET

__all__ = ["Recorded", "reread_tokens"]


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


def reread_tokens(profile: Profile) -> float:
    """Return how many tokens a prefill of the target reads again on average, though they were read or written before.

    The token that ended a step is in no cache yet when the next one is asked for, and a prefix cache that keeps whole
    blocks (vLLM's) has lost some before it. Counted while the target answered alone, where only the prompt is new; 0
    where that was not recorded.
    """
    done = profile.engines[profile.placement[TARGET]].plain_in_use
    n = sum(one.prefill[0] for one in done)
    if not n or len(done) != len(profile.answers):
        return 0.0
    new = sum(answer.prompt_tokens for answer in profile.answers)
    return max(sum(one.prefill[1] for one in done) - new, 0) / n
