"""The truth about a step, where it is known: whether it is right, and whether a wrong step stands before it.

In simulation a step's ``payload`` holds its facts (real runs hold text there, and are graded afterwards). A wrong step
that stands in the answer corrupts the context of all that follow: the answer will hardly come out right, and the draft
and its verifier agree less often from there on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sim.operations import Step
from theory.errors import ParameterError

__all__ = ["Facts", "Quality", "facts_after", "is_corrupted"]


class Facts:
    """Whether a step is right, and whether the text up to its end holds a wrong step."""

    __slots__ = ("corrupted", "right")

    def __init__(self, right: bool, corrupted: bool) -> None:
        self.right = right
        self.corrupted = corrupted

    def __repr__(self) -> str:
        """Short form for traces."""
        return f"{'right' if self.right else 'wrong'}{', corrupted' if self.corrupted else ''}"


_RIGHT: Final = Facts(True, False)
_RIGHT_TOO_LATE: Final = Facts(True, True)
_WRONG: Final = Facts(False, True)


def is_corrupted(text: Step) -> bool:
    """Whether a wrong step is known to stand in the text that ends with this step."""
    return text.payload.__class__ is Facts and text.payload.corrupted


def facts_after(prefix: Step, right: bool) -> Facts:
    """Return the facts of a step after ``prefix``."""
    if not right:
        return _WRONG
    return _RIGHT_TOO_LATE if is_corrupted(prefix) else _RIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """How often steps are wrong, and how well verifiers see it, in a model of answers."""

    wrong_accepted: float = 0.0
    """Share of the accepted drafts that are wrong (false accepts), in [0, 1]."""

    wrong_target: float = 0.0
    """Share of the target's steps that are wrong, in [0, 1]."""

    corruption: float = 0.0
    """Share of acceptance that is lost once a wrong step stands in the answer, in [0, 1]."""

    escalation: float = 0.0
    """Share of drafts on which the gate is not sure (ConfSpec's alpha), in [0, 1]."""

    gate_error: float = 0.0
    """Share of the gate's sure verdicts that differ from the judge's, in [0, 1]."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ParameterError(name, getattr(self, name), "must be in [0, 1]")
