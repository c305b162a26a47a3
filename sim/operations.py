"""The interface between an algorithm and a clock: operations, steps, and the generator protocol.

An algorithm is a plain generator. It does no I/O, draws no random numbers and reads no time: it *yields*

- an :class:`Operation` (:class:`Generate`, :class:`Verify`, :class:`Score`, :class:`Choose`) to start it; the operation
  object is its own handle, and the value of the ``yield`` is ``None``;
- ``Cancel(operation)`` to cancel an operation that it started;
- ``Commit(step)`` to append a step to the answer, for good;
- ``WAIT`` to sleep until one of its running operations ends; the value is that operation, with its ``result`` set.
  Operations that end at the same moment are delivered in the order in which they ended, and cancelled ones never;
- a list of operations, cancellations and commits to have all of them done in that order, and then to wait as by
  ``WAIT``; the algorithm may reuse the list when it is resumed.

Two drivers run the same generator: ``sim.virtual_clock`` (SimPy; durations from a cost model, outcomes from a behaviour
model) and ``calibrate.running.wall_clock`` (asyncio; real engines, real text).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sim.roles import CHOOSER, JUDGE, SCORER

if TYPE_CHECKING:
    from sim.passes import Passes

__all__ = [
    "WAIT",
    "Algorithm",
    "Cancel",
    "Choose",
    "Commit",
    "Generate",
    "MakeAlgorithm",
    "Operation",
    "Outcome",
    "Score",
    "Selection",
    "Step",
    "Verdict",
    "Verify",
    "Wait",
    "prompt",
    "singly",
    "steps_after",
]


class Outcome(StrEnum):
    """Outcome of an operation; the algorithm sets it when it is decided.

    A draft is ``accepted``, ``rejected`` (judged and refused, or refused unjudged by a rule) or ``discarded`` (its
    prefix was refused, or the answer ended). A target step is ``committed`` (part of the answer), ``reference`` (used
    only to verify a draft) or ``discarded``. A verdict has the outcome of its draft, or is ``escalated`` (its
    confidence was low, and another verifier decides).
    """

    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DISCARDED = "discarded"
    COMMITTED = "committed"
    REFERENCE = "reference"
    ESCALATED = "escalated"


_PENDING: Final = Outcome.PENDING


class Step:
    """One reasoning step, a node in the tree of texts: it refers to its prefix, so a leaf is a whole text.

    Parameters
    ----------
    parent : the step before it; ``None`` for the prompt.
    role : role that wrote it (``"target"``, ``"draft"``; ``"user"`` for the prompt).
    n_tokens : its length, tokens, >= 0.
    final : whether the answer ends with it.
    truncated : whether it was cut by the limit on a step's tokens.
    payload : data with which a real engine continues after it (text, token ids); ``None`` in simulation.

    Attributes
    ----------
    depth : index of the step in the answer, 0 for the first; -1 for the prompt.
    context_tokens : tokens of the text that ends with this step, prompt included.
    """

    __slots__ = ("context_tokens", "depth", "final", "n_tokens", "parent", "payload", "role", "truncated")

    passes: Passes | None = None  # a `sim.answers.token_passes.PassedStep` has its own

    def __init__(
        self,
        parent: Step | None,
        role: str,
        n_tokens: int,
        final: bool = False,  # not keyword-only: simulations make millions, and keywords would double the time
        truncated: bool = False,
        payload: Any = None,
    ) -> None:
        self.parent = parent
        self.role = role
        self.n_tokens = n_tokens
        self.final = final
        self.truncated = truncated
        self.payload = payload
        if parent is None:
            self.depth: int = -1
            self.context_tokens: int = n_tokens
        else:
            self.depth = parent.depth + 1
            self.context_tokens = parent.context_tokens + n_tokens

    def __repr__(self) -> str:
        """Short form for traces."""
        return f"Step({self.role}[{self.depth}], {self.n_tokens} tokens{', final' if self.final else ''})"


def prompt(n_tokens: int = 0, payload: Any = None) -> Step:
    """Return the root of a tree of texts: the question itself (depth -1, written by the user)."""
    return Step(None, "user", n_tokens, payload=payload)


def steps_after(prefix: Step | None, last: Step) -> list[Step]:
    """Return the steps after ``prefix`` up to ``last``, in the order of the text; after None, the prompt is the first.

    >>> first = Step(prompt(), "target", 3)
    >>> steps_after(first, Step(Step(first, "target", 4), "target", 5))
    [Step(target[1], 4 tokens), Step(target[2], 5 tokens)]
    """
    steps: list[Step] = []
    step: Step | None = last
    while step is not None and step is not prefix:
        steps.append(step)
        step = step.parent
    steps.reverse()
    return steps


class Verdict:
    """Verdict of a verifier: accepted or not, and its score (probability of yes, similarity, ...)."""

    __slots__ = ("accepted", "score")

    def __init__(self, accepted: bool, score: float | None = None) -> None:
        self.accepted = accepted
        self.score = score


class Selection:
    """Choice of a chooser: the index of the candidate it takes (``None``: none of them), and its score.

    ``scores`` has one number per candidate where the chooser reports them: it takes the first of the greatest, and none
    if that is below 0.
    """

    __slots__ = ("index", "score", "scores")

    def __init__(self, index: int | None, score: float | None = None, scores: tuple[float, ...] | None = None) -> None:
        self.index = index
        self.score = score
        self.scores = scores


class Operation:
    """Work that takes time on an engine. The object is its own handle; drivers set result and times.

    Attributes
    ----------
    role : the role whose model does the work.
    result : the :class:`Step`, :class:`Verdict`, score or :class:`Selection`, once delivered.
    outcome : see `Outcome`; set by the algorithm.
    started, finished : seconds on the driver's clock, set by the driver; ``finished`` is -1 until the end, and the
        moment of the cancellation if cancelled.
    cancelled : whether it was cancelled before it was delivered.
    tag : for the algorithm's own use.
    job, pending : for the driver's own use; ``pending`` is the result of an operation that is not delivered yet, and
        `n_generated` of one that has none.
    """

    __slots__ = ("cancelled", "finished", "job", "outcome", "pending", "result", "role", "started", "tag")

    role: str
    result: Any
    started: float
    tag: Any
    job: Any
    pending: Any
    _ok = True  # `_ok` and `callbacks` are all that SimPy's environment reads of an event

    def __init__(self, role: str, tag: Any = None) -> None:
        self.role = role
        self.tag = tag
        self.result = self.pending = None
        self.outcome: Outcome = _PENDING
        self.finished = -1.0
        self.cancelled = False

    @property
    def passes(self) -> Passes | None:
        """Passes of the engine after the first token; None: one token per iteration, or a single token."""
        return None

    @property
    def n_generated(self) -> int:
        """Tokens generated so far or up to the cancellation, set by the driver; 0 where a result has them."""
        return self.pending if isinstance(self.pending, int) else 0

    @n_generated.setter
    def n_generated(self, n: int) -> None:
        self.pending = n  # a field less makes simulations faster

    @property
    def callbacks(self) -> list[Callable[[Operation], None]]:
        """Callbacks for SimPy's environment: an operation in its queue is the event of its end, passed to its job."""
        return _ENDS

    @callbacks.setter
    def callbacks(self, done: None) -> None:
        """Ignore the None that the environment sets after it has read the callbacks."""


