"""Token-level methods in the worlds of `sim.gaps.worlds`: their passes, simulated token by token.

A pass is drawn by the steps of the method (whether there is a draft, its length, whether its next token is right), not
from the distribution of the closed forms, so that the simulation tests them. The closed forms assume an unlimited text:
under their assumptions an answer is a single request. Where lengths vary or requests have overhead, every step is a
request, as below a step-level method: its first token comes from the prefill and its last pass is cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sim.answers.drawn import Behaviour
from sim.answers.token_passes import PassSource, SpeculatedAnswer, cut
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.engines.protocol import Engine
from sim.gaps.forms import BLOCK, draft_cost, head_acceptance, lookup_lengths
from sim.gaps.worlds import World, behaviour_of, engines_of
from sim.operations import Generate
from sim.passes import Passes
from sim.random_streams import stream
from sim.roles import TARGET
from sim.virtual_clock import Answer
from theory.block_drafting import at_length

__all__ = ["PlayedPasses", "token_behaviour", "token_engines"]

Uniform: TypeAlias = NDArray[np.float64]
_BRANCH: Final = "played"


def _right(lots: Uniform, probability: float | Uniform) -> NDArray[np.int64]:
    """Tokens before the first wrong one, along the last axis."""
    return np.asarray(np.cumprod(lots < probability, axis=-1).sum(axis=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedPasses:
    """Tokens that the passes of a method commit, each from independent random numbers."""

    method: str
    """Name of the token-level method."""

    knobs: Mapping[str, Any]
    """All knobs of the method."""

    world: World
    seed: int

    def passes(self, index: int, operation: Generate, n_tokens: int) -> Passes:
        """Return the passes of a step; a shorter step has the first passes of a longer one."""
        if n_tokens <= 0:
            return Passes.of(())
        rng = stream(self.seed, f"{_BRANCH}/{operation.prefix.depth + 1}", index)
        return Passes.of(cut(self._tokens(rng, n_tokens).tolist(), n_tokens))

    def _tokens(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        world, knobs = self.world, self.knobs
        if self.method == "lookahead-decoding":
            lots = rng.random((n, 1 + knobs["guesses"] * (knobs["ngram"] - 1)))
            tried = lots[:, 1:].reshape(n, knobs["guesses"], knobs["ngram"] - 1)
            hits = lots[:, 0] < 1.0 / world.steps_per_hit
            return np.asarray(1 + hits * _right(tried, world.ngram).max(axis=1))
        if self.method == "prompt-lookup":
            lots = rng.random((n, 1 + knobs["k2"]))
            length = 1 + np.searchsorted(np.cumsum(lookup_lengths(knobs["k2"]))[:-1], lots[:, 1], side="right")
            odds = np.where(np.arange(knobs["k2"] - 1) == 0, world.first, world.continuation)
            return np.asarray(1 + (lots[:, 0] < world.hit) * np.minimum(_right(lots[:, 2:], odds), length))
        if self.method == "eagle":
            return 1 + _right(rng.random((n, knobs["k2"] - 1)), head_acceptance(world, knobs["k2"]))
        if self.method == "block-drafter":
            return 1 + _right(
                rng.random((n, knobs["k2"] - 1)), at_length(head_acceptance(world, knobs["k2"]), BLOCK, knobs["k2"] - 1)
            )
        drafted = knobs["window"] if self.method == "jacobi" else knobs["k2"] - 1
        return 1 + _right(rng.random((n, drafted)), world.alpha2)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculatedBehaviour:
    """A behaviour around another one: its target speculates on tokens, except in answers of plain decoding."""

    inner: Behaviour
    source: PassSource

    @property
    def seed(self) -> int | None:
        """Seed of the texts."""
        return self.inner.seed

    @property
    def n_answers(self) -> int | None:
        """Number of answers of the inner behaviour."""
        return self.inner.n_answers

    def answer(self, index: int) -> Answer:
        """Return the answer with its passes."""
        return SpeculatedAnswer(self.inner.answer(index), {TARGET: self.source}, index)

    def baseline_answer(self, index: int) -> Answer:
        """Return the answer of plain decoding: one token per pass."""
        return self.inner.baseline_answer(index)

    def beam_answer(self, index: int) -> Answer:
        """Return the answer with candidates for methods that choose, with its passes."""
        return SpeculatedAnswer(self.inner.beam_answer(index), {TARGET: self.source}, index)


def token_behaviour(method: str, world: World, knobs: Mapping[str, Any], seed: int) -> SpeculatedBehaviour:
    """Answers of a world, decoded by a token-level method."""
    steps_are_requests = world.cv > 0.0 or world.request > 0.0
    text = world if steps_are_requests else replace(world, steps=1, step_tokens=world.steps * world.step_tokens)
    source = PlayedPasses(method=method, knobs=knobs, world=world, seed=seed)
    return SpeculatedBehaviour(inner=behaviour_of(text, seed), source=source)


def token_engines(method: str, world: World, knobs: Mapping[str, Any]) -> dict[str, Engine]:
    """Engines whose target takes the time of drafting in addition to each pass; prefills take the same time."""
    token = 1.0 / world.step_tokens
    per_pass = token * (1.0 + draft_cost(method, world, knobs))
    return {**engines_of(world), TARGET: BatchEngine(LinearCost(base_s=per_pass, request_s=token + world.request))}
