"""Recorded answers, and cached estimates from them: a plan needs each many times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from calibrate.record.answer_records import RecordedAnswer
from calibrate.record.engine_records import Use
from calibrate.record.profile import Profile
from calibrate.replay.accuracy import Spoiling, spoiling
from calibrate.replay.corruption import corruption
from calibrate.replay.traces import trace_of
from sim.answers.traces import AnswerTrace
from sim.estimate import Estimate
from sim.roles import JUDGE, TARGET

__all__ = ["Recorded", "reread_tokens"]


class Recorded:
    """The answers of a profile."""

    def __init__(self, answers: Sequence[RecordedAnswer]) -> None:
        self._answers = answers
        self._corruption: dict[tuple[str, float | None], tuple[str, Estimate] | None] = {}

    @cached_property
    def traces(self) -> tuple[AnswerTrace, ...]:
        """The traces that are replayed."""
        return tuple(map(trace_of, self._answers))

    @cached_property
    def spoiling(self) -> Spoiling | None:
        """Effect of wrong steps on an answer; None where there is no ground truth."""
        return spoiling(self._answers)

    def corruption(self, role: str = JUDGE, threshold: float | None = None) -> tuple[str, Estimate] | None:
        """Return the role and its `corruption`; the judge and the judge's where its own verdicts do not suffice."""
        key = role, threshold
        if key not in self._corruption:
            each = ((who, corruption(self._answers, who, at, traces=self.traces)) for who, at in (key, (JUDGE, None)))
            self._corruption[key] = next(((who, known) for who, known in each if known is not None), None)
        return self._corruption[key]


def reread_tokens(profile: Profile, use: Use = "steps") -> float:
    """Return the mean number of tokens that a prefill of the target computes again, although they were known before.

    The last token of a step is not cached when the next step is requested, and a prefix cache of whole blocks (vLLM's)
    lacks some tokens before it. Counted in answers of the target without a draft, in a request for each step, where
    only the prompt is new; 0 where that was not recorded, and in plain decoding, whose answers are one request.
    """
    done = profile.engines[profile.placement[TARGET]].stepwise if use != "plain" else []
    n = sum(one.prefill[0] for one in done)
    if not n or len(done) != len(profile.answers):
        return 0.0
    new = sum(answer.prompt_tokens for answer in profile.answers)
    return max(sum(one.prefill[1] for one in done) - new, 0) / n
