"""SpecDecode-Bench's table by its published rules, as a program of our own: copy by copy, round by round.

The rules are those of ``simulator.py`` at github.com/SpecDecode-Bench/simulator (arXiv:2601.11580): a batch is so many
copies of one request, each copy has its own clock, and every cell of the table simulates plain decoding again. Its
recorded requests are not shipped here; `drawn_requests` draws some of the same form. `specplan.planning.traced` is held
to this program, by a test cell by cell and by `benchmarks.peers` in speed. Theirs makes deep copies besides, and shows
its progress: it is slower than this one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from specplan.readers.traced import FittedLatency, TracedRequest

__all__ = ["BATCHES", "DEPTHS", "H100", "drawn_requests", "published_speedup"]

BATCHES: Final = (1, 8, 16, 32, 64, 128)
DEPTHS: Final = (1, 3, 5, None)
"""Tokens drafted per round in its table; None: as many as will be accepted."""

H100: Final = {
    "target": {"fixed_s": 5.88590713e-03, "per_row_s": 2.10103129e-05, "per_context_token_s": 3.92645679e-08},
    "round_s": 1.20683946e-03,
    "drafts": {
        "eagle": {"fixed_s": 2.13526175e-03, "per_position_s": 8.41429603e-07, "per_context_token_s": 2.37768493e-09},
        "ngram": {"share_of_target": 0.005875, "drafted_at_miss": 0.2},
    },
}
"""Its constants for Llama-3.1-8B on an H100 (``predictor.py``)."""


def drawn_requests(n: int, seed: int) -> list[TracedRequest]:
    """Requests of 60 to 160 tokens; accepted tokens fall by one from token to token within what is predictable."""
    rng, requests = random.Random(seed), []
    for _ in range(n):
        lengths: list[int] = []
        while len(lengths) < rng.randint(60, 160):
            run = min(int(rng.expovariate(0.5)) + 1, 12)
            lengths += range(run, 0, -1)
        requests.append(TracedRequest(prompt_tokens=rng.randint(50, 400), lengths={"eagle": tuple(lengths)}))
    return requests


def published_speedup(requests: Sequence[TracedRequest], latency: FittedLatency, k: int | None, batch: int) -> float:
    """A cell: mean tokens per second of the requests' batches with the EAGLE head / by plain decoding."""
    fast, slow = [], []
    for request in requests:
        tokens = batch * len(request.lengths["eagle"])
        slow.append(tokens / _plain_s(request, latency, batch))
        fast.append(tokens / _speculating_s(request, latency, k, batch))
    return (sum(fast) / len(fast)) / (sum(slow) / len(slow))


def _plain_s(request: TracedRequest, latency: FittedLatency, batch: int) -> float:
    """Seconds of a copy by plain decoding, mean."""
    n, context = len(request.lengths["eagle"]), batch * (request.prompt_tokens + 1)
    clocks = [[_pass_s(latency, 0, batch * request.prompt_tokens), latency.round_s] for _ in range(batch)]
    for _ in range(n - 1):
        seconds = _pass_s(latency, context, batch) + latency.round_s
        context += batch
        for clock in clocks:
            clock.append(seconds)
    return sum(map(sum, clocks)) / batch


def _speculating_s(request: TracedRequest, latency: FittedLatency, k: int | None, batch: int) -> float:
    """Seconds of a copy with drafts, mean."""
    lengths, draft = request.lengths["eagle"], latency.drafts["eagle"]
    clocks = [[_pass_s(latency, 0, batch * request.prompt_tokens), latency.round_s] for _ in range(batch)]
    context, at, going = batch * (request.prompt_tokens + 1), [1] * batch, list(range(batch))
    while going:
        rows = {i: lengths[at[i] - 1] if k is None else k + 1 for i in going}
        verified, left = _pass_s(latency, context, sum(rows.values())), []
        for i in going:
            drafting = draft.per_context_token_s * context + draft.per_position_s * rows[i] + draft.fixed_s
            clocks[i].append(verified + drafting + latency.round_s)
            accepted = min(lengths[at[i] - 1], rows[i])
            at[i] += accepted
            context += accepted
            if at[i] < len(lengths):
                left.append(i)
            else:
                context -= at[i] + request.prompt_tokens
        going = left
    return sum(map(sum, clocks)) / batch


def _pass_s(latency: FittedLatency, context: int, rows: int) -> float:
    target = latency.target
    return context * target.per_context_token_s + rows * target.per_row_s + target.fixed_s
