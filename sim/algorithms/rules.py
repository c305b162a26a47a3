"""The scheduling rules of Lookahead Reasoning (LR), where the paper's analysis and the released code differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, get_args, get_type_hints

from theory.errors import ParameterError

__all__ = ["EAGER", "PAPER", "PRESETS", "RELEASED_CODE", "Fallback", "Rules", "check_count", "check_counts"]

_MOST_DRAFTS: Final = 1024
"""Largest number of drafts in a tree: more than any machine can hold, and simulation time grows with it."""

Fallback = Literal["none", "regenerate", "reuse"]
"""After a rejection: ``reuse`` commits the target's step that the drafts were compared with (LR); ``regenerate`` has
the target write a new one (ConfSpec, section 4.2); ``none`` commits only the accepted drafts and drafts the position
once more, and has the target write a step only if no draft was accepted (ConfSpec, Algorithm 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Knobs of the schedule; the defaults are those under which the paper's Theorems 1 and 2 are exact."""

    prefetch_draft: bool = True
    """Whether the target step at the edge of the window gets its draft at once, so that the draft is ready when the
    window moves on (paper), or only when it has moved (released code)."""
    extra_in_flight: int = 0
    """Target steps allowed in flight beyond ``k1``: 0 (Theorem 2), 1 (released code: ``max_depth`` counts edges)."""
    slot: Literal["commit", "oldest-target", "any-target"] = "commit"
    """When a place in the window is free again: when its position is committed (the root moves on), or as soon as the
    oldest target step, or any one, of those before it has been generated."""
    late_draft: Literal["wait", "cancel", "in-order"] = "wait"
    """A draft that is unfinished when its target step has ended: wait for it (paper); cancel it and count it rejected
    at once; or, in order, only when its position is the root and no verdict is pending (released code). A draft that
    waits for the window and has not started by then is never started."""
    restart: Literal["verdict", "in-order"] = "verdict"
    """When a decision takes effect, that is, requests after refused drafts are cancelled and drafting restarts after
    the target's step: at the verdict, or when the position is the root (released code)."""
    winner: Literal["first-verdict", "first-branch", "most-confident"] = "first-verdict"
    """Which of several accepted drafts of a position is followed: the first to be accepted, at once; or, after the
    verdicts on all drafts, that of the lowest branch (released code) or that with the highest confidence (ConfSpec,
    Equation 5)."""
    fallback: Fallback = "reuse"
    """What is committed at a position where all drafts are refused; see `Fallback`."""
    reject_first: bool = False
    """Whether the first draft of an answer is rejected unjudged (released code)."""
    reject_after_truncation: bool = False
    """Whether a draft that follows a truncated step is rejected unjudged (released code)."""
    cancel_at_end: bool = True
    """Whether requests in flight are cancelled when the answer ends; if not, they go on using their engine."""
    barrier: bool = True
    """Sync only: wait for every target step of the cycle before judging (Algorithm 1), or judge as they come and end
    the cycle at the first rejection."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(Rules).items():
            value, choices = getattr(self, name), get_args(hint)
            if choices and value not in choices:
                raise ParameterError(name, value, f"must be one of {', '.join(choices)}")
        if not isinstance(self.extra_in_flight, int) or self.extra_in_flight < 0:
            raise ParameterError("extra_in_flight", self.extra_in_flight, "must be an integer >= 0")

    @property
    def judges_every_draft(self) -> bool:
        """Whether each draft starts with its target step, is waited for, and is judged."""
        refuses = self.reject_first or self.reject_after_truncation
        return self.prefetch_draft and self.late_draft == "wait" and not refuses

    def refuses_unjudged(self, prefix_depth: int, prefix_truncated: bool) -> bool:
        """Whether the draft that follows a prefix (its last step's depth and truncation) is rejected unjudged."""
        return (self.reject_first and prefix_depth < 0) or (self.reject_after_truncation and prefix_truncated)


PAPER: Final = Rules()
RELEASED_CODE: Final = Rules(
    prefetch_draft=False,
    extra_in_flight=1,
    late_draft="in-order",
    restart="in-order",
    winner="first-branch",
    reject_first=True,
    reject_after_truncation=True,
    cancel_at_end=False,
    barrier=False,
)
EAGER: Final = replace(RELEASED_CODE, late_draft="cancel", restart="verdict", winner="first-verdict")
"""The released code with every decision in effect at once: a variant of this project, faster where lengths vary."""

PRESETS: Final[Mapping[str, Rules]] = MappingProxyType({"paper": PAPER, "released-code": RELEASED_CODE, "eager": EAGER})
"""Rules by the value of the knob ``rules``."""


def check_count(name: str, value: int) -> None:
    """Raise `ParameterError` unless ``value`` is a positive integer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(name, value, "must be an integer >= 1")


def check_counts(k1: int, width: int) -> None:
    """Raise `ParameterError` unless ``k1`` and ``width`` are positive integers whose tree is of a sensible size."""
    check_count("k1", k1)
    check_count("width", width)
    if width > 1 and k1 * math.log(width) > math.log(_MOST_DRAFTS) + 1e-9:
        most = math.floor(_MOST_DRAFTS ** (1.0 / k1) + 1e-9)
        rule = f"must be at most {most} with k1={k1}: width ** k1 drafts are in flight, {_MOST_DRAFTS} at most"
        raise ParameterError("width", width, rule)
