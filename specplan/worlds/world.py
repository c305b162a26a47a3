"""The world of a deployment: what the models would say and what it takes, as far as names tell; from it come trials.

What is not known is a belief (`specplan.worlds.beliefs`); a world is built at the best values of all beliefs, or
with some of them moved, so that the spread of what comes out tells how much each matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from calibrate.replay.assumptions import ASSUMED
from sim.answers.acceptance import Acceptance
from sim.answers.drawn import DrawnAnswer, SyntheticBehaviour
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.answers.replayed import BaselineAnswer
from sim.answers.token_passes import DrawnPasses
from sim.answers.traces import AnswerTrace
from sim.engines.device import Device
from sim.roles import DRAFT, JUDGE, TARGET
from sim.serving.engine import ServingEngine
from sim.serving.limits import ServingLimits
from sim.trial import Trial
from specplan.worlds.arrangements import Split, parallel_of
from specplan.worlds.beliefs import CONFIDENCE, LONG_PROMPTS, STEP_ACCEPTANCE, STEP_LENGTHS, TOKEN_ACCEPTANCE, Beliefs
from specplan.worlds.configs.blocks import CHAINED_RANK
from specplan.worlds.costs import CLIENT_S, REQUEST_S, WORD_S, Contexts, MixedCost, ModelCost, RoundCost
from specplan.worlds.drafters.naming import drafter_name, drafting_model
from specplan.worlds.measured_operators import with_operators
from specplan.worlds.sizes import MIDPOINTS, Drawn, Sizes, longest_answer
from theory.adaptive.verification import CHOOSING, Verified, verified
from theory.hardware.passes import PassModel
from theory.hardware.rounds import Round, head_round, model_round

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.configuration import Configuration
    from sim.engines.protocol import Engine
    from specplan.worlds.arrangements import Arrangement
    from specplan.worlds.request import Deployment, ServedModel

__all__ = ["World", "passes_of"]

_SEED: Final = 0
_JUDGE_TOKENS: Final = 100
"""Tokens of the instructions that a judge reads with two steps: those of LR's prompt."""


def passes_of(deployment: Deployment, model: ServedModel, split: Split) -> tuple[PassModel, str | None]:
    """Return the passes of a model on the GPUs that share it, and what to say of their operators where it matters."""
    passes = PassModel(
        gpu=deployment.gpu,
        shape=model.facts.shape,
        precision=model.precision,
        parallel=parallel_of(model, split),
        engine=deployment.engine,
        is_new=deployment.engine.is_new_to(model.facts.architecture),
    )
    return with_operators(passes, deployment.operators)


