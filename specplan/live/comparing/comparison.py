"""Speculation against plain decoding at a load: the evidence, the verdict, and which of the two runs next."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from statistics import median, median_low
from typing import Final

from sim.configuration import Configuration
from specplan.live.comparing.ratio import CLIP, Interval, Matched

__all__ = ["Comparison", "Verdict"]

_FIRST: Final = 2.0
"""Blocks for which the candidate runs while nothing is known."""
_GROWTH: Final = 2.5
"""What each pair that gains clearly multiplies them by: a change costs what a short run hardly earns. One that loses
clearly multiplies the blocks between trials, one at first, by the square."""
_BETWEEN: Final = 2.0
"""Blocks of plain decoding between such runs until a gain is certain: one is a pair with the run before, one with that
after, for the same changes."""
_LEAN: Final = (-3.0, 4.5)
"""Bounds of the clear pairs that count: the candidate waits for at most 244 blocks, and runs for at most 124."""
_SHARE: Final = 0.1
"""Share of the time that plain blocks and changes may cost while no gain is certain: fewer would tell it later."""
_DUE: Final = 0.1
"""Clear pairs by which each has to gain, 2 %: what does not is not worth the changes."""
_TRIAL: Final = 0.25
"""Share of the account that a trial may use while nothing gains, so that one that meets a stall is not the last."""
_RECENT: Final = 5
"""Latest blocks of plain decoding whose median tells its seconds per token, and changes: a stall in one does not.
Of two blocks the faster tells it: the one before a trial ends while others have changed."""
_WHOLE: Final = 0.9
"""Share of an answer's tokens that a side must have written for the answer to be its own."""


class Verdict(StrEnum):
    """What is known of speculation at a load."""

    UNKNOWN = "unknown"
    GAINS = "gains"
    LOSES = "loses"


