"""The policy of a gateway that measures: plain decoding until speculation is known to gain, trials within a budget.

At each load all answers in flight run either plain decoding or the load's candidate, in blocks (`blocks`). Matched
blocks give an interval of the ratio of their tokens per second (`ratio`), which is what is said. What runs follows the
pairs at once: as they gain, the candidate runs for longer between blocks of plain decoding, and as they lose, it is
tried less (`comparison`). That is safe as, whatever is believed, speculation stops as soon as it has lost more than a
small budget (`budget`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Final

from sim.configuration import Configuration
from specplan.live.comparing.blocks import Block, Meter
from specplan.live.comparing.budget import Budget
from specplan.live.comparing.comparison import Comparison, Verdict

__all__ = ["Measured", "block_answers", "load_class"]

_BLOCK: Final = 1.0
"""Work of a block, in plain answers; with more than four in flight, a quarter of an answer of each."""
_LONGEST_UNIT: Final = 1024
"""Tokens of a longer answer count as so many answers of this length."""
_RECENT: Final = 64
"""Latest answers of which the mean length is taken."""
_LOOK: Final = 1.0 / 16.0
_SOONEST_S: Final = 0.02
"""Share of a plain answer's time after which it is looked again what is lost, and the least such time, s."""
_LEAST_ENDED: Final = 2
"""Answers that must have ended before lengths are known, and no fewer than are in flight."""


def load_class(in_flight: int) -> int:
    """Return the power of two that is nearest by ratio: answers in flight of a class are compared with each other.

    >>> [load_class(n) for n in (1, 2, 3, 5, 6, 8, 11, 12)]
    [1, 2, 4, 4, 8, 8, 8, 16]
    """
    return int(2 ** round(math.log2(max(in_flight, 1))))


def block_answers(load: int) -> float:
    """Work of a block, in plain answers."""
    return max(_BLOCK, load / 4.0)


