"""Random loads: any method, prompts much longer than answers and the reverse, few answers and many, small caches."""

import math
from dataclasses import dataclass

import numpy as np

from sim.answers.acceptance import Acceptance
from sim.answers.drawn import SyntheticBehaviour
from sim.answers.facts import Quality
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.answers.token_passes import DrawnPasses
from sim.catalogue import methods
from sim.configuration import Configuration
from sim.engines.costs import LinearCost
from sim.engines.device import Device
from sim.roles import TARGET
from sim.serving.engine import ServingEngine
from sim.serving.limits import ADDED, Joined, ServingLimits
from sim.serving.load_run import LoadRun, Window
from sim.trial import Trial

METHODS = [name for name, one in methods().items() if one.level == "baseline" or one.roles or one.level == "token"]
_STEP = 15
"""Mean tokens of a step."""
_MOST_OF_STEPS = 64
"""Answers at once with methods that write steps: more would take minutes."""


@dataclass(frozen=True, kw_only=True)
class RandomLoad:
    """A load, and what it is."""

    configuration: Configuration
    concurrency: int
    prompt: int
    answer: int
    spread: float
    cache: float
    """Tokens of the target's cache / tokens of its longest text."""
    apart: bool
    accepted: float
    """Probability that a token or a step of a draft is accepted."""
    seed: int

    @property
    def is_whole(self) -> bool:
        """Whether an answer is one request."""
        return not self.configuration.spec.drafts_steps

    def run(self, configuration: Configuration | None = None, *, lives: float = 3.0, answers: int = 96) -> LoadRun:
        """The load, by its own configuration or by another, in windows of so many lives and answers at least."""
        window = Window.of_lives(self.concurrency, self.answer, lives=lives, answers=answers)
        return LoadRun(self.trial(configuration or self.configuration), self.concurrency, window)

    def trial(self, configuration: Configuration) -> Trial:
        """Answers of one length or of many, on engines with linear costs."""
        spec = configuration.spec
        trial = Trial.of(configuration.algorithm(), self._behaviour(), self._engines(), meets=spec.meets)
        if configuration.token is None:
            return trial
        a, k = self.accepted, configuration.k2
        pmf = (*((1.0 - a) * a**i for i in range(k - 1)), a ** (k - 1))
        return trial.speculating({TARGET: DrawnPasses(pmf=pmf, seed=self.seed)})

    def _behaviour(self) -> SyntheticBehaviour:
        drawn = Lognormal(mean=float(self.answer), cv=self.spread) if self.spread else Fixed(self.answer)
        step = Lognormal(mean=float(_STEP), cv=0.8)
        steps = Lognormal(mean=self.answer / _STEP, cv=self.spread)
        return SyntheticBehaviour(
            lengths=Lengths(target=drawn, draft=drawn, limit=4 * self.answer)
            if self.is_whole
            else Lengths(target=step, draft=step, limit=4 * _STEP),
            acceptance=Acceptance(alpha=self.accepted, siblings=0.3),
            steps=Fixed(1) if self.is_whole else steps,
            prompt_tokens=self.prompt,
            quality=Quality(wrong_accepted=0.2, wrong_target=0.05, corruption=0.5, escalation=0.4, gate_error=0.1),
            seed=self.seed,
        )

    def _engines(self) -> dict[str, ServingEngine]:
        cost = LinearCost(
            base_s=0.02, sequence_s=0.0005, context_s=1e-7, prefill_s=0.002, prefill_token_s=2e-5, request_s=0.003
        )
        longest = self.prompt + 12 * self.answer
        limits = ServingLimits(max_sequences=1024, cache_tokens=self.cache * longest, apart=self.apart)
        target = ServingEngine(Joined(cost, ADDED), limits=limits)
        small = LinearCost(base_s=0.004, sequence_s=0.0001, prefill_s=0.001, prefill_token_s=2e-6)
        return {TARGET: target, "draft": ServingEngine(Joined(small, ADDED), Device()), "judge": target}


def random_load(number: int) -> RandomLoad:
    """Return the load of a number; loads of all numbers go through the methods in turn."""
    rng = np.random.default_rng(number)
    name = METHODS[number % len(METHODS)]
    whole = not methods()[name].drafts_steps
    depth = int(rng.integers(2, 9))
    spec = methods()[name]
    knobs = {knob: depth for knob in ("k1", "k2") if spec.has(knob)}
    most = 1024 if whole else _MOST_OF_STEPS
    return RandomLoad(
        configuration=Configuration(method=name, **knobs),
        concurrency=round(math.exp(rng.uniform(0.0, math.log(most)))),
        prompt=round(math.exp(rng.uniform(0.0, math.log(4000.0)))),
        answer=round(math.exp(rng.uniform(math.log(45.0), math.log(600.0 if whole else 150.0)))),
        spread=float(rng.choice([0.0, 0.4, 0.8])),
        cache=float(rng.choice([1.5, 6.0, 40.0, math.inf])),
        apart=bool(rng.random() >= 0.8),
        accepted=float(rng.uniform(0.1, 0.95)),
        seed=number,
    )