class World:
    """Trials of a deployment.

    Parameters
    ----------
    moved : name of a belief to its standard normal score; those left out stay at their best values.
    """

    def __init__(self, deployment: Deployment, moved: Mapping[str, float] = MappingProxyType({})) -> None:
        self.deployment = deployment
        self.beliefs = Beliefs(deployment)
        self._moved = moved
        self._costs: dict[tuple[object, ...], ModelCost] = {}
        self._rounds: dict[tuple[object, ...], RoundCost] = {}
        self._drafting: dict[tuple[str, Split], Round] = {}
        self._verified: dict[tuple[str, int, float], Verified] = {}

    def trial(
        self, configuration: Configuration, arrangement: Arrangement, limits: ServingLimits, sizes: Sizes | None = None
    ) -> Trial:
        """Return the trial of a configuration on one copy of an arrangement.

        Parameters
        ----------
        sizes : of each answer; None: drawn as the deployment says.
        """
        spec, algorithm = configuration.spec, configuration.algorithm()
        engines, sized = self._engines(configuration, arrangement, limits), sizes or self.drawn(limits)
        if spec.drafts_steps:
            trial = Trial.of(
                algorithm, _Sized(self._steps, sized, self._mean_step, limits.cache_tokens), engines, meets=spec.meets
            )
        else:
            trial = Trial(
                algorithm=algorithm,
                answer=lambda i: _whole(*sized.of(i)),
                engines=engines,
                seed=_SEED,
                sizes=lambda indices: np.array([sized.of(i) for i in indices], dtype=np.int64).T,
            )
        if configuration.token is None:
            return trial
        return trial.speculating({TARGET: DrawnPasses(pmf=self.passes(configuration).pmf, seed=_SEED)})

    def round_cost(self, configuration: Configuration, split: Split) -> ModelCost | RoundCost:
        """What an iteration of the target costs, drafting of tokens included."""
        rows, token, chooses = round(self.passes(configuration).rows, 2), configuration.token, configuration.least > 0.0
        # a client asks for whole answers, and who writes steps asks in the engine's process
        client = CLIENT_S + WORD_S * self.deployment.prompt_tokens
        request_s = REQUEST_S if configuration.spec.drafts_steps else client
        target = self.cost(
            self.deployment.target, split, rows=rows, token=token, makes_room=chooses, request_s=request_s
        )
        if configuration.token is None:
            return target
        maker = target.model.gpu.name.partition(" ")[0]
        factor = CHOOSING[maker] if chooses else 1.0
        key = "rounds", configuration.token, split, configuration.k2, target.rows, factor, request_s
        if key not in self._rounds:
            drafting = configuration.token, split
            if drafting not in self._drafting:
                self._drafting[drafting] = self._round(configuration.token, target.model)
            self._rounds[key] = RoundCost(target, self._drafting[drafting], configuration.k2, factor)
        return self._rounds[key]

    def _round(self, token: str, target: PassModel) -> Round:
        """What drafting takes: by a head or a model on the target's GPUs, or from the text."""
        drafter = drafting_model(self.deployment, token)
        if drafter is None:
            return Round(target=target, method="prompt-lookup")
        if token == "draft-model":
            return model_round(target, drafter.facts.shape, drafter.precision)
        rank = CHAINED_RANK.get(drafter_name(self.deployment, token), 0)
        return head_round(target, drafter.facts.shape, token, rank)

    def passes(self, configuration: Configuration) -> Verified:
        """What a pass of the target verifies and commits of a sequence."""
        token, k2, least = configuration.token, configuration.k2, configuration.least
        if token is None:
            return Verified(pmf=(1.0,), rows=1.0)
        if (token, k2, least) not in self._verified:
            known, scores = self.beliefs, [self._moved.get(name, 0.0) for name in (TOKEN_ACCEPTANCE, LONG_PROMPTS)]
            spread = known.spread(self._moved.get(CONFIDENCE, 0.0))
            self._verified[token, k2, least] = (
                verified(known.accepted(token, k2, *scores), least, spread)
                if least
                else Verified(pmf=known.pmf(token, k2, *scores), rows=1.0 + known.drafting(token, scores[0]) * (k2 - 1))
            )
        return self._verified[token, k2, least]

    def mixed(self, shares: Mapping[Configuration, float], split: Split) -> tuple[MixedCost, Verified]:
        """Return what iterations cost and commit, on average, of which shares run configurations.

        Parameters
        ----------
        shares : configuration to the share of the iterations that run it, [-]; they sum to 1.
        """
        used = {one: share for one, share in shares.items() if share > 0.0}
        passes = {one: self.passes(one) for one in used}
        pmf = np.zeros(max(len(one.pmf) for one in passes.values()))
        for one, share in used.items():
            pmf[: len(passes[one].pmf)] += share * np.array(passes[one].pmf)
        rows = sum(share * passes[one].rows for one, share in used.items())
        cost = MixedCost(tuple((share, self.round_cost(one, split)) for one, share in used.items()))
        return cost, Verified(pmf=tuple(pmf.tolist()), rows=rows)

    def seconds_by_rows(
        self, configuration: Configuration, split: Split, batch: int, context: float
    ) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
        """Return the seconds of a round of a batch by the tokens of each sequence that the target computes.

        Parameters
        ----------
        configuration : its drafts, all of which are verified at most; straight between whole numbers of tokens.
        """
        rows = np.arange(1, configuration.k2 + 1)
        target, token = self.deployment.target, configuration.token
        costs = [self.cost(target, split, rows=float(n), token=token) for n in rows]
        passes = np.array([cost.iteration(batch, batch * context) for cost in costs])
        drafting = self.round_cost(configuration, split).iteration(batch, batch * context) - passes[-1]
        return lambda wanted: np.interp(wanted, rows, passes) + drafting

    def cost(
        self,
        model: ServedModel,
        split: Split,
        *,
        rows: float = 1.0,
        token: str | None = None,
        makes_room: bool = False,
        request_s: float = REQUEST_S,
    ) -> ModelCost:
        """What iterations of a model cost, see `ModelCost`; ``token``: the method whose drafts they verify."""
        key = model.name, split, rows, token, makes_room, request_s
        if key not in self._costs:
            deployment = self.deployment
            passes, _ = passes_of(deployment, model, split)
            verifying = passes if token is None else replace(passes, engine=passes.engine.verifying(token))
            contexts = Contexts(first=float(deployment.prompt_tokens), last=float(deployment.context))
            self._costs[key] = ModelCost(verifying, contexts, rows, makes_room, request_s)
        return self._costs[key]

    def _engines(
        self, configuration: Configuration, arrangement: Arrangement, limits: ServingLimits
    ) -> dict[str, Engine]:
        deployment, home = self.deployment, Device()
        target = ServingEngine(self.round_cost(configuration, arrangement.split), home, limits=limits)
        found: dict[str, Engine] = {TARGET: target}
        if not configuration.spec.drafts_steps:
            return found
        beside = [home, home] if not arrangement.own_gpus else [Device() for _ in range(arrangement.own_gpus)]
        for role, model, device in ((DRAFT, deployment.draft, beside[0]), (JUDGE, deployment.judge, beside[-1])):
            if model is not None:
                found[role] = ServingEngine(self.cost(model, 1), device)
        return found

    def drawn(self, limits: ServingLimits) -> Drawn:
        """Return sizes around the deployment's means, as far as the target's cache holds them."""
        deployment = self.deployment
        return Drawn(
            prompt_tokens=deployment.prompt_tokens,
            mean=deployment.answer_tokens,
            spread=deployment.answer_spread,
            longest=longest_answer(deployment, limits.cache_tokens),
        )

    @cached_property
    def _step(self) -> Lognormal:
        """Lengths of steps before they are cut."""
        mean = self.beliefs.step_tokens(self._moved.get(STEP_LENGTHS, 0.0))
        return Lognormal(mean=mean, cv=ASSUMED.step_length_cv)

    @cached_property
    def _mean_step(self) -> float:
        """Mean tokens of a step, cut ones as they are cut: by the midpoints of a thousand quantiles."""
        return float(np.minimum(self._step.at(MIDPOINTS.copy()), ASSUMED.step_limit).mean())

    @cached_property
    def _steps(self) -> SyntheticBehaviour:
        """Answers step by step, as long on average as the others."""
        step = self._step
        lengths = Lengths(
            target=step, draft=step, correlation=ASSUMED.draft_correlation, lag1=ASSUMED.lag1, limit=ASSUMED.step_limit
        )
        return SyntheticBehaviour(
            lengths=lengths,
            acceptance=Acceptance(
                alpha=self.beliefs.alpha1(self._moved.get(STEP_ACCEPTANCE, 0.0)), siblings=ASSUMED.siblings
            ),
            steps=Fixed(max(round(self.deployment.answer_tokens / self._mean_step), 1)),
            prompt_tokens=self.deployment.prompt_tokens,
            judge_overhead_tokens=_JUDGE_TOKENS,
            seed=_SEED,
        )


