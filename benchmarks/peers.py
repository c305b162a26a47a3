"""What peers compute, computed here: SpecDecode-Bench's table, dynamo's workload, and sweeps by clusters on two cores.

Rows of `benchmarks.speed`, each with the ratio that it is measured by: to a program by the peer's published rules, run
beside it (`benchmarks.published_traces`), to what the peer's program was measured to do (`RECORDED`), or to a process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.interleaved import Median, Row, Yardstick
from benchmarks.published_traces import BATCHES, DEPTHS, H100, drawn_requests, published_speedup
from sim.algorithms.autoregressive import autoregressive
from sim.answers.replayed import BaselineAnswer
from sim.answers.token_passes import DrawnPasses
from sim.answers.traces import AnswerTrace
from sim.engines.costs import LinearCost
from sim.roles import TARGET
from sim.serving.answers import ServedLoad
from sim.serving.engine import ServingEngine
from sim.serving.limits import ADDED, Joined, ServingLimits
from sim.serving.loop import running
from sim.serving.run import arriving
from sim.trial import Trial
from specplan.planning.traced import traced_plan
from specplan.readers.traced import FittedLatency

__all__ = ["DYNAMO", "SWEEPS", "TRACES", "peer_rows", "sweep_rows"]

TRACES: Final = "24 cells of SpecDecode-Bench, x a program by its rules, cells"
DYNAMO: Final = "dynamo's workload, {}{}, x its recorded rate, tokens"
SWEEPS: Final = "sweep of 2,000 points, two workers by {}, x one process, points / s"

Rows = dict[str, Row]


def traced_rows() -> Rows:
    """SpecDecode-Bench's table.

    Raises
    ------
    AssertionError : a cell differs in its two decimals.
    """
    requests, latency = drawn_requests(30, 1), FittedLatency.model_validate(H100)

    def theirs() -> dict[tuple[int | None, int], float]:
        return {(k, b): published_speedup(requests, latency, k, b) for k in DEPTHS for b in BATCHES}

    def ours() -> dict[tuple[int | None, int], float]:
        depths = [k for k in DEPTHS if k is not None]
        found = traced_plan(requests, latency, drafters=["eagle"], batches=BATCHES, depths=depths)
        return {(cell.k, cell.batch): cell.speedup.value for cell in found.cells}

    published, found = theirs(), ours()
    wrong = [cell for cell, value in published.items() if f"{found[cell]:.2f}" != f"{value:.2f}"]
    assert not wrong, f"cells (k, batch) that differ: {wrong}"
    cells = len(published)
    return {TRACES: Yardstick(work=theirs, amount=cells).beside(ours, cells, repeats=7)}


RECORDED: Final = {"plain": 3.7e6, "speculation": 3.8e6}
"""Tokens per CPU second of ``dynamo.replay`` (Rust) with such a workload, on two cores of the kind that specplan is
developed on: a record, not run here. The ratios hold on a machine as fast."""

ACCEPTED: Final = (0.8, 0.6, 0.5)
"""P(a drafted token is accepted, those before it accepted), [-]."""
DRAFTED: Final[Mapping[str, tuple[float, ...]]] = {"plain": (), "speculation": ACCEPTED}
PROMPT, ANSWER, SPREAD = 300, 255.0, 0.8
PER_S: Final = {"plain": 8.0, "speculation": 16.0}
"""Arrivals per second: some twenty to thirty answers at once."""
BASE_S, CONTEXT_S, PREFILL_S, PREFILL_TOKEN_S = 0.010, 4e-7, 0.002, 2e-5


def workload(kind: str, n: int, seed: int = 0) -> tuple[list[float], NDArray[np.int64]]:
    """When answers arrive, s, and their tokens, shape (n,)."""
    rng = np.random.default_rng(seed)
    moments = list(accumulate(rng.exponential(1.0 / PER_S[kind], n).tolist()))
    sigma = np.sqrt(np.log1p(SPREAD**2))
    drawn = np.rint(ANSWER * np.exp(sigma * rng.standard_normal(n) - sigma**2 / 2.0))
    return moments, np.maximum(drawn, 2.0).astype(np.int64)


def served(kind: str, n: int, seed: int = 0) -> ServedLoad:
    """The workload here."""
    moments, tokens = workload(kind, n, seed)

    def answer(index: int) -> BaselineAnswer:
        return BaselineAnswer(AnswerTrace(prompt_tokens=PROMPT, steps=(), baseline=(int(tokens[index]),)))

    cost = LinearCost(
        base_s=BASE_S, context_s=CONTEXT_S, prefill_s=PREFILL_S, prefill_token_s=PREFILL_TOKEN_S + CONTEXT_S
    )
    trial = Trial(
        algorithm=autoregressive,
        answer=answer,
        engines={TARGET: ServingEngine(Joined(cost, ADDED), limits=ServingLimits(max_sequences=256))},
        seed=seed,
        sizes=lambda indices: np.array([np.full(len(indices), PROMPT), tokens[np.asarray(indices)]]),
    )
    reached = [1.0, *np.cumprod(DRAFTED[kind]).tolist(), 0.0]
    pmf = tuple((-np.diff(reached)).tolist())
    return arriving(trial.speculating({TARGET: DrawnPasses(pmf=pmf, seed=seed)} if len(pmf) > 1 else {}), moments)


def dynamo_rows(yard: Yardstick) -> Rows:
    """The workload in Python, and by numba where it is installed; the ratio is to the recorded rate."""
    found, worth, n = {}, running.WORTH_COMPILING, 4000
    ways = {"": sys.maxsize} if find_spec("numba") is None else {"": sys.maxsize, ", numba": 0}
    for way, least in ways.items():
        running.WORTH_COMPILING = least
        for kind, theirs in RECORDED.items():
            work = partial(served, kind, n)
            work()  # compiled at its first call
            row = yard.beside(work, int(workload(kind, n)[1].sum()), repeats=7)
            ratio = Median(low=row.rate.low / theirs, value=row.rate.value / theirs, high=row.rate.high / theirs)
            found[DYNAMO.format(kind, way)] = Row(rate=row.rate, ratio=ratio)
    running.WORTH_COMPILING = worth
    return found


def peer_rows(yard: Yardstick) -> Rows:
    """All peers' rows."""
    return traced_rows() | dynamo_rows(yard)


