r"""Adaptive steps: how many tokens SGLang's controller drafts, by the drafts that it has seen accepted.

SGLang (``--speculative-adaptive``; sgl-project/sglang at 015c8726, ``speculative/adaptive_spec_params.py`` and
``adaptive_step_router.py``) has a *slot* for each range of batch sizes. A slot keeps the mean E of the accepted tokens
of a batch, exponentially weighted (`SlotRule.ema_alpha`), and every `SlotRule.update_interval` rounds goes to a lower
candidate while E is at most half a step above the next lower one, else to a higher one while E is more than half a step
below the current one, each with a hysteresis. A slot without drafts tries its lowest positive candidate.

The rule knows nothing of costs (one that does, sgl-project/sglang#28045, is not merged): what it drafts where
acceptance is high is the same at any speed of the target. What it is worth follows from the share of rounds that it
drafts each number of tokens, `shares_of_steps`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from theory.checks import count, probability, scalar_count
from theory.errors import ParameterError

__all__ = ["DEFAULT_SLOTS", "AdaptiveSteps", "Slot", "SlotRule", "shares_of_steps"]

_ROUNDS: Final = 4000
_WARMUP: Final = 200
"""Rounds that do not count: the mean forgets what it began with in some tens of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRule:
    """What a slot chooses by; names and defaults are those of SGLang's configuration.

    Raises
    ------
    ParameterError : no candidates, negative ones, or a number outside its domain.
    """

    candidate_steps: tuple[int, ...]
    """Tokens that it may draft, >= 0; kept rising and distinct."""
    ema_alpha: float = 0.2
    """Weight of the last round, [-], in (0, 1]."""
    update_interval: int = 5
    """Rounds from a choice to the next, >= 1."""
    warmup_batches: int = 10
    """Rounds before the first interval begins, >= 0."""
    down_hysteresis: float = -0.25
    """Added to the thresholds below which it drafts less, tokens."""
    up_hysteresis: float = 0.0
    """Added to the thresholds above which it drafts more, tokens."""
    ceiling_coeff: float = 0.0
    """A choice that does not rise is at most this multiple of E, rounded up, >= 0; 0: no such bound."""

    def __post_init__(self) -> None:
        steps = count("candidate_steps", self.candidate_steps, minimum=0).tolist()
        object.__setattr__(self, "candidate_steps", tuple(sorted(set(steps))))
        scalar_count("update_interval", self.update_interval)
        scalar_count("warmup_batches", self.warmup_batches, minimum=0)
        for name in ("ema_alpha", "down_hysteresis", "up_hysteresis", "ceiling_coeff"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ParameterError(name, value, "must be a finite number")
        if not 0.0 < self.ema_alpha <= 1.0:
            raise ParameterError("ema_alpha", self.ema_alpha, "must be in (0, 1]")


class Slot:
    """The state of a slot.

    Parameters
    ----------
    rule : what it chooses by.
    initial : tokens drafted at first, where they are a candidate; else the middle candidate is.

    Attributes
    ----------
    steps : tokens to draft now.
    mean : E, accepted tokens of a draft; one less than drafted at first.
    """

    __slots__ = ("_rounds", "mean", "rule", "steps")

    def __init__(self, rule: SlotRule, initial: int) -> None:
        known = rule.candidate_steps
        self.rule = rule
        self.steps = initial if initial in known else known[len(known) // 2]
        self.mean = float(self.steps - 1)
        self._rounds = 0

    def observe(self, accepted: float) -> None:
        """Count a round in which each sequence of the batch accepted so many drafted tokens, on average."""
        rule = self.rule
        if self.steps > 0:
            self.mean = (1 - rule.ema_alpha) * self.mean + rule.ema_alpha * accepted
        self._rounds += 1
        counted = self._rounds - rule.warmup_batches
        if counted > 0 and counted % rule.update_interval == 0:
            self.steps = self._chosen()

    def _chosen(self) -> int:
        rule, known = self.rule, self.rule.candidate_steps
        if self.steps == 0:  # the lowest positive candidate, after rounds without drafts
            tried = known[:2][-1]
            if tried > 0 and self.mean < 0.0:  # no draft has been seen
                self.mean = float(tried - 1)
            return tried
        place = now = known.index(self.steps)
        # below a candidate k by half a token, and at a half where the next lower one is 0
        while place > 0 and self.mean <= abs(known[place - 1] - 0.5) + rule.down_hysteresis:
            place -= 1
        if place == now:
            while place < len(known) - 1 and self.mean > known[place] - 0.5 + rule.up_hysteresis:
                place += 1
        chosen = known[place]
        if chosen > self.steps or rule.ceiling_coeff <= 0.0:
            return chosen
        ceiling = max(1, math.ceil(self.mean * rule.ceiling_coeff))
        within = [one for one in known if one <= min(chosen, ceiling)]
        return within[-1] if within else known[0]


DEFAULT_SLOTS: Final[Mapping[int, SlotRule]] = MappingProxyType(
    {
        1: SlotRule(candidate_steps=(1, 3, 5, 7)),
        8: SlotRule(candidate_steps=(0, 1, 3), down_hysteresis=0.0),
        32: SlotRule(candidate_steps=(0, 1), down_hysteresis=0.0),
        64: SlotRule(candidate_steps=(0,), down_hysteresis=0.0),
    }
)
"""SGLang's own slots, by the batch size from which on each holds."""


class AdaptiveSteps:
    """SGLang's controller: a slot by batch size.

    Parameters
    ----------
    rules : by the batch size from which on each holds, >= 1; the first one holds below too.
    initial : tokens drafted at first, ``--speculative-num-steps``, >= 0.
    graph_sizes : batch sizes of captured graphs: a batch counts as the next larger one; none: as it is.

    Raises
    ------
    ParameterError : no rules, or a size below 1.
    """

    def __init__(self, rules: Mapping[int, SlotRule], initial: int, graph_sizes: Sequence[int] = ()) -> None:
        if not rules:
            raise ParameterError("rules", dict(rules), "must have a batch size at least, as in {1: ...}")
        scalar_count("initial", initial, minimum=0)
        self._sizes = sorted(scalar_count("batch size", size) for size in rules)
        self._graphs = sorted(scalar_count("graph size", size) for size in graph_sizes)
        self.slots = {size: Slot(rules[size], initial) for size in self._sizes}

    def slot(self, batch: int) -> Slot:
        """Return the slot of a batch of so many sequences, >= 1."""
        padded = bisect_left(self._graphs, batch)
        size = self._graphs[padded] if padded < len(self._graphs) else batch
        return self.slots[self._sizes[max(bisect_right(self._sizes, size) - 1, 0)]]

    def steps(self, batch: int) -> int:
        """Return the tokens to draft for each of so many sequences."""
        return self.slot(batch).steps

    def observe(self, accepted: Sequence[int]) -> None:
        """Count a round: drafted tokens that were accepted, of each sequence of the batch; of no sequence, nothing."""
        if accepted:
            self.slot(len(accepted)).observe(sum(accepted) / len(accepted))


def shares_of_steps(rule: SlotRule, conditional: ArrayLike, batch: int, *, seed: int = 0) -> dict[int, float]:
    """Return the share of rounds with each number of drafted tokens, of a batch that stays as large.

    Simulated: rounds are independent of each other, and so are the sequences of a batch.

    Parameters
    ----------
    rule : of the slot of the batch.
    conditional : acceptance of each position given that those before it are right, [-], in [0, 1], shape (positions,);
        as many as the largest candidate, at least.
    batch : sequences, >= 1.
    seed : of the draws; rules with the same largest candidate meet the same ones.

    Raises
    ------
    ParameterError : too few positions, or a value outside its domain.

    >>> shares_of_steps(SlotRule(candidate_steps=(1, 3)), [1.0, 1.0, 1.0], 8)
    {1: 0.0, 3: 1.0}
    """
    rates, most = probability("conditional", conditional), rule.candidate_steps[-1]
    if rates.ndim != 1 or rates.size < most:
        raise ParameterError("conditional", rates.tolist(), f"must be a row of {most} positions or more")
    accepted = np.arange(most + 1)
    alive = np.concatenate([[1.0], np.cumprod(rates[:most]), [0.0]])
    drawn = np.random.default_rng(seed).multinomial(
        scalar_count("batch", batch), alive[:-1] - alive[1:], size=_WARMUP + _ROUNDS
    )
    means = {k: (drawn @ np.minimum(accepted, k) / batch).tolist() for k in rule.candidate_steps}
    slot, rounds = Slot(rule, most), dict.fromkeys(rule.candidate_steps, 0)
    for i in range(_WARMUP + _ROUNDS):
        rounds[slot.steps] += i >= _WARMUP
        slot.observe(means[slot.steps][i])
    return {k: n / _ROUNDS for k, n in rounds.items()}