class Comparison:
    """The comparison of a speculating configuration, the candidate, at a load.

    Attributes
    ----------
    speculating : whether the candidate runs, else plain decoding.
    verdict : what is known of it.
    changes : what the latest changes have cost, in blocks.
    seconds_per_token : of plain decoding in its latest blocks, s; None where it is not measured.
    decided : ratio of tokens per second at the latest decision, and the number of pairs behind it.
    """

    def __init__(self, candidate: Configuration) -> None:
        self.candidate = candidate
        self.speculating = False
        self.verdict = Verdict.UNKNOWN
        self.seconds_per_token: float | None = None
        self._speed, self._length, self._first = Matched(), Matched(), Matched()
        self._plain: deque[float] = deque(maxlen=_RECENT)
        self._parts = {False: (0, 0.0), True: (0, 0.0)}
        self.decided = (self.tokens_per_second, 0)
        self.changes = deque([0.0], maxlen=_RECENT)
        self._n_blocks = 0
        self._lean = 0.0
        self._broken = False

    @property
    def n_pairs(self) -> int:
        """Pairs of blocks since the evidence began."""
        return self._speed.n

    @property
    def credit(self) -> float:
        """Share of the account that a trial may use: a part of it, and all of it after a pair that gains clearly."""
        return _TRIAL + (1.0 - _TRIAL) * min(max(self._lean, 0.0), 1.0)

    @property
    def change(self) -> float:
        """What a change costs, in blocks; one that met a stall, or a server that never ran, does not tell it."""
        return max(median(self.changes), 0.0)

    @property
    def tokens_per_second(self) -> Interval:
        """Tokens per second of an answer."""
        return self._speed.interval

    @property
    def answers_per_second(self) -> Interval:
        """Answers per second at the same load: tokens per second over tokens per answer."""
        speed, lengths = self._speed.interval, self._length.interval
        return Interval(speed.value * lengths.value, speed.low * lengths.low, speed.high * lengths.high)

    @property
    def intervals(self) -> dict[str, Interval]:
        """All measured ratios by name; ``first_token_seconds``: seconds to the first text of an answer."""
        return {
            "tokens_per_second": self.tokens_per_second,
            "answers_per_second": self.answers_per_second,
            "first_token_seconds": self._first.interval,
        }

    def complete(self, pays: Callable[[float], bool]) -> None:
        """Choose what runs after a block that is complete: the same again, or the other side.

        ``pays`` says whether so many blocks may be lost. If not those of a change there and back, what has gained is
        not left to be measured, and what has not is not tried: it would not come to run.
        """
        self._n_blocks += 1
        growth, gained = _GROWTH**self._lean, self._lean > 0.0
        changes = 1.0 if self._lean >= 1.0 else 2.0  # what did not gain clearly may have to be left again
        if not self.speculating:
            least = _BETWEEN if gained and self.verdict is Verdict.UNKNOWN else growth**-2.0
        else:
            least = _FIRST * max(growth, 1.0)
            changes = 1.0 + changes if gained else 0.0
            if self.verdict is Verdict.UNKNOWN:
                least = min(least, (0.5 * _BETWEEN + 2.0 * self.change) / _SHARE)
        if self._n_blocks >= least and (not changes or pays(changes * self.change)):
            self.speculating, self._n_blocks, self._broken = not self.speculating, 0, False

    def stop(self) -> None:
        """Return to plain decoding; the waiting begins anew."""
        self.speculating, self._n_blocks = False, 0

    def broke_off(self) -> Verdict | None:
        """Return to plain decoding because of what was lost; return the verdict if it changed: no gain is known now."""
        self.stop()
        self._lean, self._broken = max(min(self._lean, 0.0) - 1.0, _LEAN[0]), True
        if self.verdict is not Verdict.GAINS:
            return None
        self.verdict = Verdict.UNKNOWN
        self._speed.restart()
        return self.verdict

    def measured(self, speculating: bool, tokens: int, seconds: float, least_s: float) -> Verdict | None:
        """Take in what was measured; return the verdict if it changed.

        Parameters
        ----------
        speculating : whether the candidate ran.
        tokens, seconds : of answers; >= 0.
        least_s : less time than that waits for more, s.
        """
        more, longer = self._parts[speculating]
        tokens, seconds = tokens + more, seconds + longer
        if seconds < least_s or not seconds > 0.0:
            self._parts[speculating] = tokens, seconds
            return None
        self._parts[speculating] = 0, 0.0
        if not speculating:
            if not tokens:
                return None
            self._plain.append(seconds / tokens)
            self.seconds_per_token = median_low(self._plain)
        ratio = self._speed.take(speculating, tokens, seconds)
        if ratio is None:
            return None
        longer = self.answers_per_second.high < 1.0  # fewer answers per second, as they are longer
        changed = self._judge(longer)
        clear = -1.0 if longer else min(max(math.log(max(ratio, 1e-9)) / CLIP - _DUE, -1.0), 1.0)
        known = min(self._lean, 0.0) if self.verdict is Verdict.LOSES else self._lean
        if not self._broken:  # the trial that was broken off has counted
            self._lean = min(max(known + clear, _LEAN[0]), _LEAN[1])
        return changed

    def ended(self, plain_tokens: int, own_tokens: int) -> None:
        """Take in an answer that ended by itself, with the tokens that either side wrote."""
        whole = plain_tokens + own_tokens
        if whole and max(plain_tokens, own_tokens) >= _WHOLE * whole:
            self._length.take(own_tokens > plain_tokens, 1.0, whole)

    def began(self, speculating: bool, seconds: float) -> None:
        """Take in the time to the first text of an answer, s."""
        self._first.take(speculating, max(seconds, 1e-9), 1.0)

    def _judge(self, longer: bool) -> Verdict | None:
        before = self.verdict
        gains, loses = self.tokens_per_second.low > 1.0, self.tokens_per_second.high < 1.0
        if longer:
            now = Verdict.LOSES
        elif gains and loses:  # it has changed: the claim that is new is the one that holds now
            now = Verdict.GAINS if before is Verdict.LOSES else Verdict.LOSES
        else:
            now = Verdict.GAINS if gains else Verdict.LOSES if loses else before
        if now is before:
            return None
        self.verdict, self.decided = now, (self.tokens_per_second, self.n_pairs)
        if before is not Verdict.UNKNOWN and not longer:
            self._speed.restart()
        return now
