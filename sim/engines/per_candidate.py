"""A choice made by one request per candidate, for models that score one step but cannot compare several at once."""

from __future__ import annotations

from simpy import Environment

from sim.engines.protocol import Done, Engine
from sim.operations import Choose, Operation

__all__ = ["PerCandidate"]


class PerCandidate:
    """Sends a choice to an engine as concurrent requests, one per candidate; it ends when the last of them does."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def attach(self, env: Environment) -> None:
        """Do nothing: the wrapped engine is attached under its own role."""

    def submit(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        """Start a request per candidate: each reads its step and the instructions, which ``n_prompt`` counts once.

        Uncached text before the candidates (the question, at the first step of an answer) is read by the first request.
        """
        assert isinstance(operation, Choose)
        lengths = [candidate.n_tokens for candidate in operation.candidates]
        parent = operation.candidates[0].parent
        before = parent.n_tokens if parent is not None and parent.depth < 0 else 0
        overhead = n_prompt - sum(lengths) - before
        own_context = context - sum(lengths) - overhead
        missing = len(lengths)

        def part_done(part: Operation) -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                done(operation)

        operation.job = parts = [Operation(operation.role) for _ in lengths]
        for number, (part, length) in enumerate(zip(parts, lengths, strict=True)):
            part.started = operation.started
            n_new = overhead + length
            first = before if number == 0 else 0
            self._engine.submit(part, n_tokens, first + n_new, own_context + n_new, part_done)

    def cancel(self, operation: Operation) -> None:
        """Cancel the requests of all candidates."""
        for part in operation.job:
            part.cancelled = True
            self._engine.cancel(part)
