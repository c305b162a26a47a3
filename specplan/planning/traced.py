"""Token-level speculation on recorded requests, with fitted times of passes: replayed round by round, without events.

As SpecDecode-Bench does (arXiv:2601.11580), a batch is b copies of one request that start together: their rounds are
the same, so that the time of a batch is linear in b and one walk through a request serves all batch sizes. A round that
starts after g generated tokens commits min(length at g, k + 1) of them; the last may go beyond the end. The prompts of
a batch are one pass. The speedup is that of the mean tokens per second of a request's batch, speculating / plain.

The replay differs from the authors' simulator in two places, both below the second decimal of a speedup: there a
request drafts on the context that the copies before it in the batch have left, here on that of the round's start; and
whether a missing n-gram is drafted for is drawn there, and an expectation here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sim.catalogue import choice
from sim.estimate import Estimate, ratio_of_totals
from specplan.readers.traced import DraftCost, FittedLatency, TracedRequest
from theory.drafting.ranked_trees import FastestTree, fastest_tree
from theory.errors import ParameterError

__all__ = ["BATCHES", "DEPTHS", "TracedCell", "TracedPlan", "ranked_tree", "traced_plan"]

BATCHES: Final = (1, 8, 16, 32, 64, 128)
DEPTHS: Final = (1, 2, 3, 5, 8)
_SEED: Final = 42
"""Seed that samples the requests: the authors' own, so that as many requests are the same ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCell:
    """A drafter at a depth and a batch size."""

    drafter: str
    k: int | None
    """Tokens drafted per round; None: as many as will be accepted, which no drafter knows (the authors' oracle)."""
    batch: int
    speedup: Estimate
    """Over plain decoding, [-]; the interval is that of the requests."""
    tokens_per_s: float
    tokens_per_round: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedPlan:
    """All cells."""

    requests: int
    cells: tuple[TracedCell, ...]

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes, as given."""
        return tuple(dict.fromkeys(cell.batch for cell in self.cells))

    def best(self, batch: int) -> TracedCell | None:
        """The fastest cell of a batch size, the oracle's apart; None where plain decoding is as fast."""
        real = [cell for cell in self.cells if cell.batch == batch and cell.k is not None]
        fastest = max(real, key=lambda cell: cell.speedup.value, default=None)
        return fastest if fastest is not None and fastest.speedup.value > 1.0 else None


@dataclass(slots=True)
class _Rounds:
    """Totals over the rounds of one request, of one sequence."""

    rounds: int = 0
    rows: float = 0.0
    context: float = 0.0
    drafts: float = 0.0
    """Rounds that have a draft, an expectation; the next three are of these rounds."""
    positions: float = 0.0
    drafted_rows: float = 0.0
    drafted_context: float = 0.0


def traced_plan(
    requests: Sequence[TracedRequest],
    latency: FittedLatency,
    *,
    drafters: Sequence[str] = (),
    batches: Sequence[int] = BATCHES,
    depths: Sequence[int] = DEPTHS,
    sample: int | None = None,
) -> TracedPlan:
    """Replay every drafter at every depth and batch size, the oracle besides.

    Parameters
    ----------
    drafters : names that traces and times both have; default all of these.
    batches, depths : >= 1.
    sample : so many of the requests, drawn without replacement; default all.

    Raises
    ------
    ParameterError : a drafter that one of them lacks, no drafter that both have, or too few requests.
    """
    traced = {name for request in requests for name, lengths in request.lengths.items() if lengths}
    known = [name for name in latency.drafts if name in traced]
    if not known:
        rule = f"must have the times of a drafter of the traces: {', '.join(sorted(traced)) or 'none has tokens'}"
        raise ParameterError("latency", ", ".join(latency.drafts), rule)
    chosen = [choice("methods", name, known, "a drafter of traces and latency, one") for name in drafters] or known
    cells: list[TracedCell] = []
    n = len(requests)
    for name in chosen:
        there = [request for request in requests if request.lengths.get(name)]
        if sample is not None:
            if sample > len(there):
                raise ParameterError("answers", sample, f"must be at most {len(there)}, the requests of the traces")
            there = random.Random(_SEED).sample(there, sample)
        n = min(n, len(there))
        decoded = [_plain(one, len(one.lengths[name])) for one in there]
        plain = {
            b: [_rate(one, latency, DraftCost(), name, walk, b) for one, walk in zip(there, decoded, strict=True)]
            for b in batches
        }
        for k in (*depths, None):
            cells += _cells(there, latency, name, k, plain)
    return TracedPlan(requests=n, cells=tuple(cells))


