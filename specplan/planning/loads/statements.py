"""At which loads and prompts speculation pays: the one place where statements are made of gains.

A plan is one for its own sizes. For other prompts the same option is compared with plain decoding on the same GPUs by
tokens of a round over its seconds, with as many answers as fit, without simulation: costs grow with the context, and
heads and block drafters accept less after long prompts than after those that their priors rest on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from calibrate.token_acceptance.schedule import Schedule
from sim.configuration import PLAIN
from specplan.planning.loads.options import pays
from specplan.planning.loads.schedule import Depths, FixedK
from specplan.worlds.world import World
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.planning.loads.load_plan import LoadPlan, LoadRow, NamesPlan
    from specplan.planning.loads.options import Option
    from specplan.worlds.request import Deployment, Load

__all__ = [
    "ByPrompt",
    "KTable",
    "Pays",
    "adaptive_steps",
    "by_prompt",
    "fixed_k",
    "gains_by_load",
    "k_table",
    "schedule_of",
]

LENGTHS: Final = tuple(2048 * 4**i for i in range(4))
"""Tokens of prompts that are looked at: 2k to 128k, and those of the plan where they are longer."""
_NEAR: Final = 1.1
"""Prompts between which speculation begins or ceases to pay, the longer over the shorter: at most so far apart."""


@dataclass(frozen=True, slots=True)
class Pays:
    """Loads, and whether anything beats plain decoding there."""

    loads: tuple[tuple[int, bool], ...]
    """Answers at once, rising, and whether speculation pays."""

    @classmethod
    def of(cls, gains: Mapping[int, float]) -> Pays:
        """Return the loads from the best gain at each number of answers at once."""
        return cls(tuple((n, pays(gain)) for n, gain in sorted(gains.items())))

    @property
    def off_from(self) -> int | None:
        """Answers at once from which on plain decoding is at least as fast; None: speculation pays at the last load."""
        later = [n for n, on in self.loads if on]
        if not later:
            return self.loads[0][0] if self.loads else None
        return next((n for n, _ in self.loads if n > later[-1]), None)

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of loads at which it pays, ends included."""
        result: list[tuple[int, int]] = []
        before = False
        for n, on in self.loads:
            if on:
                result = [*result[:-1], (result[-1][0], n)] if before else [*result, (n, n)]
            before = on
        return result

    def sentence(self) -> str:
        """Return the advice in a sentence; empty without loads."""
        ranges = self.ranges()
        if not self.loads:
            return ""
        first, last = self.loads[0][0], self.loads[-1][0]
        span = f"from {first} to {last} answers" if first < last else f"at {first} answer{'s' if first > 1 else ''}"
        if not ranges:
            return f"Leave speculation off: plain decoding is fastest {span} at once."
        if ranges == [(first, last)]:
            return f"Speculation pays {'at all loads ' if first < last else ''}{span} at once."
        if len(ranges) == 1 and ranges[0][0] == first:
            return f"Switch speculation off from {self.off_from} answers at once."
        if len(ranges) == 1 and ranges[0][1] == last:
            return f"Speculation pays from {ranges[0][0]} answers at once on, not below."
        shown = " and ".join(str(low) if low == high else f"{low} to {high}" for low, high in ranges)
        return f"Speculation pays at {shown} answers at once, not at other loads."


def gains_by_load(plan: LoadPlan) -> dict[int, float]:
    """Return the best gain at each number of answers at once: that of the table's row, else of the curve."""
    best: dict[int, float] = {}
    for i, n in enumerate(plan.curve.answers):
        known = [gains[i] for gains in plan.curve.gains.values()]
        best[n] = max((gain for gain in known if gain is not None), default=0.0)
    for load, rows in plan.loads:
        if load.concurrency is not None:
            plain = rows[0].option.configuration == PLAIN
            best[load.concurrency] = 0.0 if plain else rows[0].gain.value
    return best


