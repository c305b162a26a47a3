"""Worlds to compare closed forms and simulator in: with the forms' assumptions, and with measured deviations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from sim.answers.acceptance import Acceptance
from sim.answers.drawn import SyntheticBehaviour
from sim.answers.facts import Quality
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.engines.fixed import FixedEngine, PerToken
from sim.engines.protocol import Engine
from sim.roles import CHOOSER, DRAFT, DRAFT_LIKELIHOOD, GATE, JUDGE, LIKELIHOOD, REWARD, SCORER, TARGET

__all__ = ["CONDITIONS", "IDEAL", "LIMIT", "MEASURED", "World", "behaviour_of", "engines_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Parameters of the simulator. Times are in target steps; the defaults are the closed forms' assumptions."""

    alpha1: float = 0.75
    """Acceptance of a draft, [-]: that of a chain with .9 after an acceptance and .3 after a rejection."""
    c1: float = 112.9 / 409.8
    """Draft step / target step, [-]: ConfSpec, Table 6."""
    escalation: float = 0.39
    """Share of drafts on which the gate is not confident, [-]: ConfSpec, section 4.4."""
    step_tokens: int = 40
    """Mean length of a step."""
    steps: int = 500
    """Steps of an answer."""
    ends: bool = False
    """Whether the last steps of an answer, after which no step is drafted, count; if not, answers have no end."""
    cv: float = 0.0
    """Coefficient of variation of a step's length, [-]; with it, steps are cut at 100 tokens."""
    lag1: float = 0.0
    """Correlation of the log lengths of consecutive steps, [-]."""
    correlation: float = 0.0
    """Correlation of the log lengths of a draft and the target's step, [-]."""
    persistence: float = 0.0
    """Lag-1 correlation of acceptance, [-]."""
    siblings: float = 0.0
    """Correlation of the verdicts on drafts of one position, [-]."""
    judge: float = 0.0
    """Time of a verdict, grade or choice by the target."""
    gate: float = 0.0
    """Time of a verdict by the draft."""
    request: float = 0.0
    """Overhead of a request."""
    sequence: float = 0.0
    """Time that each further sequence adds to a target iteration, as a share; if > 0, sequences share iterations."""
    alpha2: float = 0.7
    """Acceptance of a drafted token, or of a guess of Jacobi decoding, at every position, [-]: a round figure."""
    fading: float = 0.95
    """Acceptance at a position of an EAGLE head's draft / at the position before it, [-]: a round figure."""
    c2: float = 0.05
    """Draft token / target pass, [-]: a round figure."""
    ngram: float = 0.425
    """Probability that a token of an n-gram is right, [-], fitted by `theory.lookahead_decoding.fit`."""
    steps_per_hit: float = 3.106
    """Passes per pass that finds n-grams, [-]: as ``ngram``."""
    hit: float = 0.5
    """Share of passes of prompt lookup that find a draft, [-]: a round figure, as the next two."""
    first: float = 0.6
    """Acceptance of a looked-up draft's first token, [-]."""
    continuation: float = 0.85
    """Acceptance of each later one, those before it being right, [-]."""


IDEAL: Final = World()
MEASURED: Final = World(
    steps=100,
    ends=True,
    cv=1.2,
    lag1=0.37,
    correlation=0.6,
    persistence=0.6,
    siblings=0.63,
    judge=45.9 / 409.8,
    gate=8.7 / 409.8,
    request=6.0 / 409.8,
    sequence=0.16 / 7,
)
"""Qwen3-32B's step lengths, request overhead and batches (8 sequences at 4k tokens each: 1.16 times one); ConfSpec,
Table 6, for the verdicts; LR, Table 3, for the siblings."""

LIMIT: Final = 100
"""Tokens at which a step is cut where lengths vary."""


def _broken(*names: str) -> World:
    return replace(IDEAL, **{name: getattr(MEASURED, name) for name in names})


CONDITIONS: Final[Mapping[str, World]] = MappingProxyType(
    {
        "as assumed": IDEAL,
        "lengths vary": _broken("cv"),
        "… and are autocorrelated": _broken("cv", "lag1"),
        "… and draft-target correlated": _broken("cv", "correlation"),
        "verdicts take time": _broken("judge", "gate"),
        "acceptance sticky": _broken("persistence"),
        "siblings correlated": _broken("siblings"),
        "parallel steps cost": _broken("sequence"),
        "requests cost": _broken("request"),
        "100 steps an answer": _broken("steps", "ends"),
        "all of it": MEASURED,
    }
)
"""Condition -> world with the parameters that deviate from the assumptions."""


def behaviour_of(world: World, seed: int, block: int = 1) -> SyntheticBehaviour:
    """Answers of a world; ``block`` of them share streams of random numbers."""
    varies = world.cv > 0.0
    step = Lognormal(mean=world.step_tokens, cv=world.cv) if varies else Fixed(world.step_tokens)
    return SyntheticBehaviour(
        lengths=Lengths(
            target=step, draft=step, correlation=world.correlation, lag1=world.lag1, limit=LIMIT if varies else None
        ),
        acceptance=Acceptance(alpha=world.alpha1, persistence=world.persistence, siblings=world.siblings),
        steps=Fixed(world.steps),
        quality=Quality(escalation=world.escalation),
        seed=seed,
        block=block,
    )


def engines_of(world: World) -> dict[str, Engine]:
    """Engines of a world; verdicts have engines of their own, so that conditions do not affect each other."""
    token = 1.0 / world.step_tokens
    target: Engine = FixedEngine(PerToken(token, world.request))
    if world.sequence > 0.0:
        target = BatchEngine(
            LinearCost(
                base_s=token * (1.0 - world.sequence),
                sequence_s=token * world.sequence,
                request_s=token + world.request,  # the first token; it does not delay other sequences
            )
        )
    draft = FixedEngine(PerToken(token * world.c1, world.request))
    by_target = {r: FixedEngine(_verdict(world, world.judge)) for r in (JUDGE, SCORER, REWARD, CHOOSER, LIKELIHOOD)}
    by_draft = {role: FixedEngine(_verdict(world, world.gate)) for role in (GATE, DRAFT_LIKELIHOOD)}
    return {TARGET: target, DRAFT: draft, **by_draft, **by_target}


def _verdict(world: World, seconds: float) -> float:
    return seconds + world.request
