"""Work of a vLLM engine, iteration by iteration, from the statistics that its core sends with every output.

The time of an iteration is the interval between two outputs on the core's clock, so that it includes scheduling. vLLM's
``elapsed_ms`` is the wait for the model only; it is used where a sequence has no earlier output. An iteration may
prefill some requests and decode others: a joined pass. Its additional time over a plain one counts as prefill.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from calibrate.engines.work import JoinedPass, Pass, Prefill, WorkLog

if TYPE_CHECKING:
    from vllm.v1.metrics.stats import IterationStats, SchedulerStats

__all__ = ["Active", "Recorder"]

_RECENT = 64


@dataclass(slots=True)
class Active:
    """A request in the engine, updated by its reader, and by the recorder for a request at concurrency 1."""

    n_prompt: int
    n_generated: int = 0
    """Tokens before the next iteration."""
    passes: list[tuple[int, int]] = field(default_factory=list)
    """Drafted and accepted tokens of decode passes while no other request decoded."""
    shared: bool = False
    """Whether other requests decoded at the same time: then passes cannot be assigned to requests."""


class Recorder:
    """Collects iterations; one per engine. vLLM calls `record` after each of them (`StatLoggerBase`)."""

    def __init__(self) -> None:
        self.active: dict[str, Active] = {}
        self.work = WorkLog()
        self._recent: dict[tuple[int, bool], deque[float]] = {}
        """Batch, and whether a sequence speculated -> seconds of the latest iterations without a prompt."""

        self._latest: tuple[int, int] = (1, 0)

    def record(
        self,
        scheduler_stats: SchedulerStats | None,
        iteration_stats: IterationStats | None,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
    ) -> None:
        """Record an iteration; called by vLLM."""
        details = scheduler_stats.iteration_details if scheduler_stats is not None else None
        if scheduler_stats is not None and details is not None and not details.is_dummy:
            batch, prefilled = details.num_generation_requests, details.num_ctx_requests
            gaps = iteration_stats.inter_token_latencies_iter if iteration_stats is not None else []
            if prefilled:
                self._latest = (prefilled, batch)
            if batch and gaps:  # without gaps its sequences had ended: the core learns of an abort an iteration late
                spec = scheduler_stats.spec_decoding_stats
                accepted = 0 if spec is None else spec.num_accepted_tokens
                self._decoded(details, min(gaps), accepted)
        if len(self.active) == 1 and iteration_stats is not None:  # else each reader counts its own tokens, maybe late
            next(iter(self.active.values())).n_generated += iteration_stats.num_generation_tokens

    def _decoded(self, details: Any, seconds: float, accepted: int) -> None:
        """Record a pass with sequences that decode, by vLLM's ``details`` of the iteration."""
        batch, rows = details.num_generation_requests, details.num_generation_tokens
        decoding = [request for request in self.active.values() if request.n_generated]
        if len(decoding) == 1 and batch == 1:
            decoding[0].passes.append((rows - 1, accepted))
        else:
            for request in decoding:
                request.shared = True
        context, now = sum(request.n_prompt + request.n_generated for request in decoding), time.monotonic()
        if prompts := details.num_ctx_requests:
            read = prompts, details.num_ctx_tokens
            self.work.joined.append(JoinedPass(batch, context, 1, *read, rows, batch + accepted, seconds, now))
            return
        recent = self._recent.setdefault((batch, rows > batch), deque(maxlen=_RECENT))
        recent.append(seconds)
        kept = self.work.iterations if rows == batch else self.work.passes
        kept.append(Pass(batch, context, rows, batch + accepted, seconds, 0.0, now))

    def prefilled(self, n_tokens: int, n_cached: int, seconds: float) -> None:
        """Record a request's prefill, which the latest iteration ended; called by its reader."""
        together, batch = max(self._latest[0], 1), self._latest[1]
        recent = self._recent.get((batch, False)) or self._recent.get((batch, True))
        if recent:
            seconds = max(seconds - fmean(recent), 0.0)
        beside = batch if recent else 0
        self.work.prefills.append(Prefill(n_tokens, n_cached, seconds / together, time.monotonic(), together, beside))

    def log(self, *_: int) -> None:
        """Do nothing: vLLM's loggers print here, and engines of a measurement do not sleep."""

    log_engine_initialized = record_sleep_state = log