def schedule_of(plan: NamesPlan, option: Option) -> Schedule | None:
    """Return k by batch size of one target's server for an option; None where no tokens are drafted, or adaptively.

    It drafts as the table says at each load, and nothing from the load on at which the plan switches speculation off.
    """
    token = option.configuration.token
    if token is None or option.configuration.spec.drafts_steps or option.configuration.least:
        return None
    off = Pays.of(gains_by_load(plan)).off_from
    per_copy = None if off is None else -(-off // option.arrangement.replicas)
    return plan.depths.schedule(token, option.arrangement.split, per_copy)


def adaptive_steps(plan: NamesPlan) -> dict[Load, tuple[float, float]]:
    """Return what SGLang's controller gains at the loads where a head is shown, and what the best fixed k gains.

    Empty where another engine serves, and with copies of attention, for which SGLang has no controller.
    """
    gains = {}
    for load, rows in plan.loads if plan.deployment.engine.name == "sglang" else ():
        heads = (row for row in rows if row.option.configuration.method == "eagle" and row.option.arrangement.dp == 1)
        row = next(heads, None)
        if row is not None and load.concurrency is not None:
            fixed = plan.simulator.mean_rate(row.option, load.concurrency)
            assert fixed is not None  # of a head, mean values are known
            own = plan.simulator.steps_rate(row.option, load.concurrency)
            gains[load] = row.gain.value * own.tokens_per_s / fixed.tokens_per_s, row.gain.value
    return gains


def fixed_k(plan: NamesPlan) -> FixedK | None:
    """Return the one k that loses least over the loads at which tokens are drafted, and what it loses; None: none are.

    For the method and arrangement that is best at the first such load.
    """
    drafting = _drafting(plan)
    if not drafting:
        return None
    option = drafting[0][1]
    token = option.configuration.token
    assert token is not None
    if isinstance(plan.deployment.k, Schedule):  # also where the table drafts nothing
        alike = [_in_flight(load, rows[0]) for load, rows in plan.loads]
    else:
        alike = [n for n, one in drafting if one.configuration.token == token]
    return plan.depths.fixed(token, option.arrangement.split, -(-max(alike) // option.arrangement.replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class KTable:
    """What each k loses at each load, for the method and arrangement that is best at the first load that drafts."""

    option: Option
    answers: tuple[int, ...]
    ks: tuple[int, ...]
    losses: tuple[tuple[float, ...], ...]
    """By k, then by answers at once: share of the best k's tokens per second, in [0, 1]."""


def k_table(plan: NamesPlan) -> KTable | None:
    """Return what each k loses at the loads of the curve and of the plan; None where no tokens are drafted.

    Of arrivals without a curve no answers at once are known: None.
    """
    drafting = _drafting(plan)
    answers = tuple(sorted({*plan.curve.answers, *(load.concurrency for load, _ in plan.loads if load.concurrency)}))
    if not drafting or not answers:
        return None
    option = drafting[0][1]
    token, arrangement = option.configuration.token, option.arrangement
    assert token is not None
    by_load = [plan.depths.losses(token, arrangement.split, -(-n // arrangement.replicas)) for n in answers]
    ks = tuple(plan.depths.ks(token))
    return KTable(option=option, answers=answers, ks=ks, losses=tuple(zip(*by_load, strict=True)))


def _drafting(plan: NamesPlan) -> list[tuple[int, Option]]:
    """Loads whose best option drafts tokens and no steps, with that option."""
    return [
        (_in_flight(load, rows[0]), rows[0].option)
        for load, rows in plan.loads
        if rows[0].option.configuration.spec.level == "token" and rows[0].option.configuration.speculates
    ]


def _in_flight(load: Load, row: LoadRow) -> int:
    """Answers at once: those of the load, or of arrivals the mean over all copies."""
    return load.concurrency or max(round(row.served.in_flight * row.option.arrangement.replicas), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByPrompt:
    """Gains of one option over plain decoding on the same GPUs, by tokens of the prompt."""

    option: Option
    answers: int
    gains: dict[int, float]
    """Tokens of the prompt, rising, to the gain; none where the model reads no more, or no answer fits."""
    turns: tuple[int, ...]
    """Tokens of the prompt up to which it pays, or from which on it does, in turn, to within a tenth."""

    @property
    def advice(self) -> str:
        """At which prompts to switch it on or off; empty where it pays, or does not, at all that were looked at."""
        on, words = pays(next(iter(self.gains.values()), 0.0)), []
        for turn in self.turns:
            words.append(f"{'off beyond' if on else 'on from'} {turn // 1024}k")
            on = not on
        return f"switch it {' and '.join(words)}" if words else ""


def by_prompt(plan: NamesPlan) -> list[ByPrompt]:
    """Return the gains at the first and at the last load of the best option with token-level speculation only.

    Where plain decoding is best that is the best of the others: at other prompts it may pay.
    """
    known = []
    for load, rows in plan.loads:
        if load.concurrency is not None:
            option = rows[0].option
            if option.configuration == PLAIN:
                kinds = sorted(plan.planner.best_at(load.concurrency).values(), key=lambda pair: -pair[1])
                option = next((one for one, _ in kinds if one.configuration != PLAIN), option)
            if option.configuration.spec.level == "token":
                known.append((load.concurrency, option))
    return [_by_prompt(plan.deployment, option, n) for n, option in known[:1] + known[1:][-1:]]


def _by_prompt(deployment: Deployment, option: Option, answers: int) -> ByPrompt:
    """The gains of an option, and where they turn."""
    gain = cache(partial(_gain, deployment, option, -(-answers // option.arrangement.replicas)))
    gains: dict[int, float] = {}
    for prompt in sorted({*LENGTHS, max(deployment.prompt_tokens, LENGTHS[-1])}):
        known = gain(prompt)
        if known is None:
            break
        gains[prompt] = known
    turns = [_turn(gain, low, high) for low, high in pairwise(gains) if pays(gains[low]) != pays(gains[high])]
    return ByPrompt(option=option, answers=answers, gains=gains, turns=tuple(turns))


def _turn(gain: Callable[[int], float | None], low: int, high: int) -> int:
    """A prompt between two, of which one pays and the other does not, at which that changes."""
    before = pays(gain(low) or 0.0)
    while high > _NEAR * low:
        middle = round(math.sqrt(low * high))
        low, high = (middle, high) if pays(gain(middle) or 0.0) == before else (low, middle)
    return low if before else high


def _gain(deployment: Deployment, option: Option, answers: int, prompt: int) -> float | None:
    """The gain of one copy after prompts of so many tokens; None where the model reads no more, or no answer fits."""
    draft = deployment.draft if option.configuration.token == "draft-model" else None  # others need not read as much
    try:
        depths = Depths(World(replace(deployment, context=prompt + deployment.answer_tokens, draft=draft)))
    except ParameterError:  # the model reads no more
        return None
    own, plain = (depths.rate(one, option.arrangement.split, answers) for one in (option.configuration, PLAIN))
    return None if own is None or plain is None else own / plain
