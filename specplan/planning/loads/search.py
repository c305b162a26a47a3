"""The best option of each kind at a load: arrangements first, then knobs, then what is below.

Options of a kind are compared by the tokens per second of all GPUs with so many answers in flight: by mean values where
these are known and apart, else by short simulations. The order of the search follows what matters most: where the
models run decides more than k1, k1 more than the token level below it. How many tokens are drafted is not searched: it
is the schedule's for the batch of the fullest copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from sim.configuration import PLAIN, Configuration
from specplan.planning.loads.options import Considered, Option
from specplan.planning.mean_values import MEANS_OFF, MeanRate
from specplan.worlds.arrangements import Arrangement, Split

__all__ = ["Best", "Curve", "Depth", "Means", "Speed", "best_of_each_kind", "worth_simulating"]

Speed = Callable[[Option, int], float]
"""Tokens per second of a whole deployment with so many answers in flight, by a short simulation."""

Means = Callable[[Option, int], MeanRate | None]
"""The same by mean values; None where they are not known."""

Depth = Callable[[str, Split, int], int]
"""Tokens to draft per round, by method, how GPUs share the target, and sequences in the batch of a copy."""
_FIRST_DEPTH: Final = 4
"""k1 at which arrangements are compared."""
_BELOW: Final = "prompt-lookup"
"""The token-level method tried below steps: what a second draft model would cost has not been measured."""
_LOST: Final = 0.8
"""Share of plain decoding's throughput below which a kind is given up at larger loads, [-]."""
_FAR_BEHIND: Final = 0.7
"""Share of the best kind's rate below which methods of the step level are given up at larger loads, [-]."""
_HALF: Final = 0.5
"""Share of plain decoding's best rate below which an arrangement is not tried for steps, [-]: where steps gained most
over plain decoding on the same arrangement they gained 1.6 times as much as where they gained least."""
_CLOSE: Final = 0.01
"""Options nearer than this share count as equal, and the one that drafts less wins."""


Adaptive = Callable[[str, Split, int], Configuration | None]
"""Best configuration with adaptive verification, by the arguments of `Depth`; None if all drafted tokens pay."""

Best = Mapping[str, tuple[Option, float]]
"""Kind to its best option and the tokens per second of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Gains by answers at once, of each kind's best option: those of a plan's rows, others by short simulations."""

    interrupted: bool
    """Whether an interruption left a part of it out."""
    answers: tuple[int, ...]
    gains: Mapping[str, tuple[float | None, ...]]
    """Kind to its gain at each number of answers; None where it was given up before."""
    options: Mapping[str, tuple[Option | None, ...]]

    @classmethod
    def of(
        cls, best_at: Mapping[int, Best], gain: Callable[[Option, Option, int], float], *, interrupted: bool
    ) -> Self:
        """Return the curve of the best options by answers at once; ``gain``: of an option over plain decoding's."""
        kinds = list(dict.fromkeys(kind for best in best_at.values() for kind in best if kind != PLAIN.method))
        options = {kind: tuple(best[kind][0] if kind in best else None for best in best_at.values()) for kind in kinds}
        gains = {
            kind: tuple(
                None if option is None else gain(option, best[PLAIN.method][0], n)
                for option, (n, best) in zip(chosen, best_at.items(), strict=True)
            )
            for kind, chosen in options.items()
        }
        return cls(interrupted=interrupted, answers=tuple(best_at), gains=gains, options=options)


def best_of_each_kind(
    every: Considered,
    speed: Speed,
    depth: Depth,
    answers: int,
    before: Best,
    adaptive: Adaptive,
    means: Means,
) -> Best:
    """Return by kind the best option and its tokens per second; plain decoding among them.

    Adaptive verification is a kind of its own where it is faster than the best fixed number of tokens.

    Parameters
    ----------
    before : the best at fewer answers: kinds that were far behind plain decoding there are left out, and knobs are
        looked for near those of then.
    means : how fast an option is by mean values; what these do not know is simulated.
    """
    search = _Search(every, speed, depth, answers, before, adaptive, means)
    return {option.kind: (option, rate) for option, rate in search.kinds()}


def _undominated(rates: Mapping[Option, MeanRate | None], share: float) -> list[Option]:
    """The options that may be the fastest: their mean rate is this share at least of any that is no mere bound."""
    sure = (rate.tokens_per_s for rate in rates.values() if rate is not None and not rate.is_bound)
    least = share * max(sure, default=0.0)
    return [one for one, rate in rates.items() if rate is None or rate.tokens_per_s >= least]


def worth_simulating(best: Best) -> Best:
    """Return the kinds without those of the step level, which take long to simulate, that are far behind the best."""
    least = _FAR_BEHIND * max(rate for _, rate in best.values())
    return {
        kind: (option, rate)
        for kind, (option, rate) in best.items()
        if rate >= least or not option.configuration.spec.drafts_steps
    }


