"""The language in which an algorithm talks to a clock: operations, steps, and the generator protocol.

An algorithm is a plain generator. It does no I/O, draws no random number and knows no time: it *yields*

- an :class:`Operation` (:class:`Generate`, :class:`Verify`) to start it; the operation object is its own handle, and
  the answer to the ``yield`` is ``None``;
- ``Cancel(operation)`` to abandon one that it started;
- ``Commit(step)`` to append a step to the answer, for good;
- ``WAIT`` to sleep until one of its running operations ends; the answer is that operation, its ``result`` filled in.
  Operations that end at the same moment are delivered in the order in which they ended, and cancelled ones never.

Two drivers run the same generator: ``sim.virtual_clock`` (SimPy; durations from a cost model, outcomes from a behaviour
model) and ``calibrate.wall_clock`` (asyncio; real engines, real text). What is simulated is what is run.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import StrEnum
from typing import Any, Final, TypeAlias

__all__ = [
    "DRAFT",
    "JUDGE",
    "TARGET",
    "WAIT",
    "Algorithm",
    "Cancel",
    "Commit",
    "Generate",
    "Operation",
    "Outcome",
    "Step",
    "Verdict",
    "Verify",
    "Wait",
    "prompt",
]

TARGET: Final = "target"
DRAFT: Final = "draft"
JUDGE: Final = "judge"


class Outcome(StrEnum):
    """What became of an operation, told by the algorithm when it knows.

    A draft is ``accepted``, ``rejected`` (judged and refused, or refused unjudged by a rule) or ``discarded`` (its
    prefix turned out wrong, or the answer ended). A target step is ``committed`` (it stands in the answer),
    ``reference`` (it only served to verify a draft) or ``discarded``.
    """

    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DISCARDED = "discarded"
    COMMITTED = "committed"
    REFERENCE = "reference"


class Step:
    """One reasoning step, a node in the tree of texts: it names its prefix, so a leaf is a whole text.

    Parameters
    ----------
    parent : the step before it; ``None`` for the prompt.
    role : who wrote it (``"target"``, ``"draft"``; ``"user"`` for the prompt).
    n_tokens : its length, tokens, >= 0.
    final : whether the answer ends with it.
    truncated : whether it was cut by the limit on a step's tokens.
    payload : what a real engine needs to go on after it (text, token ids); ``None`` in simulation.

    Attributes
    ----------
    depth : index of the step in the answer, 0 for the first; -1 for the prompt.
    context_tokens : tokens of the text that ends with this step, prompt included.
    """

    __slots__ = ("context_tokens", "depth", "final", "n_tokens", "parent", "payload", "role", "truncated")

    def __init__(
        self,
        parent: Step | None,
        role: str,
        n_tokens: int,
        *,
        final: bool = False,
        truncated: bool = False,
        payload: Any = None,
    ) -> None:
        self.parent = parent
        self.role = role
        self.n_tokens = n_tokens
        self.final = final
        self.truncated = truncated
        self.payload = payload
        self.depth: int = -1 if parent is None else parent.depth + 1
        self.context_tokens: int = n_tokens if parent is None else parent.context_tokens + n_tokens

    def __repr__(self) -> str:
        """Short form for traces."""
        return f"Step({self.role}[{self.depth}], {self.n_tokens} tokens{', final' if self.final else ''})"


def prompt(n_tokens: int = 0, payload: Any = None) -> Step:
    """Return the root of a tree of texts: the question itself (depth -1, written by the user)."""
    return Step(None, "user", n_tokens, payload=payload)


class Verdict:
    """What a verifier says: accepted or not, and the score behind it (probability of yes, similarity, ...)."""

    __slots__ = ("accepted", "score")

    def __init__(self, accepted: bool, score: float | None = None) -> None:
        self.accepted = accepted
        self.score = score


class Operation:
    """Something that takes time on an engine. The object is its own handle; drivers fill in result and times.

    Attributes
    ----------
    role : which model does it.
    result : the :class:`Step` or :class:`Verdict`, once delivered.
    outcome : what became of it; the algorithm says so.
    started, finished : seconds on the driver's clock; ``finished`` is the moment of the cancellation if cancelled.
    tag : free for the algorithm's own bookkeeping.
    job, pending : free for the driver's.
    """

    __slots__ = ("cancelled", "finished", "job", "outcome", "pending", "result", "role", "started", "tag")

    role: str
    result: Any
    tag: Any
    job: Any
    pending: Any

    def __init__(self, role: str, tag: Any = None) -> None:
        self.role = role
        self.tag = tag
        self.result = None
        self.outcome = Outcome.PENDING
        self.started = 0.0
        self.finished = -1.0
        self.cancelled = False


class Generate(Operation):
    """Generate one step with the model ``role`` after ``prefix``; ``branch`` tells siblings of a draft tree apart."""

    __slots__ = ("branch", "prefix")

    def __init__(self, role: str, prefix: Step, branch: int = 0, tag: Any = None) -> None:
        Operation.__init__(self, role, tag)
        self.prefix = prefix
        self.branch = branch


class Verify(Operation):
    """Ask the verifier whether ``candidate`` (a draft step) may stand for ``reference`` (the target's step)."""

    __slots__ = ("branch", "candidate", "reference")

    def __init__(self, candidate: Step, reference: Step, branch: int = 0, role: str = JUDGE, tag: Any = None) -> None:
        Operation.__init__(self, role, tag)
        self.candidate = candidate
        self.reference = reference
        self.branch = branch


class Cancel:
    """Abandon an operation: its engine stops working on it, and it is never delivered. Once is enough, twice no harm."""

    __slots__ = ("operation",)

    def __init__(self, operation: Operation) -> None:
        self.operation = operation


class Commit:
    """Append ``step`` to the answer. Commits are in order and final."""

    __slots__ = ("step",)

    def __init__(self, step: Step) -> None:
        self.step = step


class Wait:
    """Sleep until one of the algorithm's running operations ends."""

    __slots__ = ()


WAIT: Final = Wait()

Action: TypeAlias = Operation | Cancel | Commit | Wait
Algorithm: TypeAlias = Generator[Action, Any, None]
