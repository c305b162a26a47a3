"""Models by name under load: drawn answers on modelled engines, and the uncertainty of acceptance and costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from sim.configuration import PLAIN, Configuration
from sim.estimate import on_logarithm
from sim.roles import DRAFT, TARGET
from sim.serving.answers import ServedLoad
from sim.serving.limits import ServingLimits
from sim.serving.load_run import REPORT, Window, check_little, gain, quotient, throughput, until_known
from specplan.planning.loads.limits import limit_of
from specplan.planning.loads.options import Budget, Considered, Option, considered, pays, room_of
from specplan.planning.loads.schedule import Depths
from specplan.planning.loads.search import Best, best_of_each_kind, worth_simulating
from specplan.planning.loads.simulating import NO_MOVES, Simulator, shares_of
from specplan.planning.mean_values import MEANS_OFF, MeanRate, mean_rate
from specplan.worlds.drafters.naming import drafting_model, method_name
from specplan.worlds.sizes import SLACK, Traced
from specplan.worlds.world import World
from theory.adaptive.steps import DEFAULT_SLOTS, AdaptiveSteps, shares_of_steps
from theory.hardware.half_widths import GAIN, THROUGHPUT, TIME_PER_TOKEN, half_width
from theory.hardware.work import Work

if TYPE_CHECKING:
    from sim.estimate import Estimate
    from sim.trial import Trial
    from specplan.worlds.request import Deployment

__all__ = ["FromNames", "limits_of", "sequences_for"]

_SHOWN: Final = 4
"""Kinds of options that are simulated at length at each load."""
_PRECISION: Final = 0.01
"""Standard error that simulation may leave of a gain and of tokens per second, as a share, and of those by steps, whose
gain is known to a fifth at best."""
_STEP_PRECISION: Final = 0.02
_MANY: Final = 256
"""Answers at once from which two replications see enough answers end for percentiles."""
_CHOICE: Final = {"lives": 1.0, "answers": 24}
"""What a replication counts to choose an option, if answers are one request each."""
_REPORT: Final = {"lives": 2.5, "answers": 48}
"""What it counts for a row: 19 of 20 answers with a spread of 0.8 are shorter, so that it sees them end."""
_ENDS_OF_STEPS: Final = {"lives": 3.0, "answers": 16}
"""What it counts for a step-level row that must see answers end."""
_Z: Final = 1.96
_STEP_HALF_WIDTH: Final = 0.22
"""95 % half-width of the logarithm of a step-level gain, acceptance known: Lookahead Reasoning's Table 1 from the names
of its models, 14 rows (`python -m workshop.names_table`)."""
_FULL: Final = 256.0
_FULL_HALF_WIDTH: Final = 0.5
"""The least 95 % half-width of tokens per second with more answers than `_FULL` in flight on a copy, which no measured
row has: 0.49 holds 95 % of 241 saturated servers of TensorRT-LLM, each model counting alike (VALIDATION.md)."""
_MOST_SEQUENCES: Final = 1024
"""Places of an engine at most: vLLM's default on large GPUs."""


