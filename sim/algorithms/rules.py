"""The scheduling rules of Lookahead Reasoning (LR), where the paper's analysis and the released code differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from theory.errors import ParameterError

__all__ = ["PAPER", "PRESETS", "RELEASED_CODE", "Rules", "check_counts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Knobs of the schedule; the defaults are those under which the paper's Theorems 1 and 2 are exact."""

    prefetch_draft: bool = True
    """Whether the target step at the edge of the window gets its draft at once, so that the draft is ready when the
    window moves on (paper), or only when it has moved (released code)."""

    extra_in_flight: int = 0
    """Target steps allowed in flight beyond ``k1``: 0 (Theorem 2), 1 (released code: ``max_depth`` counts edges)."""

    late_draft: Literal["wait", "cancel"] = "wait"
    """A draft that is unfinished when its target has finished: wait for it, or cancel it and count it rejected."""

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
        if self.late_draft not in ("wait", "cancel"):
            raise ParameterError("late_draft", self.late_draft, "must be 'wait' or 'cancel'")
        if not isinstance(self.extra_in_flight, int) or self.extra_in_flight < 0:
            raise ParameterError("extra_in_flight", self.extra_in_flight, "must be an integer >= 0")

    def refuses_unjudged(self, prefix_depth: int, prefix_truncated: bool) -> bool:
        """Whether the draft that follows a prefix (its last step's depth and truncation) is rejected unjudged."""
        return (self.reject_first and prefix_depth < 0) or (self.reject_after_truncation and prefix_truncated)


PAPER: Final = Rules()
RELEASED_CODE: Final = Rules(
    prefetch_draft=False,
    extra_in_flight=1,
    late_draft="cancel",
    reject_first=True,
    reject_after_truncation=True,
    cancel_at_end=False,
    barrier=False,
)
PRESETS: Final[Mapping[str, Rules]] = MappingProxyType({"paper": PAPER, "released-code": RELEASED_CODE})
"""By the name that a knob has for them."""


def check_counts(k1: int, width: int) -> None:
    """Raise `ParameterError` unless ``k1`` and ``width`` are positive integers."""
    for name, value in (("k1", k1), ("width", width)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(name, value, "must be an integer >= 1")