def _end(operation: Operation) -> None:
    if not operation.cancelled:
        operation.job.on_end(operation)


_ENDS: Final[list[Callable[[Operation], None]]] = [_end]


class Generate(Operation):
    """Generate one step with the model ``role`` after ``prefix``; siblings of a draft tree differ in ``branch``.

    With ``whole`` the request may write all steps up to the answer's end, as a server's users ask for an answer. Its
    result is the last step written; those before it are its parents, down to ``prefix`` (`steps_after`). Answers that
    are modelled step by step (drawn ones, as the papers' closed forms have them) return one step all the same.
    """

    __slots__ = ("branch", "prefix", "whole")

    def __init__(self, role: str, prefix: Step, branch: int = 0, tag: Any = None, whole: bool = False) -> None:
        # Operation.__init__ is inlined, here and in Verify: simulations make millions of them.
        self.role = role
        self.tag = tag
        self.result = self.pending = None
        self.outcome = _PENDING
        self.finished = -1.0
        self.cancelled = False
        self.prefix = prefix
        self.branch = branch
        self.whole = whole

    @property
    def passes(self) -> Passes | None:
        """Passes of its step, which a simulation knows from the start on."""
        return self.pending.passes if isinstance(self.pending, Step) else None

    @property
    def tokens(self) -> int:
        """Tokens generated, delivered or not."""
        step = self.pending if self.result is None and self.finished >= 0.0 else self.result
        return self.tokens_of(step) if isinstance(step, Step) else self.n_generated

    def tokens_of(self, last: Step) -> int:
        """Return the tokens of the steps from the prefix up to ``last``, the last step written."""
        return last.context_tokens - self.prefix.context_tokens


class Verify(Operation):
    """Have the verifier ``role`` decide whether ``candidate`` (a draft step) may replace ``reference`` (the target's).

    It accepts at a score of at least ``threshold``; ``None`` means the verifier's own threshold.
    """

    __slots__ = ("branch", "candidate", "reference", "threshold")

    def __init__(
        self,
        candidate: Step,
        reference: Step,
        branch: int = 0,
        role: str = JUDGE,
        tag: Any = None,
        threshold: float | None = None,
    ) -> None:
        self.role = role
        self.tag = tag
        self.result = self.pending = None
        self.outcome = _PENDING
        self.finished = -1.0
        self.cancelled = False
        self.candidate = candidate
        self.reference = reference
        self.branch = branch
        self.threshold = threshold


class Score(Operation):
    """Have ``role`` score ``candidate`` after its prefix; the result is a number, greater is better.

    Candidates of one position differ in ``branch``.
    """

    __slots__ = ("branch", "candidate")

    def __init__(self, candidate: Step, branch: int = 0, role: str = SCORER, tag: Any = None) -> None:
        super().__init__(role, tag)
        self.candidate = candidate
        self.branch = branch


class Choose(Operation):
    """Have ``role`` choose one of the ``candidates`` for a position, or none; the result is a `Selection`."""

    __slots__ = ("candidates",)

    def __init__(self, candidates: tuple[Step, ...], role: str = CHOOSER, tag: Any = None) -> None:
        super().__init__(role, tag)
        self.candidates = candidates


class Cancel:
    """Cancel an operation: its engine stops working on it, and it is never delivered. A second time has no effect."""

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
Algorithm: TypeAlias = Generator[Action | list[Action], Any, None]

MakeAlgorithm: TypeAlias = Callable[[Step], Algorithm]
"""Builds the generator for a prompt."""


def singly(algorithm: Algorithm) -> Generator[Action, Any, None]:
    """Return the same algorithm, with the elements of the lists that it yields yielded one by one."""
    message: Operation | None = None
    try:
        while True:
            if isinstance(action := algorithm.send(message), list):
                yield from action
                action = WAIT
            message = yield action
    except StopIteration:
        return
    finally:
        algorithm.close()
