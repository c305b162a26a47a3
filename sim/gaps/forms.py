"""Closed forms by their dotted names, each as a function of the parameters of a world that it has terms for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from sim.catalogue import KnobValue
from sim.gaps.worlds import World
from sim.roles import DRAFT
from theory import f_async, f_sync
from theory.block_drafting import block_tokens
from theory.drafting.distributed import dsi_speedup
from theory.lookahead_decoding.speedup import lookahead_compression
from theory.specs.beams import beam_speedup, rsd_beams_speedup, specs_speedup
from theory.speedup import expected_tokens, g
from theory.step_methods import any_of, best_of_speedup, confspec_pipeline_speedup, confspec_speedup, graded_speedup
from theory.token_methods import lookup_tokens, token_speedup, vector_tokens

__all__ = ["BLOCK", "CLOSED_FORMS", "Form", "Knobs", "draft_cost", "head_acceptance", "lookup_lengths"]

Knobs = Mapping[str, KnobValue]
Form = Callable[[World, Mapping[str, Any]], float]

_FALLBACKS: Final[Mapping[str, Literal["printed", "text", "reuse"]]] = MappingProxyType(
    {"none": "printed", "regenerate": "text", "reuse": "reuse"}
)

BLOCK: Final = 7
"""Tokens of the blocks in which a position is accepted as often as one of a head's."""


def lookup_lengths(k2: int) -> tuple[float, ...]:
    """P(a looked-up draft has 1, ..., k2 - 1 tokens): half have all, the others are cut anywhere by the text's end."""
    return tuple(0.5 * (d == k2 - 1) + 0.5 / (k2 - 1) for d in range(1, k2))


def draft_cost(method: str, world: World, knobs: Mapping[str, Any]) -> float:
    """Time of drafting for a pass, in plain passes: a pass for each token, or for a block; 0 without a model."""
    if method == "block-drafter":
        return world.c2
    return world.c2 * (knobs["k2"] - 1) if method in ("draft-model", "eagle") else 0.0


def head_acceptance(world: World, k2: int) -> NDArray[np.float64]:
    """Acceptance of an EAGLE head at each position of its draft, those before it being right."""
    return np.asarray(world.alpha2 * world.fading ** np.arange(k2 - 1.0))


def _confspec(world: World, knobs: Mapping[str, Any]) -> float:
    at = (world.alpha1, world.c1, knobs["k1"])
    if knobs["schedule"] == "async":
        fallback = _FALLBACKS[knobs["fallback"] or "reuse"]
        return float(confspec_pipeline_speedup(*at, fallback=fallback, width=knobs["width"]))
    return float(
        confspec_speedup(
            *at,
            fallback=_FALLBACKS[knobs["fallback"] or "none"],
            gate_cost=world.gate,
            judge_cost=world.judge,
            escalation=world.escalation,
            width=knobs["width"],
        )
    )


def _lookup(world: World, knobs: Mapping[str, Any]) -> float:
    tokens = lookup_tokens(world.hit, world.first, world.continuation, lookup_lengths(knobs["k2"]))
    return float(token_speedup(tokens, draft_cost=draft_cost("prompt-lookup", world, knobs)))


def _headed(world: World, knobs: Mapping[str, Any]) -> float:
    tokens = vector_tokens(head_acceptance(world, knobs["k2"]))
    return float(token_speedup(tokens, draft_cost=draft_cost("eagle", world, knobs)))


def _of_block(world: World, knobs: Mapping[str, Any]) -> float:
    tokens = block_tokens(head_acceptance(world, knobs["k2"]), BLOCK, knobs["k2"] - 1)
    return float(token_speedup(tokens, draft_cost=draft_cost("block-drafter", world, knobs)))


def _ngrams(world: World, knobs: Mapping[str, Any]) -> float:
    shape = {"window": knobs["guesses"], "ngram": knobs["ngram"]}  # the paper has as many guesses as columns
    return float(lookahead_compression(world.ngram, world.steps_per_hit, **shape))


def _specs(world: World, knobs: Mapping[str, Any]) -> float:
    promising = float(any_of(world.alpha1, knobs["width"]))
    how = {name: knobs[name] for name in ("switch", "start", "share")}
    likelihood = max(world.judge, world.gate) if knobs["likelihood"] else world.judge  # at the same time as the reward
    return specs_speedup(world.steps, promising, promising, 1.0 + world.judge, world.c1 + likelihood, **how)


CLOSED_FORMS: Final[Mapping[str, Form]] = MappingProxyType(
    {
        "theory.speedup.f_sync": lambda world, knobs: float(f_sync(world.alpha1, world.c1, knobs["k1"])),
        "theory.speedup.f_async": lambda world, knobs: float(f_async(world.alpha1, world.c1, knobs["k1"])),
        "theory.drafting.distributed.dsi_speedup": lambda world, knobs: float(
            dsi_speedup(world.alpha1, world.c1, knobs["lookahead"], knobs["servers"])
        ),
        "theory.step_methods.graded_speedup": lambda world, _: float(
            graded_speedup(world.alpha1, world.c1, world.judge)
        ),
        "theory.step_methods.best_of_speedup": lambda world, knobs: float(
            best_of_speedup(world.alpha1, world.c1, knobs["width"], world.judge)
        ),
        "theory.step_methods.confspec_pipeline_speedup": _confspec,
        "theory.token_methods.lookup_tokens": _lookup,
        "theory.speedup.g": lambda world, knobs: float(g(world.alpha2, world.c2, knobs["k2"])),
        "theory.token_methods.vector_tokens": _headed,
        "theory.block_drafting.block_tokens": _of_block,
        "theory.lookahead_decoding.speedup.lookahead_compression": _ngrams,
        "theory.speedup.expected_tokens": lambda world, knobs: float(expected_tokens(world.alpha2, knobs["window"])),
        "theory.specs.beams.beam_speedup": lambda world, knobs: float(
            beam_speedup((world.c1 if knobs["role"] == DRAFT else 1.0) + world.judge)
        ),
        "theory.specs.beams.rsd_beams_speedup": lambda world, knobs: float(
            rsd_beams_speedup(world.alpha1, knobs["width"], world.c1 + world.judge, 1.0 + world.judge)
        ),
        "theory.specs.beams.specs_speedup": _specs,
    }
)
"""Dotted name of a closed form, as in the catalogue, to its speedup in a world at given knobs. A form uses the
parameters of the world that it has terms for; the others cause its error."""