def sweep_rows(repeats: int = 3) -> Rows:
    """The sweep of docs/sweeps.md as a command, by one process and by two workers in turns, wall-clock seconds."""
    n, backends = 2000, [name for name in ("joblib", "distributed", "ray") if find_spec(name) is not None]
    taken: dict[str, list[float]] = {name: [] for name in ("", *backends)}
    with tempfile.TemporaryDirectory() as folder:
        grid = Path(folder) / "grid.toml"
        grid.write_text(GRID)
        for number in range(repeats):
            for name, seconds in taken.items():
                more = ["--workers", "2", "--backend", "dask" if name == "distributed" else name] if name else []
                words = ["sweep", str(grid), "-o", f"{folder}/{name}{number}.csv", *more]
                began = time.perf_counter()
                subprocess.run([sys.executable, "-m", "specplan", *words], check=True, stdout=subprocess.DEVNULL)
                seconds.append(time.perf_counter() - began)
    return {
        SWEEPS.format("dask" if name == "distributed" else name): Row(
            rate=Median.of([n / s for s in taken[name]]),
            ratio=Median.of([one / two for one, two in zip(taken[""], taken[name], strict=True)]),
        )
        for name in backends
    }


GRID: Final = """
precision = 0.001
[fixed]
cv = 1.2
judge = 0.1
[vary]
method = ["lr-async", "lr-sync"]
k1 = [2, 4, 6, 8, 10]
alpha1 = {from = 0.3, to = 0.95, points = 20}
c1 = {from = 0.05, to = 0.4, points = 10}
"""
