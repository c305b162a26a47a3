"""Work of answers in blocks, during which all answers in flight run the same configuration.

Speculating answers and plain ones share engines, so the speed of either depends on what the others do; answers that are
compared side by side would each be measured while the other runs. Therefore all of them switch together and are
compared between stretches of time ("switchback" designs, e.g. Bojinov, Simchi-Levi and Zhao 2023, "Design and analysis
of switchback experiments"), at the same load.

Within a block the time of an answer counts from its start, or from the first piece that it writes when all run the
block's configuration and have written by it, to the first piece after the block: until all write again, those that do
have the engine to themselves, or wait for the others' prompts. The end is a stopping time of the answer's pieces, so by
Wald's identity tokens / seconds has no bias although pieces are whole steps. Work at a switch is in no block.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from sim.configuration import Configuration

__all__ = ["Block", "Meter", "Piece"]

_TOGETHER_S: Final = 1e-3
"""Pieces that follow each other by less were committed together, s."""


@dataclass(slots=True, eq=False)
class Block:
    """Work at a load by a configuration."""

    load: int
    configuration: Configuration
    tokens: int = 0
    seconds: float = 0.0
    """Time of answers whose part in the block has ended, s."""
    n_open: int = 0
    """Answers whose part in it has not ended."""
    open_since: float = 0.0
    """Sum of their beginnings, s on the clock."""
    all_tokens: int = 0
    all_seconds: float = 0.0
    """Work of the answers that run its configuration since it was wanted, from their change to it on, s."""
    ended: bool = False
    """Whether no answer adds to it any more."""

    def seconds_at(self, now: float) -> float:
        """Time of answers up to now, s."""
        return self.seconds + self.n_open * now - self.open_since


@dataclass(slots=True, kw_only=True)
class _InFlight:
    """An answer that runs a configuration, or is between two of them."""

    began: float
    wrote: float
    """When it last wrote or changed its configuration, s."""
    configuration: Configuration | None = None
    changed: bool = False
    """Whether it has changed its configuration and not yet written since."""
    block: Block | None = None
    """The block in which its time counts."""
    since: float = 0.0
    under: Block | None = None
    """The block that wanted its configuration last."""
    written: list[tuple[Configuration, int]] = field(default_factory=list)
    """Tokens of the configurations that it has left."""
    n_tokens: int = 0
    """Tokens of the one that it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What an answer wrote, in relation to its blocks."""

    configuration: Configuration
    seconds: float
    """Time since its piece before, s."""
    together: bool
    """Whether all answers in flight ran the wanted configuration, and none has just changed its own."""
    first_s: float | None
    """Time to this piece, the answer's first, where all of it is in a block, s."""


class Meter:
    """Answers in flight, and their block.

    Parameters
    ----------
    ended : called with each block to which no answer adds any more.
    """

    def __init__(self, ended: Callable[[Block], None]) -> None:
        self.block: Block | None = None
        self._ended = ended
        self._answers: dict[Hashable, _InFlight] = {}
        self._together: bool | None = None
        """The latest `together`, which most tokens leave as it is; None: to be looked for."""

    @property
    def together(self) -> bool:
        """Whether all answers in flight run the block's configuration, and have written since they changed to it."""
        if self._together is None:
            running = [one for one in self._answers.values() if one.configuration is not None]
            self._together = all(one.under is self.block is not None and not one.changed for one in running)
        return self._together

    def aim(self, load: int, configuration: Configuration, *, anew: bool = False) -> None:
        """Begin a block unless the present one is of this load and configuration, or always with ``anew``."""
        old = self.block
        if not anew and old is not None and (old.load, old.configuration) == (load, configuration):
            return
        self.block, self._together = Block(load, configuration), None
        for one in self._answers.values():
            if one.configuration == configuration:
                self._under(one, self.block)
        if old is not None:
            self._check(old)

    def starts(self, answer: Hashable, configuration: Configuration, now: float) -> None:
        """Handle an answer that runs a configuration from now on."""
        new = answer not in self._answers
        one = self._answers.setdefault(answer, _InFlight(began=now, wrote=now))
        one.configuration, one.wrote, one.changed, self._together = configuration, now, not new, None
        if self.block is not None and self.block.configuration == configuration:
            self._under(one, self.block)
        if new and self.together:
            self._open(one, now)

    def wrote(self, answer: Hashable, n_tokens: int, now: float) -> Piece | None:
        """Handle tokens of an answer; None if it is not counted."""
        one = self._answers.get(answer)
        if one is None or one.configuration is None:
            return None
        is_first = not one.n_tokens and not one.written and one.block is self.block is not None
        piece = Piece(
            configuration=one.configuration,
            seconds=now - one.wrote,
            together=self.together,
            first_s=now - one.began if is_first else None,
        )
        one.n_tokens += n_tokens
        if one.under is not None:
            one.under.all_tokens += n_tokens
            one.under.all_seconds += piece.seconds
        if one.changed:
            one.changed, self._together = False, None
        one.wrote = now
        if one.block is not None and now - one.since >= _TOGETHER_S:
            one.block.tokens += n_tokens
            if one.block is not self.block:
                self._close(one, now)
        if one.block is None and self.together:
            self._open(one, now)
        return piece

    def stops(self, answer: Hashable, now: float) -> Piece | None:
        """Handle an answer that leaves its configuration; return the time in which it wrote nothing more."""
        one = self._answers.get(answer)
        if one is None or one.configuration is None:
            return None
        silent = Piece(configuration=one.configuration, seconds=now - one.wrote, together=self.together, first_s=None)
        if one.under is not None:
            one.under.all_seconds += silent.seconds
        one.written.append((one.configuration, one.n_tokens))
        one.configuration, one.n_tokens, self._together = None, 0, None
        self._close(one, now)
        self._under(one, None)
        return silent

    def ends(self, answer: Hashable, now: float) -> list[tuple[Configuration, int]]:
        """Handle an answer that has left; return its configurations in order, with the tokens of each."""
        self.stops(answer, now)
        one = self._answers.pop(answer, None)
        return [] if one is None else one.written

    def silent(self, configuration: Configuration, now: float) -> list[float]:
        """Return the times since the last piece of all answers that run a configuration, s."""
        return [now - one.wrote for one in self._answers.values() if one.configuration == configuration]

    def lengths(self) -> list[int]:
        """Return the tokens so far of all answers in flight."""
        return [one.n_tokens + sum(n for _, n in one.written) for one in self._answers.values()]

    def _under(self, one: _InFlight, block: Block | None) -> None:
        before, one.under, self._together = one.under, block, None
        if before is not None:
            self._check(before)

    def _open(self, one: _InFlight, now: float) -> None:
        if self.block is None:
            return
        one.block, one.since = self.block, now
        one.block.n_open += 1
        one.block.open_since += now

    def _close(self, one: _InFlight, now: float) -> None:
        block = one.block
        if block is None:
            return
        one.block = None
        block.n_open -= 1
        block.open_since -= one.since
        block.seconds += now - one.since
        self._check(block)

    def _check(self, block: Block) -> None:
        runs = any(one.under is block for one in self._answers.values())
        if block is not self.block and not block.n_open and not runs and not block.ended:
            block.ended = True
            self._ended(block)