def _cells(
    requests: Sequence[TracedRequest],
    latency: FittedLatency,
    name: str,
    k: int | None,
    plain: Mapping[int, Sequence[float]],
) -> list[TracedCell]:
    """A row of the table; ``plain``: batch size to the tokens per second of each request by plain decoding."""
    draft = latency.drafts[name]
    walks = [_walk(request, request.lengths[name], k, draft.drafted_at_miss) for request in requests]
    rounds = sum(walk.rounds for walk in walks)
    committed = sum(len(request.lengths[name]) - 1 for request in requests)
    cells = []
    for b, slow in plain.items():
        fast = [_rate(one, latency, draft, name, walk, b) for one, walk in zip(requests, walks, strict=True)]
        cells.append(
            TracedCell(
                drafter=name,
                k=k,
                batch=b,
                speedup=ratio_of_totals(fast, slow),
                tokens_per_s=sum(fast) / len(fast),
                tokens_per_round=committed / rounds if rounds else 1.0,
            )
        )
    return cells


def _rate(
    request: TracedRequest, latency: FittedLatency, draft: DraftCost, name: str, walk: _Rounds, batch: int
) -> float:
    """Tokens per second of a batch of a request, its first pass included."""
    first_s = latency.target.seconds(1, batch * request.prompt_tokens, batch, 0) + latency.round_s
    seconds = first_s + _seconds(walk, latency, draft, batch)
    return batch * len(request.lengths[name]) / seconds


def _walk(request: TracedRequest, lengths: Sequence[int], k: int | None, drafted_at_miss: float) -> _Rounds:
    missed = 0.0 if k is None and drafted_at_miss < 1.0 else drafted_at_miss  # an oracle looks nothing up in vain
    at, end, prompt = 1, len(lengths), request.prompt_tokens
    rounds, rows, context, drafts, positions, drafted_rows, drafted_context = 0, 0.0, 0, 0.0, 0.0, 0.0, 0.0
    while at < end:
        length = lengths[at - 1]
        most = length if k is None else k + 1
        share = missed if length == 1 else 1.0
        wide = share * most
        width = wide + 1.0 - share
        rounds += 1
        rows += width
        context += prompt + at
        drafts += share
        positions += wide
        drafted_rows += share * width
        drafted_context += share * (prompt + at)
        at += length if length < most else most
    return _Rounds(rounds, rows, context, drafts, positions, drafted_rows, drafted_context)


def _plain(request: TracedRequest, n_tokens: int) -> _Rounds:
    """Plain decoding: a round for each token after the first."""
    n = n_tokens - 1
    return _Rounds(rounds=n, rows=n, context=n * request.prompt_tokens + n * (n + 1) / 2)


def _seconds(walk: _Rounds, latency: FittedLatency, draft: DraftCost, batch: int) -> float:
    target = latency.target
    passes = target.seconds(walk.rounds, batch * walk.rows, batch * walk.rounds, batch * walk.context)
    theirs = target.seconds(walk.drafts, batch * walk.drafted_rows, batch * walk.drafts, batch * walk.drafted_context)
    drafting = draft.fixed_s * walk.drafts + draft.per_position_s * walk.positions
    drafting += draft.per_context_token_s * batch * walk.drafted_context + draft.share_of_target * theirs
    return passes + drafting + latency.round_s * walk.rounds


def ranked_tree(by_rank: Sequence[float], latency: FittedLatency, drafters: Sequence[str] = ()) -> FastestTree:
    """The draft tree with which a token takes the least time, for one request at a time without context.

    Parameters
    ----------
    by_rank : P(the draft of rank r is the accepted one).
    latency : times of passes; the sizes of trees are those of ``by_rows``, or else 1, 2, 4, ..., 128.
    drafters : the name of the drafter, where the times have several.

    Raises
    ------
    ParameterError : several drafters, or probabilities of more than 1 in all.
    """
    if len(drafters or latency.drafts) != 1:
        raise ParameterError(
            "methods", ", ".join(drafters), f"must be one of {', '.join(latency.drafts)}: a tree has one"
        )
    name = choice("methods", next(iter(drafters or latency.drafts)), latency.drafts)
    draft, target = latency.drafts[name], latency.target
    rows = target.by_rows or {2**i: target.seconds(1, 2**i, 1, 0) for i in range(8)}
    seconds = {n: s + latency.round_s for n, s in rows.items()}
    level_s = draft.fixed_s + draft.per_position_s + draft.share_of_target * rows[min(rows)]
    return fastest_tree(by_rank, level_s, seconds)