class FromNames(Simulator):
    """A deployment under load."""

    more = "--gpus"
    by_means = False
    """Whether to take mean values for simulations where they are known, and nothing that writes steps."""
    slack = 1.0
    """Standard errors that simulation may leave / the wanted ones, >= 1; infinite: the fewest replications will do."""

    def __init__(self, deployment: Deployment, methods: Sequence[str] = (), budget: Budget | None = None) -> None:
        place = f"{deployment.gpus} x {deployment.gpu.name}"
        super().__init__(deployment.answer_tokens, place, partial(method_name, deployment))
        self.deployment = deployment
        self.world = World(deployment)
        self.depths = Depths(self.world)
        self._methods, self._budget = methods, budget
        self._moved: dict[tuple[tuple[str, float], ...], World] = {(): self.world}
        self._known_limits: dict[tuple[Option, int], ServingLimits] = {}

    @cached_property
    def considered(self) -> Considered:
        """What can be evaluated.

        Raises
        ------
        ParameterError : the target does not fit, even without a drafter.
        """
        return considered(self.deployment, self._methods, self._budget)

    def best_of_each_kind(self, answers: int, before: Best) -> Best:
        """Search arrangements, knobs and the token level below steps; see `Simulator`."""
        every, speed = self.considered, self.speed
        if self.by_means:
            every, speed = replace(every, step_methods=[]), self._rate
        return best_of_each_kind(every, speed, self.depths.k, answers, before, self.depths.adaptive, self.mean_rate)

    def steps_rate(self, option: Option, answers: int) -> MeanRate:
        """Return the tokens per second of all copies where SGLang's controller chooses how many tokens are drafted.

        By mean values, with its own slots (`theory.adaptive.steps`).
        """
        configuration, where, world = option.configuration, option.arrangement, self.world
        assert configuration.token is not None
        copies, slots = [], AdaptiveSteps(DEFAULT_SLOTS, configuration.k2 - 1)
        for n, alike in shares_of(answers, where.replicas).items():
            if n:
                rule = slots.slot(n).rule
                drafted = {k: _drafting(configuration.token, k) for k in rule.candidate_steps}
                most = drafted[rule.candidate_steps[-1]]
                accepted = world.beliefs.accepted(configuration.token, most.k2) if most.k2 > 1 else [0.0]
                shares = shares_of_steps(rule, accepted, n)
                cost, passes = world.mixed({drafted[k]: share for k, share in shares.items()}, where.split)
                limits = limits_of(self.deployment, Option(most, where), n)
                copies.append((mean_rate(cost, limits, world.drawn(limits), passes, n), alike))
        return MeanRate.together(copies)

    def mean_rate(self, option: Option, answers: int, moved: Mapping[str, float] = NO_MOVES) -> MeanRate | None:
        """Return the tokens per second of all copies by mean values; None for steps, of many requests an answer."""
        if option.configuration.spec.drafts_steps:
            return None
        world, where = self._world(moved), option.arrangement
        cost, passes = world.round_cost(option.configuration, where.split), world.passes(option.configuration)
        copies = []
        for n, alike in shares_of(answers, where.replicas).items():
            if n:
                limits = self._limits(option, n)
                copies.append((mean_rate(cost, limits, world.drawn(limits), passes, n), alike))
        return MeanRate.together(copies)

    def _limits(self, option: Option, answers: int) -> ServingLimits:
        """The bounds of the target's engine, looked up once."""
        if (option, answers) not in self._known_limits:
            self._known_limits[option, answers] = limits_of(self.deployment, option, answers)
        return self._known_limits[option, answers]

    def _world(self, moved: Mapping[str, float]) -> World:
        """The world with beliefs moved; trials of the same one share what they know."""
        key = tuple(sorted(moved.items()))
        if key not in self._moved:
            self._moved[key] = World(self.deployment, moved)
        return self._moved[key]

    def gain(self, option: Option, plain: Option, answers: int) -> float:
        """Return the gain by mean values where they leave no doubt whether there is any; see `Simulator`."""
        own, other = self.mean_rate(option, answers), self.mean_rate(plain, answers)
        if own is not None and other is not None and not (own.is_bound or other.is_bound):
            gain = own.tokens_per_s / other.tokens_per_s
            if pays(gain * (1.0 - MEANS_OFF)) == pays(gain * (1.0 + MEANS_OFF)):
                return gain
        return super().gain(option, plain, answers)

    def shown(self, best: Best) -> list[Option]:
        """Return the fastest few; see `Simulator`."""
        plain = best[PLAIN.method]
        ranked = sorted(worth_simulating(best).values(), key=lambda pair: -pair[1])[:_SHOWN]
        return [option for option, _ in [*ranked, *([] if plain in ranked else [plain])]]

    def trial(
        self,
        option: Option,
        answers: int | None,
        moved: Mapping[str, float] = NO_MOVES,
        sizes: Traced | None = None,
        *,
        in_flight: float | None = None,
    ) -> Trial:
        """Return the trial of one copy; see `Simulator`."""
        limits = self._limits(option, _MOST_SEQUENCES if answers is None else answers)
        return self._world(moved).trial(option.configuration, option.arrangement, limits, sizes)

    def window(self, option: Option, answers: int, first: int) -> Window:
        """Return a window of steps, or of whole answers; see `Simulator`."""
        if option.configuration.spec.drafts_steps:
            return Window.of_steps(answers)
        return self._lives(option, answers, _REPORT if first == REPORT else _CHOICE)

    def window_of_ends(self, option: Option, answers: int) -> Window | None:
        """Return a longer window for steps; see `Simulator`."""
        return self._lives(option, answers, _ENDS_OF_STEPS) if option.configuration.spec.drafts_steps else None

    def _lives(self, option: Option, answers: int, least: Mapping[str, Any]) -> Window:
        """A window of whole answers; those of one length that all have places begin and end together."""
        limits, equal = self._limits(option, answers), not self.deployment.answer_spread
        have_places = answers <= limits.most_sequences and answers * self.deployment.context <= limits.cache_tokens
        return Window.of_lives(answers, self.answer_tokens, in_step=equal and have_places, **least)

    def reported(self, option: Option, plain: Option, answers: int) -> tuple[Estimate, Estimate]:
        """Return gain and tokens per second.

        Steps and whole answers are seen through different windows, which makes pairs of no use.
        """
        means = (self.mean_rate(one, answers) for one in (option, plain)) if self.by_means else ()
        known = [mean.tokens_per_s for mean in means if mean is not None and not mean.is_bound]
        if len(known) == 2:
            values = known[0] / known[1], known[0]
            both, rate = (on_logarithm(value, MEANS_OFF, 0, estimator="mean values") for value in values)
            return both, rate
        own, other = (self.throughputs(one, answers) for one in (option, plain))
        if not option.configuration.spec.drafts_steps:
            least = 2 if answers >= _MANY else 4
            both, rate = until_known(gain(own, other), throughput(own), precision=self.slack * _PRECISION, least=least)
            return both, rate
        precision = self.slack * _STEP_PRECISION
        rate, plain_rate = (until_known(throughput(one), precision=precision)[0] for one in (own, other))
        return quotient(rate, plain_rate), rate

    def served(self, option: Option, answers: int, rate: Estimate) -> ServedLoad:
        """Return what users see, which has to keep Little's law with the rate; see `Simulator`."""
        if not rate.n:  # mean values know no single answer
            most = float(max(shares_of(answers, option.arrangement.replicas)))
            return ServedLoad(answers=(), n_ended=0, seconds=0.0, tokens=0, in_flight=most, busy={})
        together = super().served(option, answers, rate)
        check_little(f"{option.text}, {answers} answers at once", answers, rate, together)
        return together

    def errors(self, option: Option, answers: int, simulated: Estimate) -> dict[str, float]:
        """Return the half-widths by beliefs, the cost of passes and sampling; see `Simulator`."""
        configuration = option.configuration
        if not configuration.speculates:
            return {}
        steps, adaptive = configuration.spec.drafts_steps, configuration.least > 0.0
        names = self.world.beliefs.moves(steps=steps, token=configuration.token, adaptive=adaptive)
        parts = {}
        for name in names:
            low, high = (self._rate(option, answers, {name: z}) for z in (-_Z, _Z))
            parts[name] = abs(math.log(high / low)) / 2.0
        target = self.world.cost(self.deployment.target, option.arrangement.split).model
        of_passes = half_width(GAIN, target, Work(sequences=max(answers / option.arrangement.replicas, 1.0)))
        if steps:
            of_passes = max(of_passes, _STEP_HALF_WIDTH if target.gpu.fitted else 2.0 * _STEP_HALF_WIDTH)
        parts["cost of passes"] = of_passes
        parts["sampling"] = simulated.relative_half_width if math.isfinite(simulated.value) else 0.0
        return parts

    def _rate(self, option: Option, answers: int, moved: Mapping[str, float] = NO_MOVES) -> float:
        """Tokens per second by mean values, whose errors are alike where beliefs are moved, or simulated."""
        mean = self.mean_rate(option, answers, moved)
        return self.speed(option, answers, moved) if mean is None or mean.is_bound else mean.tokens_per_s

    def rate_errors(self, option: Option, errors: Mapping[str, float], in_flight: float) -> dict[str, float]:
        """Return 95 % half-widths of the logarithm of an option's tokens per second, by cause, [-].

        They are those of its gain, ``errors``, but for the cost of passes, of which a gain divides out what its two
        times share; ``in_flight``: mean answers in flight on the fullest copy.
        """
        target = self.world.cost(self.deployment.target, option.arrangement.split).model
        of_passes = max(half_width(each, target) for each in (THROUGHPUT, TIME_PER_TOKEN))
        return {**errors, "cost of passes": max(of_passes, _FULL_HALF_WIDTH if in_flight > _FULL else 0.0)}

    def facts(self, option: Option, answers: int, served: ServedLoad) -> dict[str, Any]:
        """Return wasted tokens of steps and positions of passes, and the bottleneck; see `Simulator`."""
        in_vain = {}
        if served.tokens:
            passes, k2 = self.world.passes(option.configuration), option.configuration.k2
            drafts = drafting_model(self.deployment, option.configuration.token) is not None
            drafted, checked = ((positions - passes.tokens) / passes.tokens for positions in (k2, passes.rows))
            in_vain = {DRAFT: served.in_vain(DRAFT) + drafts * drafted, TARGET: served.in_vain(TARGET) + checked}
        return {"in_vain": in_vain, "limit": limit_of(self.world, option, answers, served)}


def _drafting(token: str, k: int) -> Configuration:
    """A method that drafts so many tokens a round; 0: plain decoding."""
    return Configuration(method=token, k2=k + 1) if k else PLAIN


def limits_of(deployment: Deployment, option: Option, answers: int) -> ServingLimits:
    """Return the bounds of the target's engine, which is started for so many answers."""
    room = room_of(deployment, option.configuration, option.arrangement)
    context = float(deployment.context)
    fit = min(one.answers(context) for one in room) * context
    rows = float(option.configuration.k2)
    places = sequences_for(deployment, option.configuration, answers)
    if deployment.engine.reserving:
        places = min(places, math.floor(fit / context) * option.configuration.most_sequences)
    # `considered` made sure that one answer fits
    return ServingLimits(
        max_batched_tokens=deployment.engine.chunk(deployment.gpu.sheet.memory),
        max_sequences=places,
        cache_tokens=max(fit, context + SLACK),
        rows=rows,
        apart=deployment.engine.apart,
    )


def sequences_for(deployment: Deployment, configuration: Configuration, answers: int) -> int:
    """Return the places that the target's engine needs for so many answers, as far as it may have them."""
    return min(answers * configuration.most_sequences, deployment.max_num_seqs or _MOST_SEQUENCES)