@dataclass(slots=True)
class _Search:
    every: Considered
    speed: Speed
    depth: Depth
    answers: int
    before: Best
    adaptive: Adaptive
    means: Means
    most: float = 0.0
    """Tokens per second of the best kind so far."""

    def kinds(self) -> Iterator[tuple[Option, float]]:
        """The best option of one kind after the other."""
        plain = self.fastest(Option(PLAIN, arrangement) for arrangement in self.every.plain)
        assert plain is not None  # the models fit somewhere
        yield plain
        self.most = plain[1]
        below = []
        for name, arrangements in self.every.tokens.items():
            for best in self._tokens(name, arrangements):
                below.append(best[0].configuration)
                self.most = max(self.most, best[1])
                yield best
        for name in self.every.step_methods:
            own = {kind for kind, pair in self.before.items() if pair[0].configuration.method == name}
            far_behind = bool(own) and not own & set(worth_simulating(self.before))  # at fewer answers
            if not (self._is_lost(name) or far_behind):
                yield from self._steps(name, below)

    def fastest(self, options: Iterable[Option]) -> tuple[Option, float] | None:
        """The fastest option within the budget, that which drafts least where several are as fast."""
        answers = self.answers
        rates = {one: self.means(one, answers) for one in options if self.every.budget.allows(one.configuration)}
        if not rates:
            return None
        left = _undominated(rates, 1.0 - MEANS_OFF)
        known = {left[0]: 0.0} if len(left) == 1 else {one: self.speed(one, answers) for one in left}
        close = [one for one, rate in known.items() if rate >= max(known.values()) * (1.0 - _CLOSE)]
        best = min(close, key=lambda one: one.configuration.most_sequences * one.configuration.k2)
        mean = rates[best]
        return best, self.speed(best, answers) if mean is None or mean.is_bound else mean.tokens_per_s

    def _tokens(self, name: str, arrangements: Sequence[Arrangement]) -> Iterator[tuple[Option, float]]:
        """A token-level method with a fixed number of tokens, and with adaptive verification where that is faster."""
        fixed, budget = None, self.every.budget
        batches = {where: -(-self.answers // where.replicas) for where in arrangements}
        if not self._is_lost(name):
            drafted = {where: self.depth(name, where.split, batch) for where, batch in batches.items()}
            fixed = self.fastest(
                Option(Configuration(method=name, k2=budget.k(k) + 1), where)
                for where, k in drafted.items()
                if k  # a table that was given may draft nothing in full batches
            )
        if fixed is not None:
            yield fixed
        if name in self.every.adaptive:
            adapted = {where: self.adaptive(name, where.split, batch) for where, batch in batches.items()}
            chosen = self.fastest(
                Option(one, where)
                for where, one in adapted.items()
                if one is not None and budget.k(one.k2 - 1) == one.k2 - 1
            )
            least = self.most if fixed is None else fixed[1]
            if chosen is not None and chosen[1] > least * (1.0 + _CLOSE):
                yield chosen

    def _steps(self, name: str, below: Sequence[Configuration]) -> Iterator[tuple[Option, float]]:
        """A step-level method without token-level speculation, and with prompt lookup below it."""

        def at(k1: int) -> Configuration:
            return Configuration(method=name, k1=k1, rules=self.every.budget.rules)

        if not self.every.budget.depths:
            return
        plain = [Option(PLAIN, where) for where in self.every.steps]
        near = _undominated({one: self.means(one, self.answers) for one in plain}, _HALF)
        placed = self.fastest(Option(at(self._depth(name)), one.arrangement) for one in near)
        if placed is None:
            return
        if placed[1] < _FAR_BEHIND * self.most:
            yield placed
            return
        where = placed[0].arrangement
        by_steps = self.fastest(Option(at(k1), where) for k1 in self._near(name))
        assert by_steps is not None
        yield by_steps
        for token in below:
            if token.method == _BELOW:
                depths = sorted({2, token.k2})
                best = self.fastest(
                    Option(by_steps[0].configuration.with_token(token.method, {"k2": k2}), where) for k2 in depths
                )
                yield from [best] if best is not None else []

    def _is_lost(self, kind: str) -> bool:
        """Whether a kind was so far behind plain decoding at fewer answers that it does not come back."""
        before = self.before
        return bool(before) and (kind not in before or before[kind][1] < _LOST * before[PLAIN.method][1])

    def _depth(self, kind: str) -> int:
        """The k1 at fewer answers."""
        if kind in self.before:
            return self.before[kind][0].configuration.k1
        depths = self.every.budget.depths
        return max((k1 for k1 in depths if k1 <= _FIRST_DEPTH), default=depths[0])

    def _near(self, kind: str) -> Sequence[int]:
        """Values of k1 to try: all, or those next to the best at fewer answers."""
        depths = self.every.budget.depths
        if kind not in self.before:
            return depths
        at = depths.index(self._depth(kind))
        return depths[max(at - 1, 0) : at + 2]
