"""What a serving engine knows of a request."""

from __future__ import annotations

from sim.engines.batching import Job
from sim.engines.protocol import Done
from sim.operations import Generate, Operation


class Request(Job):
    """A request inside a `ServingEngine`."""

    __slots__ = (
        "arrived", "began", "depth", "has_begun", "left", "new", "number", "own", "per_iteration", "text", "to_read",
    )  # fmt: skip

    def __init__(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        super().__init__(operation, n_tokens, n_prompt, context, done)
        self.per_iteration = (n_tokens - 1) / self.n_iterations if self.n_iterations > 0 else 0.0
        # What a model goes on after becomes the answer's text; what a judge or a scorer reads stays its own.
        goes_on = operation.__class__ is Generate
        self.text = context if goes_on else max(context - n_prompt, 0)
        self.own = 1.0 + max(context, n_prompt) - self.text  # before it decodes
        self.depth: float = max(context, n_prompt)  # tokens before the first that it generates
        # Of an answer that was met under way (`sim.serving.under_way`), the same request has written the first tokens.
        lived = getattr(operation.prefix, "lived", 0) if goes_on else 0  # type: ignore[attr-defined]
        self.context = context + (n_tokens - lived) / 2
        self.new: float = n_prompt
        self.to_read = 0.0
        self.left = self.began = self.n_iterations  # iterations to go: now, and when it had its place
        self.arrived = 0.0
        self.finish = -1
        self.has_begun = False  # whether it has a token
        self.number = 0