def _whole(prompt_tokens: int, tokens: int) -> BaselineAnswer:
    """An answer as one request."""
    return BaselineAnswer(AnswerTrace(prompt_tokens=prompt_tokens, steps=(), baseline=(tokens,)))


class _Sized:
    """Answers step by step, each of its size.

    Steps are drawn one by one: an answer that comes out too long for the cache, as a server would cut it, ends before.
    """

    def __init__(self, alike: SyntheticBehaviour, sizes: Sizes, step: float, cache_tokens: float) -> None:
        self._alike = alike
        self._sizes = sizes
        self._step = step
        self._room = cache_tokens - alike.judge_overhead_tokens - ASSUMED.step_limit
        self.seed = alike.seed
        self.n_answers = None

    def answer(self, index: int) -> DrawnAnswer:
        """Return an answer of its size."""
        prompt, tokens = self._sizes.of(index)
        n = max(round(tokens / self._step), 1)
        found = replace(self._alike, steps=Fixed(n), prompt_tokens=prompt).answer(index)
        if prompt + n * ASSUMED.step_limit <= self._room:
            return found
        longest = np.minimum(np.maximum(found.target_lengths(), found.draft_lengths()), ASSUMED.step_limit)
        fit = int(np.searchsorted(np.cumsum(longest), self._room - prompt, side="right"))
        return replace(self._alike, steps=Fixed(max(min(fit, n), 1)), prompt_tokens=prompt).answer(index)

    baseline_answer = beam_answer = answer
