"""How many tokens to draft per round (k) by sequences in the batch: one optimum for plans, tables and schedules.

The rate of a batch is tokens per pass over seconds per round, by the pass model and what is expected of acceptance; it
is flat around its best. A batch has no more sequences than the cache holds. Among all schedules that lose at most
`NOISE` of the best rate at each batch size the one is taken whose k rises least often with the batch, then the one that
changes least often, then the one that drafts least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calibrate.token_acceptance.schedule import Schedule
from sim.configuration import PLAIN, Configuration
from specplan.planning.loads.options import room_of
from specplan.worlds.arrangements import Arrangement, Split
from specplan.worlds.drafters.naming import ends_a_turn, layers_in_turn
from specplan.worlds.world import World
from theory.adaptive.verification import least_that_pays
from theory.errors import ParameterError
from theory.hardware.work import Parallel

__all__ = ["NOISE", "SIZES", "Depths", "FixedK", "smoothed"]

NOISE: Final = 0.02
"""Share of the best rate that a k may lose to count as well as the best, [-]: the pass model is no better."""
SIZES: Final = tuple(2**i for i in range(11))
"""Sequences in the batch of one target that are looked at."""
_MOST_K: Final = 7
_LAST: Final = SIZES[-1]


@dataclass(frozen=True, slots=True)
class FixedK:
    """The k that loses least if all loads share it."""

    k: int
    loss: float
    """Share of the best k's rate that it loses at the load where it loses most, in [0, 1]."""


