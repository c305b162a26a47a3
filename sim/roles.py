"""Roles: whom an algorithm asks, and which engine does the work of a role without one of its own."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = [
    "CHOOSER",
    "DRAFT",
    "DRAFT_LIKELIHOOD",
    "EMBEDDING",
    "EXACT",
    "GATE",
    "INSTANT",
    "JUDGE",
    "LIKELIHOOD",
    "OWN_THRESHOLDS",
    "RANDOM",
    "REWARD",
    "SCORER",
    "STANDS_IN",
    "TARGET",
]

TARGET: Final = "target"
DRAFT: Final = "draft"
JUDGE: Final = "judge"
"""Compares two steps; the verifier of Lookahead Reasoning."""

GATE: Final = "gate"
"""Compares two steps first, at low cost; where its confidence is low, the judge decides (ConfSpec)."""

EMBEDDING: Final = "embedding"
"""Compares the embeddings of two steps."""

EXACT: Final = "exact"
"""Compares the texts of two steps."""

RANDOM: Final = "random"
"""Accepts at random; its score is uniform in [0, 1) and differs by branch. Algorithms draw random numbers with it."""

SCORER: Final = "scorer"
"""Grades a step from 0 to 9 (SpecReason)."""

REWARD: Final = "reward"
"""Rewards a step between 0 and 1 (RSD)."""

LIKELIHOOD: Final = "likelihood"
"""Scores a step by the logarithm of its probability under the target (SPECS), nats."""

DRAFT_LIKELIHOOD: Final = "draft-likelihood"
"""Scores a step by the logarithm of its probability under the draft, nats."""

CHOOSER: Final = "chooser"
"""Picks one of several steps, or none (SpecCoT)."""

STANDS_IN: Final[Mapping[str, str]] = MappingProxyType(
    {
        JUDGE: TARGET,
        GATE: DRAFT,
        SCORER: TARGET,
        REWARD: TARGET,
        CHOOSER: TARGET,
        LIKELIHOOD: TARGET,
        DRAFT_LIKELIHOOD: DRAFT,
    }
)
"""Role without an engine of its own -> role whose engine it uses."""

OWN_THRESHOLDS: Final[Mapping[str, float]] = MappingProxyType({GATE: 0.5, EMBEDDING: 0.8, EXACT: 1.0, RANDOM: 0.5})
"""Default threshold: least score at which a verifier accepts; a judge's own is part of its set-up."""

INSTANT: Final = frozenset({EXACT, RANDOM})
"""Roles that need no engine and no time."""
