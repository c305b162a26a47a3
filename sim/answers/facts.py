"""Facts of a step, where ground truth is known: whether it is right, and whether its prefix contains a wrong step.

In simulation a step's ``payload`` holds its facts (in real runs it holds text, which is graded afterwards). A wrong
committed step corrupts the context of all later steps: the answer is then rarely right, and the verifier accepts the
draft's steps less often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sim.operations import Step
from theory.errors import ParameterError

__all__ = ["Facts", "Quality", "facts_after", "is_corrupted"]


class Facts:
    """Whether a step is right, and whether the text up to its end contains a wrong step."""

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
    """Whether the text that ends with this step is known to contain a wrong step."""
    return text.payload.__class__ is Facts and text.payload.corrupted


def facts_after(prefix: Step, right: bool) -> Facts:
    """Return the facts of a step after ``prefix``."""
    if not right:
        return _WRONG
    return _RIGHT_TOO_LATE if is_corrupted(prefix) else _RIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """How often steps are wrong, and how often verifiers detect it, in a model of answers."""

    wrong_accepted: float = 0.0
    """Share of the accepted drafts that are wrong (false accepts), in [0, 1]."""
    wrong_target: float = 0.0
    """Share of the target's steps that are wrong, in [0, 1]."""
    corruption: float = 0.0
    """Share of acceptance that is lost after a wrong committed step, in [0, 1]."""
    escalation: float = 0.0
    """Share of drafts on which the gate is not confident (ConfSpec's alpha), in [0, 1]."""
    gate_error: float = 0.0
    """Share of the gate's sure verdicts that differ from the judge's, in [0, 1]."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ParameterError(name, getattr(self, name), "must be in [0, 1]")