class Depths:
    """The best k of a deployment's methods that draft tokens."""

    def __init__(self, world: World) -> None:
        self._world = world
        deployment = world.deployment
        self._given = deployment.k
        self._places = deployment.max_num_seqs or _LAST
        self.most = max(_MOST_K, deployment.most_k or 0)  # the largest k that is looked at
        self._context = deployment.prompt_tokens + deployment.answer_tokens / 2.0
        self._rates: dict[tuple[str, Split, int], list[float]] = {}
        self._schedules: dict[tuple[str, Split], Schedule] = {}
        self._fits: dict[tuple[Configuration, Split], int] = {}

    def k(self, token: str, split: Split, sequences: int) -> int:
        """Return the tokens to draft per round with so many sequences in the batch of one target.

        At least 1, but for a table that was given.
        """
        running = min(sequences, self._places, self._fitting(Configuration(method=token, k2=2), split))
        return self._speculating(token, split).at(max(running, 1))

    def schedule(self, token: str, split: Split, off_from: int | None) -> Schedule:
        """Return k by batch size, 0 from ``off_from`` on; None: speculation pays at all sizes that were looked at.

        Copies of attention have a batch each, and batch sizes are those of one copy.
        """
        k_from = {entry.first: entry.k for entry in self._speculating(token, split).ranges}
        if off_from is not None:
            k_from = {first: k for first, k in k_from.items() if first < off_from} | {max(off_from, 1): 0}
        copies = split.dp if isinstance(split, Parallel) else 1
        each = {-(-first // copies): k for first, k in sorted(k_from.items(), reverse=True)}
        return Schedule.of(each, max(_LAST, off_from or 0))

    def fixed(self, token: str, split: Split, most: int) -> FixedK:
        """Return the one k for all batch sizes up to ``most``, or the most of a table that was given; and its loss."""
        lost = {size: self.losses(token, split, size) for size in SIZES if size <= max(most, 1)}
        if isinstance(self._given, Schedule):
            drafted = ((size, self._given.at(size)) for size in lost)
            loss = max(
                lost[size][self.ks(token).index(k)] if k else self._lost_by_none(token, split, size)
                for size, k in drafted
            )
            return FixedK(self._given.most, loss)
        worst = {k: max(losses) for k, losses in zip(self.ks(token), zip(*lost.values(), strict=True), strict=True)}
        best = self._given or min(worst, key=lambda k: (round(worst[k], 3), k))
        return FixedK(best, worst[best])

    def _lost_by_none(self, token: str, split: Split, size: int) -> float:
        """Share of the best k's rate that is lost where nothing is drafted; 0 where that is faster."""
        plain, best = self._rate(PLAIN, split, size), max(self._rates_at(token, split, min(size, self._places)))
        return max(1.0 - plain / best, 0.0)

    def ks(self, token: str) -> Sequence[int]:
        """Return the numbers of tokens that a method may draft: those of a block drafter's blocks, or 1 to `most`.

        Of several layers of the target's own none that ends in the middle of a later turn.
        """
        deployment = self._world.deployment
        block = deployment.block
        sizes = block.facts.block if token == "block-drafter" and block is not None else None
        if sizes is not None:
            return range(sizes.least, sizes.most + 1)
        layers = layers_in_turn(deployment) if token == "eagle" else 1
        return [k for k in range(1, self.most + 1) if ends_a_turn(k, layers)]

    def adaptive(self, token: str, split: Split, sequences: int) -> Configuration | None:
        """Return the best adaptive verification with so many sequences in the batch; None: nothing is left out.

        Of each number of drafted tokens, those are verified that pay (`theory.adaptive.verification`).
        """
        size = min(max(sequences, 1), self._places)
        given = self._world.deployment.most_k
        wanted = self.ks(token) if given is None else [given]
        choices, world = [], self._world
        for k in wanted:
            every = Configuration(method=token, k2=k + 1)
            seconds = world.seconds_by_rows(every, split, size, self._context)
            least = least_that_pays(world.beliefs.accepted(token, k + 1), seconds, world.beliefs.spread())
            least = round(least, 3)
            if 0.0 < least < 1.0:
                choices.append(Configuration(method=token, k2=k + 1, knobs={"least": least}))
        return max(choices, key=lambda one: self._rate(one, split, size), default=None)

    def losses(self, token: str, split: Split, sequences: int) -> list[float]:
        """Return by k, as in `ks`, the share of the best k's tokens per second that it loses with so many sequences."""
        rates = self._rates_at(token, split, min(sequences, self._places))
        return [1.0 - rate / max(rates) for rate in rates]

    def _speculating(self, token: str, split: Split) -> Schedule:
        key = token, split
        if key not in self._schedules:
            if self._given is None:
                chosen = smoothed([self._rates_at(token, split, size) for size in SIZES], NOISE)
                best = {size: self.ks(token)[place] for size, place in zip(SIZES, chosen, strict=True)}
            elif isinstance(self._given, Schedule):
                best = {entry.first: entry.k for entry in self._given.ranges if entry.first <= _LAST}
            else:
                best = {1: self._given}
            self._schedules[key] = Schedule.of(best, _LAST)
        return self._schedules[key]

    def _rates_at(self, token: str, split: Split, size: int) -> list[float]:
        key = token, split, size
        if key not in self._rates:
            rounds = [Configuration(method=token, k2=k + 1) for k in self.ks(token)]
            self._rates[key] = [self._rate(one, split, size) for one in rounds]
        return self._rates[key]

    def rate(self, configuration: Configuration, split: Split, size: int) -> float | None:
        """Return the tokens per second of a batch, as far as the cache holds it; None where it holds no answer."""
        return self._rate(configuration, split, size) if self._fitting(configuration, split) else None

    def _rate(self, configuration: Configuration, split: Split, size: int) -> float:
        running = max(min(size, self._fitting(configuration, split)), 1)
        seconds = self._world.round_cost(configuration, split).iteration(running, running * self._context)
        return running * self._world.passes(configuration).tokens / seconds

    def _fitting(self, configuration: Configuration, split: Split) -> int:
        """Sequences that the cache of a copy holds in the middle of their answers: more are never in a batch."""
        key = configuration, split
        if key not in self._fits:
            dp, pp = (split.dp, split.pp) if isinstance(split, Parallel) else (1, 1)
            where = Arrangement(tp=(split.tp if isinstance(split, Parallel) else split) * dp, dp=dp, pp=pp, replicas=1)
            try:
                rooms = room_of(self._world.deployment, configuration, where)
                self._fits[key] = int(min(room.answers(self._context) for room in rooms))
            except ParameterError:  # not even one answer fits
                self._fits[key] = 0
        return self._fits[key]


def smoothed(rates: Sequence[Sequence[float]], noise: float) -> list[int]:
    """Return a place in each row whose rate is within ``noise`` of the row's best, with the fewest rises and changes.

    Of those that rise and change as seldom the lowest places are taken.

    Parameters
    ----------
    rates : rows of rates > 0, all equally long.
    noise : share of the best rate that a choice may lose, in [0, 1).

    >>> smoothed([[1.0, 1.01, 0.9], [1.0, 0.995, 1.01], [1.0, 0.9, 0.8]], 0.02)
    [0, 0, 0]
    >>> smoothed([[1.0, 1.5], [1.0, 0.9], [1.0, 1.5]], 0.02)
    [1, 0, 1]
    """
    paths: dict[int, tuple[int, int, int, list[int]]] = {-1: (0, 0, 0, [])}
    for row in rates:
        near = [place for place, rate in enumerate(row) if rate >= max(row) * (1.0 - noise)]
        paths = {
            place: min(
                (rises + (place > last), changes + (place != last), total + place, [*path, place])
                for last, (rises, changes, total, path) in paths.items()
            )
            for place in near
        }
    return min(paths.values())[3]
