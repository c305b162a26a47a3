"""What a serving engine knows of a request."""

from __future__ import annotations

from sim.engines.protocol import Done, Moment
from sim.operations import Generate, Operation

__all__ = ["DECODING", "LEAVING", "OVER", "QUEUED", "READING", "TRAVELLING", "Request"]

TRAVELLING, QUEUED, READING, DECODING, LEAVING, OVER = range(6)


class Request(Moment):
    """A request inside a `ServingEngine`, and the moment of its arrival there."""

    __slots__ = (
        "arrived", "began", "context", "depth", "done", "finish", "has_begun", "left", "n_iterations", "new", "number",
        "operation", "own", "passes", "per_iteration", "state", "text", "to_read",
    )  # fmt: skip

    def __init__(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        self.operation = operation
        self.done = done
        self.passes = operation.passes
        self.n_iterations = n_tokens - 1 if self.passes is None else len(self.passes)
        self.per_iteration = (n_tokens - 1) / self.n_iterations if self.n_iterations > 0 else 0.0
        # What a model goes on after becomes the answer's text; what a judge or a scorer reads stays its own.
        goes_on = operation.__class__ is Generate
        self.text = context if goes_on else max(context - n_prompt, 0)
        self.own = 1.0 + max(context, n_prompt) - self.text  # before it decodes
        self.depth: float = max(context, n_prompt)  # tokens before the first that it generates
        # Of an answer that was met under way (`sim.serving.under_way`), the same request has written the first tokens.
        lived = getattr(operation.prefix, "lived", 0) if goes_on else 0  # type: ignore[attr-defined]
        self.context = context + (n_tokens - lived) / 2  # its mean over the request's life
        self.new: float = n_prompt
        self.to_read = 0.0
        self.left = self.began = self.n_iterations  # iterations to go: now, and when it had its place
        self.arrived = 0.0
        self.finish = -1
        self.has_begun = False  # whether it has a token
        self.number = 0
        self.state = TRAVELLING

    def end(self) -> None:
        """Be over."""
        self.state = OVER
        self.operation.job = None  # else the two would keep each other in memory

    def generated(self, n_left: int) -> int:
        """Tokens that are there when ``n_left`` iterations are left; the first one is the reading's."""
        n_done = self.n_iterations - n_left
        return 1 + (n_done if self.passes is None else self.passes.committed(n_done))
