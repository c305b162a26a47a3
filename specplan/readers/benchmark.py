"""What a benchmark of a server wrote down, whichever tool it was."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sim.estimate import Estimate, ratio_of_totals
from sim.serving.arrivals import Arrivals
from theory.errors import SchemaError

__all__ = ["Benchmark", "Request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request that succeeded."""

    start_s: float
    """When it was sent, s on any clock."""
    prompt_tokens: int
    answer_tokens: int
    first_s: float
    """From being sent to the first token, s; NaN where the file does not have it."""
    decode_s: float
    """From the first token to the last, s; NaN where the file does not have it."""
    rounds: int
    """Outputs after the first: a round each where the server streams round by round; 0 where the file does not have
    it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Requests of a run, and what its server said of speculation."""

    source: str
    tool: str
    requests: tuple[Request, ...] = field(repr=False)
    accepted_at: tuple[float, ...] = ()
    """Share of the drafts that were accepted up to each position, in [0, 1]; empty: no speculation, or none in the
    file."""
    drafts: int = 1
    """Drafts that these shares are of, >= 1; 1 where the file does not have them."""

    @property
    def k(self) -> int:
        """Tokens drafted per round; 0: none, or none in the file."""
        return len(self.accepted_at)

    @property
    def arrivals(self) -> Arrivals:
        """When requests came, and how long they were.

        Raises
        ------
        SchemaError : there is none.
        """
        if not self.requests:
            raise SchemaError(f"{self.source}: no request that succeeded: vLLM writes them with --save-detailed")
        known = sorted(self.requests, key=lambda request: request.start_s)
        return Arrivals.of(
            [request.start_s for request in known],
            [max(request.prompt_tokens, 0) for request in known],
            [max(request.answer_tokens, 1) for request in known],
        )

    @property
    def concurrency(self) -> float:
        """Requests that decode at once, mean over the run; NaN where the file has no times."""
        ends = [request.start_s + request.first_s + request.decode_s for request in self.requests]
        decoding = math.fsum(request.decode_s for request in self.requests)
        seconds = max(ends, default=math.nan) - min((request.start_s for request in self.requests), default=math.nan)
        return decoding / seconds if seconds > 0.0 else math.nan

    @property
    def round_s(self) -> Estimate:
        """Seconds from one output of a request to the next; prompts of others included.

        Raises
        ------
        SchemaError : the file has no times of single outputs.
        """
        known = [request for request in self.requests if request.rounds and request.decode_s > 0.0]
        if not known:
            raise SchemaError(f"{self.source}: has no times between outputs; with vLLM, use --save-detailed")
        return ratio_of_totals(
            [request.decode_s for request in known],
            [float(request.rounds) for request in known],
            estimator="decode seconds over outputs, ratio of totals over requests",
            unit="s",
        )