class Measured:
    """Decides which configuration runs from what was measured.

    Parameters
    ----------
    candidate : returns the speculating configuration at so many answers in flight; ``plain`` where none is tried.
    plain : plain decoding.
    tell : called with a line for each decision.

    Attributes
    ----------
    comparisons : by class of load.
    budget : what speculation has lost.
    """

    def __init__(
        self,
        candidate: Callable[[int], Configuration],
        plain: Configuration,
        *,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.comparisons: dict[int, Comparison] = {}
        self.budget = Budget()
        self._candidate = candidate
        self._plain = plain
        self._tell = tell
        self._meter = Meter(self._ended)
        self._lengths: deque[int] = deque(maxlen=_RECENT)
        self._unit = 0.0
        """Tokens of the answer in which work is counted; 0 before some have ended."""

    def wanted(self, in_flight: int, now: float, *, without: bool = False) -> Configuration:
        """Return what runs from now on.

        Parameters
        ----------
        in_flight : answers in flight, >= 0.
        now : s on a monotonic clock.
        without : whether a helper of the candidate gets no requests now.
        """
        load = load_class(in_flight)
        comparison = self._comparison(load)
        if comparison is None:
            self._meter.aim(load, self._plain)
            return self._plain
        block, anew = self._meter.block, False
        if block is not None and block.load == load:
            if block.configuration != self._plain and not self._may_lose(comparison, in_flight, now):
                rest = "" if comparison.broke_off() is None else "; whether it gains is unknown again"
                self._tell(
                    f"at {load} in flight {comparison.candidate.name} pauses: it lost what trials may lose{rest}"
                )
            elif self._is_complete(block, comparison, now):
                comparison.seconds_per_token = comparison.seconds_per_token or block.seconds_at(now) / block.tokens
                comparison.complete(lambda blocks: self.budget.pays(blocks * block_answers(load), max(in_flight, 1)))
                anew = True
                if comparison.speculating and block.configuration == self._plain:
                    self.budget.begins()
        if comparison.speculating and (without or not self._may_lose(comparison, in_flight, now)):
            comparison.stop()
        configuration = comparison.candidate if comparison.speculating else self._plain
        if block is not None and block.configuration != configuration:
            comparison.changes.append(0.0)
        self._meter.aim(load, configuration, anew=anew)
        return configuration

    def over(self, configuration: Configuration, in_flight: int, now: float) -> bool:
        """Return whether an answer must leave a speculating configuration at once, within a step."""
        comparison = self._comparison(load_class(in_flight))
        if configuration == self._plain:
            return False
        if comparison is None or comparison.seconds_per_token is None:
            return self.budget.full
        return self.budget.over(*self._in_progress(comparison, in_flight, now))

    @property
    def look_s(self) -> float:
        """Seconds after which to call `over` again."""
        known = [one.seconds_per_token for one in self.comparisons.values() if one.seconds_per_token is not None]
        return max(_LOOK * self._unit * min(known, default=0.0), _SOONEST_S)

    def starts(self, answer: Hashable, configuration: Configuration, now: float) -> None:
        """Handle an answer that runs a configuration from now on."""
        self._meter.starts(answer, configuration, now)

    def wrote(self, answer: Hashable, n_tokens: int, now: float) -> None:
        """Handle tokens of an answer, >= 0."""
        piece, block = self._meter.wrote(answer, n_tokens, now), self._meter.block
        if piece is None or block is None:
            return
        plainly = piece.together and piece.configuration is self._plain
        compared = (0.0, 0) if plainly else (piece.seconds, n_tokens)
        self._book(block.load, *compared, n_tokens, changing=not piece.together)
        if piece.first_s is not None and block.load in self.comparisons:
            self.comparisons[block.load].began(piece.configuration != self._plain, piece.first_s)

    def stops(self, answer: Hashable, now: float) -> None:
        """Handle an answer that leaves its configuration; what it has not written by now is lost."""
        silent, block = self._meter.stops(answer, now), self._meter.block
        if silent is not None and block is not None and silent.configuration is not self._plain:
            self._book(block.load, silent.seconds, 0, 0, changing=True)

    def ends(self, answer: Hashable, now: float, *, by_itself: bool) -> None:
        """Handle an answer that has left; ``by_itself``: its text is complete."""
        written = self._meter.ends(answer, now)
        whole = sum(tokens for _, tokens in written)
        if not by_itself or not whole:
            return
        self._lengths.append(whole)
        running = self._meter.lengths()
        if len(self._lengths) >= min(max(_LEAST_ENDED, len(running)), _RECENT):  # those that end first are short
            mean = sum(self._lengths) / len(self._lengths)
            seen = [*self._lengths, *(n for n in running if n > mean)]
            self._unit = min(sum(seen) / len(seen), _LONGEST_UNIT)
        block = self._meter.block
        if block is not None and block.load in self.comparisons:
            plainly = sum(tokens for configuration, tokens in written if configuration == self._plain)
            self.comparisons[block.load].ended(plainly, whole - plainly)

    def lines(self) -> list[str]:
        """Return a line for each load at which pairs were compared."""
        return [
            f"measured at {load} in flight: {one.candidate.name} {one.verdict}, {one.tokens_per_second} of plain "
            f"decoding's tokens per second in {one.n_pairs} comparisons"
            for load, one in sorted(self.comparisons.items())
            if one.n_pairs
        ]

    def state(self) -> list[dict[str, Any]]:
        """Return what is known by load, as plain data."""
        return [
            {
                "load": load,
                "method": one.candidate.name,
                "verdict": str(one.verdict),
                "comparisons": one.n_pairs,
                **{name: interval.known for name, interval in one.intervals.items()},
            }
            for load, one in sorted(self.comparisons.items())
        ]

    def _comparison(self, load: int) -> Comparison | None:
        if load not in self.comparisons:
            candidate = self._candidate(load)
            if candidate == self._plain:
                return None
            self.comparisons[load] = Comparison(candidate)
        return self.comparisons[load]

    def _block_tokens(self, load: int) -> float:
        return self._unit * block_answers(load)

    def _is_complete(self, block: Block, comparison: Comparison, now: float) -> bool:
        tokens, per_token = self._block_tokens(block.load), comparison.seconds_per_token
        if not tokens:
            return False
        if block.configuration == self._plain or per_token is None:
            return block.tokens >= tokens
        return block.seconds_at(now) >= tokens * per_token

    def _may_lose(self, comparison: Comparison, in_flight: int, now: float) -> bool:
        """Whether the budget allows the candidate."""
        if comparison.seconds_per_token is None or not self._unit:
            return False  # plain decoding comes first
        return self.budget.check(*self._in_progress(comparison, in_flight, now), comparison.credit)

    def _in_progress(self, comparison: Comparison, in_flight: int, now: float) -> tuple[int, float, float]:
        """Answers in flight, the time since the candidate's last wrote, in plain answers, and what may be lost so."""
        answer_s = self._unit * (comparison.seconds_per_token or 0.0)
        silent = sum(self._meter.silent(comparison.candidate, now)) / answer_s if answer_s else 0.0
        most = (1.0 + comparison.credit) / 2.0 if comparison.candidate.spec.drafts_steps else 1.0
        return max(in_flight, 1), silent, most

    def _book(self, load: int, seconds: float, n_tokens: int, work: int, *, changing: bool) -> None:
        """Book work on the budget: ``seconds`` for ``n_tokens`` are compared with plain decoding."""
        comparison, block_tokens = self.comparisons.get(load), self._block_tokens(load)
        if comparison is None or comparison.seconds_per_token is None or not self._unit:
            return
        lost = seconds / comparison.seconds_per_token - n_tokens
        hole = changing and not comparison.candidate.spec.drafts_steps  # a first step is the method's own work too
        self.budget.book(lost / self._unit, work / self._unit, sunk=hole)
        if changing:
            comparison.changes[-1] += lost / block_tokens

    def _ended(self, block: Block) -> None:
        comparison, tokens = self.comparisons.get(block.load), self._block_tokens(block.load)
        if comparison is None or not tokens:
            return
        speculating, whole_s = block.configuration != self._plain, tokens * (comparison.seconds_per_token or 0.0)
        if not speculating or block.seconds:
            changed = comparison.measured(speculating, block.tokens, block.seconds, whole_s / 2.0)
        elif block.all_seconds < 2.0 * whole_s:  # it was broken off while it began
            return
        else:  # it never came to write: all of it counts
            changed = comparison.measured(speculating, block.all_tokens, block.all_seconds, 0.0)
        if changed is not None:
            self._tell(_decision(block.load, comparison))


_DONE: Final = {Verdict.GAINS: "gains and is on", Verdict.LOSES: "loses and is off, but for trials"}


def _decision(load: int, comparison: Comparison) -> str:
    ratio, n_pairs = comparison.decided
    return (
        f"at {load} in flight {comparison.candidate.name} {_DONE[comparison.verdict]}; tokens per second over plain "
        f"decoding {ratio} after {n_pairs} comparisons"
    )
