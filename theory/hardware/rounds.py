"""Seconds of a round of token-level speculation: drafting, the target's verification, and the engine between them.

A round drafts ``k - 1`` tokens for each sequence and verifies them with the target in one pass of ``k`` tokens per
sequence. Drafts come from a head on the target's states (EAGLE, arXiv 2503.01840; multi-token prediction,
arXiv 2412.19437), from a model of its own, or from the prompt (prompt lookup), which costs no pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from theory.errors import ParameterError
from theory.hardware.passes import PassModel
from theory.hardware.work import Work

__all__ = ["METHODS", "ROUND_CONSTANTS", "Round", "RoundConstants", "RoundParts"]

METHODS: Final = ("eagle", "mtp", "draft-model", "prompt-lookup")
"""Where drafts come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundConstants:
    """What an engine takes for a round besides the passes, seconds."""

    per_round: float
    """Preparing verification, sampling, accepting, and freeing what was refused."""
    per_draft_pass: float
    """Between two passes of the draft."""
    per_tree: float
    """Building a tree of drafts and choosing among its branches, where ``topk`` > 1."""


ROUND_CONSTANTS: Final[Mapping[str, RoundConstants]] = MappingProxyType({})
"""By engine, fitted (docs/scoreboard.md says to what)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundParts:
    """Seconds of a round."""

    verification: float
    drafting: float
    engine: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.verification + self.drafting + self.engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Rounds of a target with a draft."""

    target: PassModel
    method: str
    draft: PassModel | None = None
    """The head or the model that drafts; None for prompt lookup."""
    constants: RoundConstants

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ParameterError("method", self.method, f"must be one of {', '.join(METHODS)}")
        if (self.draft is None) != (self.method == "prompt-lookup"):
            raise ParameterError(
                "draft", self.draft, f"must be given for all methods but prompt-lookup ({self.method})"
            )

    def seconds(self, batch: float, k: float, context: float, *, steps: int | None = None, topk: int = 1) -> float:
        """Return the seconds of a round; see `parts`."""
        return self.parts(batch, k, context, steps=steps, topk=topk).seconds

    def parts(self, batch: float, k: float, context: float, *, steps: int | None = None, topk: int = 1) -> RoundParts:
        """Return the seconds of a round by what takes them.

        Parameters
        ----------
        batch : sequences, > 0.
        k : tokens that the target verifies per sequence, >= 1; 1 is a plain step, without draft or round.
        context : cached tokens of each sequence, mean, >= 0.
        steps : passes of the draft; None: ``k - 1``, a chain.
        topk : branches that a pass of the draft goes on with; 1: a chain.
        """
        if not (math.isfinite(k) and k >= 1.0):
            raise ParameterError("k", k, "must be finite and >= 1")
        if topk < 1:
            raise ParameterError("topk", topk, "must be >= 1")
        verification = self.target.seconds(Work(sequences=batch, tokens=k, context=context))
        if k == 1.0:
            return RoundParts(verification=verification, drafting=0.0, engine=0.0)
        passes = math.ceil(k) - 1 if steps is None else steps
        drafting = 0.0 if self.draft is None else self._drafting(self.draft, batch, k, context, passes, topk)
        engine = self.constants.per_round + (self.constants.per_tree if topk > 1 else 0.0)
        if self.draft is not None:
            engine += passes * self.constants.per_draft_pass
        return RoundParts(verification=verification, drafting=drafting, engine=engine)

    @staticmethod
    def _drafting(draft: PassModel, batch: float, k: float, context: float, passes: int, topk: int) -> float:
        """Seconds of the draft's passes: the first reads what the last round committed, the others ``topk`` branches."""
        first = draft.seconds(Work(sequences=batch, tokens=max(1.0, (k + 1.0) / 2.0), context=context))
        return first + (passes - 1) * draft.seconds(Work(sequences=batch, tokens=float(topk), context=context))
