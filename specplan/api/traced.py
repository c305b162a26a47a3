"""Plans from recorded acceptance and fitted times of passes, as simulators of others take them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from specplan.planning.traced import BATCHES, DEPTHS, ranked_tree, traced_plan
from specplan.readers.traced import TracedRequest, read_latency, read_traced
from specplan.show.loads.traced import TracesPlan, TreePlan
from theory.errors import ParameterError

__all__ = ["plan_traces"]


def plan_traces(
    acceptance: str | Path,
    latency: str | Path,
    *,
    methods: Sequence[str] = (),
    concurrency: Sequence[int] = (),
    k: int | None = None,
    n_answers: int | None = None,
) -> TracesPlan | TreePlan:
    """Plan token-level speculation from two files, as ``specplan plan --acceptance FILE --latency FILE`` does.

    Parameters
    ----------
    acceptance : traces of requests, or acceptance by rank (`specplan.readers.traced`).
    latency : fitted times of passes.
    methods : names of drafters; default all that both files have.
    concurrency : requests at once, >= 1; default 1, 8, 16, 32, 64 and 128.
    k : tokens drafted per round, >= 1; default 1, 2, 3, 5 and 8.
    n_answers : requests to draw from the traces; default all.

    Returns
    -------
    The speedups by drafter, tokens drafted and requests at once; of acceptance by rank the fastest draft tree.

    Raises
    ------
    SchemaError : a file cannot be read, or is not as `specplan.readers.traced` says.
    ParameterError : a drafter that a file lacks, or something else that has no use with acceptance by rank.
    """
    times, known = read_latency(latency), read_traced(acceptance)
    requests = [one for one in known if isinstance(one, TracedRequest)]
    if requests:
        plan = traced_plan(
            requests,
            times,
            drafters=methods,
            batches=concurrency or BATCHES,
            depths=DEPTHS if k is None else (k,),
            sample=n_answers,
        )
        return TracesPlan(plan=plan)
    for name, value in (("concurrency", ",".join(map(str, concurrency))), ("k", k), ("answers", n_answers)):
        if value:
            raise ParameterError(
                name, value, "has no use with acceptance by rank, which is for one request: leave it out"
            )
    return TreePlan(fastest=ranked_tree([one for one in known if isinstance(one, float)], times, methods))
